"""From settings to what will be run: how many pairs, on which engines, told what, for how long."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from tau_trainer import __version__
from tau_trainer.bridge.engine import EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.bridge.ports import engine_ports
from tau_trainer.bridge.protocol import BASE_PORT, EDITOR_PORT, PACKAGE_VERSION
from tau_trainer.bridge.side_channels import EngineConfiguration, Sampler, SamplerKind, TrainingEnvironment
from tau_trainer.bridge.tls import read_tls
from tau_trainer.errors import PortInUseError, SettingsError
from tau_trainer.settings import (
    GaussianSampler,
    ParameterValue,
    RunSettings,
    TauSettings,
    TrainerSettings,
    UniformSampler,
)
from tau_trainer.tau.profiles import get_profile

Command = Literal["parallel", "learn"]

EDITOR = "editor"
_SEED_RANGE = 1 << 24
"""Seeds travel as float32 parameters, which hold whole numbers exactly up to here."""
_LARGEST = float(np.finfo(np.float32).max)
_STALL_FACTOR = 3.0
_STALL_LEAST_S = 120.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything about a run that follows from its settings before anything is started."""

    command: Command
    settings: RunSettings
    pairs: int
    max_concurrent: int
    shared: bool
    """All pairs feed one learner a behavior; else each has its own."""
    deterministic: bool
    seed: int
    launch: tuple[LaunchSpec | None, ...]
    """How to start each pair's engine; None: the Unity editor starts itself."""
    ports: tuple[int, ...]
    """Port of each engine."""
    fixed_ports: bool
    """The user named them; else another free one will do if one is taken meanwhile."""
    engine: EngineOptions
    parameters: Mapping[str, float | Sampler]
    stall_s: float
    """Seconds without any progress after which the run is given up."""

    @property
    def tau(self) -> TauSettings | None:
        """The Tau task's settings; None: an ordinary behavior."""
        return self.settings.tau

    @property
    def quota(self) -> int:
        """Decisions of each pair of `parallel`: its share of all behaviors' max_steps."""
        trainers = list(self.settings.behaviors.values()) or [self.settings.default_settings or TrainerSettings()]
        return -(-sum(trainer.max_steps for trainer in trainers) // self.pairs)

    @property
    def max_policy_age(self) -> int:
        """0 where learning and collection take turns."""
        return 0 if self.deterministic else self.settings.collection.max_policy_age

    def engine_parameters(self, pair: int, generation: int) -> dict[str, float | Sampler]:
        """What engine ``pair`` is told at its ``generation``-th beginning.

        In a deterministic run that includes a fresh seed, so that a resumed run and one that was never interrupted
        tell their engines the same.
        """
        parameters = dict(self.parameters)
        if self.deterministic:
            words = np.random.SeedSequence([self.seed, pair, generation]).generate_state(1)
            parameters["seed"] = float(int(words[0]) % _SEED_RANGE)
        return parameters


def make_plan(command: Command, settings: RunSettings, log_folder: Path) -> RunPlan:
    """Resolve ``settings`` for a run. Raises SettingsError, LaunchError, PortInUseError."""
    tau = settings.tau
    env = settings.env_settings
    pairs = tau.pairs if command == "parallel" and tau is not None else env.num_envs
    if command == "parallel" and tau is None:
        raise SettingsError("`parallel` needs a `tau` section in the settings; use configs/tau3.yaml, or `learn`")
    editor = env.env_path in (None, EDITOR)
    if editor and pairs > 1:
        raise SettingsError(f"there is only one Unity editor, so {pairs} engines need a build: name it with --env")
    limit = tau.max_concurrent if command == "parallel" and tau is not None else pairs
    return RunPlan(
        command=command,
        settings=settings,
        pairs=pairs,
        max_concurrent=min(limit or max(4, 2 * (os.cpu_count() or 1)), pairs),
        shared=command == "learn" or (tau is not None and tau.policy == "shared"),
        deterministic=settings.collection.deterministic,
        seed=env.seed,
        launch=tuple(None if editor else _launch(settings, command, i, log_folder) for i in range(pairs)),
        ports=_ports(settings, pairs, editor),
        fixed_ports=editor or env.base_port != BASE_PORT,
        engine=_engine_options(settings),
        parameters={**_editor_parameters(command, settings), **_parameters(settings.environment_parameters or {})},
        stall_s=max(_STALL_LEAST_S, _STALL_FACTOR * env.timeout_wait),
    )


def _launch(settings: RunSettings, command: Command, index: int, log_folder: Path) -> LaunchSpec:
    env, engine = settings.env_settings, settings.engine_settings
    args = tuple(env.env_args or ())
    if command == "parallel" and settings.tau is not None:
        args = (*_tau_args(settings.tau), *args)
    return LaunchSpec.of(
        env.env_path or "",
        no_graphics=engine.no_graphics or (engine.no_graphics_monitor and index > 0),
        env_args=args,
        log_folder=log_folder,
    )


def _tau_args(tau: TauSettings) -> tuple[str, ...]:
    """What a Tau engine is told on its command line, since specs cannot change later."""
    args = ["--tau-profile", tau.profile, "--tau-agents", str(tau.agents)]
    if tau.data is not None:
        args += ["--tau-data", str(Path(tau.data).resolve())]
    if tau.reward.source == "trainer":
        args.append("--tau-target-sensor")
    return tuple(args)


def _editor_parameters(command: Command, settings: RunSettings) -> dict[str, float]:
    """What :func:`_tau_args` says, for the Unity editor: no command line there, but it reads these before it begins."""
    tau = settings.tau
    if command != "parallel" or tau is None or settings.env_settings.env_path not in (None, EDITOR):
        return {}
    return {
        "profile": float(get_profile(tau.profile).index),
        "num_agents": float(tau.agents),
        "target_sensor": float(tau.reward.source == "trainer"),
    }


def _ports(settings: RunSettings, pairs: int, editor: bool) -> tuple[int, ...]:
    """The default base port means: from there up, whatever is free."""
    if editor:
        try:
            return tuple(engine_ports(1, EDITOR_PORT))
        except PortInUseError:
            raise PortInUseError(
                f"port {EDITOR_PORT}, where the Unity editor connects, is taken by another program; "
                "end it: it may be another trainer that waits for the editor"
            ) from None
    base = settings.env_settings.base_port
    return tuple(engine_ports(pairs, None if base == BASE_PORT else base))


def _engine_options(settings: RunSettings) -> EngineOptions:
    env, engine = settings.env_settings, settings.engine_settings
    return EngineOptions(
        seed=env.seed,
        num_areas=env.num_areas,
        timeout_s=float(env.timeout_wait),
        configuration=EngineConfiguration(
            engine.width,
            engine.height,
            engine.quality_level,
            engine.time_scale,
            engine.target_frame_rate,
            engine.capture_frame_rate,
        ),
        trainer=TrainingEnvironment(
            trainer_version=f"tau-trainer {__version__}",
            envs_version=PACKAGE_VERSION,
            python_version=platform.python_version(),
            torch_version=torch.__version__,
            device=settings.torch_settings.device or "cpu",
            num_envs=env.num_envs,
            num_environment_parameters=len(settings.environment_parameters or {}),
        ),
        listen=settings.collection.listen,
        tls=read_tls(settings.collection.tls_cert, settings.collection.tls_key),
    )


def _parameters(values: Mapping[str, ParameterValue]) -> dict[str, float | Sampler]:
    """The settings' numbers and samplers as they travel. Raises SettingsError for what float32 cannot hold."""
    parameters = {name: _parameter(value) for name, value in values.items()}
    for name, parameter in parameters.items():
        numbers = parameter.values if isinstance(parameter, Sampler) else (parameter,)
        if any(abs(number) > _LARGEST for number in numbers):
            raise SettingsError(f"environment_parameters.{name} is beyond {_LARGEST:.3g}, the largest that can travel")
    return parameters


def _parameter(value: ParameterValue) -> float | Sampler:
    if isinstance(value, float | int):
        return float(value)
    if isinstance(value, UniformSampler):
        uniform = value.sampler_parameters
        return Sampler(SamplerKind.UNIFORM, uniform.seed, (uniform.min_value, uniform.max_value))
    if isinstance(value, GaussianSampler):
        gaussian = value.sampler_parameters
        return Sampler(SamplerKind.GAUSSIAN, gaussian.seed, (gaussian.mean, gaussian.st_dev))
    ranges = value.sampler_parameters
    flat = tuple(bound for pair in ranges.intervals for bound in pair)
    return Sampler(SamplerKind.MULTI_RANGE_UNIFORM, ranges.seed, flat)
