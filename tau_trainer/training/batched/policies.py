"""A policy of a batched run: its agents, and what learns it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from typing_extensions import override

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.batched import TensorActor
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.columns import Arrays, prefixed, unprefixed
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics.summary import Statistics
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import BehaviorSpec, Json
from tau_trainer.training import behavior_json
from tau_trainer.training.batched.players import FixedPlayer
from tau_trainer.training.learning.learner import Learner

if TYPE_CHECKING:
    from tau_trainer.algorithms import State
    from tau_trainer.training.batched.playing import Playing

_ENVIRONMENT = "environment."
"""Prefix of the names of the copies' tensors in the checkpoint of the first policy that learns."""
_FROZEN = "frozen."
"""The same for the policies that do not learn, which have no checkpoints of their own."""


class EpisodeStatistics(NamedTuple):
    """Statistics of the ended episodes of one policy's agents."""

    returns: Statistics
    """Their returns; ``last`` is unknown (NaN)."""
    mean_length: float


@dataclass(slots=True, eq=False)
class PolicyEntry:
    """A policy and its agents in the copies."""

    name: str
    settings: TrainerSettings
    agents: list[int]
    spec: BehaviorSpec
    actor: TensorActor
    """Decides for the agents."""
    network: CopiesLearner | None = None
    """Learns the network that decides; None: a fixed player does."""
    waiting: list[TensorRollout] = field(default_factory=list)
    """Experience that it has not learned from yet."""
    episodes: int = 0
    mean_return: float | None = None
    mean_length: float | None = None

    @property
    def learner(self) -> CopiesLearner:
        """What learns it; not for a fixed player."""
        assert self.network is not None
        return self.network

    def player_in(self, env: BatchedEnv) -> TensorActor:
        """The network or fixed player that decides for these agents in another environment of the same kind."""
        fixed = self.settings.player
        return self.actor if fixed is None else FixedPlayer(fixed, env, self.agents)

    def count(self, found: EpisodeStatistics) -> None:
        """Count episodes that have ended; this may reach the criterion."""
        self.mean_return, self.mean_length = found.returns.mean, found.mean_length
        if self.network is not None:
            self.network.ended_together(found.returns)


class CopiesLearner(Learner):
    """Learns from copies on tensors, in which agents act with the network itself."""

    algorithm: GradientAlgorithm
    copied = False

    def __init__(self, entry: PolicyEntry, setup: Setup, algorithm: GradientAlgorithm, playing: Playing) -> None:
        super().__init__(entry.name, setup, algorithm, playing.shared)
        self.progress.max_steps = setup.decisions * len(entry.agents) // playing.env.num_agents
        self._entry, self._playing = entry, playing

    @property
    @override
    def version(self) -> int:
        return self.algorithm.version

    def ended_together(self, returns: Statistics) -> None:
        """Count episodes that ended; this may reach the criterion."""
        enough = self.tracker.returns.add_mean(returns.count, returns.mean)
        if enough and self.settings.learns and not (self.stopped or self._playing.plays):
            self.stop()
            self._entry.waiting.clear()

    @override
    def best_mark(self) -> float:
        """Mean return over its newest episodes; minus infinity before there are enough."""
        mean = self.tracker.returns.mean
        return -math.inf if mean is None else mean

    def counts(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "updates": self.version,
            "episodes": self._entry.episodes,
            "mean_length": self._entry.mean_length,
            "newest": self.tracker.returns.state(),
            "stopped": self.stopped,
        }

    def count_on(self, counts: Json, mean_return: float | None) -> None:
        """Restore :meth:`counts`; those of earlier versions may lack some."""
        entry, self.algorithm.version = self._entry, counts["updates"]
        entry.episodes, entry.mean_return, entry.mean_length = counts["episodes"], mean_return, counts["mean_length"]
        self.tracker.returns.load(counts.get("newest", ()))
        self.stopped = self.settings.learns and (self.tracker.returns.reached or counts.get("stopped", False))
        entry.waiting.clear()

    @override
    def state(self) -> State:
        """Its state and counts; the first policy that learns has the copies and frozen policies too."""
        (arrays, metadata), counts, mark = self.algorithm.state(), self.counts(), self.best_mark()
        if self._entry is self._playing.learning[0]:
            copies = prefixed(_ENVIRONMENT, self._playing.copies_state()).items()
            arrays = {**arrays, **{name: values.cpu().numpy() for name, values in copies}}
            frozen = {learner.name: learner.algorithm.state() for learner in self._frozen}
            for name, (held, _) in frozen.items():
                arrays |= prefixed(f"{_FROZEN}{name}.", held)
            counts["frozen"] = {name: of_it for name, (_, of_it) in frozen.items()}
        return arrays, {
            "algorithm": metadata,
            "mean_reward": self._entry.mean_return,
            **counts,
            "best": mark if mark > -math.inf else None,
            "behavior": behavior_json.to_json(self.spec),
        }

    @override
    def restore(self, arrays: Arrays, values: Json) -> None:
        """Continue from a checkpoint; if the run only plays, all counts stay at 0."""
        self._load(arrays, values, fresh=False)
        if self._entry is self._playing.learning[0]:
            self._restore_frozen(arrays, values.get("frozen", {}))
        if not self._playing.plays:
            self.count_on(values, values["mean_reward"])

    @property
    def _frozen(self) -> list[CopiesLearner]:
        networks = [entry.network for entry in self._playing.policies if not entry.settings.learns]
        return [network for network in networks if network is not None]

    def _restore_frozen(self, arrays: Arrays, held: Json) -> None:
        for learner in self._frozen:
            if learner.name in held:
                found = unprefixed(f"{_FROZEN}{learner.name}.", arrays)
                learner.algorithm.load(found, held[learner.name], fresh=False)
            else:  # an earlier version wrote the checkpoint
                self.progress.hub.warning(f"'{learner.name}' starts from scratch: the run saved nothing of it")


def copies_in(arrays: Arrays) -> dict[str, torch.Tensor]:
    """The tensors of the copies in the checkpoint of the first policy that learns."""
    return {name: torch.from_numpy(values.copy()) for name, values in unprefixed(_ENVIRONMENT, arrays).items()}


def joined(rollouts: list[TensorRollout]) -> TensorRollout:
    """Join consecutive rollouts into one."""
    if len(rollouts) == 1:
        return rollouts[0]
    values: dict[str, Any] = {}
    for column in fields(TensorRollout):
        parts = [getattr(rollout, column.name) for rollout in rollouts]
        if column.name == "kept":
            values[column.name] = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        elif column.name in ("after", "after_mask") or parts[0] is None:
            values[column.name] = parts[-1]
        else:
            values[column.name] = torch.cat(parts)
    return TensorRollout(**values)
