"""The learner of one behavior: its loop, what it starts from, and its state in checkpoints."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, Setup
from tau_trainer.columns import Arrays
from tau_trainer.evaluation.candidates import BEST, stored_best
from tau_trainer.export import export_onnx
from tau_trainer.runs.store import ModelWriter
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.specs import Json
from tau_trainer.training import behavior_json
from tau_trainer.training.learning.budget import Filling
from tau_trainer.training.learning.handles import LearnerHandle, LocalLearner
from tau_trainer.training.learning.loop import Shared, UpdateLoop
from tau_trainer.training.learning.opponents import PREFIX, Opponents
from tau_trainer.training.learning.parameters_only import whole


class Learner(UpdateLoop):
    """Learns one behavior: its loop, what it starts from, and its state in checkpoints.

    Attributes:
        remembers: whether the experience of the run that it continues is still there.
        opponents: its opponents in self-play; None: no self-play.
    """

    def __init__(self, name: str, setup: Setup, algorithm: Algorithm, handle: LearnerHandle, shared: Shared) -> None:
        """Made untrained; ``algorithm`` collects, ``handle`` learns."""
        super().__init__(name, setup, algorithm, handle, shared)
        self.remembers = True
        self.opponents: Opponents | None = None
        self.filling = self._filling()

    def _filling(self) -> Filling | None:
        """The filling for ``steps_per_update: auto``, from the current counters; None for other settings."""
        hyper = self.settings.hyperparameters
        if isinstance(hyper, OffPolicyHyperparameters) and hyper.auto and not self.unfilled:
            return Filling(self, hyper)
        return None

    @property
    def unfilled(self) -> str:
        """The reason why gradient steps cannot fill spare time here, as the end of a sentence; empty: they can."""
        if self.bound.most == 0:
            return "learning and acting take turns"
        holds = isinstance(self.handle, LocalLearner) and self.algorithm.holds_lock
        return "learning in a thread (collection.learner) would hold up acting" if holds else ""

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

    @property
    def version(self) -> int:
        """Number of updates behind its weights."""
        return self.policy.version

    def best_mark(self) -> int:
        """Version of the best policy so far; -1: there is none. See :class:`.checkpointing.Checkpointed`."""
        if self.settings.save_best_only:
            self.tracker.evaluate_returns(self.policy)
        return -1 if self.tracker.best is None else self.tracker.best.policy.version

    def model(self) -> ModelWriter | None:
        """Writes the newest policy as a model; None if it cannot be exported."""
        return (lambda path: export_onnx(self.policy, self.spec, path)) if self.algorithm.exports else None

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able values for a checkpoint. Call in the learner's thread."""
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
        arrays, values = whole(arrays, values, self.handle.state)
        self._load(arrays, values["algorithm"], fresh=True)

    def _load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """Act with the algorithm's saved state; arrays of other policies are ignored."""
        known = {name: array for name, array in arrays.items() if not name.startswith((BEST, PREFIX))}
        self.handle.load(known, metadata, fresh=fresh)
        self.act_with(self.handle.policy())

    def _play(self, arrays: Arrays, values: Json) -> None:
        """Act from now on as a saved learner would (its :meth:`state`), but without exploration."""
        self.begin_from(arrays, values)
        self.actor.deterministic |= self.policy.explores
        self.tracker.best = stored_best(self.algorithm, arrays, values)

    def play_best(self) -> None:
        """Act from now on with the best policy, if validation chose one."""
        if self.tracker.best is not None:
            self.act_with(self.tracker.best.policy)

    def restore(self, arrays: Arrays, values: Json) -> None:
        """Continue from a checkpoint; if it does not learn, play it."""
        if not self.setup.learns:
            self._play(arrays, values)
            return
        arrays, values = whole(arrays, values, self.handle.state)
        self._load(arrays, values["algorithm"], fresh=False)
        self.progress.load(values)
        self.tracker.load(self.algorithm, arrays, values)
        self.stopped = self.tracker.returns.reached
        self.remembers = not self.algorithm.lost(values["algorithm"])
        self.actor.rng.bit_generator.state = values["acting_rng"]
        if self.opponents is not None and "self_play" in values:
            self.opponents.load(arrays, values["self_play"], self.algorithm.policy)
        self.filling = self._filling()
