"""The sections of a whole settings file."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from tau_trainer.errors import SettingsError
from tau_trainer.files import parse_json, same_file
from tau_trainer.settings.engines import EngineSettings, EnvSettings
from tau_trainer.settings.kinds import Bool, PositiveInt, Section, Text, invalid
from tau_trainer.settings.parameters import AnyParameter, Curriculum
from tau_trainer.settings.tasks import (
    AsyncTrainerSettings,
    ClusterSettings,
    CollectionSettings,
    Compile,
    EnvironmentSettings,
    EvaluationSettings,
    SweepSettings,
    TauSettings,
)
from tau_trainer.settings.trainers import AnyTrainerSettings, PPOTrainerSettings, TrainerSettings

ExportChoice = Literal["best", "last"]
"""The policy of a learner to export."""
ANEW: Mapping[str, bool] = {"resume": False, "force": False, "load_model": False}
"""Changes of ``checkpoint_settings`` for a run that starts from scratch."""
_LONGEST_NAME = 200
"""Maximum bytes of a folder's name; of the 255 allowed, the rest is for prefixes and suffixes."""
_LONGEST_PATH = 3000
"""Maximum bytes of the parent folder's path, of 4096 on Linux."""
_RANDOM_SEEDS = 10000
"""A seed of -1 becomes a random one from 0 to 9999, as in ML-Agents."""


class CheckpointSettings(Section):
    """``checkpoint_settings``: the run's folder, and the weights that it starts from."""

    run_id: Text = "ppo"
    """Name of the run's folder."""
    initialize_from: str | None = None
    """Run to take the first weights from."""
    load_model: Bool = False
    """Deprecated: the same as resume."""
    resume: Bool = False
    """Resume the run with this run_id."""
    force: Bool = False
    """Overwrite the run with this run_id."""
    train_model: Bool = False
    """Deprecated, without effect."""
    inference: Bool = False
    """Play the run with this run_id without training or changing it."""
    results_dir: Text = "results"
    """Folder that holds the runs' folders."""
    export: ExportChoice = "best"
    """The policy to export: the best, by validation if the task has one, or the last."""

    @model_validator(mode="before")
    @classmethod
    def _load_means_resume(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("load_model") is True:
            return data | {"resume": True}
        return data

    @field_validator("run_id")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        windows, posix = PureWindowsPath(value), PurePosixPath(value)
        inside = not (windows.drive or windows.root or posix.root or ".." in windows.parts or windows.parts == ())
        if not inside or any(character in value for character in '<>:"|?*\0'):
            raise invalid('must be a plain folder name: no absolute path, no "..", none of < > : " | ? *')
        if any(len(part.encode()) > _LONGEST_NAME for part in posix.parts):
            raise invalid(
                f"is longer than {_LONGEST_NAME} bytes, too long for a folder name on some systems; choose a shorter id"
            )
        return value

    @field_validator("results_dir")
    @classmethod
    def _is_a_path(cls, value: str) -> str:
        if len(value.encode()) > _LONGEST_PATH or any(len(part.encode()) > 255 for part in Path(value).parts):
            raise invalid("is longer than a path can be; choose a shorter one")
        return value


class TorchSettings(Section):
    """``torch_settings``: the device for learning."""

    device: str | None = None
    """cpu, cuda, cuda:N, mps or xpu; None = cpu, which is the fastest for networks of this size."""

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"cpu|mps|(cuda|xpu)(:\d+)?", value):
            raise invalid("must be cpu, cuda, cuda:N, mps or xpu")
        return value


class RunSettings(Section):
    """All settings of a file, in ML-Agents' format with our additions, validated and complete with all defaults.

    With an ``environment``, it is a batched run: that environment's copies are tensors, and no engine plays.
    """

    for_engines: ClassVar[tuple[str, ...]] = (
        *("engine_settings", "environment_parameters", "tau", "collection", "execution", "async_trainer"),
        *("strategy", "max_staleness"),
    )
    """Keys without a meaning in a batched run."""
    for_tensors: ClassVar[tuple[str, ...]] = ("environment", "evaluation", "compile")
    """Keys without a meaning in any other run."""

    environment: EnvironmentSettings | None = None
    """The batched environment and its copies; None = engines, environments of other packages, or recordings."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """Evaluation episodes during and after training, of a batched run."""
    compile: Compile = "auto"
    """When to compile stepping and acting of a batched run."""
    default_settings: AnyTrainerSettings | None = None
    """Defaults of every behavior; also used for behaviors that the file does not name."""
    behaviors: dict[str, AnyTrainerSettings] = Field(default_factory=dict)
    """Trainer settings by behavior name (without ``?team=``), each of the class of its trainer_type."""
    env_settings: EnvSettings = EnvSettings()
    """Engines to start."""
    engine_settings: EngineSettings = EngineSettings()
    """How engines run."""
    environment_parameters: dict[str, AnyParameter] | None = None
    """Numbers and samplers for the engines."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    """The run's folder."""
    torch_settings: TorchSettings = TorchSettings()
    """The device for learning."""
    debug: Bool = False
    """Log more; show tracebacks."""
    tau: TauSettings | None = None
    """Pairs and the Tau task; None = plain ``learn``."""
    collection: CollectionSettings = CollectionSettings()
    """How experience is collected."""
    callbacks: tuple[Text, ...] = ()
    """Callbacks of the run: names of entry points, or ``module:Class``."""
    recorders: tuple[Text, ...] = ()
    """Recorders in addition to those of the run's folder: ``mlflow``, ``wandb``."""
    execution: Literal["sync", "async"] = "sync"
    """Everything in one process, or actors in separate processes."""
    async_trainer: AsyncTrainerSettings = AsyncTrainerSettings()
    """How actors run."""
    devices: PositiveInt = 1
    """Processes that learn together. They share every minibatch, or the copies of a batched environment, and have one
    GPU each if there are GPUs."""
    strategy: Literal["mirrored", "parameter_server"] = "mirrored"
    """How several ``devices`` learn: from the same rollouts, or each from its own, with their changes added up."""
    max_staleness: PositiveInt | None = None
    """For a parameter server: maximum updates by other learners between the weights that a learner starts from and
    those that it changes; None: twice the number of other learners."""
    cluster: ClusterSettings | None = None
    """Where actors run, and all ``devices`` but the first; None = on this machine. With a cluster, ``execution`` is
    async by default."""
    sweep: SweepSettings | None = None
    """The search of ``tau-train sweep``; other commands ignore it."""

    @model_validator(mode="before")
    @classmethod
    def _a_cluster_has_actors(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("cluster") is not None and "environment" not in data:
            return {"execution": "async"} | data
        return data

    @field_validator("behaviors", "tau")
    @classmethod
    def _behaviors_share_no_file(cls, value: Any, info: ValidationInfo) -> Any:
        tau = value if isinstance(value, TauSettings) else None
        behaviors = value if isinstance(value, dict) else info.data.get("behaviors", ())
        said = clash(behaviors, tau.pairs if tau is not None and tau.policy == "independent" else 0)
        if said is not None:
            raise invalid(said)
        return value

    @field_validator("env_settings", mode="before")
    @classmethod
    def _seed_alone(cls, value: object, info: ValidationInfo) -> object:
        """In a batched run, the seed is the only key of env_settings."""
        if info.data.get("environment") is None:
            return value
        for key in value if isinstance(value, Mapping) else ():
            if key in EnvSettings.model_fields and key != "seed":
                where = " (set copies with environment.num_envs)" if key == "num_envs" else ""
                raise invalid(f"has {key}, which is for engines{where}; remove it")
        return value

    @field_validator("default_settings", "behaviors")
    @classmethod
    def _usual_on_tensors(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("environment") is None:
            return value
        if isinstance(value, dict):
            return {name: trainer.on_tensors() for name, trainer in value.items()}
        return value and value.on_tensors()

    @model_serializer(mode="wrap")
    def _readable(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit the keys that have no meaning here, so that the result can be read again."""
        values: dict[str, Any] = handler(self)
        if self.environment is not None and "env_settings" in values:
            values["env_settings"] = {"seed": self.seed}
        left_out = self.for_tensors if self.environment is None else self.for_engines
        return {key: value for key, value in values.items() if key not in left_out}

    @property
    def played(self) -> EnvironmentSettings:
        """The environment of a batched run."""
        assert self.environment is not None, "only of a batched run"
        return self.environment

    @property
    def device(self) -> str:
        """The device for learning, and for the tensors of a batched run."""
        return self.torch_settings.device or "cpu"

    def on(self, device: str) -> Self:
        """The same settings on that device."""
        return self.having(torch_settings={"device": device})

    @property
    def seed(self) -> int:
        """The random seed; -1: a random one."""
        return self.env_settings.seed

    @property
    def clock(self) -> TrainerSettings:
        """A behavior of a batched run that learns; duration and intervals are the same for all of them."""
        return next(trainer for trainer in self.behaviors.values() if trainer.learns)

    @property
    def trainers(self) -> list[TrainerSettings]:
        """Settings of every named behavior; if none is named, of any behavior that the environment announces."""
        return list(self.behaviors.values()) or [self.of_behavior("")]

    @property
    def staleness_bound(self) -> int:
        """``max_staleness``, or its default."""
        return 2 * (self.devices - 1) if self.max_staleness is None else self.max_staleness

    def of_behavior(self, name: str) -> TrainerSettings:
        """The settings of a behavior by its short name. Raises SettingsError with the known names."""
        if name in self.behaviors:
            return self.behaviors[name]
        if self.default_settings is not None:
            return self.default_settings
        if not self.behaviors:
            return PPOTrainerSettings()
        near = difflib.get_close_matches(name, self.behaviors, 1)
        known = ", ".join(f"'{behavior}'" for behavior in self.behaviors)
        raise SettingsError(
            f"the engine announces behavior '{name}', which is not in `behaviors` of the settings; "
            + (f"did you mean '{near[0]}'?" if near else f"known: {known}.")
            + " Rename one of them, or add `default_settings`."
        )


def learner_name(behavior: str, pair: int) -> str:
    """Name of the learner of a behavior if each pair has its own policy."""
    return f"{behavior}-pair{pair}"


def clash(behaviors: Iterable[str], pairs: int = 0) -> str | None:
    """Message why these behaviors (short names) cannot be trained in one run; None if they can.

    ``pairs``: number of pairs with their own policies.
    """
    same = same_file(behaviors, lambda behavior: [learner_name(behavior, pair) for pair in range(pairs)])
    if same is None:
        return None
    why = f"independent policies are named {learner_name('NAME', 0)}, ..., and " if pairs else ""
    return (
        f"'{same[0]}' and '{same[1]}' would share files ({why}Windows and macOS ignore the case of file names); "
        "rename one of them"
    )


def full_key(key: str) -> str:
    """The full key of a behavior's setting: ``behaviors.*.hyperparameters.beta`` for ``hyperparameters.beta``.

    ``key`` may be an assignment, ``KEY=VALUE``.
    """
    section = key.partition("=")[0].partition(".")[0].strip()
    return f"behaviors.*.{key}" if section in TrainerSettings.model_fields else key


def check_device(settings: RunSettings) -> None:
    """Try ``torch_settings.device``; imports torch only if a device other than the CPU is named.

    Raises:
        SettingsError: torch cannot use that device on this machine.
    """
    device = settings.torch_settings.device
    if device in (None, "cpu"):
        return
    import torch

    try:
        torch.empty(1, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise SettingsError(
            f"torch_settings.device (--torch-device) {device}: torch cannot use it here ({reason}); "
            "use cpu, or leave it out"
        ) from None


def _fixed(seed: int, chosen: CheckpointSettings) -> int:
    """The seed if it is fixed; for -1, the seed of the resumed run, or a random one for a new run."""
    if seed >= 0:
        return seed
    if chosen.resume or chosen.inference:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            stored = parse_json((Path(chosen.results_dir) / chosen.run_id / "run.json").read_bytes())
            return max(int(stored["seed"]), 0)
    return secrets.randbelow(_RANDOM_SEEDS)


def resolve_seed(settings: RunSettings) -> RunSettings:
    """Settings whose run seed, and that of every sampler, is a fixed number of at least 0.

    Samplers without a seed get the run's seed plus a running index over all such parameters, as in ML-Agents.
    """
    seed = _fixed(settings.env_settings.seed, settings.checkpoint_settings)
    index = itertools.count(seed)

    def seeded(value: AnyParameter) -> AnyParameter:
        if isinstance(value, Curriculum):
            return value.having(
                curriculum=tuple(lesson.having(value=seeded(lesson.value)) for lesson in value.curriculum)
            )
        if isinstance(value, float):
            next(index)
            return value
        if value.sampler_parameters.seed != -1:
            return value
        return value.having(sampler_parameters={"seed": next(index)})

    settings = settings.having(env_settings={"seed": seed})
    if settings.environment_parameters is None:
        return settings
    parameters = {name: seeded(value) for name, value in settings.environment_parameters.items()}
    return settings.having(environment_parameters=parameters)
