"""Checkpoints of learners: when to write them, and how to resume from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.export import export_onnx
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.moments import newest_moment
from tau_trainer.runs.origins import Origins
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import Kept
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.learning import parameters_only
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.self_play import SelfPlay
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.pair import Pair
from tau_trainer.training.plan import RunPlan


class Checkpointer:
    """Writes ``checkpoints/<learner>-<step>`` every ``checkpoint_interval`` decisions, and restores the newest.

    Learners that are saved ``together`` form one moment, which is complete or ignored; otherwise every learner is a
    moment of its own.

    Each checkpoint also exports the policy, so that you can try it in Unity during training.

    In a deterministic run, all engines restart at each checkpoint with a seed that follows from the number of
    checkpoints so far (the generation), so that a resumed run is the same as one that was never interrupted.
    """

    def __init__(self, plan: RunPlan, run: Run, lessons: Lessons, self_play: SelfPlay) -> None:
        """``lessons`` and ``self_play``: saved with every learner, restored by :meth:`prepare`."""
        self.generation = 0
        self.pair_decisions: dict[int, int] = {}
        """Decisions of each pair in the earlier sessions of a resumed run."""
        self.behaviors: dict[str, BehaviorSpec] = {}
        """The saved behaviors as policies see them, by short name."""
        self._plan, self._store, self._hub, self._lessons = plan, run.store, run.hub, lessons
        self._self_play = self_play
        run.store.lessons = lambda: lessons.numbers
        self._goes_on = run.folder.resumed or run.plays
        self._next: dict[str, int] = {}
        self._saved_versions: dict[str, int] = {}
        self._saved_steps: dict[str, int] = {}
        """Decisions at the checkpoints that this process wrote."""
        self._saved_best: dict[str, int] = {}
        """Versions of the best policies in the newest checkpoints; -1: they have none."""
        self._passed: frozenset[int] = frozenset()
        """Incomplete moments, which are not resumed from."""

    def register(self, learner: Learner, behaviors: Collection[str] = ()) -> None:
        """A learner appears: restore it if the run is resumed, otherwise initialize it as the settings say.

        ``behaviors``: short names of all behaviors that the environments have shown so far, if known.

        Raises CheckpointError, and SettingsError if the run to initialize from has none of them.
        """
        if self._goes_on:
            latest = latest_checkpoint(self._store.checkpoints, learner.name, passed=self._passed)
            for warning in latest.warnings:
                self._hub.warning(warning)
            if latest.checkpoint is not None:
                self._fit(learner.restore if not self._plan.inference else learner.play, latest.checkpoint)
                values = latest.checkpoint.manifest["learner"]
                lost = learner.algorithm.lost(values["algorithm"])
                if parameters_only.is_lean(values):
                    lost = parameters_only.lost(latest.checkpoint.path, learner.name)
                if lost and not self._plan.inference:
                    self._hub.warning(lost)
                self._saved_best[learner.name] = _best_version(learner)
            else:
                self._hub.warning(f"'{learner.name}' starts from scratch: the run that is resumed saved nothing of it")
        elif self._plan.origins is not None:
            suffix = learner.name.removeprefix(learner.spec.short_name)
            if behaviors:
                self._plan.origins.check({f"{name}{suffix}": name for name in behaviors})
            self._begin(learner, self._plan.origins)
        self._schedule(learner)
        self._saved_versions[learner.name] = learner.policy.version

    def _begin(self, learner: Learner, origins: Origins) -> None:
        """Take over the weights of another run, but none of its counters."""
        origin = origins.of(learner.name, learner.spec.short_name)
        if origin is not None:
            self._fit(learner.begin_from, origin)
            self._hub.event("initialized", message=f"'{learner.name}' starts with the weights of {origin.path}")
        elif origins.run:
            self._hub.warning(f"'{learner.name}' starts from scratch: the run '{origins.run}' saved nothing of it")

    def origin(self, learner: str, behavior: str) -> BehaviorSpec | None:
        """The behavior that another run has saved and that this learner starts from. Raises CheckpointError."""
        origin = None if self._plan.origins is None else self._plan.origins.of(learner, behavior)
        shown = None if origin is None else origin.manifest["learner"].get("behavior")  # a live learner has none
        return None if shown is None else behavior_json.from_json(shown)

    def _schedule(self, learner: Learner) -> None:
        """Schedule the next checkpoint at the next multiple of the interval, if the learner learns until then."""
        every = learner.settings.checkpoint_every
        self._next[learner.name] = (learner.decisions // every + 1) * every

    @staticmethod
    def _fit(take: Callable[[Arrays, Mapping[str, Any]], None], checkpoint: Checkpoint) -> None:
        try:
            take(checkpoint.tensors, checkpoint.manifest["learner"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"the checkpoint of '{checkpoint.name}' does not fit the settings ({error}); "
                "resume with the run's own configuration.yaml, or start a new run with another --run-id"
            ) from error

    def prepare(self) -> None:
        """Read the counters of the pairs, before any engine starts.

        If a process is killed while it saves a moment, some learners are in it and others are not: the run resumes from
        the newest moment that all of them have.
        """
        if not self._goes_on:
            return
        whole = newest_moment(self._store.checkpoints)
        self._passed = whole.passed
        found = whole.checkpoints.values()
        for checkpoint in found:
            spec = behavior_json.from_json(checkpoint.manifest["learner"]["behavior"])
            self.behaviors[spec.short_name] = spec
            for pair, decisions in checkpoint.manifest["pairs"].items() if not self._plan.inference else ():
                if _learned_by(checkpoint, int(pair)):
                    self.pair_decisions[int(pair)] = max(self.pair_decisions.get(int(pair), 0), int(decisions))
        newest = max(found, key=lambda one: (one.moment.number, one.created), default=None)
        if newest is not None:
            self.generation = int(newest.manifest["generation"])
            if "lessons" in newest.manifest:  # older checkpoints have none
                self._lessons.load(newest.manifest["lessons"])
            if "self_play" in newest.manifest:
                self._self_play.load(newest.manifest["self_play"])

    def due(self, learner: Learner) -> bool:
        """Whether a learner has passed its next checkpoint and learned since the last. Call between updates.

        With ``save_best_only``, a learner that has not improved waits for the checkpoint after that.
        """
        due = self.stale(learner) and learner.decisions >= self._next[learner.name]
        if due and not self.better(learner):
            self._schedule(learner)
            return False
        return due

    def better(self, learner: Learner) -> bool:
        """Whether to write a checkpoint: False only with ``save_best_only`` and without an improvement."""
        if not learner.settings.save_best_only or learner.name not in self._saved_best:
            return True
        learner.judge.evaluate_returns(learner.policy)
        return _best_version(learner) > self._saved_best[learner.name]

    def stale(self, learner: Learner) -> bool:
        """Whether a learner has learned since its last checkpoint."""
        return learner.policy.version > self._saved_versions[learner.name]

    def saved(self, learner: Learner) -> bool:
        """Whether this process has written a checkpoint with the learner's whole current state."""
        best = self._saved_best.get(learner.name) == _best_version(learner)
        return best and not self.stale(learner) and self._saved_steps.get(learner.name) == learner.decisions

    async def save(self, learners: Sequence[Learner], pairs: Sequence[Pair], *, models: bool = True) -> None:
        """Write these learners, in their thread; a failure is only a warning, because training continues.

        It is tried again when the next checkpoint is due, and at the end. ``models``: export their policies too.
        """
        now, task = {pair.id: pair.tally.decisions for pair in pairs}, self._plan.task
        counts = {str(pair): decisions for pair, decisions in (self.pair_decisions | now).items()}
        common = {
            "pairs": counts,
            "generation": self.generation,
            "task": dict(task.identity) if task is not None else {},
            "lessons": self._lessons.state(),
            "self_play": self._self_play.state(),
        }
        for learner in learners:
            self._schedule(learner)
        for group in [list(learners)] if self._plan.deterministic and learners else [[learner] for learner in learners]:
            await self._save_moment(group, common, models)

    async def _save_moment(self, learners: Sequence[Learner], common: Mapping[str, Any], models: bool) -> None:
        """Write all of these, or none."""
        for learner in learners:
            if learner.settings.save_best_only:
                learner.judge.evaluate_returns(learner.policy)
        # The current counters; the thread takes the weights after the last update.
        now = {
            learner.name: (learner.policy.version, _best_version(learner), learner.decisions) for learner in learners
        }
        kept = [self._kept(learner, common) for learner in learners]
        if await learners[-1].in_thread(partial(self._store.save, kept, models=models)):
            for name, facts in now.items():
                self._saved_versions[name], self._saved_best[name], self._saved_steps[name] = facts

    def _kept(self, learner: Learner, common: Mapping[str, Any]) -> Kept:
        facts = {"decisions": learner.decisions, "mean_reward": learner.progress.rewards.mean}

        def state() -> tuple[Arrays, Mapping[str, Any]]:
            tensors, values = learner.state()
            if learner.settings.save_param_only:
                tensors, values = parameters_only.lean(tensors, values)
            return tensors, {"learner": {**values, **facts}, **common}

        def model(path: Path) -> None:
            export_onnx(learner.policy, learner.spec, path)

        exports, keep = model if learner.algorithm.exports else None, learner.settings.keep_checkpoints
        return Kept(learner.name, learner.decisions, state, exports, keep, learner.laps)

    async def save_generation(self, learners: Sequence[Learner], pairs: Sequence[Pair]) -> None:
        """A deterministic run's checkpoint: all learners at once, after all updates; engines must restart after it."""
        for learner in learners:
            await learner.drain()
            learner.memory.clear()
        self.generation += 1
        await self.save(learners, pairs)


def _learned_by(checkpoint: Checkpoint, pair: int) -> bool:
    """Whether the learner of a checkpoint learns from ``pair``: it is shared by all pairs, or the pair's own."""
    behavior = str(checkpoint.manifest["learner"]["behavior"]["name"]).split("?")[0]
    suffix = checkpoint.name.removeprefix(f"{behavior}-pair")
    return suffix in (checkpoint.name, str(pair))


def _best_version(learner: Learner) -> int:
    return -1 if learner.judge.best is None else learner.judge.best.policy.version
