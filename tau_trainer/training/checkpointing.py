"""When learners are written to disk, and how a run goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, TauError
from tau_trainer.metrics import MetricsHub
from tau_trainer.training import parameters_only
from tau_trainer.training.callbacks import NOBODY, Callbacks, SaveInfo
from tau_trainer.training.checkpoints import Checkpoint, latest_checkpoint, retire
from tau_trainer.training.learner import Learner
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.moments import Moment, last_number, newest_moment, write_model
from tau_trainer.training.origins import Origins
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.status import write_status


@dataclass(frozen=True, slots=True)
class _Saved:
    """A learner whose checkpoint is on the disk, and how it was as that was written."""

    learner: Learner
    decisions: int
    version: int
    best: int
    path: Path


class Checkpointer:
    """Writes ``checkpoints/<learner>-<step>`` every ``checkpoint_interval`` decisions, and restores from the newest.

    What is saved ``together`` is one moment, whole or not there; else every learner is a moment for itself.

    The policy is exported with each, so that one of the way can be tried in Unity.

    In a deterministic run all engines begin anew with it, told a seed that
    follows from the number of checkpoints so far (the generation), so that a resumed run sees what the run that was
    never interrupted saw.
    """

    def __init__(
        self,
        folder: Path,
        hub: MetricsHub,
        agreed: Mapping[str, str] | None = None,
        lessons: Lessons | None = None,
        origins: Origins | None = None,
        *,
        resume: bool,
        together: bool = False,
        learns: bool = True,
        callbacks: Callbacks = NOBODY,
    ) -> None:
        """``folder``: the run's ``checkpoints``; ``resume``: restore learners as they appear.

        ``together``: whether learners that are saved by one call go on from one moment, as deterministic runs do.
        ``learns``: whether they go on learning, from where they stood; else they only play, and count from 0.
        ``agreed``: the :attr:`~tau_trainer.training.task.Task.identity` of what is learned; ``lessons``: saved with
        every learner, restored by :meth:`prepare`. ``origins``: where learners of a new run begin.
        ``callbacks``: told of every checkpoint.
        """
        self.generation = 0
        self.pair_decisions: dict[int, int] = {}
        """Decisions of each pair in the runs before, where this one goes on from them."""
        self.failures: dict[str, str] = {}
        """Why the last checkpoint of a learner is not there, in a sentence."""
        self._folder = folder
        self._hub = hub
        self._agreed = dict(agreed or {})
        self._lessons = lessons or Lessons({})
        self._origins = origins
        self._resume = resume
        self._together = together
        self._learns = learns
        self._callbacks = callbacks
        self._next: dict[str, int] = {}
        self._saved_versions: dict[str, int] = {}
        self._saved_best: dict[str, int] = {}
        """Versions of the best policies that the newest checkpoints know; -1: they know none."""
        self._number = 0
        """Of the newest moment."""
        self._passed: frozenset[int] = frozenset()
        """Moments that are not whole, and that nobody goes on from."""

    def register(self, learner: Learner) -> None:
        """A learner appears: restore it if the run is resumed, else begin where it should. Raises CheckpointError."""
        if self._resume:
            latest = latest_checkpoint(self._folder, learner.name, passed=self._passed)
            for warning in latest.warnings:
                self._hub.warning(warning)
            if latest.checkpoint is not None:
                self._fit(learner.restore if self._learns else learner.play, latest.checkpoint)
                values = latest.checkpoint.manifest["learner"]
                lost = learner.algorithm.lost(values["algorithm"])
                if parameters_only.is_lean(values):
                    lost = parameters_only.lost(latest.checkpoint.path, learner.name)
                if lost and self._learns:
                    self._hub.warning(lost)
                self._saved_best[learner.name] = _best_version(learner)
            else:
                self._hub.warning(f"'{learner.name}' begins from zero: the run that is resumed saved nothing of it")
        elif self._origins is not None:
            self._begin(learner, self._origins)
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
        if not self._resume:
            return
        whole = newest_moment(self._folder)
        self._passed, self._number = whole.passed, last_number(self._folder)
        found = whole.checkpoints.values()
        for checkpoint in found:
            for pair, decisions in checkpoint.manifest["pairs"].items() if self._learns else ():
                if _learned_by(checkpoint, int(pair)):
                    self.pair_decisions[int(pair)] = max(self.pair_decisions.get(int(pair), 0), int(decisions))
        newest = max(found, key=lambda one: (one.moment.number, one.created), default=None)
        if newest is not None:
            self.generation = int(newest.manifest["generation"])
            if "lessons" in newest.manifest:  # older checkpoints have none
                self._lessons.load(newest.manifest["lessons"])

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
        learner.evaluate_returns()
        return _best_version(learner) > self._saved_best[learner.name]

    def stale(self, learner: Learner) -> bool:
        """Whether a learner has learned since its last checkpoint."""
        return learner.policy.version > self._saved_versions[learner.name]

    async def save(
        self, learners: Sequence[Learner], pairs: Sequence[AgentTrainerPair], *, models: bool = True
    ) -> None:
        """Write these learners, in their thread; what cannot be written is a warning, for training goes on.

        It is tried again when the next checkpoint is due, and at the end. ``models``: export their policies too.
        """
        now = {pair.id: pair.trainer.decisions for pair in pairs}
        counts = {str(pair): decisions for pair, decisions in (self.pair_decisions | now).items()}
        common = {
            "pairs": counts,
            "generation": self.generation,
            "task": self._agreed,
            "lessons": self._lessons.state(),
        }
        for learner in learners:
            self._schedule(learner)
        for group in [list(learners)] if self._together and learners else [[learner] for learner in learners]:
            for saved in await self._save_moment(group, common):
                await self._conclude(saved, models)
        if learners:
            await self.write_status(learners[-1])

    async def _save_moment(self, learners: Sequence[Learner], common: Mapping[str, Any]) -> list[_Saved]:
        """Write all of these, or none: what is left where one cannot be written is the moment before."""
        self._number += 1
        moment = Moment(self._folder, self._number, [learner.name for learner in learners])
        written: list[_Saved] = []
        begun: list[SaveInfo] = []
        for learner in learners:
            if learner.settings.save_best_only:
                learner.evaluate_returns()
            best = _best_version(learner)
            # Counters as they are now; the weights as the thread finds them, after the last update.
            decisions, version = learner.decisions, learner.policy.version
            facts = {"decisions": decisions, "mean_reward": learner.rewards.mean}
            begun.append(SaveInfo(learner.name, decisions))
            self._callbacks.tell("on_save_begin", begun[-1])
            try:
                path = await learner.run_in_thread(partial(self._write, moment, learner, facts, common))
            except TauError as error:
                await learner.run_in_thread(moment.give_up)
                said = str(error)
                if len(learners) > 1:
                    said += " The other policies were not saved either, so that all of them stay at one moment."
                self.failures |= {one.name: said for one in learners}
                self._hub.warning(said)
                for info in begun:
                    self._callbacks.tell("on_save_end", replace(info, error=said))
                return []
            written.append(_Saved(learner, decisions, version, best, path))
        return written

    async def _conclude(self, saved: _Saved, models: bool) -> None:
        """A checkpoint's moment is whole: what it supersedes goes, and its model comes."""
        learner = saved.learner
        await learner.run_in_thread(partial(self._settle, saved, models))
        self.failures.pop(learner.name, None)
        self._saved_versions[learner.name] = saved.version
        self._saved_best[learner.name] = saved.best
        self._hub.event("checkpoint", behavior=learner.name, step=saved.decisions, path=str(saved.path))
        self._callbacks.tell("on_save_end", SaveInfo(learner.name, saved.decisions, saved.path))

    async def save_generation(self, learners: Sequence[Learner], pairs: Sequence[AgentTrainerPair]) -> None:
        """A deterministic run's checkpoint: all learners at once, nothing left open; engines must begin anew then."""
        for learner in learners:
            await learner.drain()
            learner.forget_open()
        self.generation += 1
        await self.save(learners, pairs)

    async def write_status(self, learner: Learner, models: Mapping[str, int] | None = None) -> None:
        """Tell ML-Agents' readers of the checkpoints; see :func:`.status.write_status`."""
        work = partial(write_status, self._folder.parent, dict(self._lessons.numbers), models)
        try:
            await learner.run_in_thread(work)
        except TauError as error:
            self._hub.warning(str(error))

    def _write(self, moment: Moment, learner: Learner, facts: Mapping[str, Any], common: Mapping[str, Any]) -> Path:
        learner.laps.begin()
        tensors, values = learner.state()
        if learner.settings.save_param_only:
            tensors, values = parameters_only.lean(tensors, values)
        path = moment.write(learner.name, facts["decisions"], tensors, {"learner": {**values, **facts}, **common})
        learner.laps.lap("checkpoint")
        return path

    def _settle(self, saved: _Saved, models: bool) -> None:
        learner = saved.learner
        learner.laps.begin()
        retire(self._folder, learner.name, saved.path, learner.settings.keep_checkpoints)
        if models and learner.algorithm.exports:
            try:
                write_model(self._folder.parent, learner.name, learner.policy, learner.spec, saved.decisions)
            except TauError as error:
                self._hub.warning(f"the model of checkpoint {saved.path.name} was not written: {error}")
        learner.laps.lap("model")


def _learned_by(checkpoint: Checkpoint, pair: int) -> bool:
    """Whether a checkpoint's learner learns from ``pair``: one of all pairs, or the pair's own."""
    behavior = str(checkpoint.manifest["learner"]["behavior"]["name"]).split("?")[0]
    own = checkpoint.name.removeprefix(f"{behavior}-pair")
    return own in (checkpoint.name, str(pair))


def _best_version(learner: Learner) -> int:
    return -1 if learner.best is None else learner.best.policy.version
