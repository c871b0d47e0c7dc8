"""The learner of one behavior, as pairs see it: experience arrives, and newer policies act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, Counters, Setup
from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Arrays
from tau_trainer.evaluation.candidates import BEST, stored_best
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.specs import Aggregation, FloatArray
from tau_trainer.training import behavior_json
from tau_trainer.training.learning.age_bound import AgeBound
from tau_trainer.training.learning.budget import Filling
from tau_trainer.training.learning.handles import LearnerHandle, LocalLearner
from tau_trainer.training.learning.judge import Judge
from tau_trainer.training.learning.opponents import PREFIX, Opponents
from tau_trainer.training.learning.parameters_only import whole
from tau_trainer.training.learning.progress import Progress
from tau_trainer.training.learning.returns import EpisodeReturns
from tau_trainer.training.learning.sink import Sink
from tau_trainer.training.learning.updates import Shared, Updates


class Learner(Sink):
    """Learns one behavior. All methods belong to the event loop, except those that run in the learner's thread.

    Attributes:
        name: its key in metrics and files.
        setup: what its algorithm was made from.
        spec: the behavior with the sensors that the policy sees.
        settings: of the behavior.
        actor: what acts.
        handle: where it learns.
        progress: how far it has come.
        judge: what its policies are worth.
        bound: how far agents may act ahead.
        updates: runs updates, and holds the newest policy.
        stopped: whether it is done before max_steps.
        remembers: whether the experience of the run that it continues is still there.
        opponents: its opponents in self-play; None: no self-play.
    """

    def __init__(self, name: str, setup: Setup, algorithm: Algorithm, handle: LearnerHandle, shared: Shared) -> None:
        """Made untrained; ``algorithm`` collects, ``handle`` learns."""
        super().__init__(algorithm)
        self.name, self.setup, self.spec, self.settings = name, setup, setup.spec, setup.settings
        self.stopped, self.remembers = False, True
        settings, decisions = self.settings, setup.decisions
        self.progress = Progress(
            name, shared.hub, decisions, settings.summary_every(decisions), settings.reward_signals
        )
        self.progress.replays = isinstance(settings.hyperparameters, OffPolicyHyperparameters)
        self.judge = Judge(self.progress, EpisodeReturns(settings), shared.validator, shared.callbacks)
        self.bound = AgeBound(shared.max_policy_age, on_policy=algorithm.on_policy, abreast=handle.abreast)
        rng = np.random.default_rng([setup.seed, 1])
        self.actor = Actor(handle.policy(), rng, deterministic=settings.network_settings.deterministic)
        self.updates = Updates(handle, self.actor, self.progress, self.judge, self.bound, shared)
        self.handle = handle
        self.opponents: Opponents | None = None
        self.updates.filling = self._filling()

    def _filling(self) -> Filling | None:
        """The filling for ``steps_per_update: auto``, from the current counters; None for other settings."""
        numbers = self.settings.hyperparameters
        if isinstance(numbers, OffPolicyHyperparameters) and numbers.auto and not self.unfilled:
            return Filling(self, numbers)
        return None

    @property
    def unfilled(self) -> str:
        """The reason why gradient steps cannot fill spare time here, as the end of a sentence; empty: they can."""
        if self.bound.most == 0:
            return "learning and acting take turns"
        holds = isinstance(self.handle, LocalLearner) and self.algorithm.holds_lock
        return "learning in a thread (collection.learner) would hold up acting" if holds else ""

    @property
    def policy(self) -> Policy:
        """The newest whole policy."""
        return self.updates.policy

    @property
    def decisions(self) -> int:
        """Decisions made for it so far, including earlier sessions of a resumed run."""
        return self.progress.decisions

    @property
    def done(self) -> bool:
        """Whether it has reached max_steps or its criterion. Its policy keeps acting."""
        return self.stopped or self.progress.decisions >= self.progress.max_steps

    def count(self, decisions: int) -> None:
        """Count decisions; write a summary if one is due."""
        progress, before = self.progress, self.done
        progress.decisions += decisions
        if self.done and not before:
            progress.rest()
            return
        if progress.decisions >= progress.next_summary:
            self.flush()
        if before:
            progress.hub.rest(self.name)

    def ended(self, returns: FloatArray) -> None:
        """Count the returns [k] of episodes that ended, as any sink does; this may reach the criterion."""
        if not self.done and self.judge.returns.add(returns.tolist()):
            self.stopped = True
            self.progress.rest()
            self.progress.hub.event(
                "criterion",
                behavior=self.name,
                step=self.decisions,
                message=self.judge.returns.sentence(self.name, self.decisions),
            )

    def flush(self) -> None:
        """Write a summary now."""
        self.progress.flush(training=not self.done)

    async def wait_for_learner(self) -> None:
        """Hand over work that is ready; wait only while the policy's age is at its bound.

        Every pair calls this after it has recorded a step and before its environment gets the next answer. Once
        learning has failed for good, it raises the error: NonFiniteError after several updates that met NaN,
        LearnerError, or a defect.
        """
        if not self.done:
            updates = self.updates.policy.version + self.bound.outstanding
            work = self.algorithm.ready(Counters(self.progress.decisions, updates, idle=self.updates.idle))
            if work is not None:
                self.updates.hand_over(work)
        if self.bound.outstanding and self.bound.reached:
            held = await self.bound.wait(lambda: self.updates.error is not None)
            if held is not None:
                self.progress.hub.add(self.name, keys.HELD_SECONDS, held, Aggregation.SUM)
        if self.updates.error is not None:
            raise self.updates.error

    async def learn(self, work: Work) -> None:
        """One update from ``work`` of any collector. Raises the error that ended learning, as above."""
        await self.updates.learn(work)
        if self.updates.error is not None:
            raise self.updates.error

    def why_never(self, *, here: bool) -> str:
        """Why it was never updated, as the end of a sentence; ``here``: its agents act in this process."""
        made, missing, enough = self.decisions, self.algorithm.missing, self.algorithm.rollout_size
        if skipped := self.updates.skipped:
            met = "its only update met" if skipped == 1 else f"all its {skipped:,} updates met"
            return f"{met} NaN or infinity, and the weights were kept; the warnings say where"
        lost = self.memory.lost if here else made - self.progress.samples
        if lost and (made >= enough if enough else 2 * lost > made):
            return (
                f"{lost:,} of {made:,} decisions have no outcome, because their agents vanished without an end, or "
                f"their engine was lost or closed, and the others did not fill {missing}; end an agent's episode "
                "before it is removed, raise max_steps or lower buffer_size"
            )
        return f"{made:,} decisions did not fill {missing}; raise max_steps or lower buffer_size"

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able values for a checkpoint. Call in the learner's thread."""
        arrays, facts = self.handle.state()
        weights, judged = self.judge.state()
        snapshots, rivals = ({}, None) if self.opponents is None else self.opponents.state()
        return {**arrays, **weights, **snapshots}, {
            "algorithm": facts,
            "acting_rng": self.actor.rng.bit_generator.state,
            "behavior": behavior_json.to_json(self.spec),
            "reward_components": self.setup.reward_width,
            **({} if rivals is None else {"self_play": rivals}),
            **self.progress.state(),
            **judged,
        }

    def begin_from(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Start from the weights of another run's learner (its :meth:`state`); all counters stay at 0."""
        arrays, values = whole(arrays, values, self.handle.state)
        self._load(arrays, values["algorithm"], fresh=True)

    def _load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        """Act with the algorithm's saved state; arrays of other policies are ignored."""
        known = {name: array for name, array in arrays.items() if not name.startswith((BEST, PREFIX))}
        self.handle.load(known, facts, fresh=fresh)
        self.updates.take(self.handle.policy())

    def play(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Act from now on as a saved learner would (its :meth:`state`), but without exploration."""
        self.begin_from(arrays, values)
        self.actor.deterministic |= self.policy.explores
        self.judge.best = stored_best(self.algorithm, arrays, values)

    def play_best(self) -> None:
        """Act from now on with the best policy, if validation chose one."""
        if self.judge.best is not None:
            self.updates.take(self.judge.best.policy)

    def restore(self, arrays: Arrays, values: Mapping[str, Any]) -> None:
        """Restore a checkpoint."""
        arrays, values = whole(arrays, values, self.handle.state)
        self._load(arrays, values["algorithm"], fresh=False)
        self.progress.load(values)
        self.judge.load(self.algorithm, arrays, values)
        self.stopped = self.judge.returns.reached
        self.remembers = not self.algorithm.lost(values["algorithm"])
        self.actor.rng.bit_generator.state = values["acting_rng"]
        if self.opponents is not None and "self_play" in values:
            self.opponents.load(arrays, values["self_play"], self.algorithm.policy)
        self.updates.filling = self._filling()
