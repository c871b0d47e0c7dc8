"""The real mlagents-envs, in an environment of its own that is made once and kept in the checkout's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.ports import is_free
from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.build import write_build
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions, ActionSpec, FloatArray, StepBatch
from tools.peers import MLAGENTS_ENVS, ROOT, ensure_peer

PEER_SCRIPTS = Path(__file__).parent / "peer"
PEER_SECONDS = 150.0
FIRST_PORT = 21000

Json = dict[str, Any]
Peer = Callable[..., Json]
Play = Callable[..., Json]


@pytest.fixture(scope="session")
def peer_python() -> Path:
    """The interpreter that has mlagents-envs 1.1.0."""
    return ensure_peer(MLAGENTS_ENVS)


@pytest.fixture
def peer(peer_python: Path, tmp_path: Path) -> Peer:
    """Runs one of the peer's scripts to its end and returns the JSON object that it printed."""

    def run(script: str, argument: Mapping[str, Any] | None = None, **variables: str) -> Json:
        return printed(peer_python, PEER_SCRIPTS / script, argument, tmp_path, variables)

    return run


@pytest.fixture
def ours(tmp_path: Path) -> Peer:
    """Runs one of the peer's scripts on our own API: a search and replace, on the interpreter of this test."""

    def run(script: str, argument: Mapping[str, Any] | None = None) -> Json:
        text = (PEER_SCRIPTS / script).read_text("utf-8")
        (tmp_path / script).write_text(re.sub(r"mlagents_envs\b", "tau_trainer.envs.mlagents", text), "utf-8")
        return printed(Path(sys.executable), tmp_path / script, argument, tmp_path, {"PYTHONPATH": str(ROOT)})

    return run


def printed(
    python: Path, script: Path, argument: Mapping[str, Any] | None, folder: Path, variables: Mapping[str, str]
) -> Json:
    """The JSON object that a script printed last."""
    command = [str(python), str(script), *([] if argument is None else [json.dumps(argument)])]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PEER_SECONDS, env=environment, cwd=folder, check=False
    )
    assert done.returncode == 0, f"{script.name} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    seen = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(seen, dict)
    return seen


@pytest.fixture
def shared(peer: Peer) -> Json:
    """What both packages say of each other in one process."""
    return peer("share.py", PYTHONPATH=str(ROOT))


@pytest.fixture
def play(peer: Peer, tmp_path: Path) -> Play:
    """Lets `UnityEnvironment` launch a build of a scene and play it; keywords as in peer/drive.py.

    `script`: what the build runs instead of the headless engine.
    """

    def run(scene: str, arguments: Sequence[str] = (), script: Path | None = None, **wishes: Any) -> Json:
        request: Json = {"seed": 3, "areas": 1, "steps": 40, "resets": [], "parameters": {}, "uniform": {}, "later": {}}
        build = write_build(tmp_path / "build", scene, arguments)
        if script is not None:
            build.write_text(build.read_text().replace("-m tau_trainer.headless", shlex.quote(str(script))))
        place = {"build": str(build), "port": free_port(), "log_folder": str(tmp_path)}
        seen = peer("drive.py", {**request, **wishes, **place})
        assert seen["exit_code"] == 0, (tmp_path / "Player-0.log").read_text()
        return seen

    return run


def free_port() -> int:
    """A port for `base_port`, which the reference takes without asking whether it is free."""
    start = FIRST_PORT + os.getpid() % 1000
    return next(port for port in range(start, start + 2000) if is_free(port))


@pytest.fixture
def mirror() -> Callable[..., Json]:
    """Plays the same game in this process, without a wire: see :func:`play_here`."""
    return play_here


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
