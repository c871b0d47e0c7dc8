"""Engines without processes (scenes of the headless engine, played inside the test), and what a run needs besides."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from tau_trainer import load_settings
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.side_channels import Sampler, SideChannelHub
from tau_trainer.envs import EnvironmentSource
from tau_trainer.envs.engines import EngineWorker
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineExitedError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.metrics import JsonLines, Recorder, RunReport
from tau_trainer.models import Recurrent
from tau_trainer.models.graph import GraphWriter
from tau_trainer.runs import provenance
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.session import Session
from tau_trainer.settings import MemorySettings, PPOTrainerSettings, RunSettings
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    FloatArray,
    ObservationSpec,
    StepBatch,
    Terminals,
    empty_terminals,
)
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.pairs.collector import PairsCollector
from tests.remembering import Memory as Memory
from tests.waiting import HANG_S
from tests.waiting import until as until

WAIT_S = HANG_S
_SESSIONS: list[Session] = []
_version, _git_state = cache(metadata.version), cache(provenance.git_state)


class SceneEngine:
    """What :class:`tau_trainer.bridge.engine.Engine` is to an EngineWorker, with a scene in place of a process."""

    def __init__(
        self,
        stage: Stage,
        index: int,
        port: int,
        launch: LaunchSpec | None,
        options: EngineOptions,
        channels: SideChannelHub | None = None,
        on_event: Any = None,
    ) -> None:
        assert launch is not None
        self.index = index
        self.port = port
        self.launch = launch
        self.options = options
        self.exchanges = 0
        self.awaited = False
        self.notes: list[str] = []
        self.paused: str | None = None
        self.stage = "answer a step"
        self.specs: dict[str, BehaviorSpec] = {}
        self.arguments = parse_args([*launch.program[3:], *launch.env_args])
        self.seed = options.seed + index
        self._stage = stage
        self._scene: Scene | None = None
        self._actions: Mapping[str, Actions] = {}

    async def start(self, *, patient: bool = False) -> None:
        assert not patient
        self._stage.enters(self)
        await self._stage.before_start(self)

    async def reset(self, parameters: Mapping[str, float | Sampler] | None = None) -> list[StepBatch]:
        self._stage.told.append((self.index, dict(parameters or {})))
        values = EnvironmentParameters(parameters)
        self._scene = create_scene(self.arguments, values, seed=self.seed)
        self.specs = {spec.name: spec for spec in self._scene.specs}
        await self._stage.before_reset(self)
        self.exchanges += 1
        return self._scene.reset(values)

    def tell(self, parameters: Mapping[str, float | Sampler]) -> None:
        assert self._scene is not None
        self._stage.told.append((self.index, dict(parameters)))
        self._scene.update(EnvironmentParameters(parameters))

    def answer(self, actions: Mapping[str, Actions]) -> None:
        self._actions = actions

    async def next(self) -> list[StepBatch]:
        assert self._scene is not None
        self.awaited = True
        await self._stage.before_step(self)
        await asyncio.sleep(0)
        self.awaited = False
        self.exchanges += 1
        return self._scene.step(self._actions)

    async def close(self, timeout_s: float = 10.0) -> None:
        self._stage.leaves(self, "closed")

    async def kill(self) -> None:
        self._stage.leaves(self, "killed")


Hook = Callable[[SceneEngine], Awaitable[None]]


async def nothing(_engine: SceneEngine) -> None:
    """Let the engine do as it should."""


@dataclass
class Stage:
    """What all fake engines of a test share: what they do wrong, and what has become of them."""

    before_start: Hook = nothing
    before_reset: Hook = nothing
    before_step: Hook = nothing
    live: set[int] = field(default_factory=set)
    peak: int = 0
    starts: list[int] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)
    told: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def enters(self, engine: SceneEngine) -> None:
        self.starts.append(engine.index)
        self.live.add(engine.index)
        self.peak = max(self.peak, len(self.live))

    def leaves(self, engine: SceneEngine, how: str) -> None:
        if engine.index in self.live:
            self.live.remove(engine.index)
            self.ends.append((engine.index, how))

    def make(self, *args: Any, **more: Any) -> SceneEngine:
        return SceneEngine(self, *args, **more)

    @classmethod
    def opened(cls, monkeypatch: pytest.MonkeyPatch) -> Stage:
        """From now on engines are scenes inside this process, restarts come at once, and git is asked once."""
        stage = cls()
        monkeypatch.setattr(metadata, "version", _version)
        monkeypatch.setattr(provenance, "git_state", _git_state)
        monkeypatch.setattr("tau_trainer.envs.engines.Engine", stage.make)
        monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.001)
        return stage


def launched(stage: Stage, source: EnvironmentSource | None, count: int) -> list[SceneEngine]:
    """The first engines as they would be started; none gets any further."""

    async def refuse(engine: SceneEngine) -> None:
        raise EngineExitedError(f"engine {engine.index} ended")

    async def start() -> list[SceneEngine]:
        assert source is not None
        workers = [source.make(index, lambda stat: None, lambda message, restart=0: None) for index in range(count)]
        for worker in workers:
            with contextlib.suppress(EngineExitedError):
                await worker.start({})
        return [cast(SceneEngine, cast(EngineWorker, worker).engine) for worker in workers]

    stage.before_start = refuse
    return asyncio.run(start())


def tau_settings(results: Path, run_id: str = "run", **overrides: Any) -> RunSettings:
    """A small Tau run: two pairs of four agents, 400 decisions, an update every 64. Keys with __ in place of dots."""
    small = {
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": run_id,
        "env_settings.env_path": "headless:tau",
        "env_settings.seed": 7,
        "tau.pairs": 2,
        "tau.agents": 4,
        "behaviors.TauAgent.max_steps": 400,
        "behaviors.TauAgent.summary_freq": 100,
        "behaviors.TauAgent.hyperparameters.buffer_size": 64,
        "behaviors.TauAgent.hyperparameters.batch_size": 32,
        "behaviors.TauAgent.hyperparameters.num_epoch": 1,
        "behaviors.TauAgent.network_settings.hidden_units": 16,
        "behaviors.TauAgent.network_settings.num_layers": 1,
    }
    config = Path(__file__).parents[2] / "configs" / "tau3.yaml"
    return load_settings(config, small | {key.replace("__", "."): value for key, value in overrides.items()})


def settings_from(text: str, results: Path, run_id: str = "run", **overrides: Any) -> RunSettings:
    """Of a file, ``settings.yaml`` in the folder of results. Keys with __ in place of dots."""
    file = results / "settings.yaml"
    file.write_text(text, "utf-8")
    given = {"checkpoint_settings.results_dir": str(results), "checkpoint_settings.run_id": run_id}
    return load_settings(file, given | {key.replace("__", "."): value for key, value in overrides.items()})


def newest(folder: Path, name: str) -> Checkpoint:
    """The newest checkpoint of a policy in the folder of a run."""
    checkpoint = latest_checkpoint(folder / "checkpoints", name).checkpoint
    assert checkpoint is not None
    return checkpoint


SAC_FILE = """
behaviors:
  TauAgent:
    trainer_type: sac
    hyperparameters: {batch_size: 16, buffer_size: 300, steps_per_update: 4.5, buffer_init_steps: 50}
    network_settings: {hidden_units: 16, num_layers: 1, normalize: true}
    reward_signals: {extrinsic: {gamma: 0.0}}
    max_steps: 480
    summary_freq: 100
    checkpoint_interval: 80
    keep_checkpoints: 0
env_settings: {env_path: "headless:tau", seed: 7}
tau: {pairs: 2, agents: 4, reward: {credit: aggregate}}
"""


def sac_settings(results: Path, run_id: str = "run", **overrides: Any) -> RunSettings:
    """A small Tau run of SAC, as :func:`tau_settings` is one of PPO."""
    return settings_from(SAC_FILE, results, run_id, **overrides)


RAINBOW: dict[str, Any] = {
    "behaviors__TauAgent__trainer_type": "dqn",
    "behaviors__TauAgent__network_settings__action_levels": 3,
    "behaviors__TauAgent__hyperparameters__double": True,
    "behaviors__TauAgent__hyperparameters__dueling": True,
    "behaviors__TauAgent__hyperparameters__n_step": 3,
    "behaviors__TauAgent__hyperparameters__prioritized": {},
    "behaviors__TauAgent__hyperparameters__exploration": {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.5},
}
"""What makes a run of DQN of one of SAC's."""


def begin(settings: RunSettings, memory: Memory | None = None, command: Any = "parallel") -> Session:
    """Start a run whose hub hands on to ``memory`` and to log.jsonl; it ends with its test at the latest."""

    def recorders(folder: Path) -> list[Recorder]:
        return [JsonLines(folder / "log.jsonl"), memory or Memory()]

    session = ParallelTrainerManager().start(settings, command, recorders=recorders)
    _SESSIONS.append(session)
    return session


def end_sessions() -> None:
    """End the runs that :func:`begin` has started and that still go on: of a test that failed, engines included."""
    while _SESSIONS:
        session = _SESSIONS.pop()
        if session.running:
            session.cancel(at_once=True)
            with contextlib.suppress(Exception):  # the test has said what failed
                session.wait(HANG_S)


def pairs_of(session: Session) -> PairsCollector:
    """What gathers the experience of a run that goes on."""
    return cast(PairsCollector, session._run.collector)


def train(settings: RunSettings, memory: Memory | None = None, command: Any = "parallel") -> RunReport:
    """The same, to its end."""
    return begin(settings, memory, command).wait(WAIT_S)


def ppo_settings(hidden_units: int = 8, **more: Any) -> PPOTrainerSettings:
    """A tiny network that learns from 16 decisions at a time."""
    small = {
        "hyperparameters": {"batch_size": 8, "buffer_size": 16, "num_epoch": 1},
        "network_settings": {"hidden_units": hidden_units, "num_layers": 1},
        "max_steps": 1000,
    }
    return PPOTrainerSettings.model_validate(small | more)


class Tally(Recurrent):
    """A recurrent memory that counts decisions: two floats of state, both the number of decisions before."""

    def __init__(self, inputs: int, settings: MemorySettings) -> None:
        super().__init__()
        self.size, self.state_size = inputs, settings.memory_size

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, state + 1.0

    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        raise NotImplementedError


TWO_CONTINUOUS = ActionSpec(2)


def vector_spec(size: int = 3, actions: ActionSpec = TWO_CONTINUOUS, name: str = "Agent?team=0") -> BehaviorSpec:
    """A behavior with one vector sensor."""
    return BehaviorSpec(name, (ObservationSpec("sensor", (size,)),), actions)


def ended(
    spec: BehaviorSpec, ids: list[int], reward: list[float], truncated: bool = False, obs: float = 0.0
) -> Terminals:
    """Agents whose episode ended."""
    terminals = empty_terminals(spec.observations, len(ids))
    terminals.agent_ids[:] = ids
    terminals.reward[:] = reward
    terminals.truncated[:] = truncated
    for sensor in terminals.obs:
        sensor[:] = obs
    return terminals


def step(
    spec: BehaviorSpec,
    ids: list[int],
    reward: list[float] | float = 0.0,
    terminals: Terminals | None = None,
    obs: tuple[FloatArray, ...] | None = None,
) -> StepBatch:
    """Agents that ask for a decision."""
    count = len(ids)
    return StepBatch(
        behavior=spec.name,
        agent_ids=np.array(ids, np.int32),
        obs=obs or tuple(np.zeros((count, *sensor.shape), np.float32) for sensor in spec.observations),
        reward=np.broadcast_to(np.asarray(reward, np.float32), (count,)).copy(),
        group_id=np.zeros(count, np.int32),
        group_reward=np.zeros(count, np.float32),
        terminals=terminals or empty_terminals(spec.observations),
    )
