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

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.envs.engines import EngineWorker
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import DecodeError, EngineError, VersionError
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions, StepBatch
from tests.bridge.conftest import free_port
from tests.conformance.conftest import Json, fixed_actions, masks, observed, play_here
from tests.envs.playing import Sentences, zeros
from tests.headless.conftest import EngineThread
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
