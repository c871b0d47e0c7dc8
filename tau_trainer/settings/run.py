"""A whole settings file: :class:`SettingsFile` is what the format can say, :class:`RunSettings` what can train."""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Generic, TypeVar

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.engines import EngineSettings, EnvSettings
from tau_trainer.settings.kinds import Bool, Section, Text
from tau_trainer.settings.parameters import AnyParameter, ParameterValue
from tau_trainer.settings.tasks import CollectionSettings, TauSettings
from tau_trainer.settings.trainers import AnyTrainerSettings, TrainerSettings

TrainerT = TypeVar("TrainerT")
ParameterT = TypeVar("ParameterT")


class CheckpointSettings(Section):
    """``checkpoint_settings``: where a run is kept and where it begins."""

    run_id: Text = "ppo"
    """Name of the run's folder."""
    initialize_from: str | None = None
    """Run to take the first weights from."""
    load_model: Bool = False
    """Deprecated: the same as resume."""
    resume: Bool = False
    """Go on with the run of this run_id."""
    force: Bool = False
    """Overwrite the run of this run_id."""
    train_model: Bool = False
    """Deprecated, without effect."""
    inference: Bool = False
    """Act without learning."""
    results_dir: Text = "results"
    """Folder that holds the runs' folders."""

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
            raise PydanticCustomError(
                "run_id", 'must be a plain folder name: no absolute path, no "..", none of < > : " | ? *'
            )
        return value


class TorchSettings(Section):
    """``torch_settings``: the device that learns."""

    device: str | None = None
    """cpu, cuda, cuda:N, mps or xpu; None = cpu, which is the fastest for networks of this size."""

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"cpu|mps|(cuda|xpu)(:\d+)?", value):
            raise PydanticCustomError("device", "must be cpu, cuda, cuda:N, mps or xpu")
        return value


class _Sections(Section, Generic[TrainerT, ParameterT]):
    """Every section of the file, over what a behavior and an environment parameter may be."""

    default_settings: TrainerT | None = None
    """Settings under every behavior; also those of behaviors that the file does not name."""
    behaviors: dict[str, TrainerT] = Field(default_factory=dict)
    """Trainer settings by behavior name (without ``?team=``)."""
    env_settings: EnvSettings = EnvSettings()
    """Which engines are started."""
    engine_settings: EngineSettings = EngineSettings()
    """How they run."""
    environment_parameters: dict[str, ParameterT] | None = None
    """Numbers and samplers for the engines."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    """Where the run is kept."""
    torch_settings: TorchSettings = TorchSettings()
    """What learns."""
    debug: Bool = False
    """Tell more in the log; show tracebacks."""
    tau: TauSettings | None = None
    """Pairs and the Tau task; None = plain ``learn``."""
    collection: CollectionSettings = CollectionSettings()
    """How experience is gathered."""


class SettingsFile(_Sections[AnyTrainerSettings, AnyParameter]):
    """All that a file may say, in ML-Agents' format and ours, checked; part of it may need a later version to train."""


class RunSettings(_Sections[TrainerSettings, ParameterValue]):
    """Settings that this version can train, complete with all defaults."""
