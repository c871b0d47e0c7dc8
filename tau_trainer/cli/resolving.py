"""From a command's flags to settings that are complete: config file, flags over it, run id, seed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.cli.engines import EngineFlags
    from tau_trainer.cli.options import AnyRunFlags, BatchFlags, LearnFlags, LegacyFlags, ParallelFlags
    from tau_trainer.settings import BatchedSettings, RunSettings
    from tau_trainer.settings.problems import Problems

_log = logging.getLogger(__name__)
SettingsT = TypeVar("SettingsT", bound="RunSettings")

DEFAULT_CONFIG = "tau3"
"""The shipped config that ``parallel`` takes when none is named."""
OWN_DATA_CONFIG = "tau"
"""The same with data of one's own, whose engine is one of ours."""
DEFAULT_RUN = "ppo"
"""What a run is called, as in ML-Agents, that has no file and plays with the editor."""
DEFAULT_ENV = "headless:tau"
"""The engine that ``parallel`` takes when neither config nor flag names one."""


@dataclass(slots=True)
class Request:
    """What the command line asks for: a config file and settings over it."""

    config: Path | None
    overrides: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    lenient: bool = False
    batched: bool = False
    """Whether the file must be of a batched environment; else of none."""
    resumed: bool = False
    """The config is the one that the run to be resumed was started with."""
    name: str = ""
    """What the run is called, with a number, where nobody says."""

    def resume_from(self, run: AnyRunFlags, flag: str) -> None:
        """Take the settings that the run was started with, if it is there; no id: the newest run of this name.

        Raises SettingsError where another command goes on with it than the one that has this ``flag``.
        """
        results, run_id = run.folder_of_runs, run.run_id
        if run_id is None:
            from tau_trainer.runs.folder import numbered

            runs = numbered(results, self.name)
            run_id = runs[-1][1] if runs else None
        path = results / (run_id or "") / "configuration.yaml"
        if run_id is not None and path.is_file():
            self.check_kind(path, flag)
            self.config, self.resumed = path, True
            self.overrides["checkpoint_settings.run_id"] = run_id
            self.overrides["checkpoint_settings.results_dir"] = str(results)

    def put(self, path: str, value: Any, flag: str) -> None:
        """Override ``path``; messages about it name ``flag``."""
        self.overrides[path], self.flags[path] = value, flag

    def load(self) -> RunSettings:
        """The validated settings. Raises SettingsError."""
        from tau_trainer.settings.loading import load_form

        return load_form(self.batched, self.config, self.overrides, self.lenient, self.flags)

    def read(self, warn: Callable[[str], None]) -> tuple[RunSettings, Problems]:
        """The settings, trainable or not, and where they stand; ``warn``: what is left out. Raises SettingsError."""
        from tau_trainer.settings.loading import read_settings

        return read_settings(self.config, self.overrides, self.lenient, self.flags, warn, batched=self.batched)

    def check_kind(self, configuration: Path, flag: str) -> None:
        """Raises SettingsError where the run with this file is one that another command goes on with."""
        from tau_trainer.settings.batched import is_batched
        from tau_trainer.settings.document import read_document

        if configuration.is_file() and is_batched(read_document(configuration).data) != self.batched:
            run = configuration.parent
            command = "learn" if self.batched else "batch"
            raise SettingsError(
                f"{flag}: '{run}' is not a run of tau-train {'batch' if self.batched else 'learn or parallel'}; go on "
                f"with it by: tau-train {command} {flag} --run-id {run.name}, or choose another --run-id"
            )

    def named(self, settings: SettingsT) -> SettingsT:
        """With a run id, where nobody chose one: the request's name with the next free number, or the newest to go on.

        A given flag beats the file's; --resume and --force at one level contradict each other. What goes on is of the
        same kind. Raises SettingsError.
        """
        from tau_trainer.runs.folder import called

        chosen = called(settings.checkpoint_settings, self.name)
        if chosen.resume or chosen.inference:
            flag = "--resume" if chosen.resume else "--inference"
            self.check_kind(Path(chosen.results_dir, chosen.run_id, "configuration.yaml"), flag)
        if chosen.inference and "checkpoint_settings.force" in self.overrides:
            raise SettingsError(
                "--inference plays the run that is there, and --force would replace it; give one of them"
            )
        if chosen.resume and chosen.force:
            given = [name for name in ("resume", "force") if f"checkpoint_settings.{name}" in self.overrides]
            if len(given) != 1:
                raise SettingsError("--resume and --force contradict each other; give one of them")
            other = "force" if given == ["resume"] else "resume"
            chosen = chosen.model_copy(update={other: False, "load_model": False})
        return settings.model_copy(update={"checkpoint_settings": chosen})


def learn_request(config: str | None, flags: LearnFlags) -> Request:
    """What the command line of ``tau-train learn`` asks for. Raises SettingsError."""
    run, legacy = flags.run, flags.legacy
    _note_deprecated(legacy)
    request = _request(config, flags, run)
    if "async_trainer.actors" in request.overrides and "execution" not in request.overrides:
        request.overrides["execution"] = "async"  # there are no others
    if run.inference and run.initialize_from and not run.resume:
        request.put("checkpoint_settings.run_id", run.initialize_from, "--initialize-from")
        run = replace(run, run_id=run.initialize_from)
    request.name = Path(config).stem if config else played(flags.engines.env)
    if config is None and (run.again or legacy.load):
        request.resume_from(run, run.again or "--resume")
    return request


def learn_settings(request: Request) -> RunSettings:
    """Settings of ``tau-train learn``, with a run id. Raises SettingsError."""
    from tau_trainer.settings import resolve_seed

    return resolve_seed(request.named(request.load()))


def space_problems(request: Request, settings: RunSettings) -> list[str]:
    """What is wrong with the keys and the ends of ``sweep.space``: they are set as ``--set`` would set them."""
    from tau_trainer.settings import full_key

    problems = list[str]()
    for key, distribution in settings.sweep.space.items() if settings.sweep is not None else ():
        place = full_key(key)
        flags = request.flags | {place: f"sweep.space: {key}"}
        for value in distribution.extremes:
            try:
                replace(request, overrides=request.overrides | {place: value}, flags=flags).load()
            except SettingsError as error:
                problems += [problem for problem in error.problems if problem not in problems]
    return problems


def engine_settings(config: Path | None, engines: EngineFlags, seed: int) -> RunSettings:
    """Settings of a run, or none, with these flags over them: for those who only play. Raises SettingsError."""
    from tau_trainer.cli.flags import overrides_of

    request = Request(config, *overrides_of(engines))
    request.put("env_settings.seed", seed, "--seed")
    return request.load()


def parallel_settings(config: str | None, flags: ParallelFlags) -> RunSettings:
    """Settings of ``tau-train parallel``: with a ``tau`` section, an engine and a run id. Raises SettingsError."""
    from tau_trainer.settings import find_config, resolve_seed
    from tau_trainer.tau.sizing import OWN_ENGINES

    request = _request(config, flags, flags.run)
    of_data = request.overrides.get("tau.data") is not None and flags.engines.env in (None, *OWN_ENGINES)
    default = OWN_DATA_CONFIG if of_data else DEFAULT_CONFIG
    request.name = Path(config).stem if config else default
    if config is None and flags.run.again:
        request.resume_from(flags.run, flags.run.again)
    if request.config is None:
        request.config = find_config(default)
    if flags.engines.env is None and not _names_engine(request.config) and not request.resumed:
        request.overrides.setdefault("env_settings.env_path", DEFAULT_ENV)
    settings = _a_pair_for_each_engine(_with_pairs(request.load()), chosen="tau.pairs" in request.overrides)
    return resolve_seed(request.named(settings))


def batched_settings(config: str | None, run: BatchFlags, *others: object) -> BatchedSettings:
    """Settings of ``tau-train batch``, with a run id; ``others``: more flags. Raises SettingsError."""
    from tau_trainer.settings import resolve_seed

    request = _request(config, run, run, *others)
    request.batched = True
    if config is None and run.again and run.run_id is not None:
        request.resume_from(run, run.again)
        if request.config is None:
            raise SettingsError(f"--run-id {run.run_id}: there is no such run in '{run.folder_of_runs}' to go on with")
    if request.config is None:
        raise SettingsError(
            f"{run.again} needs the run's --run-id, or the file that it began with"
            if run.again
            else "name a settings file, such as: tau-train batch cartpole_batch"
        )
    request.name = request.config.stem
    return resolve_seed(request.named(cast("BatchedSettings", request.load())))


def _request(config: str | None, flags: object, run: AnyRunFlags, *others: object) -> Request:
    from tau_trainer.cli.flags import overrides_of
    from tau_trainer.settings import find_config

    request = Request(find_config(config) if config else None, *overrides_of(flags, *others), run.lenient)
    for assignment in run.set:
        key, value = _assignment(assignment)
        request.put(key, value, f"--set {key}")
    return request


def _assignment(text: str) -> tuple[str, Any]:
    """``KEY=VALUE``, the value read as YAML."""
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {text}: must be KEY=VALUE, such as env_settings.seed=1")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise SettingsError(f"--set {text}: its value is not valid YAML; quote it") from None


def played(env: str | None) -> str:
    """What a run is called that has no file, and a file that is written for a game: after what it plays.

    The editor's has ML-Agents' word for it.
    """
    from tau_trainer.settings import ATTACH, EDITOR

    kind, *places = (env or EDITOR).split(":")
    if kind in (EDITOR, ATTACH):
        return DEFAULT_RUN
    if places and len(kind) > 1:  # one letter is a drive
        return places[-1].rpartition(".")[2] or DEFAULT_RUN
    return Path(env or "").stem or DEFAULT_RUN


def _note_deprecated(legacy: LegacyFlags) -> None:
    if legacy.load:
        _log.warning("--load is deprecated and means --resume")
    for name in ("train", "torch", "tensorflow"):
        if getattr(legacy, name):
            _log.warning("--%s has no effect; leave it out", name)


def _a_pair_for_each_engine(settings: RunSettings, *, chosen: bool) -> RunSettings:
    """With the Unity editor one pair, with engines that join as many as may, whatever a file says.

    A number on the command line is a mistake.
    """
    env = settings.env_settings
    if not env.awaited or settings.tau is None or settings.tau.pairs == env.engines:
        return settings
    if chosen and env.attached:
        raise SettingsError(
            f"--pairs {settings.tau.pairs}: --env {env.env_path} says how many engines may join, and each is a pair; "
            "leave --pairs out"
        )
    if chosen:
        raise SettingsError(
            f"--pairs {settings.tau.pairs}: there is only one Unity editor; leave --pairs out, give the number of "
            "agents that play in it with --agents, or name a build with --env"
        )
    return settings.model_copy(update={"tau": settings.tau.model_copy(update={"pairs": env.engines})})


def _names_engine(config: Path) -> bool:
    """Whether the file itself names an engine."""
    from tau_trainer.settings.document import read_document

    section = read_document(config).data.get("env_settings")
    return isinstance(section, dict) and section.get("env_path") is not None


def _with_pairs(settings: RunSettings) -> RunSettings:
    """Settings with a ``tau`` section; a plain ML-Agents file's num_envs says how many pairs."""
    from tau_trainer.settings import TauSettings

    engines = settings.env_settings.num_envs
    if settings.tau is None:
        tau = TauSettings(pairs=engines) if engines > 1 else TauSettings()
        return settings.model_copy(update={"tau": tau})
    if engines not in (1, settings.tau.pairs):
        _log.warning("env_settings.num_envs is %d, but tau.pairs (--pairs) counts: %d", engines, settings.tau.pairs)
    return settings
