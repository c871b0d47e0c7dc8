"""One engine from launch to close: the headless engine as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.errors import (
    EngineDisconnectedError,
    EngineError,
    EngineExitedError,
    EngineTimeoutError,
    LaunchError,
    PortInUseError,
    VersionError,
)
from tau_trainer.specs import Actions, ActionSpec, StepBatch
from tests.bridge.test_engine_editor import zeros
from tests.waiting import HANG_S, NEVER_S

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
BALANCE = "3DBall?team=0"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has hung up may take its time to end, on a busy machine more than the second that it has."""
    monkeypatch.setattr("tau_trainer.bridge.engine._REAP_S", HANG_S)


def headless(scene: str, *flags: str, logs: Path | None = None) -> LaunchSpec:
    return LaunchSpec.of(f"headless:{scene}", env_args=flags, log_folder=logs)


async def play(engine: Engine, steps: int) -> list[StepBatch]:
    """Start, reset, and answer ``steps`` times with zeros; the last step."""
    await engine.start()
    batches = await engine.reset()
    for _ in range(steps):
        batches = await engine.step(zeros(engine, batches))
    return batches


async def test_from_launch_to_close(logs: Path) -> None:
    """A platform that may not be tilted stands still whatever is asked of it."""
    engine = Engine(0, 0, headless("balance", logs=logs), EngineOptions(num_areas=2))
    await engine.start()
    assert engine.port > 0
    assert engine.specs == {}
    (batch,) = await engine.reset({"num_agents": 3.0, "tilt_speed": 0.0})
    assert batch.agent_ids.tolist() == [0, 1, 2, 3, 4, 5], "known when the scene is made"
    assert engine.specs[BALANCE].actions == ActionSpec(2)
    assert [sensor.shape for sensor in engine.specs[BALANCE].observations] == [(8,)]
    full = {BALANCE: Actions(np.ones((6, 2), np.float32), np.zeros((6, 0), np.int32))}
    (after,) = await engine.step(full)
    np.testing.assert_array_equal(after.obs[0][:, :2], batch.obs[0][:, :2])
    engine.tell({"tilt_speed": 2.0})
    (tilted,) = await engine.step(full)
    assert (np.abs(tilted.obs[0][:, :2] - after.obs[0][:, :2]) > 0.01).all()
    assert len(tilted.terminals) == 0, "episodes go on"
    for _ in range(18):
        (batch,) = await engine.step(zeros(engine, [batch]))
    assert engine.exchanges == 21
    with pytest.raises(PortInUseError):
        await Engine(1, engine.port, headless("basic", logs=logs)).start()
    (again,) = await engine.reset()
    assert len(again.terminals) == 0
    assert (again.reward == 0.0).all()
    await engine.close()
    assert engine.process is not None
    assert engine.process.returncode == 0


async def test_several_engines_at_once_have_seeds_and_logs_by_their_numbers(logs: Path) -> None:
    async def first(index: int, seed: int) -> list[float]:
        engine = Engine(index, 0, headless("balance", logs=logs), EngineOptions(seed=seed))
        (batch,) = await play(engine, 0)
        await engine.close()
        return [float(x) for x in batch.obs[0].ravel()]

    one, same, other = await asyncio.gather(first(1, 5), first(0, 6), first(2, 5))
    assert one == same != other
    assert sorted(os.listdir(logs)) == [f"Player-{i}.log" for i in range(3)]


@pytest.mark.parametrize(
    ("flags", "timeout_s", "kind", "sentence"),
    [
        (
            ("--fault", "wrong-version"),
            20,
            VersionError,
            r"engine 0: package 3\.0\.0 uses communicator API 2\.0\.0, this trainer 1\.5\.0; use com\.unity",
        ),
        (("--fault", "exit"), 20, EngineExitedError, "engine 0 ended while it should connect: exit code 70"),
        (("--no-such-fault", "--agents", "x"), 20, EngineExitedError, r"log ends with: .*--agents"),
        (("--fault", "silent"), 0.3, EngineTimeoutError, "connected but asked for no decision within 0.3 s; does"),
        (
            ("--fault", "slow-start"),
            0.3,
            EngineTimeoutError,
            r"engine 0 did not connect to port \d+ within 0\.3 s; check that it is a",
        ),
    ],
)
async def test_faults_before_the_first_step_are_named(
    flags: tuple[str, ...], timeout_s: float, kind: type[EngineError], sentence: str, logs: Path
) -> None:
    """Later ones are in tests/envs/test_engines.py."""
    options = EngineOptions(timeout_s=timeout_s)
    sound = options if "slow-start" in flags else EngineOptions(timeout_s=HANG_S)
    engine = Engine(0, 0, headless("balance", *flags, logs=logs), sound)

    async def played() -> None:
        """Only what never comes is waited for briefly."""
        await engine.start()
        engine._options = options
        await engine.reset()

    with pytest.raises(kind, match=sentence):
        await played()
    await engine.kill()
    assert engine.process is not None
    assert engine.process.returncode is not None


async def test_an_exit_is_detected_at_once(logs: Path) -> None:
    engine = Engine(0, 0, headless("balance", logs=logs), EngineOptions(timeout_s=NEVER_S))
    batches = await play(engine, 2)
    assert engine.process is not None
    waiting = asyncio.create_task(engine.step(zeros(engine, batches)))
    await waiting
    engine.process.kill()
    with pytest.raises(EngineExitedError, match="ended while it should answer a step: "):
        await engine.step(zeros(engine, waiting.result()))
    await engine.close()


@posix
async def test_an_engine_that_is_killed_while_it_owes_us(logs: Path) -> None:
    engine = Engine(0, 0, headless("balance", "--step-ms", "5000", logs=logs))
    batches = await play(engine, 0)
    assert engine.process is not None
    step = asyncio.create_task(engine.step(zeros(engine, batches)))
    await asyncio.sleep(0.1)
    assert engine.awaited  # noqa: PGH005 (no mock)
    os.kill(engine.process.pid, signal.SIGKILL)
    with pytest.raises(EngineExitedError, match="signal SIGKILL"):
        await step
    await engine.kill()


@posix
async def test_an_engine_that_says_goodbye_while_we_owe_it(logs: Path) -> None:
    """SIGTERM: the engine breaks off its call and sends status 400 with another."""
    engine = Engine(0, 0, headless("balance", logs=logs))
    batches = await play(engine, 2)
    assert engine.process is not None
    os.kill(engine.process.pid, signal.SIGTERM)
    await asyncio.sleep(0.3)
    with pytest.raises(EngineExitedError, match=r"engine 0 closed the session unexpectedly \(status 400\)"):
        await engine.step(zeros(engine, batches))
    await engine.close()
    assert engine.process.returncode == 0


async def test_close_while_the_engine_still_computes(logs: Path) -> None:
    """The goodbye travels in a reply, so close waits for the call that is on its way."""
    engine = Engine(0, 0, headless("balance", "--step-ms", "300", logs=logs))
    batches = await play(engine, 0)
    step = asyncio.create_task(engine.step(zeros(engine, batches)))
    await asyncio.sleep(0.05)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    await engine.close()
    assert engine.process is not None
    assert engine.process.returncode == 0


async def test_close_does_not_wait_for_an_engine_that_has_crashed(logs: Path) -> None:
    engine = Engine(0, 0, headless("balance", "--step-ms", "300", "--fault", "crash", "--fault-after", "1", logs=logs))
    batches = await play(engine, 0)
    step = asyncio.create_task(engine.step(zeros(engine, batches)))
    await asyncio.sleep(0.05)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    await engine.close(NEVER_S)


async def test_a_program_that_cannot_be_started_frees_the_port(tmp_path: Path) -> None:
    engine = Engine(0, 0, LaunchSpec((str(tmp_path / "gone"),)))
    with pytest.raises(LaunchError):
        await engine.start()
    another = Engine(1, engine.port, None, EngineOptions(timeout_s=0.1))
    with pytest.raises(EngineTimeoutError):
        await another.start()


HANGS_UP = """
import sys, time
from tau_trainer.bridge.codec import EngineInitialization
from tau_trainer.bridge.engine_codec import encode_engine_message
from tau_trainer.headless.link import TrainerClient
print("the true cause", flush=True)
link = TrainerClient(int(sys.argv[2]))
link.connect(encode_engine_message(initialization=EngineInitialization()), 300.0)
link.close()
time.sleep({seconds})
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("seconds", "kind", "sentence"),
    [
        (
            NEVER_S,
            EngineDisconnectedError,
            "engine 0 closed the connection while it should answer the handshake; its log",
        ),
        (0.3, EngineExitedError, "engine 0 ended while it should answer the handshake: exit code 7; its log"),
    ],
)
async def test_an_engine_that_hangs_up(
    seconds: float, kind: type[EngineError], sentence: str, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process says at its end is worth a short wait; one that lives on is not waited for."""
    if seconds == NEVER_S:
        monkeypatch.setattr("tau_trainer.bridge.engine._REAP_S", 1.0)
    launch = LaunchSpec((sys.executable, "-c", HANGS_UP.format(seconds=seconds)), log_folder=logs)
    engine = Engine(0, 0, launch)
    with pytest.raises(kind) as gone:
        await engine.start()
    assert str(gone.value) == sentence + " ends with: the true cause"
    assert engine.process is not None
    assert engine.process.returncode is not None
