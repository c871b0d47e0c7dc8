"""Each fault, as a trainer meets it."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.bridge.codec import TrainerInitialization, encode_initialization, encode_reply
from tau_trainer.bridge.protocol import Command
from tau_trainer.errors import DecodeError
from tau_trainer.headless.scenes.balance import BalanceScene
from tau_trainer.headless.scenes.faulty import EXIT_CODE, Fault, FaultKind
from tests.headless.scenes.playing import begin
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.headless.conftest import EngineStarter, FakeTrainer


class LeftError(Exception):
    """Stands for a process that is gone."""


def leave(code: int) -> None:
    raise LeftError(code)


def played_steps(fault: Fault, most: int = 20) -> int:
    """How many messages a fault lets pass before something is wrong with one."""
    batch = begin(BalanceScene(agents=3))
    for step in range(most):
        if fault.stalled() or fault.silent():
            return step
        spoiled = fault.spoil(batch)
        if not all(np.isfinite(part).all() for part in (*spoiled.obs, spoiled.reward)):
            return step
        if fault.garble(b"sound") != b"sound":
            return step
    return most


@pytest.mark.parametrize(
    "kind", [FaultKind.STALL, FaultKind.MALFORMED, FaultKind.NAN_OBSERVATION, FaultKind.NAN_REWARD]
)
@pytest.mark.parametrize("after", [0, 1, 7])
def test_faults_while_playing_come_after_so_many_steps(kind: FaultKind, after: int) -> None:
    assert played_steps(Fault(kind, after)) == after


def test_a_crash_comes_after_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os._exit", leave)
    fault = Fault(FaultKind.CRASH, 2)
    batch = begin(BalanceScene(agents=3))
    assert fault.spoil(fault.spoil(batch)) is batch
    with pytest.raises(LeftError, match=str(EXIT_CODE)):
        fault.spoil(batch)


def test_nan_is_put_into_a_copy_and_only_once() -> None:
    batch = begin(BalanceScene(agents=3))
    fault = Fault(FaultKind.NAN_OBSERVATION, 0)
    spoiled = fault.spoil(batch)
    assert np.isnan(spoiled.obs[0][0]).all()
    assert np.isfinite(spoiled.obs[0][1:]).all()
    assert np.isfinite(batch.obs[0]).all()
    assert fault.spoil(batch) is batch


def test_bytes_cannot_be_nan() -> None:
    batch = begin(BalanceScene(agents=3))
    image = np.ones((3, 1, 2, 2), np.uint8)
    spoiled = Fault(FaultKind.NAN_OBSERVATION, 0).spoil(replace(batch, obs=(image, *batch.obs)))
    assert spoiled.obs[0] is image
    assert np.isnan(spoiled.obs[1][0]).all()


def test_once_means_the_first_engine_only(tmp_path: Path) -> None:
    mark = tmp_path / "failed"
    assert played_steps(Fault(FaultKind.STALL, 3, once=mark)) == 3
    assert mark.exists()
    assert played_steps(Fault(FaultKind.STALL, 3, once=mark)) == 20


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def run(started: list[subprocess.Popen[str]], port: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tau_trainer.headless", "--mlagents-port", str(port), "--scene", "faulty"]
    started.append(subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True))
    return started[-1]


def test_crash_takes_the_process_with_it(trainer: FakeTrainer, processes: list[subprocess.Popen[str]]) -> None:
    process = run(processes, trainer.port, "--fault-after", "2")
    trainer.handshake()
    for _ in range(2):
        trainer.steps()
        trainer.send(encode_reply(Command.STEP))
    assert process.wait(HANG_S) == EXIT_CODE


def test_exit_comes_before_the_connection(closed_port: int, processes: list[subprocess.Popen[str]]) -> None:
    process = run(processes, closed_port, "--fault", "exit")
    assert process.wait(HANG_S) == EXIT_CODE


def test_malformed_bytes_are_no_message(trainer: FakeTrainer, start: EngineStarter) -> None:
    engine = start("--scene", "balance", "--fault", "malformed", "--fault-after", "1")
    trainer.handshake()
    trainer.steps()
    trainer.send(encode_reply(Command.STEP))
    with pytest.raises(DecodeError):
        trainer.receive()
    trainer.close()
    assert engine.finish() == 0


@pytest.mark.parametrize("fault", ["nan-observation", "nan-reward"])
def test_nan_is_refused_by_our_own_trainers_codec(trainer: FakeTrainer, start: EngineStarter, fault: str) -> None:
    engine = start("--scene", "balance", "--fault", fault, "--fault-after", "1")
    trainer.handshake()
    trainer.steps()
    trainer.send(encode_reply(Command.STEP))
    with pytest.raises(DecodeError, match="3DBall"):
        trainer.steps()
    trainer.close()
    assert engine.finish() == 0


def test_wrong_version_is_announced(trainer: FakeTrainer, start: EngineStarter) -> None:
    engine = start("--scene", "balance", "--fault", "wrong-version")
    first = trainer.receive()
    assert first.initialization is not None
    assert first.initialization.communication_version == "2.0.0"
    trainer.close()
    assert engine.finish() == 0


def test_slow_start_connects_late(trainer: FakeTrainer, start: EngineStarter) -> None:
    began = time.monotonic()
    engine = start("--scene", "balance", "--fault", "slow-start", "--fault-seconds", "0.4")
    trainer.handshake()
    assert time.monotonic() - began >= 0.4
    trainer.steps()
    trainer.close()
    assert engine.finish() == 0


def test_silent_connects_and_never_asks(trainer: FakeTrainer, start: EngineStarter) -> None:
    engine = start("--scene", "balance", "--fault", "silent")
    trainer.receive()
    trainer.send(encode_initialization(TrainerInitialization()))
    trainer.raw()
    trainer.reset()
    engine.join(0.5)
    assert engine.is_alive()
    assert trainer.idle()
    trainer.stop()
    assert engine.finish() == 0
