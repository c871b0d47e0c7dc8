"""The run of a batched environment: act, step and learn in turns, and the folder of any other run."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import CheckpointError, LearnerError, NonFiniteError, RunFinishedError, SettingsError, TauError
from tau_trainer.metrics import BehaviorSnapshot, MetricsHub, RunReport, RunSnapshot, keys, plot_learning_curve
from tau_trainer.settings.batched import BatchedSettings, Compile
from tau_trainer.training import behavior_json
from tau_trainer.training.api import ENDING, HURRYING
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.evaluation import Evaluation
from tau_trainer.training.batched.playing import Playing, Seat
from tau_trainer.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, retire
from tau_trainer.training.moments import Moment, last_number, newest_moment, write_model
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.status import write_status

_SNAPSHOT_S = 0.25
_ENVIRONMENT = "environment."
"""What the names of the copies' tensors begin with in the checkpoint of the first policy that learns."""


class BatchedRun(Playing):
    """Everything of one run. Belongs to one thread.

    Raises:
        SettingsError, CheckpointError, RunFinishedError: it cannot begin, or need not go on.
    """

    def __init__(
        self, settings: BatchedSettings, folder: RunFolder, hub: MetricsHub, ranks: Ranks | None = None
    ) -> None:
        super().__init__(settings, ranks)
        self.folder, self.hub = folder, hub
        self.asked = threading.Event()
        """Set once somebody wants it to end."""
        self.hurried = threading.Event()
        """Set once they want it to end without evaluation and export."""
        self.error: TauError | None = None
        self.failures: list[str] = []
        """What could not be written at the end."""
        self.unsaved: str | None = None
        """Why the last checkpoint is not there."""
        self._number = 0
        """Of the newest moment."""
        self._compile: Compile | None = None
        """What the earlier part of this run has found: numbers of compiled steps may differ in their last bit."""
        self._begin_from_origins()
        self._restore()
        self.share_weights()
        self.evaluation = Evaluation(settings, self.seats, self._make_env)
        left = (settings.max_steps - self.decisions) // (self.copies * self.env.num_agents)
        learners = [seat.learner for seat in self.seats]
        mode = self._compile or settings.compile
        if mode == "auto" and not self.ranks.alone:  # they would have to find the same
            mode = "off"
        self.compiled, said = choose(mode, self.env, learners, left)
        if said:
            hub.event("compiled", message=said)
        self.started = time.monotonic()
        self.restart_clock()
        self._first = self._flushed = self._saved = self._evaluated = self.decisions
        if self.decisions >= settings.max_steps:
            raise RunFinishedError(
                f"the run in '{folder.path}' has had all its decisions, so there was nothing to do; raise --max-steps "
                "to go on"
            )
        for seat in self.seats:
            if seat.learns:
                hub.begin(
                    seat.name,
                    step=self.steps_of(seat),
                    max_steps=settings.max_steps * len(seat.agents) // self.env.num_agents,
                    hyperparameters=seat.settings.model_dump(mode="json"),
                )

    @property
    def done(self) -> bool:
        """Whether all decisions are made."""
        return self.decisions >= self.settings.max_steps

    def _begin_from_origins(self) -> None:
        for seat in self.seats:
            origin = None if seat.settings.player is not None else self._origin(seat)
            if origin is not None:
                facts = dict(origin.manifest["learner"]["algorithm"])
                facts.pop("trainer_type", None)
                seat.learner.load(origin.tensors, facts)

    def _origin(self, seat: Seat) -> Checkpoint | None:
        """What a policy of a new run begins from; None: from nothing."""
        given, chosen = seat.settings.init_path, self.settings.checkpoint_settings
        if chosen.resume:
            return None
        if given is not None:
            if not Path(given).is_dir():
                raise SettingsError(
                    f"policies.{seat.name}.init_path {given}: there is no such checkpoint; name a folder such as "
                    "results/ID/checkpoints/NAME-100000"
                )
            return load_checkpoint(Path(given))
        if chosen.initialize_from is None:
            return None
        folder = RunFolder(Path(chosen.results_dir) / chosen.initialize_from, resumed=True).checkpoints
        found = latest_checkpoint(folder, seat.name)
        if found.checkpoint is None:
            why = found.warnings[0] if found.warnings else f"'{folder}' holds no checkpoint of '{seat.name}'"
            raise CheckpointError(f"checkpoint_settings.initialize_from {chosen.initialize_from}: {why}")
        return found.checkpoint

    def stop(self) -> None:
        """Let it end once everything that was played is learned from, saved and evaluated; twice: saved alone."""
        if self.asked.is_set():
            self.hurried.set()
        self.asked.set()
        self.hub.event("note", message=HURRYING if self.hurried.is_set() else ENDING)

    def run(self) -> None:
        """Play and learn to the end; what fails is in :attr:`error`."""
        try:
            looked = 0.0
            while not (self.done and self.round_over) and not (self.asked.is_set() and self.round_over):
                self.advance()
                if self._due(self._flushed, self.settings.summary_every) or (self.done and self.round_over):
                    self.flush()
                if self.round_over and self._due(self._evaluated, self.settings.evaluation.interval):
                    self._evaluate(self.asked)
                if self.round_over and self._due(self._saved, self.settings.checkpoint_interval) and not self.done:
                    self.save()
                if time.monotonic() - looked > _SNAPSHOT_S:
                    looked = time.monotonic()
                    self.hub.snapshot(self.snapshot())
        except TauError as error:
            self.error = error
        except RuntimeError as error:
            death = self.ranks.death()
            if death is None:
                raise
            self.error = LearnerError(death)
            self.error.__cause__ = error

    def _due(self, last: int, interval: int) -> bool:
        return interval > 0 and self.decisions // interval > last // interval

    def flush(self) -> None:
        """Read what was counted on the device, and hand it to the recorders.

        Raises:
            NonFiniteError: a policy has learned NaN or infinity.
        """
        ended = self.count_episodes()
        self._flushed = self.decisions
        for key, value in self.speeds().items():
            self.hub.keep(key, value)
        for seat in self.learning:
            if seat.name in ended:
                one = ended[seat.name]
                self.hub.tell(seat.name, keys.CUMULATIVE_REWARD, one.ended, one.mean_return, one.return_deviation)
                self.hub.add(seat.name, keys.EPISODE_LENGTH, one.mean_length)
            told = {name: values.cpu().numpy() for name, values in seat.take_told().items()}
            if wrong := next((name for name, values in told.items() if not np.isfinite(values).all()), None):
                raise NonFiniteError(
                    f"policy '{seat.name}': {wrong} became NaN or infinite; the checkpoints from before it are "
                    "kept. Lower its learning_rate or the size of the rewards."
                )
            for name, values in told.items():
                self.hub.add(seat.name, name, values)
            self.hub.flush(seat.name, self.steps_of(seat), training=not self.done)

    def _evaluate(self, ended: threading.Event) -> None:
        self._evaluated = self.decisions
        for name, score in self.evaluation.run(stopped=ended.is_set).items():
            self.hub.add(name, keys.EPISODE_RETURN, score)

    def save(self) -> None:
        """Write a checkpoint of every policy that learns, and its model; what cannot be written is a warning.

        All are one moment: where one cannot be written none is, and what is left is the moment before.
        """
        self._saved = self.decisions
        self._number += 1
        moment = Moment(self.folder.checkpoints, self._number, [seat.name for seat in self.learning])
        copies = {f"{_ENVIRONMENT}{name}": values.cpu().numpy() for name, values in self.copies_state().items()}
        paths = dict[str, Path]()
        try:
            for seat in self.learning:
                paths[seat.name] = self._write(moment, seat, copies if seat is self.learning[0] else {})
        except TauError as error:
            moment.give_up()
            self.unsaved = str(error)
            self.hub.warning(self.unsaved)
            return
        self.unsaved = None
        for seat in self.learning:
            path, steps = paths[seat.name], self.steps_of(seat)
            retire(self.folder.checkpoints, seat.name, path, self.settings.keep_checkpoints)
            policy = seat.learner.policy(seat.updates)
            try:
                if policy is not None:
                    write_model(self.folder.path, seat.name, policy, seat.spec, steps)
            except TauError as error:
                self.hub.warning(f"the model of checkpoint {path.name} was not written: {error}")
            self.hub.event("checkpoint", behavior=seat.name, step=steps, path=str(path))
        try:
            write_status(self.folder.path, {})
        except TauError as error:
            self.hub.warning(str(error))

    def _write(self, moment: Moment, seat: Seat, copies: Mapping[str, NDArray[Any]]) -> Path:
        arrays, facts = seat.learner.state()
        steps = self.steps_of(seat)
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": steps,
            "updates": seat.updates,
            "episodes": seat.episodes,
            "mean_reward": seat.mean_return,
            "mean_length": seat.mean_length,
            "behavior": behavior_json.to_json(seat.spec),
        }
        manifest = {"learner": values, "steps": self.collector.steps, "compiled": self.compiled}
        return moment.write(seat.name, steps, {**arrays, **copies}, manifest)

    def _restore(self) -> None:
        """Go on with the newest moment of which everything is whole."""
        if not self.settings.checkpoint_settings.resume:
            return
        found = self._newest()
        self._number = last_number(self.folder.checkpoints)
        for seat in self.learning:
            values = found[seat.name].manifest["learner"]
            lost = seat.learner.lost(values["algorithm"])
            if lost:
                self.hub.warning(lost)
            seat.learner.load(found[seat.name].tensors, values["algorithm"])
            seat.updates, seat.episodes = values["updates"], values["episodes"]
            seat.mean_return, seat.mean_length = values["mean_reward"], values["mean_length"]
        first = found[self.learning[0].name]
        copies = {
            name.removeprefix(_ENVIRONMENT): torch.from_numpy(values.copy())
            for name, values in first.tensors.items()
            if name.startswith(_ENVIRONMENT)
        }
        if self.settings.compile == "auto":
            self._compile = "on" if first.manifest["compiled"] else "off"
        try:
            self.load_copies(first.manifest["steps"], copies)
        except KeyError as error:
            raise CheckpointError(
                f"'{first.path}' is of another environment, other arguments or another number of copies (its "
                f"{error} differs); use the settings that the run was started with"
            ) from None

    def _newest(self) -> dict[str, Checkpoint]:
        """Of every policy that learns the checkpoint of one moment, the newest that is whole."""
        names = [seat.name for seat in self.learning]
        whole = newest_moment(self.folder.checkpoints, names)
        for warning in whole.warnings:
            self.hub.warning(warning)
        found = {one.name: one for one in whole.checkpoints.values()}
        if found.keys() != set(names) or len({one.manifest["steps"] for one in found.values()}) != 1:
            raise CheckpointError(
                f"the run in '{self.folder.path}' saved no moment of which everything can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        return found

    def finish(self) -> RunReport:
        """Save, evaluate, export, draw, report."""
        from tau_trainer.export import export_onnx

        models: dict[str, Path] = {}
        if self.error is None:
            if self._saved != self.decisions:
                self.save()
            if self.settings.evaluation.episodes and not self.hurried.is_set():
                self._evaluate(self.hurried)
                for seat in self.seats:
                    if seat.learns:
                        self.hub.flush(seat.name, self.steps_of(seat), training=False)
        for seat in self.seats:
            wanted = seat.learns and self.error is None and not self.hurried.is_set()
            policy = seat.learner.policy(seat.updates) if wanted else None
            if policy is not None:
                try:
                    models[seat.name] = export_onnx(policy, seat.spec, self.folder.onnx(seat.name))
                except TauError as error:
                    self.failures.append(str(error))
        files = self.evaluation.write_trace(self.folder.path)
        self.hub.drain(10.0)
        try:
            plot_learning_curve(self.folder.path)
        except Exception as error:  # drawing must never cost a trained policy
            self.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
        report = self.report(models, files)
        self.hub.snapshot(self.snapshot())
        self.hub.result(report)
        self.hub.drain(10.0)
        return report

    def report(self, models: Mapping[str, Path], others: Mapping[str, Path]) -> RunReport:
        """The central report."""
        seconds, folder = time.monotonic() - self.started, self.folder
        named = {"curve": folder.learning_curve, "checkpoints": folder.checkpoints, "log": folder.log}
        files = {f"policy {name}" if len(models) > 1 else "policy": path for name, path in models.items()}
        return RunReport(
            run_id=self.settings.checkpoint_settings.run_id,
            folder=folder.path,
            command="batch",
            outcome="failed" if self.error else "completed" if self.done else "cancelled",
            decisions=self.decisions,
            wall_seconds=seconds,
            decisions_per_second=(self.decisions - self._first) / seconds,
            behaviors=self.snapshot().behaviors,
            models=tuple(models.values()),
            files=files | dict(others) | {name: path for name, path in named.items() if path.exists()},
            errors=(*(str(one) for one in (self.error, self.unsaved) if one), *self.failures, *self.hub.losses),
        )

    def snapshot(self) -> RunSnapshot:
        """The run now."""
        elapsed = time.monotonic() - self.started
        rate = (self.decisions - self._first) / elapsed if elapsed > 0 else 0.0
        most, told = self.settings.max_steps, self.speeds()
        figures: tuple[str, ...] = ()
        if told:
            environments, agents, *shares = told.values()
            names = [*self.collector.seconds, "learning"]
            figures = (
                f"{environments:,.0f} environment steps/s",
                f"{agents:,.0f} agent steps/s",
                ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True)),
            )
        return RunSnapshot(
            run_id=self.settings.checkpoint_settings.run_id,
            command="batch",
            subject=f"{self.env.num_envs:,} x {self.settings.environment.name}",
            seed=self.settings.seed,
            elapsed_s=elapsed,
            decisions=self.decisions,
            max_decisions=most,
            decisions_per_second=rate,
            eta_s=max(most - self.decisions, 0) / rate if rate > 0 else None,
            policy_version=sum(seat.updates for seat in self.seats),
            update_seconds=self.learning_seconds,
            behaviors=tuple(
                BehaviorSnapshot(
                    seat.name,
                    self.steps_of(seat),
                    most * len(seat.agents) // self.env.num_agents,
                    seat.episodes,
                    seat.mean_return,
                    seat.mean_length,
                )
                for seat in self.seats
            ),
            figures=figures,
        )
