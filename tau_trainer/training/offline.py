"""Runs that learn from recordings: no engine, no pairs, and the folder of any other run.

What is written is what :class:`~tau_trainer.training.run.TrainingRun` writes, so that such a run can be played
(``--inference``), exported, reported on, and begun from (``--initialize-from``).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tau_trainer.bridge.demonstrations import read_demonstrations
from tau_trainer.errors import CheckpointError, RunFinishedError, SettingsError, TauError
from tau_trainer.files import safe_name
from tau_trainer.metrics import (
    BehaviorSnapshot,
    Event,
    MetricsHub,
    RunReport,
    RunSnapshot,
    TerminalMode,
    Timer,
    keys,
    plot_learning_curve,
    terminal_recorder,
)
from tau_trainer.settings import (
    OfflineTrainerSettings,
    RunSettings,
    TrainerSettings,
    check_device,
    dump_settings,
    resolve_seed,
)
from tau_trainer.training import behavior_json
from tau_trainer.training.api import on_interrupt
from tau_trainer.training.candidates import ScoredPolicy
from tau_trainer.training.checkpoints import latest_checkpoint, save_checkpoint
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.manager import kept_recorders, lasting
from tau_trainer.training.origins import Origins
from tau_trainer.training.provenance import provenance
from tau_trainer.training.run_folder import RunFolder, atomic_write_json, atomic_write_text
from tau_trainer.training.status import write_status

if TYPE_CHECKING:
    from tau_trainer.algorithms.offline import Offline

_STEPS = 100
"""Gradient steps between two looks at the clock and at Ctrl-C; a resumed run takes them in the same portions."""
_SNAPSHOT_S = 0.25
_BEST = "best."


def is_offline(settings: RunSettings) -> bool:
    """Whether these settings learn from recordings alone, and learn at all."""
    trainers = _trainers(settings)
    return isinstance(trainers[0][1], OfflineTrainerSettings) and not settings.checkpoint_settings.inference


@dataclass(slots=True)
class _Learner:
    """One behavior."""

    name: str
    settings: OfflineTrainerSettings
    algorithm: Offline
    best: ScoredPolicy | None = None
    mean_return: float | None = None
    """Of the newest evaluation."""
    episodes: int = 0

    @property
    def steps(self) -> int:
        """Gradient steps so far, in all runs."""
        return self.algorithm.steps

    @property
    def done(self) -> bool:
        return self.steps >= self.settings.max_steps


class OfflineRun:
    """Everything of one run. Belongs to one thread.

    Raises:
        SettingsError, DataError, CheckpointError, RunFinishedError: it cannot begin, or need not go on.
    """

    def __init__(self, settings: RunSettings, folder: RunFolder, hub: MetricsHub, shown: Callable[[str], None]) -> None:
        self.settings = settings
        self.folder = folder
        self.hub = hub
        self.started = time.monotonic()
        self.asked = threading.Event()
        """Set once somebody wants it to end."""
        self.error: TauError | None = None
        self.failures: list[str] = []
        self.learners = [self._make(name, own, shown) for name, own in _trainers(settings)]
        self._first = self.steps
        if self.learners and all(one.done for one in self.learners):
            raise RunFinishedError(
                f"the run in '{folder.path}' has taken all its gradient steps, so there was nothing to do; raise "
                f"--max-steps to go on, or write its models again with: tau-train export {folder.path}"
            )

    @property
    def steps(self) -> int:
        """Gradient steps of all behaviors."""
        return sum(one.steps for one in self.learners)

    def _make(self, name: str, settings: OfflineTrainerSettings, shown: Callable[[str], None]) -> _Learner:
        from tau_trainer.algorithms import Setup, make_algorithm

        demonstration = read_demonstrations([settings.demo_path])
        name = name or demonstration.spec.short_name
        spec = replace(demonstration.spec, name=name)
        device = self.settings.torch_settings.device or "cpu"
        setup = Setup(spec, settings, self.settings.env_settings.seed, 1, device)
        algorithm = cast("Offline", make_algorithm(setup))
        assert algorithm.data is not None
        returns, aside = algorithm.data.returns, len(algorithm.held_out)
        worth = f" of mean return {returns.mean():.4g}" if len(returns) else ""
        shown(
            f"'{name}' learns from {len(algorithm.replay):,} decisions{worth}; {aside:,} more are set aside to see "
            "how well it generalises"
        )
        learner = _Learner(name, settings, algorithm)
        self._restore(learner)
        self.hub.begin(
            name,
            step=learner.steps,
            max_steps=settings.max_steps,
            hyperparameters=settings.model_dump(mode="json"),
        )
        return learner

    def _restore(self, learner: _Learner) -> None:
        from tau_trainer.training.learner import stored_best

        chosen = self.settings.checkpoint_settings
        if not chosen.resume:
            origin = Origins(self.settings).of(learner.name, learner.name)
            if origin is not None:
                facts = dict(origin.manifest["learner"]["algorithm"])
                facts.pop("version", None)
                learner.algorithm.load(origin.tensors, facts)
            return
        found = latest_checkpoint(self.folder.checkpoints, learner.name)
        for warning in found.warnings:
            self.hub.warning(warning)
        if found.checkpoint is None:
            raise CheckpointError(
                f"the run in '{self.folder.path}' saved nothing of '{learner.name}' that can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        values = found.checkpoint.manifest["learner"]
        learner.algorithm.load(found.checkpoint.tensors, values["algorithm"])
        learner.best = stored_best(learner.algorithm, found.checkpoint.tensors, values)
        learner.mean_return = values["mean_reward"]

    def run(self) -> None:
        """Learn all behaviors, one after the other; what fails is in :attr:`error`."""
        try:
            for learner in self.learners:
                if self.settings.env_settings.env_path is not None and not learner.steps:
                    self._evaluate(learner)  # where it begins, and whether that is the right environment
                self._learn(learner)
        except TauError as error:
            self.error = error

    def _learn(self, learner: _Learner) -> None:
        own = learner.settings
        every = own.summary_every(own.max_steps)
        looked = 0.0
        while not learner.done and not self.asked.is_set():
            ends = [(learner.steps // step + 1) * step for step in (_STEPS, every, own.checkpoint_every)]
            steps = min(*ends, own.max_steps) - learner.steps
            stats = learner.algorithm.train(steps, learner.steps / own.max_steps)
            self.hub.add_all(learner.name, stats)
            checkpoint = learner.steps % own.checkpoint_every == 0 or learner.done
            if checkpoint:
                self._judge(learner)
            if learner.steps % every == 0 or learner.done:
                if not checkpoint:
                    self.hub.add_all(learner.name, learner.algorithm.assess())
                self.hub.flush(learner.name, learner.steps, training=not learner.done)
            if checkpoint:
                self.save(learner)
            if time.monotonic() - looked > _SNAPSHOT_S:
                looked = time.monotonic()
                self.hub.snapshot(self.snapshot())
        if not learner.done:
            self.save(learner)

    def _judge(self, learner: _Learner) -> None:
        """What the policy is worth: on what was set aside, and in the environment where one is named."""
        held = learner.algorithm.assess()
        self.hub.add_all(learner.name, held)
        loss = held.get(keys.held_out(keys.POLICY_LOSS))
        # A clone is as good as it foretells the player; the others are to be better than him.
        score = -loss if loss is not None and learner.algorithm.name == "bc" else None
        if self.settings.env_settings.env_path is not None:
            score = self._evaluate(learner)
        if score is not None:
            policy = learner.algorithm.snapshot()
            judged = ScoredPolicy(policy, learner.steps, {}, (0.0, score))
            learner.best = judged if judged.beats(learner.best) else learner.best

    def _evaluate(self, learner: _Learner) -> float:
        """Mean return of the most likely actions."""
        from tau_trainer.training.playing import Play
        from tau_trainer.training.recording import opened, policy_player

        policies = {one.name: one.algorithm.snapshot() for one in self.learners}
        episodes, seed = learner.settings.evaluation_episodes, self.settings.env_settings.seed
        with opened(self.settings, lambda sentence: None) as environment:
            play = Play(
                environment,
                lambda spec: policy_player(policies, spec, seed, deterministic=True),
                lambda play: play.episodes >= episodes or self.asked.is_set(),
                keep=False,
            )
            asyncio.run(play.run(Lessons(self.settings.environment_parameters or {}).parameters))
        mine = [one for name, one in play.recordings.items() if name.split("?")[0] == learner.name]
        if not mine:
            raise SettingsError(
                f"the environment shows no behavior '{learner.name}', only {', '.join(play.recordings)}; give the "
                "behavior in the settings its name"
            )
        returns = mine[0].demonstration(whole=True).returns
        learner.mean_return = float(returns.mean()) if len(returns) else learner.mean_return
        learner.episodes += len(returns)
        self.hub.episode(learner.name, None, returns, mine[0].lengths)
        return learner.mean_return if learner.mean_return is not None else -np.inf

    def save(self, learner: _Learner) -> None:
        """Write a checkpoint and its model; what cannot be written is a warning."""
        from tau_trainer.export import export_onnx

        arrays, facts = learner.algorithm.state()
        best, steps = learner.best, learner.steps
        if best is not None:
            arrays |= {_BEST + name: values for name, values in best.policy.weights.items()}
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": steps,
            "mean_reward": learner.mean_return,
            "acting_rng": np.random.default_rng([self.settings.env_settings.seed, 1]).bit_generator.state,
            "behavior": behavior_json.to_json(learner.algorithm.spec),
            "reward_components": 1,
            "best": None
            if best is None
            else {
                "version": best.policy.version,
                "decisions": best.decisions,
                "rank": list(best.rank),
                "scores": {},
            },
        }
        manifest = {"learner": values, "pairs": {}, "generation": 0, "task": {}, "lessons": Lessons({}).state()}
        keep, name = learner.settings.keep_checkpoints, safe_name(learner.name)
        try:
            path = save_checkpoint(self.folder.checkpoints, steps, arrays, manifest, keep, name=learner.name)
            folder = self.folder.path / name
            folder.mkdir(exist_ok=True)
            export_onnx(learner.algorithm.snapshot(), learner.algorithm.spec, folder / f"{name}-{steps}.onnx")
            write_status(self.folder.path, {})
        except TauError as error:
            self.failures.append(str(error))
            self.hub.warning(str(error))
            return
        self.hub.event("checkpoint", behavior=learner.name, step=steps, path=str(path))

    def finish(self) -> RunReport:
        """Export, draw, report."""
        from tau_trainer.export import export_onnx

        models: dict[str, Path] = {}
        for one in self.learners:
            best = one.best if self.settings.checkpoint_settings.export == "best" else None
            policy = one.algorithm.snapshot() if best is None else best.policy
            try:
                models[one.name] = export_onnx(policy, one.algorithm.spec, self.folder.onnx(one.name))
                write_status(self.folder.path, {}, {one.name: one.steps if best is None else best.decisions})
            except TauError as error:
                self.failures.append(str(error))
        self.hub.drain(10.0)
        try:
            plot_learning_curve(self.folder.path)
        except Exception as error:  # drawing must never cost a trained policy
            self.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
        report = self.report(models)
        self.hub.snapshot(self.snapshot())
        self.hub.result(report)
        self.hub.drain(10.0)
        return report

    def report(self, models: Mapping[str, Path]) -> RunReport:
        """The central report."""
        seconds = time.monotonic() - self.started
        folder = self.folder
        named = {"curve": folder.learning_curve, "checkpoints": folder.checkpoints, "log": folder.log}
        files = {f"policy {name}" if len(models) > 1 else "policy": path for name, path in models.items()}
        done = all(one.done for one in self.learners)
        return RunReport(
            run_id=self.settings.checkpoint_settings.run_id,
            folder=folder.path,
            command="learn",
            outcome="failed" if self.error else "completed" if done else "cancelled",
            decisions=self.steps,
            wall_seconds=seconds,
            decisions_per_second=(self.steps - self._first) / seconds,
            unit="gradient steps",
            behaviors=self.snapshot().behaviors,
            models=tuple(models.values()),
            files=files | {name: path for name, path in named.items() if path.exists()},
            errors=(*([str(self.error)] if self.error else []), *self.failures, *self.hub.losses),
        )

    def snapshot(self) -> RunSnapshot:
        """The run now."""
        elapsed = time.monotonic() - self.started
        most = sum(one.settings.max_steps for one in self.learners)
        rate = (self.steps - self._first) / elapsed if elapsed > 0 else 0.0
        return RunSnapshot(
            run_id=self.settings.checkpoint_settings.run_id,
            command="learn",
            subject="recordings",
            seed=self.settings.env_settings.seed,
            elapsed_s=elapsed,
            decisions=self.steps,
            max_decisions=most,
            decisions_per_second=rate,
            eta_s=(most - self.steps) / rate if rate > 0 else None,
            policy_version=sum(one.algorithm.version for one in self.learners),
            update_seconds=elapsed,
            behaviors=tuple(
                BehaviorSnapshot(
                    one.name, one.steps, one.settings.max_steps, one.episodes, one.mean_return, window="evaluation"
                )
                for one in self.learners
            ),
        )


def _trainers(settings: RunSettings) -> list[tuple[str, OfflineTrainerSettings]]:
    """By name; empty: the name that the recording says."""
    named: list[tuple[str, TrainerSettings | None]] = [*settings.behaviors.items()]
    return [(name, cast("OfflineTrainerSettings", own)) for name, own in named or [("", settings.default_settings)]]


def learn_offline(
    settings: RunSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Learn from recordings, in the foreground; Ctrl-C ends it after what it is at, and saves.

    Raises:
        TauError: nothing could be learned; nothing is left behind.
    """
    settings = resolve_seed(settings)
    check_device(settings)
    chosen = settings.checkpoint_settings
    folder = RunFolder.create(Path(chosen.results_dir), chosen.run_id, resume=chosen.resume, force=chosen.force)
    hub: MetricsHub | None = None
    try:
        shown, timers = terminal_recorder(terminal), Timer()

        def say(sentence: str) -> None:
            if shown is not None:
                shown.on_event(Event("starting", 0.0, {"message": f"{chosen.run_id}: {sentence}"}))

        say(f"reading recordings, seed {settings.env_settings.seed}")
        kept = kept_recorders(folder, settings, timers, command_line)
        hub = MetricsHub([*kept, *([] if shown is None else [shown])], timers=timers)
        import torch

        torch.set_num_threads(1)
        run = OfflineRun(settings, folder, hub, say)
        atomic_write_text(folder.configuration, dump_settings(lasting(settings)))
        atomic_write_json(folder.run_json, provenance(settings.env_settings.seed, command_line))
        first = run.steps
        with on_interrupt(run.asked.set):
            run.run()
            if run.steps == first:
                if run.error is not None:
                    raise run.error
                raise SettingsError("the run ended before anything was learned, so nothing is kept")
            folder.commit()
            return run.finish()
    except BaseException:
        if hub is not None:
            hub.close()
            hub = None
        folder.discard()
        raise
    finally:
        if hub is not None:
            hub.close()
        folder.release()
