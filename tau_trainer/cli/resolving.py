"""Builds complete settings from a command's flags: config file, flags that override it, run id, seed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer.errors import SettingsError

if TYPE_CHECKING:
    from tau_trainer.cli.engines import EngineFlags
    from tau_trainer.cli.options import AnyRunFlags, BatchFlags, LearnFlags, LegacyFlags, ParallelFlags
    from tau_trainer.settings import RunSettings
    from tau_trainer.settings.problems import Problems

_log = logging.getLogger(__name__)

DEFAULT_CONFIG = "tau3"
"""The shipped config that ``parallel`` uses if you name none."""
OWN_DATA_CONFIG = "tau"
"""The shipped config that ``parallel`` uses for a user's own data on one of our engines."""
DEFAULT_RUN = "ppo"
"""Name of a run without a file that plays with the editor, as in ML-Agents."""
DEFAULT_ENV = "headless:tau"
"""The engine that ``parallel`` uses if neither config nor flag names one."""


@dataclass(slots=True)
class ConfigArgs:
    """A command line's request: a config file and settings that override it."""

    config: Path | None
    overrides: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    lenient: bool = False
    batched: bool = False
    """True if the file must describe a batched environment; if False, it must not."""
    resumed: bool = False
    """True if the config is the one that started the run to resume."""
    name: str = ""
    """Name of the run, before its number, if the user chooses none."""

    def resume_from(self, run: AnyRunFlags, flag: str) -> None:
        """Use the settings that started the run, if it exists. Without an id, use the newest run of this name.

        ``flag``: the command's flag, for messages. Raises SettingsError if another command must resume the run.
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
        """Override the setting ``path``; messages about it name ``flag``."""
        self.overrides[path], self.flags[path] = value, flag

    def load(self) -> RunSettings:
        """The validated settings. Raises SettingsError."""
        from tau_trainer.settings import load_settings

        if self.resumed:
            self._check_trainer_types()
        return load_settings(self.config, self.overrides, lenient=self.lenient, flags=self.flags, batched=self.batched)

    def read(self, warn: Callable[[str], None]) -> tuple[RunSettings, Problems]:
        """The settings, trainable or not, and their places; ``warn`` receives skipped keys. Raises SettingsError."""
        from tau_trainer.settings.loading import read_settings

        return read_settings(self.config, self.overrides, self.lenient, self.flags, warn, batched=self.batched)

    def _check_trainer_types(self) -> None:
        """Raises SettingsError if an override changes a ``trainer_type`` of the run to resume."""
        from tau_trainer.settings.document import read_document
        from tau_trainer.settings.loading import apply_overrides

        assert self.config is not None
        stored = read_document(self.config).data
        for place, wanted in self.overrides.items():
            if place.endswith(".trainer_type") and apply_overrides(stored, {place: wanted})[0] != stored:
                raise SettingsError(
                    f"{self.flags.get(place, place)}: the trainer type of a run cannot change when you resume it; "
                    "leave this out, or start a new run with another --run-id"
                )

    def check_kind(self, configuration: Path, flag: str) -> None:
        """Raises SettingsError if another command must resume the run with this file."""
        from tau_trainer.settings.document import read_document
        from tau_trainer.settings.tasks import is_batched

        if configuration.is_file() and is_batched(read_document(configuration).data) != self.batched:
            run = configuration.parent
            command = "learn" if self.batched else "batch"
            raise SettingsError(
                f"{flag}: '{run}' is not a run of tau-train {'batch' if self.batched else 'learn or parallel'}; use: "
                f"tau-train {command} {flag} --run-id {run.name}, or choose another --run-id"
            )

    def named(self, settings: RunSettings) -> RunSettings:
        """The settings with a run id. If none is chosen: the next free number of the name, or its newest run to resume.

        A flag overrides the file. --resume and --force contradict each other if both are flags, or both in the file. A
        resumed run must be of the same kind. Raises SettingsError.
        """
        from tau_trainer.runs.folder import called

        chosen = called(settings.checkpoint_settings, self.name)
        if chosen.resume or chosen.inference:
            flag = "--resume" if chosen.resume else "--inference"
            self.check_kind(Path(chosen.results_dir, chosen.run_id, "configuration.yaml"), flag)
        if chosen.inference and "checkpoint_settings.force" in self.overrides:
            raise SettingsError("--inference plays an existing run, and --force would replace it; give one of them")
        if chosen.resume and chosen.force:
            given = [name for name in ("resume", "force") if f"checkpoint_settings.{name}" in self.overrides]
            if len(given) != 1:
                raise SettingsError("--resume and --force contradict each other; give one of them")
            other = "force" if given == ["resume"] else "resume"
            chosen = chosen.having(**{other: False}, load_model=False)
        return settings.having(checkpoint_settings=chosen)


def learn_request(config: str | None, flags: LearnFlags) -> ConfigArgs:
    """The request of a command line of ``tau-train learn``. Raises SettingsError."""
    run, legacy = flags.run, flags.legacy
    _note_deprecated(legacy)
    request = _request(config, flags, run)
    if "async_trainer.actors" in request.overrides and "execution" not in request.overrides:
        request.overrides["execution"] = "async"  # actors exist only there
    if run.inference and run.initialize_from and not run.resume:
        request.put("checkpoint_settings.run_id", run.initialize_from, "--initialize-from")
        run = replace(run, run_id=run.initialize_from)
    request.name = Path(config).stem if config else played(flags.engines.env)
    if config is None and (run.again or legacy.load):
        request.resume_from(run, run.again or "--resume")
    return request


def learn_settings(request: ConfigArgs) -> RunSettings:
    """Settings of ``tau-train learn`` or ``batch``, with a run id. Raises SettingsError."""
    from tau_trainer.settings import resolve_seed

    return resolve_seed(request.named(request.load()))


def space_problems(request: ConfigArgs, settings: RunSettings) -> list[str]:
    """Problems of the keys and the extreme values of ``sweep.space``, which are set as ``--set`` would set them."""
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
    """Settings of a run, or defaults, overridden by these flags; for commands that only play. Raises SettingsError."""
    from tau_trainer.cli.flags import overrides_of

    request = ConfigArgs(config, *overrides_of(engines))
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


def batched_settings(config: str | None, run: BatchFlags, *others: object) -> RunSettings:
    """Settings of ``tau-train batch``, with a run id; ``others``: more flags. Raises SettingsError."""
    request = _request(config, run, run, *others)
    request.batched = True
    if config is None and run.again and run.run_id is not None:
        request.resume_from(run, run.again)
        if request.config is None:
            raise SettingsError(f"--run-id {run.run_id}: there is no such run in '{run.folder_of_runs}'")
    if request.config is None:
        raise SettingsError(
            f"{run.again} needs the run's --run-id, or the file that it was started with"
            if run.again
            else "name a settings file, such as: tau-train batch cartpole_batch"
        )
    request.name = request.config.stem
    return learn_settings(request)


def _request(config: str | None, flags: object, run: AnyRunFlags, *others: object) -> ConfigArgs:
    from tau_trainer.cli.flags import overrides_of
    from tau_trainer.settings import find_config

    request = ConfigArgs(find_config(config) if config else None, *overrides_of(flags, *others), run.lenient)
    for assignment in run.set:
        key, value = _assignment(assignment)
        request.put(key, value, f"--set {key}")
    return request


def _assignment(text: str) -> tuple[str, Any]:
    """Key and value of ``KEY=VALUE``; the value is parsed as YAML."""
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SettingsError(f"--set {text}: must be KEY=VALUE, such as env_settings.seed=1")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise SettingsError(f"--set {text}: its value is not valid YAML; quote it") from None


def played(env: str | None) -> str:
    """Name of a run without a file, or of a file written for a game: its environment's name.

    With the editor, ML-Agents' default.
    """
    from tau_trainer.settings import ATTACH, EDITOR, GODOT
    from tau_trainer.settings.engines import UNREAL_PREFIX

    env = (env or EDITOR).removeprefix(UNREAL_PREFIX)
    kind, *places = env.split(":")
    if kind == GODOT:
        return played(":".join(places))
    if kind in (EDITOR, ATTACH):
        return DEFAULT_RUN
    if places and len(kind) > 1:  # one letter is a drive on Windows
        return places[-1].rpartition(".")[2] or DEFAULT_RUN
    return Path(env).stem or DEFAULT_RUN


def _note_deprecated(legacy: LegacyFlags) -> None:
    if legacy.load:
        _log.warning("--load is deprecated and means --resume")
    for name in ("train", "torch", "tensorflow"):
        if getattr(legacy, name):
            _log.warning("--%s has no effect; leave it out", name)


def _a_pair_for_each_engine(settings: RunSettings, *, chosen: bool) -> RunSettings:
    """One pair for the editor, or one for each engine that may connect, whatever the file says.

    A number of pairs on the command line raises SettingsError.
    """
    env = settings.env_settings
    if not env.awaited or settings.tau is None or settings.tau.pairs == env.engines:
        return settings
    if chosen and env.attached:
        raise SettingsError(
            f"--pairs {settings.tau.pairs}: --env {env.env_path} sets how many engines may connect, and each is a "
            "pair; leave --pairs out"
        )
    if chosen:
        raise SettingsError(
            f"--pairs {settings.tau.pairs}: there is only one editor; leave --pairs out, set the number of "
            "agents in the editor with --agents, or name a build with --env"
        )
    return settings.having(tau={"pairs": env.engines})


def _names_engine(config: Path) -> bool:
    """Whether the file itself names an engine."""
    from tau_trainer.settings.document import read_document

    section = read_document(config).data.get("env_settings")
    return isinstance(section, dict) and section.get("env_path") is not None


def _with_pairs(settings: RunSettings) -> RunSettings:
    """Settings with a ``tau`` section; for a plain ML-Agents file, num_envs is the number of pairs."""
    from tau_trainer.settings import TauSettings

    engines = settings.env_settings.num_envs
    if settings.tau is None:
        return settings.having(tau=TauSettings(pairs=engines) if engines > 1 else TauSettings())
    if engines not in (1, settings.tau.pairs):
        _log.warning("env_settings.num_envs (%d) is ignored; tau.pairs (--pairs) is %d", engines, settings.tau.pairs)
    return settings
