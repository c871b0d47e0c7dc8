"""TauAgent: the acting side of a pair. It sees, decides, and hands its experience on to the learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tau_trainer.collection.decisions import Decision, Observations
from tau_trainer.models.policy import to_env
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, StepBatch
from tau_trainer.training.learner import Learner
from tau_trainer.training.slots import Slots


@dataclass(frozen=True, slots=True)
class Action:
    """What was decided for ``n`` agents."""

    decision: Decision
    """As sampled: what is learned from."""
    version: int
    """Of the policy that decided."""
    sent: Actions
    """What the engine gets: continuous actions clipped to +-3, then divided by 3, as ML-Agents does."""


class TauAgent:
    """Acts for all agents of one behavior in one engine, with the learner's newest policy."""

    def __init__(self, learner: Learner, spec: BehaviorSpec) -> None:
        self.spec = spec
        self.learner = learner
        names = [sensor.name for sensor in learner.spec.observations]
        self._visible = tuple(i for i, sensor in enumerate(spec.observations) if sensor.name in names)
        self._rows: Slots = np.zeros(0, np.intp)
        learner.batcher.parties += 1

    def see(self, obs: Sequence[FloatArray]) -> Observations:
        """The sensors that the policy may see."""
        return tuple(obs[i] for i in self._visible)

    def _memory_slots(self, slots: Slots) -> Slots:
        """A pair's own slots to those in the learner's memory, which other pairs share."""
        largest = int(slots.max(initial=-1))
        if largest >= len(self._rows):
            self._rows = np.concatenate([self._rows, self.learner.new_slots(largest + 1 - len(self._rows))])
        return self._rows[slots]

    def end(self, slots: Slots, reward: FloatArray, obs: Sequence[FloatArray], truncated: BoolArray) -> None:
        """Episodes of ``slots`` [m] ended: ``reward`` float32 [m, R], last observations, cut by a limit or not."""
        self.learner.memory.end(self._memory_slots(slots), reward, self.see(obs), truncated)

    async def act(self, batch: StepBatch) -> Action:
        """Decide for the agents of ``batch`` [n]."""
        decision, version = await self.learner.batcher.decide(self.see(batch.obs), batch.action_mask)
        return Action(decision, version, Actions(to_env(decision.continuous), decision.discrete))

    def remember(self, slots: Slots, reward: FloatArray, batch: StepBatch, action: Action) -> None:
        """Hand on what was decided for ``batch`` [n]; ``reward`` float32 [n, R] is that of the decision before."""
        decision = action.decision
        if not self.learner.done:
            self.learner.memory.append(
                self._memory_slots(slots),
                reward,
                self.see(batch.obs),
                decision.continuous,
                decision.discrete,
                decision.log_prob,
                batch.action_mask,
                action.version,
            )
        self.learner.count(len(slots))

    def abandon(self) -> None:
        """The engine was lost: decisions without an outcome are no experience."""
        self.learner.memory.abandon(self._rows)
