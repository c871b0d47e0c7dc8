"""What learns a behavior: an algorithm, its counts, and one update.

It is the same however experience is gathered: :mod:`.loop` makes the updates of agents in engines, in a thread next to
them; the loops of batched environments and of recordings call :meth:`Learner.update`, one update after another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tau_trainer.algorithms import Algorithm, Publish, Setup, State
from tau_trainer.collection.decisions import Actor, Sink
from tau_trainer.columns import Arrays
from tau_trainer.errors import NonFiniteError
from tau_trainer.evaluation.candidates import BEST, stored_best
from tau_trainer.export import export_onnx
from tau_trainer.memory import Work
from tau_trainer.metrics import MetricsHub, PhaseTimer
from tau_trainer.metrics.summary import UNIT
from tau_trainer.models import Policy
from tau_trainer.runs.callbacks import NOBODY, Callbacks, UpdateInfo
from tau_trainer.runs.store import ModelWriter
from tau_trainer.specs import FloatArray, Json
from tau_trainer.training import behavior_json
from tau_trainer.training.learning.handles import LearnerHandle, LocalLearner
from tau_trainer.training.learning.opponents import PREFIX, Opponents
from tau_trainer.training.learning.parameters_only import whole
from tau_trainer.training.learning.policy_tracker import PolicyTracker, Validator
from tau_trainer.training.learning.progress import Progress
from tau_trainer.training.learning.returns import EpisodeReturns

_MOST_SKIPPED = 3
"""Number of consecutive updates that may fail on NaN before the run is aborted."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that the learners of a run share."""

    hub: MetricsHub
    """Receives their statistics."""
    validator: Validator | None = None
    """Scores policies after updates; None: policies are not scored."""
    callbacks: Callbacks = NOBODY
    """Called for updates, minibatches and evaluations."""


@dataclass(slots=True)
class UpdateResult:
    """The results of one update."""

    statistics: Mapping[str, float]
    """By TensorBoard name."""
    policy: Policy
    """The newest."""
    seconds: float
    error: NonFiniteError | None = None
    """Why the update was skipped."""


class Learner(Sink):
    """Learns one behavior.

    Attributes:
        name: its key in metrics and files.
        setup: what its algorithm was made from.
        spec: the behavior with the sensors that the policy sees.
        settings: of the behavior.
        handle: where it learns.
        policy: the newest whole policy that acts.
        actor: acts with the newest policy from its next forward pass on, including policies from the middle of an
            update.
        progress: how far it has come.
        tracker: what its policies are worth.
        opponents: its opponents in self-play; None: no self-play.
        remembers: whether the experience of the run that it continues is still there.
        stopped: whether it is done before max_steps.
        error: the error that ended learning for good.
        skipped: number of updates since this process started that met NaN or infinity.
        skipped_in_a_row: number of the newest ones among them.
    """

    copied = True
    """Whether the policy is copied after each update, because agents act with copies; False: with the network itself.
    """

    def __init__(
        self, name: str, setup: Setup, algorithm: Algorithm, shared: Shared, handle: LearnerHandle | None = None
    ) -> None:
        """Made untrained; ``algorithm`` collects; ``handle``: where it learns, None: in the thread that calls."""
        super().__init__(algorithm)
        settings, decisions = setup.settings, setup.decisions
        self.name, self.setup, self.spec, self.settings = name, setup, setup.spec, settings
        self.handle = handle or LocalLearner(algorithm)
        self.policy = self.handle.policy()
        rng = np.random.default_rng([setup.seed, 1])
        self.actor = Actor(self.policy, rng, deterministic=settings.network_settings.deterministic)
        summary_freq, signals = settings.summary_every(decisions), settings.reward_signals
        self.progress = Progress(name, shared.hub, decisions, summary_freq, signals)
        self.tracker = PolicyTracker(self.progress, EpisodeReturns(settings), shared.validator, shared.callbacks)
        self.opponents: Opponents | None = None
        self.remembers = True
        self.stopped = False
        self.error: Exception | None = None
        self.skipped = self.skipped_in_a_row = 0
        self.callbacks = shared.callbacks

    # -- counting

    @property
    def done(self) -> bool:
        """Whether it has reached max_steps or its criterion. Its policy keeps acting."""
        return self.stopped or self.progress.decisions >= self.progress.max_steps

    @property
    def decisions(self) -> int:
        """Decisions made for it so far, including earlier sessions of a resumed run."""
        return self.progress.decisions

    @property
    def version(self) -> int:
        """Number of updates behind its weights."""
        return self.policy.version

    def announce(self, unit: str = UNIT) -> None:
        """Tell the hub where it starts and ends, and what a step is; call once its counters are known."""
        settings, most = self.settings.model_dump(mode="json"), self.progress.max_steps
        self.progress.hub.begin(self.name, step=self.decisions, max_steps=most, hyperparameters=settings, unit=unit)

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
        if not self.done and self.tracker.returns.add(returns.tolist()):
            self.stop()

    def stop(self) -> None:
        """It has reached its criterion: end learning, and say so."""
        self.stopped = True
        self.progress.rest()
        said = self.tracker.returns.sentence(self.name, self.decisions)
        self.progress.hub.event("criterion", behavior=self.name, step=self.decisions, message=said)

    def flush(self) -> None:
        """Write a summary now."""
        self.progress.flush(training=not self.done)

    @property
    def phases(self) -> PhaseTimer:
        """Measures the time of a thread by phase, from now."""
        return PhaseTimer(self.progress.hub.timers.part("learners", parallel=True).part(self.name))

    # -- one update

    def update(self, work: Work, progress: float | None = None) -> UpdateResult:
        """One update, here and now. Raises NonFiniteError if it is the third in a row that met NaN or infinity.

        ``progress``: finished share of the run; None: of its own decisions.
        """
        self.begin()
        outcome = self.learn(work, self.progress.share if progress is None else progress, None)
        self.report(outcome)
        if self.error is not None:
            raise self.error
        return outcome

    def begin(self) -> None:
        """An update begins: tell callbacks."""
        if "on_update_begin" in self.callbacks.wanted:
            self.callbacks.tell("on_update_begin", UpdateInfo(self.name, self.version, self.decisions))

    def learn(self, work: Work, progress: float, publish: Publish | None) -> UpdateResult:
        """Learn from ``work`` and validate; :meth:`report` must follow. Callable from any thread.

        Args:
            work: is released.
            progress: finished share of the decisions.
            publish: see :meth:`.Algorithm.update`.
        """
        begin, phases = time.perf_counter(), self.phases
        phases.begin()
        try:
            statistics = self.handle.submit(work, progress, publish)
        except NonFiniteError as error:
            return UpdateResult({}, self.policy, time.perf_counter() - begin, error)
        policy = self.handle.policy() if self.copied else self.policy
        phases.end("update")
        if self.tracker.watches and (scores := self.tracker.validate_if_due(policy)):
            statistics.update(scores)
            phases.end("validate")
        return UpdateResult(statistics, policy, time.perf_counter() - begin)

    def publish(self, policy: Policy) -> None:
        """Let the next forward pass use ``policy``. Callable from any thread."""
        self.actor.policy = policy

    def report(self, outcome: UpdateResult) -> None:
        """Act with the new weights, count the update, and tell hub and callbacks of it."""
        progress, error = self.progress, outcome.error
        if outcome.policy.version >= self.policy.version:  # with several updates at a time, the last may arrive first
            self.act_with(outcome.policy)
        progress.took(outcome.seconds, outcome.statistics if error is None else None)
        self.skipped_in_a_row = 0 if error is None else self.skipped_in_a_row + 1
        self.skipped += error is not None
        if error is not None:  # the weights are those from before it; repeated failures end the run
            message = f"an update was skipped and the weights kept: {error}"
            progress.hub.warning(message, behavior=self.name, skipped=self.skipped_in_a_row)
            if self.skipped_in_a_row >= _MOST_SKIPPED:
                self.error = error
        if "on_update_end" in self.callbacks.wanted:
            reason = None if error is None else str(error)
            done = (outcome.statistics, outcome.seconds)
            self.callbacks.tell("on_update_end", UpdateInfo(self.name, self.version, self.decisions, *done, reason))

    def act_with(self, policy: Policy) -> None:
        """Act with ``policy`` from now on."""
        self.policy = self.actor.policy = policy

    def why_never(self, *, here: bool) -> str:
        """Why it was never updated, as the end of a sentence; ``here``: its agents act in this process."""
        made, missing, enough = self.decisions, self.algorithm.missing, self.algorithm.rollout_size
        if skipped := self.skipped:
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

    # -- checkpoints

    def best_mark(self) -> float:
        """A number that grows whenever its best policy becomes better: ``save_best_only`` writes only then.

        Here it is the version of the best policy; -1: there is none.
        """
        if self.settings.save_best_only:
            self.tracker.evaluate_returns(self.policy)
        return -1 if self.tracker.best is None else self.tracker.best.policy.version

    def model(self) -> ModelWriter | None:
        """Writes the newest policy as a model; None if it cannot be exported."""
        return (lambda path: export_onnx(self.handle.policy(), self.spec, path)) if self.algorithm.exports else None

    def state(self) -> State:
        """Arrays and JSON values for an exact resume. Call in the learner's thread."""
        arrays, metadata = self.handle.state()
        weights, judged = self.tracker.state()
        snapshots, rivals = ({}, None) if self.opponents is None else self.opponents.state()
        return {**arrays, **weights, **snapshots}, {
            "algorithm": metadata,
            "acting_rng": self.actor.rng.bit_generator.state,
            "behavior": behavior_json.to_json(self.spec),
            "reward_components": self.setup.reward_width,
            **({} if rivals is None else {"self_play": rivals}),
            **self.progress.state(),
            "mean_reward": self.progress.rewards.mean,
            **judged,
        }

    def begin_from(self, arrays: Arrays, values: Json) -> None:
        """Start from the weights of another run's learner (its :meth:`state`); all counters stay at 0."""
        self._load(*whole(arrays, values, self.handle.state), fresh=True)

    def _load(self, arrays: Arrays, values: Json, *, fresh: bool) -> None:
        """Act with the algorithm's saved state; arrays of other policies are ignored."""
        known = {name: array for name, array in arrays.items() if not name.startswith((BEST, PREFIX))}
        self.handle.load(known, values["algorithm"], fresh=fresh)
        self.act_with(self.handle.policy())

    def restore(self, arrays: Arrays, values: Json) -> None:
        """Continue from a checkpoint (a :meth:`state`); if it does not learn, play it, but without exploration."""
        if not self.setup.learns:
            self.begin_from(arrays, values)
            self.actor.deterministic |= self.policy.explores
            self.tracker.best = stored_best(self.algorithm, arrays, values)
            return
        arrays, values = whole(arrays, values, self.handle.state)
        self._load(arrays, values, fresh=False)
        self.progress.load(values)
        self.tracker.load(self.algorithm, arrays, values)
        self.stopped = self.tracker.returns.reached
        self.remembers = not self.algorithm.lost(values["algorithm"])
        self.actor.rng.bit_generator.state = values["acting_rng"]
        if self.opponents is not None and "self_play" in values:
            self.opponents.load(arrays, values["self_play"], self.algorithm.policy)
