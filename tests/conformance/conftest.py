"""The real mlagents-envs, in an environment of its own that is made once and kept in the checkout's cache folder."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions, ActionSpec, FloatArray, StepBatch
from tests.bridge.conftest import free_port
from tests.unity.building import shared_player
from tools.peers import MLAGENTS_ENVS, ensure_peer

PEER_SCRIPTS = Path(__file__).parent / "peer"
DEMO_SECONDS = 150.0

Json = dict[str, Any]
Peer = Callable[..., Json]
Play = Callable[..., Json]


class Host:
    """The interpreter that has mlagents-envs, started with the first script and again after one that did not end."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def run(self, script: str, argument: Mapping[str, Any] | None = None, paths: Sequence[Path] = ()) -> Json:
        """What one of the peer's scripts returns."""
        request = {"script": str(PEER_SCRIPTS / script), "argument": argument, "paths": [str(path) for path in paths]}
        try:
            told: Json = json.loads(self._asked(json.dumps(request)))
        except BaseException:
            self.end()
            raise
        assert "error" not in told, f"{script}: {told['error']}"
        answer: Json = told["answer"]
        return answer

    def end(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _asked(self, line: str) -> str:
        if self._process is None:
            command = [str(ensure_peer(MLAGENTS_ENVS)), str(PEER_SCRIPTS / "host.py")]
            with self._log.open("a") as log:
                pipe = subprocess.PIPE
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the peer ended:\n{self._log.read_text()[-4000:]}"
        return answer


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Runs the `main` of one of the peer's scripts beside mlagents-envs 1.1.0."""
    host = Host(tmp_path_factory.mktemp("peer") / "peer.log")
    yield host.run
    host.end()


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Unity project without Unity: see :func:`shared_player`."""
    return shared_player(tmp_path_factory)


@pytest.fixture(scope="session")
def ours() -> Peer:
    """Runs one of the peer's scripts on our own API: a search and replace, in this process."""

    def run(script: str, argument: Mapping[str, Any] | None = None) -> Json:
        text = (PEER_SCRIPTS / script).read_text("utf-8")
        names: Json = {"__name__": "script"}
        exec(compile(re.sub(r"mlagents_envs\b", "tau_trainer.envs.mlagents", text), script, "exec"), names)
        told: Json = json.loads(json.dumps(names["main"](argument)))
        return told

    return run


def printed(python: Path, script: Path, argument: Mapping[str, Any], folder: Path) -> Json:
    """The JSON object that a script printed last."""
    done = subprocess.run(
        [str(python), str(script), json.dumps(argument)],
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, f"{script.name} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    seen = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(seen, dict)
    return seen


def request_of(build: Path, folder: Path, **wishes: Any) -> Json:
    """A request for peer/drive.py: 40 steps and nothing else, but for the wishes."""
    request: Json = {"seed": 3, "areas": 1, "steps": 40, "resets": [], "parameters": {}, "uniform": {}, "later": {}}
    return {**request, **wishes, "build": str(build), "port": free_port(2), "log_folder": str(folder)}


def play_build(peer: Peer, build: Path, folder: Path, **wishes: Any) -> Json:
    """Lets `UnityEnvironment` launch a build and play it to a clean end; keywords as in peer/drive.py.

    The reference would wait half a minute for an engine that does not end, and then kill it.
    """
    seen = peer("drive.py", request_of(build, folder, **wishes))
    assert seen["exit_code"] == 0, (folder / "Player-0.log").read_text()
    assert seen["close_seconds"] < 10.0
    return seen


def play_here(
    scene: str,
    arguments: Sequence[str] = (),
    *,
    seed: int = 3,
    areas: int = 1,
    steps: int = 40,
    resets: Sequence[int] = (),
    parameters: Mapping[str, float] | None = None,
    uniform: Mapping[str, tuple[float, float, int]] | None = None,
    later: Mapping[str, Mapping[str, float]] | None = None,
) -> Json:
    """The specs' names and the exchanges that peer/drive.py would see, from the scene object itself."""
    samplers = {name: Sampler(SamplerKind.UNIFORM, s, (low, high)) for name, (low, high, s) in (uniform or {}).items()}
    told = EnvironmentParameters({**(parameters or {}), **samplers})
    game = create_scene(parse_args(["--scene", scene, *arguments]), told, seed=seed, areas=areas)
    batches = game.reset(told)
    exchanges = [exchange(game, batches, {})]
    for step in range(steps):
        batches = _next(game, batches, told, step, step in resets, (later or {}).get(str(step), {}))
        exchanges.append(exchange(game, batches, exchanges[-1]))
    return {"specs": exchanges[-1].keys(), "exchanges": exchanges}


def _next(
    game: Scene,
    batches: Sequence[StepBatch],
    told: EnvironmentParameters,
    step: int,
    reset: bool,
    later: Mapping[str, float],
) -> list[StepBatch]:
    for name, value in later.items():
        told.set(name, value)
    if reset:
        if "seed" in told:
            game.seed(int(told.get("seed", 0.0)))
        return game.reset(told)
    if later:
        game.update(told)
    return game.step({batch.behavior: fixed_actions(game, batch, step) for batch in batches})


def fixed_actions(game: Scene, batch: StepBatch, step: int) -> Actions:
    """The same whole numbers as `action_value` and `action_branch` in peer/drive.py."""
    spec = _actions_of(game, batch)
    agents = batch.agent_ids.astype(np.int64)[:, None]
    index = np.arange(spec.continuous_size)[None, :]
    thousandths = (step * 7919 + agents * 104729 + index * 1299709) % 2001 - 1000
    sizes = np.array(spec.discrete_branches, np.int64)[None, :]
    branch = np.arange(sizes.shape[1])[None, :]
    discrete = (step * 3 + agents * 5 + branch * 7 + (step * agents) % 4) % sizes
    return Actions((thousandths / 1000.0).astype(np.float32), discrete.astype(np.int32))


def _actions_of(game: Scene, batch: StepBatch) -> ActionSpec:
    return next(spec.actions for spec in game.specs if spec.name == batch.behavior)


def exchange(game: Scene, batches: Sequence[StepBatch], before: Json) -> Json:
    """One exchange in the form of peer/drive.py; behaviors appear with their first agent."""
    present = [batch for batch in batches if len(batch) or batch.behavior in before]
    return {batch.behavior: {**observed(batch), "masks": masks(_actions_of(game, batch), batch)} for batch in present}


def masks(spec: ActionSpec, batch: StepBatch) -> list[Any] | None:
    """The masks of each branch, as lists; None where there are no branches."""
    if not spec.discrete_branches:
        return None
    flat = np.zeros((len(batch), spec.mask_size), np.bool_) if batch.action_mask is None else batch.action_mask
    return [branch.tolist() for branch in np.split(flat, np.cumsum(spec.discrete_branches)[:-1], axis=1)]


def observed(batch: StepBatch) -> Json:
    """One exchange of one behavior in the form of peer/drive.py, without its masks."""
    ended = batch.terminals
    return {
        "ids": batch.agent_ids.tolist(),
        "rewards": batch.reward.tolist(),
        "groups": batch.group_id.tolist(),
        "group_rewards": batch.group_reward.tolist(),
        "observations": digest(batch.obs),
        "finite": all(bool(np.isfinite(sensor).all()) for sensor in batch.obs),
        "ended": ended.agent_ids.tolist(),
        "ended_rewards": ended.reward.tolist(),
        "interrupted": ended.truncated.tolist(),
        "ended_groups": ended.group_id.tolist(),
        "ended_group_rewards": ended.group_reward.tolist(),
        "ended_observations": digest(ended.obs),
    }


def digest(sensors: Sequence[FloatArray]) -> str:
    """One hash over the float32 bytes of all sensors; bytes of images count in 255ths, as the reference reads them."""
    total = hashlib.sha256()
    for sensor in sensors:
        values = np.ascontiguousarray(sensor, np.float32)
        total.update((values / 255.0 if sensor.dtype == np.uint8 else values).tobytes())
    return total.hexdigest()
