"""When learners are written to disk, and how a run goes on from there."""

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
from tau_trainer.training.pairs.pair import AgentTrainerPair
from tau_trainer.training.plan import RunPlan


class Checkpointer:
    """Writes ``checkpoints/<learner>-<step>`` every ``checkpoint_interval`` decisions, and restores from the newest.

    What is saved ``together`` is one moment, whole or not there; else every learner is a moment for itself.

    The policy is exported with each, so that one of the way can be tried in Unity.

    In a deterministic run all engines begin anew with it, told a seed that
    follows from the number of checkpoints so far (the generation), so that a resumed run sees what the run that was
    never interrupted saw.
    """

    def __init__(self, plan: RunPlan, run: Run, lessons: Lessons, self_play: SelfPlay) -> None:
        """``lessons`` and ``self_play``: saved with every learner, restored by :meth:`prepare`."""
        self.generation = 0
        self.pair_decisions: dict[int, int] = {}
        """Decisions of each pair in the runs before, where this one goes on from them."""
        self.behaviors: dict[str, BehaviorSpec] = {}
        """What policies see of the behaviors that those have saved, by short name."""
        self._plan, self._store, self._hub, self._lessons = plan, run.store, run.hub, lessons
        self._self_play = self_play
        run.store.lessons = lambda: lessons.numbers
        self._goes_on = run.folder.resumed or run.plays
        self._next: dict[str, int] = {}
        self._saved_versions: dict[str, int] = {}
        self._saved_steps: dict[str, int] = {}
        """Decisions of those that this process wrote."""
        self._saved_best: dict[str, int] = {}
        """Versions of the best policies that the newest checkpoints know; -1: they know none."""
        self._passed: frozenset[int] = frozenset()
        """Moments that are not whole, and that nobody goes on from."""

    def register(self, learner: Learner, behaviors: Collection[str] = ()) -> None:
        """A learner appears: restore it if the run is resumed, else begin where it should.

        ``behaviors``: short names of all that the environments have shown so far, where that is known.

        Raises CheckpointError, and SettingsError where the run to begin from has nothing of any of them.
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
                self._hub.warning(f"'{learner.name}' begins from zero: the run that is resumed saved nothing of it")
        elif self._plan.origins is not None:
            suffix = learner.name.removeprefix(learner.spec.short_name)
            if behaviors:
                self._plan.origins.check({f"{name}{suffix}": name for name in behaviors})
            self._begin(learner, self._plan.origins)
        self._schedule(learner)
        self._saved_versions[learner.name] = learner.policy.version

    def _begin(self, learner: Learner, origins: Origins) -> None:
        """Take over what another run has learned, and nothing of where it stood."""
        origin = origins.of(learner.name, learner.spec.short_name)
        if origin is not None:
            self._fit(learner.begin_from, origin)
            self._hub.event("initialized", message=f"'{learner.name}' begins with the weights of {origin.path}")
        elif origins.run:
            self._hub.warning(f"'{learner.name}' begins from zero: the run '{origins.run}' saved nothing of it")

    def origin(self, learner: str, behavior: str) -> BehaviorSpec | None:
        """What another run has saved of a behavior that a learner of that name begins from. Raises CheckpointError."""
        origin = None if self._plan.origins is None else self._plan.origins.of(learner, behavior)
        shown = None if origin is None else origin.manifest["learner"].get("behavior")  # a live learner says nothing
        return None if shown is None else behavior_json.from_json(shown)

    def _schedule(self, learner: Learner) -> None:
        """The next checkpoint is due at the next multiple of the interval, if anything was learned until then."""
        every = learner.settings.checkpoint_every
        self._next[learner.name] = (learner.decisions // every + 1) * every

    @staticmethod
    def _fit(take: Callable[[Arrays, Mapping[str, Any]], None], checkpoint: Checkpoint) -> None:
        try:
            take(checkpoint.tensors, checkpoint.manifest["learner"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"the checkpoint of '{checkpoint.name}' does not fit the settings ({error}); "
                "resume with the run's own configuration.yaml, or begin a new run with another --run-id"
            ) from error

    def prepare(self) -> None:
        """Read what the pairs had done, before any engine starts.

        A process that is killed while it saves a moment leaves it with some learners and not with others: the run
        goes on from the newest one that all of them have.
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
        """Whether a learner has gone past its next checkpoint and learned since the last. Ask between updates.

        One that keeps its best alone waits for the checkpoint after that where it has become no better.
        """
        due = self.stale(learner) and learner.decisions >= self._next[learner.name]
        if due and not self.better(learner):
            self._schedule(learner)
            return False
        return due

    def better(self, learner: Learner) -> bool:
        """Whether a checkpoint is worth it: always, but for a learner that keeps its best alone."""
        if not learner.settings.save_best_only or learner.name not in self._saved_best:
            return True
        learner.judge.evaluate_returns(learner.policy)
        return _best_version(learner) > self._saved_best[learner.name]

    def stale(self, learner: Learner) -> bool:
        """Whether a learner has learned since its last checkpoint."""
        return learner.policy.version > self._saved_versions[learner.name]

    def saved(self, learner: Learner) -> bool:
        """Whether the newest checkpoint, by this process, holds all that there is of a learner."""
        best = self._saved_best.get(learner.name) == _best_version(learner)
        return best and not self.stale(learner) and self._saved_steps.get(learner.name) == learner.decisions

    async def save(
        self, learners: Sequence[Learner], pairs: Sequence[AgentTrainerPair], *, models: bool = True
    ) -> None:
        """Write these learners, in their thread; what cannot be written is a warning, for training goes on.

        It is tried again when the next checkpoint is due, and at the end. ``models``: export their policies too.
        """
        now, task = {pair.id: pair.trainer.decisions for pair in pairs}, self._plan.task
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
        # Counters as they are now; the weights as the thread finds them, after the last update.
        now = {
            learner.name: (learner.policy.version, _best_version(learner), learner.decisions) for learner in learners
        }
        kept = [self._kept(learner, common) for learner in learners]
        if await learners[-1].updates.in_thread(partial(self._store.save, kept, models=models)):
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
        return Kept(learner.name, learner.decisions, state, exports, keep, learner.updates.laps)

    async def save_generation(self, learners: Sequence[Learner], pairs: Sequence[AgentTrainerPair]) -> None:
        """A deterministic run's checkpoint: all learners at once, nothing left open; engines must begin anew then."""
        for learner in learners:
            await learner.updates.drain()
            learner.memory.clear()
        self.generation += 1
        await self.save(learners, pairs)


def _learned_by(checkpoint: Checkpoint, pair: int) -> bool:
    """Whether a checkpoint's learner learns from ``pair``: one of all pairs, or the pair's own."""
    behavior = str(checkpoint.manifest["learner"]["behavior"]["name"]).split("?")[0]
    suffix = checkpoint.name.removeprefix(f"{behavior}-pair")
    return suffix in (checkpoint.name, str(pair))


def _best_version(learner: Learner) -> int:
    return -1 if learner.judge.best is None else learner.judge.best.policy.version
