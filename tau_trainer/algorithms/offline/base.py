"""Base of algorithms that learn from recordings alone: a fixed memory, and one gradient step after another."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.base import Counters, Setup
from tau_trainer.algorithms.cloning import likelihood
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatches
from tau_trainer.algorithms.offline.recordings import recorded_work
from tau_trainer.algorithms.parameters import follower
from tau_trainer.bridge.demonstrations import Demonstration, read_demonstrations
from tau_trainer.columns import Arrays
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.memory import Replay, Rollout, Work
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import as_tensor
from tau_trainer.models.distributions import MASKED_LOGIT
from tau_trainer.models.heads import ACTION_LIMIT
from tau_trainer.models.soft_actor_critic import TwinQ
from tau_trainer.settings import OfflineCriticHyperparameters, OfflineTrainerSettings
from tau_trainer.specs import Json

_HELD_OUT_ROWS = 4096


class Offline(OffPolicy):
    """Learns from the demonstrations at ``demo_path``; a share of their episodes is set aside.

    A subclass sets its :attr:`name` and :attr:`reported`, builds its network, and defines its losses.

    Raises:
        DataError: the demonstrations cannot be read, or are of other agents.
        SettingsError: as :class:`OffPolicy`.
    """

    reported: tuple[str, ...] = ()
    """TensorBoard names of the numbers that :meth:`losses` returns."""
    data: Demonstration | None = None
    """The recorded data; None if it does not learn."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.holds_lock = True
        self.held_out = self._new_replay()
        """Transitions of the episodes that were set aside."""
        self._begins = torch.zeros(0)
        if setup.learns:
            options = setup.settings
            assert isinstance(options, OfflineTrainerSettings)
            self.data = read_demonstrations([options.demo_path], setup.spec, setup.images)
            aside = _set_aside(int(self.data.begins.sum()), options.held_out, setup.seed)
            self.held, rollout = self._stored(self.data[~aside])
            if not len(self.replay):
                raise DataError(f"demonstration '{options.demo_path}' has no decision with a known outcome")
            self.observe(rollout.observations)
            if aside.any():
                self.held_out, others = self._stored(self.data[aside])
                if self.recurrence is not None:
                    self._begins = as_tensor(others.sequences(self.recurrence.sequence_length)[1], self.device)

    def _stored(self, some: Demonstration) -> tuple[Replay, Rollout]:
        """A memory with only these transitions."""
        rollout = Rollout(recorded_work(some, self.network))
        self.check_input(rollout)
        self.hyperparameters = self.hyperparameters.model_copy(update={"buffer_size": max(1, len(rollout))})
        replay = self._new_replay()
        replay.append(self._rows(rollout), self._links(rollout) if replay.linked else None)
        return replay, rollout

    @abstractmethod
    def losses(self, batch: Transitions) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The differentiable loss of a gradient step, and the numbers to report, each []."""

    def after_step(self) -> None:
        """Let targets follow."""

    @torch.no_grad()
    def assess(self) -> dict[str, float]:
        """The same numbers over all set-aside transitions, under their own names; empty if there are none."""
        count = len(self.held_out)
        if not count:
            return {}
        random = self.generator.get_state()  # restored below, so that a look changes nothing
        sums = torch.zeros(len(self.reported))
        # Sequences in one piece, so that none is cut.
        for begin in range(0, count, count if self.recurrence else _HELD_OUT_ROWS):
            rows = np.arange(begin, min(begin + _HELD_OUT_ROWS, count) if self.recurrence is None else count)
            # Held-out sequences start where they were recorded to start.
            batch = self._transitions(self.held_out.take(rows))._replace(begins=self._begins)
            sums += torch.stack(self.losses(batch)[1]).cpu() * len(rows)
        self.generator.set_state(random)
        return {keys.held_out(name): value for name, value in zip(self.reported, (sums / count).tolist(), strict=True)}

    @override
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        return torch.stack([self._step(batch, learning_rate) for batch in minibatches(drawn, steps)])

    def _step(self, batch: Transitions, learning_rate: float) -> torch.Tensor:
        self.parameters.optimizer.gradient.zero_()
        with torch.enable_grad():
            loss, losses = self.losses(batch)
            loss.backward()  # type: ignore[no-untyped-call]
        self.parameters.descend(learning_rate)
        self.after_step()
        return torch.stack(losses).detach()

    @override
    def report(self, means: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.reported, means, strict=True))

    def log_prob_of(self, outputs: torch.Tensor, batch: Transitions) -> torch.Tensor:
        """Log-probability [n] of the recorded actions, from the actor's outputs."""
        actions = batch.continuous, batch.discrete, batch.forbidden
        return likelihood(self.network, outputs, actions)

    def new_network(self) -> ActorCritic:
        """Actor and value, with initial weights."""
        return ActorCritic(self.spec, self.settings.network_settings, self.widths, generator=self.generator)

    @override
    def ready(self, counters: Counters) -> Work | None:
        return None

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        GradientAlgorithm.load(self, arrays, metadata, fresh=fresh)
        self.steps = 0 if fresh else int(metadata.get("steps", 0))

    @override
    def lost(self, metadata: Json) -> str:
        return ""  # the recordings are read again


def _set_aside(episodes: int, share: float, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Episodes to set aside, bool [episodes]: at least one of several, never all."""
    aside = np.zeros(episodes, np.bool_)
    # At least one is learned from, and one is set aside.
    count = min(max(round(share * episodes), 1), episodes - 1) if share > 0.0 else 0
    # A random stream of its own, so that weights do not depend on it.
    aside[np.random.default_rng([seed, 4]).permutation(episodes)[:count]] = True
    return aside


class OfflineCritics(torch.nn.Module):
    """A policy with its value, twin Qs, and a slowly following copy of these."""

    def __init__(self, network: ActorCritic, q: TwinQ) -> None:
        super().__init__()
        self.network = network
        self.q = q
        self.target = copy.deepcopy(q).requires_grad_(False)  # never differentiated


class OfflineCritic(Offline):
    """Learns Qs, and clones actions weighted by the exponential of their advantage.

    Raises:
        SettingsError: the settings ask for a recurrent network.
    """

    module: OfflineCritics

    def __init__(self, setup: Setup) -> None:
        if setup.settings.network_settings.memory is not None:
            raise SettingsError(f"{self.name} does not support memory; remove network_settings.memory, or use bc")
        self.own = OfflineCriticHyperparameters.of(setup.settings.hyperparameters)
        super().__init__(setup)
        self._follow = follower(self.module.target, self.module.q)
        self._bounds = self.network.action.bounds

    @override
    def build(self) -> OfflineCritics:
        self.network = self.new_network()
        settings = self.settings.network_settings
        q = TwinQ(self.spec, self.network.action.choices, settings, len(self.streams), self.generator)
        self.module = OfflineCritics(self.network, q)
        return self.module

    @override
    def after_step(self) -> None:
        self._follow(self.own.tau)

    def of_actions(self, q: TwinQ, batch: Transitions) -> torch.Tensor:
        """Q [2, n, S] of the recorded actions; the mean over branches, as in SAC."""
        # [2, n, S, A]; Qs see actions in the environment's form.
        values: torch.Tensor = q(q.see(batch.inputs), batch.continuous / ACTION_LIMIT)
        if not self._bounds:
            return values.squeeze(3)
        # int64 [b]: column of each branch's first value.
        first = batch.discrete.new_tensor([begin for begin, _ in self._bounds])
        chosen = (batch.discrete + first)[None, :, None].expand(len(values), -1, values.shape[2], -1)  # [2, n, S, b]
        return values.gather(3, chosen).mean(dim=3)

    def of_policy(
        self, q: TwinQ, inputs: list[torch.Tensor], outputs: torch.Tensor, forbidden: torch.Tensor | None
    ) -> torch.Tensor:
        """Q [2, n, S] of an action that the policy draws; for branches, the expectation."""
        head = self.network.action
        size = head.choices.continuous_size
        noise = torch.randn((len(outputs), size), generator=self.generator).to(self.device)
        raw = outputs[:, :size] + noise * head.log_sigma.exp()  # [n, c]
        values: torch.Tensor = q(q.see(inputs), raw.clamp(-ACTION_LIMIT, ACTION_LIMIT) / ACTION_LIMIT)
        if not self._bounds:
            return values.squeeze(3)
        logits = outputs[:, size:] if forbidden is None else outputs[:, size:].masked_fill(forbidden, MASKED_LOGIT)
        # [n, M].
        probability = torch.cat([torch.softmax(logits[:, begin:end], dim=1) for begin, end in self._bounds], dim=1)
        return (values * probability[:, None]).sum(dim=3) / len(self._bounds)

    def weights_of(self, advantage: torch.Tensor) -> torch.Tensor:
        """Weight of each action [n], from its advantages [n, S]."""
        return (self.own.inverse_temperature * advantage.sum(dim=1)).exp().clamp(max=self.own.largest_weight)
