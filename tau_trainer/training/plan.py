"""From settings to a plan of the run: number of pairs, their engines and parameters, and the number of decisions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from tau_trainer import plugins
from tau_trainer.bridge.demonstrations import demonstration_files
from tau_trainer.envs import EnvironmentSource, open_source
from tau_trainer.errors import DataError, SettingsError, TauError
from tau_trainer.files import memory_bytes
from tau_trainer.metrics.trackers.tracker import Tracker
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.settings import (
    NetworkSettings,
    OfflineTrainerSettings,
    PPOTrainerSettings,
    RunSettings,
    TrainerSettings,
)
from tau_trainer.settings.gathering import BATCHED_PREFIX, Way, blanks, check_trainable
from tau_trainer.settings.parameters import AnyParameter
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.task import Task, task_of

RunKind = Literal["parallel", "learn"]

_SEED_RANGE = 1 << 24
"""Seeds are sent as float32 parameters, which hold whole numbers exactly up to this value."""
_BYTES_A_WEIGHT = 16
"""Bytes per weight: the weight, its gradient, and Adam's two moments, as float32."""
_STALL_FACTOR = 3.0
_STALL_LEAST_S = 120.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything about a run that follows from its settings, known before anything starts."""

    command: RunKind
    settings: RunSettings
    task: Task | None
    """The task, which goes beyond the engine's own reward; None: an ordinary behavior."""
    pairs: int
    max_concurrent: int
    shared: bool
    """If True, all pairs feed one learner per behavior; otherwise each pair has its own."""
    deterministic: bool
    seed: int
    source: EnvironmentSource | None
    """Makes each pair's environment; None: a population brings its own, and a node of a cluster makes its own."""
    log_folder: Path
    """Folder in which engines and learners' processes can write logs."""
    parameters: Mapping[str, AnyParameter]
    """Parameters sent to environments, curricula included."""
    initial_weights: InitialWeights | None
    """The saved policies from which learners start; None: they continue from the existing run's own state."""
    stall_s: float
    """Seconds without any progress after which the run is aborted."""
    engine_args: tuple[str, ...] = ()
    """Arguments that its task adds to the engines' command line."""
    population: bool = False
    """Whether all pairs are one computation, without engines: see :mod:`.pairs.population`."""

    @property
    def inference(self) -> bool:
        """Whether a saved run is played, without end and without learning."""
        return self.settings.checkpoint_settings.inference

    @property
    def asynchronous(self) -> bool:
        """Whether actors play in processes of their own."""
        return self.settings.execution == "async" and not self.inference

    @property
    def lock_step(self) -> bool:
        """Whether actors and learning take turns, so that the same seed gives the same run."""
        return self.asynchronous and self.settings.async_trainer.mode == "lock_step"

    @property
    def invitation(self) -> str | None:
        """What the user must do so that the run starts, as a sentence; None: nothing."""
        return None if self.source is None else self.source.invitation

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show before the run starts."""
        known = () if self.source is None else self.source.warnings
        return known if self.task is None else (*known, *self.task.warnings)

    @property
    def environment(self) -> str:
        """The name of the environment, for people."""
        env = self.settings.env_settings
        path = env.env_path or ""
        if env.attached:
            return "engines that connect"
        return "the editor" if env.place is None else path if ":" in path else Path(path).name

    @property
    def subject(self) -> str:
        """The source of learning: the task's data, or the environment."""
        return self.task.subject if self.task is not None else self.environment

    def quota(self, gone: int = 0) -> int:
        """Decisions of each pair of `parallel`: its share of all behaviors' max_steps, or all of them in a population.

        ``gone``: decisions of pairs that only an earlier session of this resumed run had.
        """
        trainers = list(self.settings.behaviors.values()) or [self.settings.default_settings or PPOTrainerSettings()]
        left = sum(trainer.max_steps for trainer in trainers) - gone
        return -(-left // (1 if self.population else self.pairs))

    def max_steps(self, behavior: str) -> int:
        """Decisions after which a learner of a behavior (its short name) is done; 0 if it only plays."""
        if self.inference:
            return 0
        share = 1 if self.shared or self.population else self.pairs
        return -(-self.settings.of_behavior(behavior).max_steps // share)

    @property
    def max_policy_age(self) -> int:
        """Largest allowed age of a policy, in versions; 0 if learning and collection take turns."""
        return 0 if self.deterministic else self.settings.collection.max_policy_age

    def fresh_seed(self, pair: int, generation: int) -> dict[str, float]:
        """The extra seed parameter for engine ``pair`` of a repeatable run at its ``generation``-th start.

        It makes a resumed run send its engines the same seeds as a run that was never interrupted.
        """
        if not (self.deterministic or self.lock_step):
            return {}
        words = np.random.SeedSequence([self.seed, pair, generation]).generate_state(1)
        return {"seed": float(int(words[0]) % _SEED_RANGE)}


def is_offline(settings: RunSettings) -> bool:
    """Whether these settings learn, and from recordings alone."""
    learns = not settings.checkpoint_settings.inference
    return learns and any(isinstance(trainer, OfflineTrainerSettings) for _, trainer in _trainers(settings))


def make_plan(command: RunKind, settings: RunSettings, log_folder: Path) -> RunPlan:
    """Resolve ``settings`` for a run. Raises DataError, SettingsError, LaunchError, PortInUseError."""
    for check in _of_trainers(settings):
        check()
    if command == "parallel":
        check_trainable(itertools.chain(blanks(settings, Way.PAIRS), blanks(settings)))
    env, task = settings.env_settings, task_of(settings)
    pairs, limit, shared = env.engines, None, True
    spare, population, elsewhere = 0, False, False
    engine_args: tuple[str, ...] = ()
    parameters = dict(settings.environment_parameters or {})
    Lessons(parameters)  # refuses numbers that cannot be sent, before anything starts
    chosen = settings.checkpoint_settings
    again = chosen.resume or chosen.inference
    if settings.execution == "async" and not chosen.inference:
        elsewhere = settings.cluster is not None
        if command == "parallel" and not elsewhere:
            raise SettingsError("execution: async is for `learn`, whose actors share a policy; use `tau-train learn`")
        pairs, spare = settings.async_trainer.actors, 1  # one that evaluates
    if command == "parallel":
        if task is None:
            named = ", ".join(f"`{name}`" for name in plugins.names("tasks"))
            raise SettingsError(
                f"`parallel` needs a section in the settings that names a task ({named}); or use `learn`"
            )
        pairs, limit, shared = task.pairs, task.max_concurrent, task.shared
        if env.attached:
            if limit is not None and limit < env.engines:
                raise SettingsError(
                    f"max_concurrent is {limit}, but an engine that has not connected yet takes one of these places; "
                    f"remove it, or let at most {limit} connect: --env attach:{limit}"
                )
            pairs = limit = env.engines
        population = (env.env_path or "").startswith(BATCHED_PREFIX)
        if population and elsewhere:
            raise SettingsError(
                f"--env {env.env_path} is one computation on this machine; remove --cluster, or use headless:tau"
            )
        if population:
            _check_population(settings, task)
        engine_args = task.engine_args(env.env_args or ())
        if env.awaited:
            parameters = {**task.editor_parameters, **parameters}
    usual = max(4, 2 * (os.cpu_count() or 1))
    most = (limit or usual) if command == "parallel" else pairs
    return RunPlan(
        command=command,
        settings=settings,
        task=task,
        pairs=pairs,
        max_concurrent=min(most, pairs),
        shared=shared,
        deterministic=settings.collection.deterministic or population,
        seed=env.seed,
        source=None if population or elsewhere else open_source(settings, pairs + spare, log_folder, engine_args),
        log_folder=log_folder,
        parameters=parameters,
        initial_weights=None if again else InitialWeights(settings),
        stall_s=max(_STALL_LEAST_S, _STALL_FACTOR * env.timeout_wait),
        population=population,
        engine_args=engine_args,
    )


def _check_population(settings: RunSettings, task: Task) -> None:
    """Raises SettingsError for settings that pairs without engines do not support."""
    path = settings.env_settings.env_path
    game = f"{BATCHED_PREFIX}{task.batched}"
    wrong = {
        f"--env {path}: the pairs of this task play {game}; `tau-train batch` trains on other batched environments": (
            path != game
        ),
        f"--env {path} trains independent pairs as one computation; add --policy independent, or share one policy with "
        "--env headless:tau": task.shared,
        f"--env {path} has one behavior, but the settings name {len(settings.behaviors)}; remove the others": (
            len(settings.behaviors) > 1
        ),
        f"--env {path} trains all pairs at once; remove --max-concurrent (tau.max_concurrent)": (
            task.max_concurrent is not None
        ),
    }
    for sentence, is_so in wrong.items():
        if is_so:
            raise SettingsError(sentence)


def plan_problems(settings: RunSettings) -> list[str]:
    """All reasons for which ``learn`` refuses to start; :func:`make_plan` and others raise only the first."""
    chosen = settings.checkpoint_settings
    steps = _of_trainers(settings)
    steps += [partial(_check_recorder, name) for name in settings.recorders]
    steps += [partial(plugins.load, "callbacks", name) for name in settings.callbacks]
    steps += [
        partial(task_of, settings),
        partial(Lessons, settings.environment_parameters or {}),
        *([] if settings.cluster else [partial(open_source, settings, settings.env_settings.num_envs, Path())]),
        *([] if chosen.resume or chosen.inference else [partial(InitialWeights, settings)]),
    ]
    problems = []
    for step in steps:
        try:
            step()
        except TauError as error:
            problems.append(str(error))
    return problems


def _of_trainers(settings: RunSettings) -> list[Callable[[], object]]:
    """Checks of all trainer settings, which raise DataError or SettingsError."""
    trainers = _trainers(settings)
    checks: list[Callable[[], object]] = [
        partial(_check_memory, name, trainer.network_settings) for name, trainer in trainers
    ]
    if not settings.checkpoint_settings.inference:
        recordings = [each for name, trainer in trainers for each in _recordings(name, trainer)]
        checks += [partial(_check_recordings, *each) for each in recordings]
        checks += [partial(_check_opponents, name, trainer) for name, trainer in trainers]
    return checks


def _trainers(settings: RunSettings) -> list[tuple[str, TrainerSettings]]:
    """Trainer settings with the key under which the user finds them."""
    trainers = [(f"behaviors.{name}", trainer) for name, trainer in settings.behaviors.items()]
    other = settings.default_settings
    return trainers if other is None else [*trainers, ("default_settings", other)]


def _recordings(name: str, trainer: TrainerSettings) -> list[tuple[str, str]]:
    """Every demo_path of a behavior: its key in the settings, and the path."""
    sections: dict[str, object] = {f"{name}.reward_signals.{key}": each for key, each in trainer.reward_signals.items()}
    sections |= {f"{name}.behavioral_cloning": trainer.behavioral_cloning, name: trainer}
    paths = {f"{key}.demo_path": getattr(section, "demo_path", None) for key, section in sections.items()}
    return [(key, path) for key, path in paths.items() if path is not None]


def _check_recordings(key: str, path: str) -> None:
    """Raises DataError for a missing demonstration, before anything starts."""
    try:
        demonstration_files([path])
    except DataError as error:
        raise DataError(f"{key}: {error}") from error


def _check_recorder(name: str) -> None:
    """Raises SettingsError for an unknown recorder, or one whose package is not installed."""
    recorder = plugins.load("recorders", name)
    if isinstance(recorder, type) and issubclass(recorder, Tracker):
        recorder.check_installed()


def _check_opponents(name: str, trainer: TrainerSettings) -> None:
    """Raises SettingsError for a missing model file, before anything starts."""
    for path in () if trainer.self_play is None else trainer.self_play.opponents:
        if not Path(path).is_file():
            raise SettingsError(f"{name}.self_play.opponents: there is no file '{path}'; name a model (.onnx)")


def _check_memory(name: str, network: NetworkSettings) -> None:
    """Raises SettingsError for hidden layers that do not fit into this machine's memory, before they fill it."""
    memory, weights = memory_bytes(), network.hidden_units**2 * (network.num_layers - 1)
    if memory is not None and weights * _BYTES_A_WEIGHT > memory:
        raise SettingsError(
            f"{name}.network_settings asks for {network.num_layers} layers of {network.hidden_units:,} units: training "
            f"them takes {weights * _BYTES_A_WEIGHT / 1e9:,.0f} GB, but this machine has {memory / 1e9:,.0f}; "
            "lower hidden_units"
        )
