"""A policy of a batched run with its agents, and their counts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch

from tau_trainer.algorithms.batched import TensorActor
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics.summary import Statistics
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import BehaviorSpec, Json
from tau_trainer.training.batched.players import FixedPlayer
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.learning.reward_scale import RewardScaleCheck


class EpisodeStatistics(NamedTuple):
    """Statistics of the ended episodes of one policy's agents."""

    returns: Statistics
    """Their returns; ``last`` is unknown (NaN)."""
    mean_length: float


@dataclass(slots=True)
class PolicyEntry:
    """A policy and its agents."""

    name: str
    settings: TrainerSettings
    agents: list[int]
    spec: BehaviorSpec
    actor: TensorActor
    """Decides for the agents."""
    algorithm: GradientAlgorithm | None = None
    """Of the network that decides; None: a fixed player does."""
    waiting: list[TensorRollout] = field(default_factory=list)
    """Experience that it has not learned from yet."""
    metrics: list[Json] = field(default_factory=list)
    """Statistics of its updates since the last summary."""
    updates: int = 0
    episodes: int = 0
    mean_return: float | None = None
    mean_length: float | None = None
    stopped: bool = False
    """Whether it has reached its criterion before the run's end, and only acts from then on."""
    returns: EpisodeReturns = field(init=False)
    """Of its newest episodes."""
    reward_scale: RewardScaleCheck = field(init=False)
    """Finds reward signals that are too large compared with the environment's."""

    def __post_init__(self) -> None:
        self.returns, self.reward_scale = EpisodeReturns(self.settings), RewardScaleCheck(self.settings.reward_signals)

    @property
    def learner(self) -> GradientAlgorithm:
        """The algorithm; not for a fixed player."""
        assert self.algorithm is not None
        return self.algorithm

    @property
    def frozen(self) -> bool:
        """Whether it is a network that does not learn."""
        return self.algorithm is not None and not self.settings.learns

    def player_in(self, env: BatchedEnv) -> TensorActor:
        """The network or fixed player that decides for these agents in another environment of the same kind."""
        fixed = self.settings.player
        return self.actor if fixed is None else FixedPlayer(fixed, env, self.agents)

    @property
    def learns(self) -> bool:
        """Whether training changes it."""
        return self.settings.learns

    def count(self, found: EpisodeStatistics) -> None:
        """Count episodes that have ended; this may reach the criterion."""
        self.mean_return, self.mean_length = found.returns.mean, found.mean_length
        if self.returns.add_mean(found.returns.count, found.returns.mean) and self.learns:
            self.stopped = True
            self.waiting.clear()

    def counts(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "updates": self.updates,
            "episodes": self.episodes,
            "mean_return": self.mean_return,
            "mean_length": self.mean_length,
            "newest": self.returns.state(),
            "stopped": self.stopped,
        }

    def go_on(self, counts: Json) -> None:
        """Restore :meth:`counts`; those of earlier versions may lack some."""
        self.updates, self.episodes = counts["updates"], counts["episodes"]
        self.mean_return, self.mean_length = counts["mean_return"], counts["mean_length"]
        self.returns.load(counts.get("newest", ()))
        self.stopped = self.learns and (self.returns.reached or counts.get("stopped", False))
        self.waiting.clear()

    def take_metrics(self) -> dict[str, torch.Tensor]:
        """Statistics of updates since the last call, by name, each [updates that reported it]."""
        names = dict.fromkeys(name for statistics in self.metrics for name in statistics)
        found = {
            name: torch.stack([torch.as_tensor(each[name]) for each in self.metrics if name in each]) for name in names
        }
        self.metrics.clear()
        return found


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
