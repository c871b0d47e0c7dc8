"""An engine that is replaced when it fails: real engines that crash, stall and talk nonsense."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tau_trainer.bridge.engine import EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.bridge.ports import engine_ports
from tau_trainer.collection import worker as module
from tau_trainer.collection.restarts import RestartBudget
from tau_trainer.collection.worker import EngineWorker
from tau_trainer.errors import (
    DecodeError,
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    EngineTimeoutError,
    LaunchError,
    PortInUseError,
)
from tau_trainer.specs import Actions, StepBatch

AGENTS = 4


class Workers:
    """Makes workers and ends them with the test."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.events: list[str] = []
        self.made: list[EngineWorker] = []

    def __call__(
        self, *flags: str, budget: RestartBudget | None = None, port: int = 0, fixed_port: bool = False
    ) -> EngineWorker:
        worker = EngineWorker(
            0,
            port,
            LaunchSpec.of("headless:balance", env_args=("--agents", str(AGENTS), *flags), log_folder=self._logs),
            EngineOptions(timeout_s=10.0 if "stall" not in flags else 0.6),
            budget or RestartBudget(10, -1, 60.0),
            fixed_port=fixed_port,
            on_event=self.events.append,
        )
        self.made.append(worker)
        return worker


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    return Workers(tmp_path)


def run(workers: Workers, work: Awaitable[None]) -> None:
    async def main() -> None:
        try:
            await asyncio.wait_for(work, 40)
        finally:
            for worker in workers.made:
                await worker.kill()

    asyncio.run(main())


def zeros(worker: EngineWorker, batches: list[StepBatch]) -> dict[str, Actions]:
    assert worker.engine is not None
    return {b.behavior: Actions.zeros(worker.engine.specs[b.behavior].actions, len(b)) for b in batches}


async def play(
    worker: EngineWorker, batches: list[StepBatch], steps: int
) -> tuple[list[StepBatch], EngineError | None]:
    """Step until ``steps`` are done or the engine fails."""
    for _ in range(steps):
        try:
            worker.answer(zeros(worker, batches))
            batches = await worker.next()
        except EngineError as error:
            return batches, error
    return batches, None


def test_a_sound_engine(workers: Workers) -> None:
    async def main() -> None:
        worker = workers()
        assert worker.waits_for == "engine 0 to start"
        batches, error = await play(worker, await worker.start({}), 5)
        assert error is None
        assert worker.waits_for == "engine 0 to answer a step"
        assert worker.exchanges == 5
        (again,) = await worker.reset({"num_agents": float(AGENTS)})
        assert len(again) == len(batches[0]) == AGENTS
        engine = worker.engine
        await worker.close()
        assert worker.engine is None
        assert engine is not None
        assert engine.process is not None
        assert engine.process.returncode == 0
        assert (worker.restarts, workers.events) == (0, [])

    run(workers, main())


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        ("crash", EngineExitedError, "engine 0 ended while it should answer a step: exit code 70"),
        ("stall", EngineTimeoutError, "engine 0 did not answer a step within"),
        ("malformed", DecodeError, "bytes that are not a message"),
        ("nan-reward", DecodeError, "NaN or infinity in reward of agent 0"),
    ],
)
def test_an_engine_that_fails_is_replaced_and_plays_on(
    workers: Workers, tmp_path: Path, fault: str, kind: type[EngineError], sentence: str
) -> None:
    async def main() -> None:
        worker = workers("--fault", fault, "--fault-after", "4", "--fault-once", str(tmp_path / "failed"))
        batches, error = await play(worker, await worker.start({}), 30)
        assert isinstance(error, kind)
        assert worker.engine is not None
        assert worker.engine.process is not None
        first, port = worker.engine.process.pid, worker.engine.port
        batches = await worker.recover(error)
        assert len(batches[0]) == AGENTS
        assert worker.engine.process.pid != first
        _, error = await play(worker, batches, 20)
        assert error is None
        assert worker.restarts == 1
        (event,) = workers.events
        assert event.startswith(sentence) or sentence in event
        assert event.endswith("; starting it again in 0.01 s (restart 1)")
        assert port

    run(workers, main())


def test_a_spent_budget_raises_the_last_error_with_the_reason(workers: Workers) -> None:
    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "2", budget=RestartBudget(2, -1, 60.0))
        batches = await worker.start({})
        for restart in (1, 2):
            batches, error = await play(worker, batches, 10)
            assert isinstance(error, EngineExitedError)
            batches = await worker.recover(error)
            assert worker.restarts == restart
        _, error = await play(worker, batches, 10)
        assert isinstance(error, EngineExitedError)
        with pytest.raises(EngineExitedError, match=r"restarted 2 times, the most that max_lifetime_restarts allows\)"):
            await worker.recover(error)
        assert worker.engine is not None
        assert worker.engine.process is not None
        assert worker.engine.process.returncode == 70

    run(workers, main())


def test_an_engine_that_never_stepped_is_not_restarted(workers: Workers) -> None:
    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "1")
        _, error = await play(worker, await worker.start({}), 10)
        assert error is not None
        with pytest.raises(EngineExitedError) as raised:
            await worker.recover(error)
        assert raised.value is error
        assert worker.restarts == 0

    run(workers, main())


def test_a_replacement_that_cannot_start_costs_budget_too(workers: Workers, tmp_path: Path) -> None:
    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "3", budget=RestartBudget(3, -1, 60.0))
        _, error = await play(worker, await worker.start({}), 10)
        assert error is not None
        worker._launch = LaunchSpec((str(tmp_path / "gone"),))
        with pytest.raises(LaunchError, match=r"cannot start .* \(not started again: it was restarted 3 times"):
            await worker.recover(error)
        assert worker.restarts == 3

    run(workers, main())


def test_a_goodbye_is_final(workers: Workers) -> None:
    async def main() -> None:
        worker = workers()
        await play(worker, await worker.start({}), 3)
        with pytest.raises(EngineStoppedError):
            await worker.recover(EngineStoppedError("engine 0 closed the connection (status 400)"))
        assert worker.restarts == 0
        assert worker.engine is not None
        assert worker.engine.process is not None
        assert worker.engine.process.returncode is not None

    run(workers, main())


def test_an_engine_that_somebody_else_starts_is_not_restarted(workers: Workers) -> None:
    async def main() -> None:
        worker = EngineWorker(0, engine_ports(1)[0], None, EngineOptions(timeout_s=0.2), RestartBudget(-1, -1, 60.0))
        workers.made.append(worker)
        with pytest.raises(EngineTimeoutError, match="press Play") as raised:
            await worker.start({})
        with pytest.raises(EngineTimeoutError):
            await worker.recover(raised.value)
        assert worker.restarts == 0

    run(workers, main())


def test_a_replacement_gets_the_parameters_of_the_last_reset(workers: Workers, tmp_path: Path) -> None:
    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "5", "--fault-once", str(tmp_path / "failed"))
        await worker.start({"num_agents": 2.0})
        _, error = await play(worker, await worker.reset({"num_agents": 3.0}), 10)
        assert error is not None
        (batch,) = await worker.recover(error)
        assert len(batch) == 3

    run(workers, main())


def test_an_engine_that_has_proved_itself_waits_briefly_again(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROOF_EXCHANGES", 4)
    budget = RestartBudget(-1, -1, 60.0)
    budget.spend()
    budget.spend()

    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "6", budget=budget)
        _, error = await play(worker, await worker.start({}), 20)
        assert error is not None
        await worker.recover(error)
        assert workers.events[0].endswith("in 0.01 s (restart 3)")

    run(workers, main())


@pytest.mark.parametrize("fixed", [True, False])
def test_a_port_that_is_taken_meanwhile(workers: Workers, fixed: bool) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            worker = workers(port=port, fixed_port=fixed)
            if fixed:
                with pytest.raises(PortInUseError, match=f"port {port} is taken"):
                    await worker.start({})
                return
            await worker.start({})
            assert worker.engine is not None
            assert worker.engine.port != port
            await worker.close()

    run(workers, main())


def test_cancelling_a_restart_leaves_no_engine(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 30.0)

    async def main() -> None:
        worker = workers("--fault", "crash", "--fault-after", "3")
        _, error = await play(worker, await worker.start({}), 10)
        assert error is not None
        recovering = asyncio.create_task(worker.recover(error))
        await asyncio.sleep(0.2)
        recovering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recovering
        assert worker.engine is not None
        assert worker.engine.process is not None
        assert worker.engine.process.returncode == 70

    run(workers, main())
