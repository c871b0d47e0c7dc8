"""Reward streams learned together with a policy on tensors: the models of :mod:`tau_trainer.algorithms.signals`.

Shapes: ``T`` steps of ``E`` copies with ``A`` agents; ``n`` decisions of agents that had not left; ``S`` streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.batched.contract import LearnerSetup, TensorRollout
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.algorithms.signals import Signal, log_prob
from tau_trainer.columns import Arrays
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.rewards.learned import Experience
from tau_trainer.rewards.streams import EXTRINSIC, RewardStream
from tau_trainer.settings.signals import LEARNED

_EARNED = "signal.earned"
"""Name in a checkpoint of the rewards in open episodes."""


class TensorSignals:
    """The learned streams of one policy, if any.

    Args:
        setup: of the policy.
        streams: all streams that it learns from, in the order of the network's values.
        network: the network that acts.

    Attributes:
        earned: float64 [E, A, S], rewards in open episodes so far, strengths included.

    Raises:
        DataError, SettingsError: see :class:`.Signal`.
    """

    def __init__(self, setup: LearnerSetup, streams: tuple[RewardStream, ...], network: ActorCritic) -> None:
        made = Setup(setup.spec, setup.settings, setup.seed, device=str(setup.device), learns=setup.settings.learns)
        ask = partial(log_prob, network)
        self._streams, self._network = streams, network
        self.signals = tuple(Signal(stream.name, made, network, ask) for stream in streams if stream.name in LEARNED)
        exact = torch.float32 if setup.device.type == "mps" else torch.float64
        self.earned = torch.zeros(setup.num_envs, setup.agents, len(streams), dtype=exact, device=setup.device)

    def pay(self, rollout: TensorRollout) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """Learn from a rollout, and pay for it: float32 [T, E, A] by stream, and numbers by TensorBoard name.

        Empty if no agent was there. Raises NonFiniteError.
        """
        if not self.signals:
            return {}, {}
        there = rollout.present.flatten().nonzero().squeeze(1)  # int64 [n]
        if not len(there):
            return {}, {}
        experience = self._experience(rollout, there)
        paid, statistics = dict[str, torch.Tensor](), dict[str, float]()
        for signal in self.signals:
            found, losses = signal.learn_and_pay(experience, experience, soft=False)
            everybody = found.new_zeros(rollout.present.numel())
            paid[signal.name] = everybody.index_copy(0, there, found[:, 0]).view_as(rollout.present)
            statistics |= losses
        return paid, statistics | self._count(rollout, paid)

    def state(self) -> dict[str, NDArray[Any]]:
        """The full state for an exact resume; empty if there are no signals."""
        arrays = {key: values for signal in self.signals for key, values in signal.state().items()}
        return arrays | {_EARNED: self.earned.cpu().numpy()} if self.signals else {}

    def load(self, arrays: Arrays, *, fresh: bool) -> None:
        """Restore :meth:`state`; ``fresh``: only models. Raises CheckpointError; then some may have changed."""
        for signal in self.signals:
            signal.load(arrays, fresh=fresh)
        if self.signals and not fresh:
            self.earned.copy_(torch.from_numpy(fitting(arrays, _EARNED, tuple(self.earned.shape)).copy()))

    def _experience(self, rollout: TensorRollout, there: torch.Tensor) -> Experience:
        assert rollout.final is not None, "the learner asks for it"
        following = torch.cat((rollout.observations[1:], rollout.after[None]))
        ended = rollout.terminated | rollout.truncated
        over = ended.view(*ended.shape, *[1] * (following.dim() - 3))
        # A copy that ended has restarted: its final observation is stored separately.
        following = torch.where(over, rollout.final, following)

        def flat(values: torch.Tensor) -> torch.Tensor:
            return values.flatten(0, 2)[there]

        choices, kept = self._network.action.choices, {name: flat(values) for name, values in rollout.kept.items()}
        inputs, none = flat(rollout.observations).flatten(1), kept["log_prob"].new_zeros(len(there), 0)
        if rollout.mask is None:
            forbidden = torch.zeros(len(there), choices.mask_size, dtype=torch.bool, device=inputs.device)
        else:
            forbidden = forbidden_of(flat(rollout.mask), choices.discrete_branches)
        return Experience(
            [inputs],
            [flat(following).flatten(1)],
            1.0 - flat(rollout.terminated).float(),
            kept.get("continuous", none),
            kept.get("discrete", none.to(torch.int64)),
            forbidden,
            none.flatten(),  # filled in on demand, because the policy changes
        )

    def _count(self, rollout: TensorRollout, paid: Mapping[str, torch.Tensor]) -> dict[str, float]:
        """Rewards of the episodes that ended, with the extrinsic reward, to compare sizes."""
        columns = [paid.get(stream.name, rollout.rewards) * stream.strength for stream in self._streams]
        rewards = torch.stack(columns, dim=3).to(self.earned.dtype)  # [T, E, A, S]
        ended = (rollout.terminated | rollout.truncated)[..., None]
        sums = rewards.new_zeros(2, len(columns))  # sums of rewards, and of their sizes
        for step, over in zip(rewards, ended, strict=True):
            self.earned += step
            whole = (self.earned * over).flatten(0, 1)
            sums += torch.stack((whole.sum(dim=0), whole.abs().sum(dim=0)))
            self.earned *= ~over
        count = int(ended.sum())
        if not count:
            return {}
        means, sizes = (sums / count).tolist()
        found = {keys.return_size(stream.name): size for stream, size in zip(self._streams, sizes, strict=True)}
        learned = {keys.episode_reward(stream.name): mean for stream, mean in zip(self._streams, means, strict=True)}
        learned.pop(keys.episode_reward(EXTRINSIC))  # reported by the code that counts episodes
        return found | learned
