"""Reward streams that are learned together with the policy, each with its own optimizer and random order.

A stream that rewards novelty pays first, and only then learns from the same experience, as in ML-Agents: otherwise its
model would already know the new states. A stream that compares with demonstrations learns first, so that the policy
follows the newest discriminator (Ho and Ermon 2016, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from tau_trainer import plugins
from tau_trainer.algorithms.offline.recordings import demonstrated
from tau_trainer.algorithms.parameters import Beside, FlatParameters
from tau_trainer.columns import Rows
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Rollout
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import as_tensor
from tau_trainer.models.distributions import action_log_prob
from tau_trainer.rewards.learned import Experience, LearnedReward
from tau_trainer.settings.signals import LEARNED, ModelledSignalSettings
from tau_trainer.specs import Float64Array

if TYPE_CHECKING:
    from tau_trainer.algorithms.base import Setup

LogProb = Callable[[Experience], torch.Tensor]
"""Log-probability [n] of the actions of transitions under the current policy."""

_ROWS = 2048
"""Number of transitions to pay at once."""


def experience_of(rollout: Rollout, network: ActorCritic, device: torch.device) -> Experience:
    """All transitions of a rollout, without their log-probability."""
    inputs = network.arrange(rollout.observations)
    following = network.arrange(tuple(rollout.next_observations(i) for i in range(len(rollout.observations))))
    return Experience(
        [as_tensor(values, device) for values in inputs],
        [as_tensor(values, device) for values in following],
        torch.from_numpy(1.0 - rollout.terminated.astype(np.float32)).to(device),  # 1 after a cut by a limit
        as_tensor(rollout.column("continuous"), device),
        torch.from_numpy(rollout.column("discrete").astype(np.int64)).to(device),
        torch.from_numpy(network.action.forbids(rollout.mask, len(rollout))).to(device),
        torch.zeros(0, device=device),  # filled in for rewards or a loss, because the policy changes
    )


def log_prob(network: ActorCritic, some: Experience) -> torch.Tensor:
    """Log-probability [n] of whole actions under the current policy, for networks without memory."""
    outputs = network.outputs(network.normalize(some.inputs))  # means and logits [n, c + M]
    forbidden = some.forbidden if some.forbidden.shape[1] else None
    # Components are independent given the observation, so logs add up.
    return action_log_prob(network.action, outputs, some.continuous, some.discrete, forbidden).sum(dim=1)


class Signal(Beside):
    """A learned reward stream.

    Args:
        name: of the stream.
        setup: of the algorithm.
        network: the network that acts.
        log_prob: of actions under its current policy.

    Raises:
        DataError: the demonstrations cannot be read, or are of other agents.
        SettingsError: its network cannot be built for this behavior.
    """

    learns = True

    def __init__(self, name: str, setup: Setup, network: ActorCritic, log_prob: LogProb) -> None:
        settings = setup.settings.reward_signals[name]
        assert isinstance(settings, ModelledSignalSettings)
        self.name, self.settings, self.prefix = name, settings, f"signal.{name}."
        hyper = setup.settings.hyperparameters
        self._batch: int = hyper.batch_size
        self._epochs: int = getattr(self.settings, "num_epoch", 0) or getattr(hyper, "num_epoch", 1)
        self._log_prob = log_prob
        self._device = torch.device(setup.device)
        self.generator = torch.Generator().manual_seed(setup.seed)
        spec = replace(setup.spec, actions=network.action.choices)
        make = plugins.resolve(LEARNED[name])
        self.model: LearnedReward = make(spec, self.settings, self.generator)
        self.parameters = FlatParameters(self.model, self._device)
        self._expert: Experience | None = None
        path: str | None = getattr(self.settings, "demo_path", None)
        if setup.learns and path is not None:
            rollout = demonstrated(path, setup, network)
            self._expert = experience_of(rollout, network, self._device)
            self.model.observe(self._expert, expert=True)

    def learn_and_pay(
        self, fresh: Experience, everything: Experience, *, soft: bool
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Learn from the new transitions, and pay: see :meth:`rewards` and :meth:`passes`.

        Novelty is paid once, so a signal that rewards it pays only for ``fresh``; others pay for everything.
        """
        self.model.observe(fresh, expert=False)
        if self.settings.novelty:
            paid = self.rewards(fresh, soft=soft)
            return paid, self.passes(fresh)
        statistics = self.passes(fresh)
        return self.rewards(everything, soft=soft), statistics

    def passes(self, played: Experience) -> dict[str, float]:
        """``num_epoch`` passes over transitions of the agents, in minibatches; numbers by TensorBoard name."""
        count = len(played.goes_on)
        size, statistics = min(self._batch, count), list[dict[str, torch.Tensor]]()
        for _ in range(self._epochs):
            order = torch.randperm(count, generator=self.generator).to(self._device)
            for begin in range(0, count - size + 1, size):
                rows = order[begin : begin + size]
                statistics.append(self._step(played.part(rows)))
        return self._means(statistics)

    def steps(self, draw: Callable[[Rows], Experience], count: int, steps: int) -> dict[str, float]:
        """Take ``steps`` gradient steps, each from a newly drawn minibatch; numbers by TensorBoard name.

        ``draw``: returns the transitions with these numbers, below ``count``.
        """
        drawn = torch.randint(count, (steps, self._batch), generator=self.generator).numpy()
        return self._means([self._step(draw(rows)) for rows in drawn])

    def _step(self, played: Experience) -> dict[str, torch.Tensor]:
        expert = self._expert
        if expert is not None:
            rows = torch.randint(len(expert.goes_on), (len(played.goes_on),), generator=self.generator)
            expert = expert.part(rows.to(self._device))
        if self.settings.asks_policy:
            with torch.no_grad():
                played = played._replace(log_prob=self._log_prob(played))
                expert = expert and expert._replace(log_prob=self._log_prob(expert))
        self.parameters.optimizer.gradient.zero_()
        with torch.enable_grad():
            loss, statistics = self.model.loss(played, expert)
            self.parameters.differentiate(loss)
        self.parameters.descend(self.settings.learning_rate)
        return {name: value.detach() for name, value in statistics.items()}

    def _means(self, statistics: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, float]:
        """Raises NonFiniteError."""
        names = statistics[0] if statistics else ()
        means = dict[str, float]()
        for name in names:
            values = torch.stack([step[name] for step in statistics])
            means[name] = float(values.mean())
        if not all(np.isfinite(value) for value in means.values()) or not self.parameters.finite():
            raise NonFiniteError(f"the reward signal {self.name} became NaN or infinite; lower its learning_rate")
        return means

    @torch.no_grad()
    def rewards(self, played: Experience, *, soft: bool) -> torch.Tensor:
        """Rewards for transitions, float32 [n, 1], before the stream's strength.

        ``soft``: whether the algorithm adds the policy's entropy itself.
        """
        paid = []
        for begin in range(0, len(played.goes_on), _ROWS):
            part = played.part(slice(begin, begin + _ROWS))
            if self.settings.asks_policy:
                log_prob = torch.zeros_like(part.goes_on) if soft else self._log_prob(part)
                part = part._replace(log_prob=log_prob)
            paid.append(self.model.rewards(part))
        return torch.cat(paid)[:, None]

    @override
    def tensors(self) -> dict[str, torch.Tensor]:
        return self.parameters.stored()


class CopySums(Beside):
    """Adds up rewards of copies from rollout to rollout, for every agent.

    Args:
        shape: ``E`` copies with ``A`` agents each, and ``S`` streams.
        device: of the rewards.
    """

    prefix = "signal."

    def __init__(self, shape: tuple[int, int, int], device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self._open = torch.zeros(shape, dtype=exact, device=device)
        """[E, A, S], in open episodes so far."""

    def add(self, rewards: torch.Tensor, ended: torch.Tensor) -> Float64Array:
        """The sums [e, S] of the episodes that end in a rollout; waits for the device.

        Args:
            rewards: [T, E, A, S], since the last call.
            ended: bool [T, E, A], whether the agent's episode ended with the step.
        """
        sums = list[torch.Tensor]()
        for step, over in zip(rewards.to(self._open.dtype), ended, strict=True):
            self._open += step
            sums.append(self._open[over])
            self._open *= ~over[..., None]
        found: Float64Array = torch.cat(sums).cpu().double().numpy()
        return found

    @override
    def tensors(self) -> dict[str, torch.Tensor]:
        return {"earned": self._open}
