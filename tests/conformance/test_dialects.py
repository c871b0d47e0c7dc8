"""Every dialect plays the same games to the trainer, fails in the same ways, and is restarted in the same way.

The engine runs in a thread of this process, except where it must be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.envs import engines
from tau_trainer.envs.engines import EngineWorker
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import DecodeError, EngineError, VersionError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, StepBatch
from tau_trainer.training.plan import RunPlan
from tests.bridge.conftest import free_port
from tests.conformance.conftest import Json, fixed_actions, masks, observed, play_here
from tests.envs.playing import Sentences, zeros
from tests.headless.conftest import EngineThread
from tests.training.fakes import WAIT_S, Memory, begin
from tests.waiting import HANG_S, run

SEED = 3
STEPS, RESETS = 30, (7, 20)
GODOT = Godot(seed=SEED, truncate_after=9)
GAMES = {
    "vectors, continuous, ends and limits": ("balance", "--agents", "4", "--max-decisions", "9"),
    "masks, discrete": ("basic", "--agents", "3", "--max-decisions", "9"),
    "several branches": ("sorter", "--agents", "3", "--max-decisions", "9"),
    "several behaviors": ("soccer", "--agents", "4", "--max-decisions", "9"),
}


@pytest.fixture(params=["unity", "unreal", "godot"])
def dialect(request: pytest.FixtureRequest) -> str:
    """A value of ``tau-train headless --dialect``."""
    found: str = request.param
    return found


def options_of(dialect: str, **more: Any) -> EngineOptions:
    return EngineOptions(seed=SEED, timeout_s=HANG_S, godot=GODOT if dialect == "godot" else None, **more)


@contextlib.asynccontextmanager
async def engine_of(dialect: str, *flags: str) -> AsyncIterator[Engine]:
    """The trainer's end of a headless engine with these flags, not yet started; both end with the block."""
    port = free_port()
    engine = Engine(0, port, None, options_of(dialect))
    game = EngineThread(["--dialect", dialect, f"--port={port}", f"--env_seed={SEED}", *flags])
    game.start()
    try:
        yield engine
    finally:
        await engine.kill()
        await asyncio.to_thread(game.finish)


async def played(dialect: str, scene: str, *flags: str) -> list[Json]:
    """What the trainer sees of a game, exchange by exchange, in the form of :func:`play_here`."""
    twin = create_scene(parse_args(["--scene", scene, *flags]), EnvironmentParameters())
    actions = {spec.name: spec.actions for spec in twin.specs}
    exchanges: list[Json] = []

    def keep(batches: list[StepBatch]) -> list[StepBatch]:
        shown = {each.behavior: {**observed(each), "masks": masks(actions[each.behavior], each)} for each in batches}
        exchanges.append(shown)
        return batches

    async with engine_of(dialect, "--scene", scene, *flags) as engine:
        await engine.start()
        batches = keep(await engine.reset())
        for step in range(STEPS):
            chosen = {each.behavior: fixed_actions(twin, each, step) for each in batches}
            batches = keep(await (engine.reset() if step in RESETS else engine.step(chosen)))
        assert list(engine.specs) == [spec.name for spec in twin.specs]
        for ours, theirs in zip(engine.specs.values(), twin.specs, strict=True):
            assert ours.actions == theirs.actions
            if dialect == "godot":  # all numbers are vectors there
                assert [one.size for one in ours.observations] == [one.size for one in theirs.observations]
            else:
                assert ours.observations == theirs.observations
    return exchanges


def as_godot_tells(exchange: Json) -> Json:
    """An exchange without masks, groups and last observations. Limits are told by their length, ends at it too."""
    return {
        name: {
            **{key: part[key] for key in ("ids", "observations", "finite", "ended")},
            **{
                key: np.add(part[key], part[of_group]).astype(np.float32).tolist()
                for key, of_group in (("rewards", "group_rewards"), ("ended_rewards", "ended_group_rewards"))
            },
        }
        for name, part in exchange.items()
    }


@pytest.mark.parametrize("game", GAMES)
def test_the_same_game_as_without_a_wire(game: str, dialect: str) -> None:
    """Specs, ids, rewards, groups, masks, ends, limits and resets: bit for bit what the scene object does.

    Godot: as far as it can be told.
    """
    scene, *flags = GAMES[game]
    seen = run(played(dialect, scene, *flags))
    wanted = play_here(scene, flags, seed=SEED, steps=STEPS, resets=RESETS)["exchanges"]
    told = as_godot_tells if dialect == "godot" else dict
    for step, (found, expected) in enumerate(zip(seen, wanted, strict=True)):
        assert told(found) == told(expected), f"exchange {step}"
    parts = [part for exchange in seen for part in exchange.values()]
    cut = {limit for part in parts for limit in part["interrupted"]}
    assert cut >= ({True, False} if scene == "balance" else {True}), "nothing ended, or no limit was reached"


async def _steps(engine: Engine) -> None:
    await engine.start()
    batches = await engine.reset()
    while True:
        specs = engine.specs
        batches = await engine.step(
            {one.behavior: Actions.zeros(specs[one.behavior].actions, len(one)) for one in batches}
        )


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("malformed", DecodeError, r"bytes that are not (a message of the protocol|JSON)"),
        (
            "wrong-version",
            VersionError,
            r"^engine 0: .*(2\.0\.0, this trainer 1\.\d\.0; use |the space 'sphere'; use 'box')",
        ),
        ("nan-reward", DecodeError, "sent NaN or infinity in reward of agent 0"),
    ],
)
async def test_a_fault_is_said_in_a_sentence(fault: str, error: type[EngineError], said: str, dialect: str) -> None:
    async with engine_of(dialect, "--scene", "basic", "--fault", fault, "--fault-after", "3") as engine:
        with pytest.raises(error, match=said):
            await _steps(engine)


async def test_a_killed_engine_is_restarted_and_plays_the_same_again(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    events = Sentences()
    options = options_of(dialect, fixed_port=False)
    launch = LaunchSpec.of("headless:basic", godot=options.godot, env_args=("--dialect", dialect), log_folder=tmp_path)
    worker = EngineWorker(0, 0, launch, options, RestartBudget(10, -1, 60.0, events))

    async def until_it_fails(batches: list[StepBatch]) -> EngineError:
        while True:
            try:
                worker.answer(zeros(worker, batches))
                batches = await worker.next()
            except EngineError as error:
                return error
            assert worker.engine is not None
            if worker.exchanges == 3 and worker.engine.process is not None:
                worker.engine.process.kill()

    try:
        first = await worker.start({})
        again = await worker.recover(await until_it_fails(first))
        assert [observed(each) for each in again] == [observed(each) for each in first]
        worker.answer(zeros(worker, again))
        await worker.next()
        await worker.close()
    finally:
        await worker.kill()
    assert events.restarts == [1]


LEARNS = """
behaviors:
  3DBall:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 2}
    network_settings: {hidden_units: 16, num_layers: 1, normalize: true}
    max_steps: 300
    time_horizon: 32
collection: {deterministic: true}
env_settings: {seed: 3, timeout_wait: 300}
"""


def learned(dialect: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    """Decisions, and the weights that a run in the "editor" ends with."""
    port = free_port()
    monkeypatch.setattr(engines, "EDITOR_PORT", port)
    config = folder / "balance.yaml"
    config.write_text(LEARNS, "utf-8")
    given = {"checkpoint_settings.results_dir": str(folder), "checkpoint_settings.run_id": dialect}
    flags = ["--scene", "balance", "--agents", "4", "--max-decisions", "40"]
    game = EngineThread(["--dialect", dialect, "--mlagents-port", str(port), "--connect-seconds", str(HANG_S), *flags])
    game.start()
    report = begin(load_settings(config, given), Memory(), "learn").wait(WAIT_S)
    game.finish()
    assert report.exit_code == 0
    (weights,) = (folder / dialect / "checkpoints").glob("*/*.safetensors")
    return report.decisions, load_file(weights)


def test_unreal_trains_to_the_weights_of_unity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeatable run also tells Unity's games a seed as an environment parameter, which Unreal's do not receive.

    Both have the seed of the handshake, so without that parameter they are the same game.
    """
    monkeypatch.setattr(RunPlan, "fresh_seed", lambda *_: {})
    unity, unreal = (learned(dialect, tmp_path, monkeypatch) for dialect in ("unity", "unreal"))
    assert unity[0] == unreal[0] >= 300
    assert unity[1].keys() == unreal[1].keys()
    for name, values in unity[1].items():
        np.testing.assert_array_equal(values, unreal[1][name], err_msg=name)
