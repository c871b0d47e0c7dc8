"""One engine from launch to close: the headless engine as a process, and engines that play by the test's script."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.codec import (
    Capabilities,
    EngineInitialization,
    decode_trainer_message,
    encode_engine_message,
)
from tau_trainer.bridge.engine import Engine, EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.bridge.ports import engine_ports
from tau_trainer.bridge.protocol import Command
from tau_trainer.bridge.side_channels import (
    STATS,
    EngineConfigurationKind,
    SideChannelHub,
    Stat,
    pack,
    parse_engine_configuration,
    parse_environment_parameter,
    stat_payload,
    unpack,
)
from tau_trainer.errors import (
    DecodeError,
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    EngineTimeoutError,
    LaunchError,
    PortInUseError,
    VersionError,
)
from tau_trainer.specs import Actions, ActionSpec, StepBatch
from tests.bridge.conftest import Client, client
from tests.bridge.oracle import Agent, engine_message, simple_spec

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
BALANCE = "3DBall?team=0"


def headless(scene: str, *flags: str, logs: Path | None = None) -> LaunchSpec:
    return LaunchSpec.of(f"headless:{scene}", env_args=flags, log_folder=logs)


def zeros(engine: Engine, batches: list[StepBatch]) -> dict[str, Actions]:
    return {batch.behavior: Actions.zeros(engine.specs[batch.behavior].actions, len(batch)) for batch in batches}


async def play(engine: Engine, steps: int) -> list[StepBatch]:
    """Start, reset, and answer ``steps`` times with zeros; the last step."""
    await engine.start()
    batches = await engine.reset()
    for _ in range(steps):
        batches = await engine.step(zeros(engine, batches))
    return batches


def run(work: Awaitable[None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, 40)

    asyncio.run(main())


class TestHeadless:
    def test_from_launch_to_close(self, logs: Path) -> None:
        async def main() -> None:
            stats: list[Stat] = []
            engine = Engine(0, 0, headless("balance", logs=logs), channels=SideChannelHub(stats.append))
            await engine.start()
            assert engine.port > 0
            assert engine.specs == {}
            (batch,) = await engine.reset({"num_agents": 3.0})
            assert batch.agent_ids.tolist() == [0, 1, 2]
            assert engine.specs[BALANCE].actions == ActionSpec(2)
            assert [sensor.shape for sensor in engine.specs[BALANCE].observations] == [(8,)]
            for _ in range(20):
                (batch,) = await engine.step(zeros(engine, [batch]))
            assert engine.exchanges == 21
            (again,) = await engine.reset()
            assert len(again.terminals) == 0
            assert (again.reward == 0.0).all()
            await engine.close()
            assert engine.process is not None
            assert engine.process.returncode == 0

        run(main())

    def test_actions_reach_the_agents_that_asked(self, logs: Path) -> None:
        """Basic: three steps to the right end the episode with +0.99 less a step's cost."""

        async def main() -> None:
            engine = Engine(0, 0, headless("basic", "--agents", "2", logs=logs))
            await engine.start()
            (batch,) = await engine.reset()
            returns = np.zeros(2)
            for _ in range(3):
                moves = np.array([[1], [2]], np.int32)
                (batch,) = await engine.step({batch.behavior: Actions(np.zeros((2, 0), np.float32), moves)})
                returns += batch.reward
            assert batch.terminals.agent_ids.tolist() == [0]
            assert batch.terminals.reward[0] == pytest.approx(0.09)
            assert batch.agent_ids.tolist() == [0, 1]
            await engine.close()

        run(main())

    def test_seeds_number_the_engines(self, logs: Path) -> None:
        async def first(index: int, seed: int) -> list[float]:
            engine = Engine(index, 0, headless("balance", logs=logs), EngineOptions(seed=seed))
            (batch,) = await play(engine, 0)
            await engine.close()
            return [float(x) for x in batch.obs[0].ravel()]

        async def main() -> None:
            one, same, other = await asyncio.gather(first(1, 5), first(0, 6), first(0, 5))
            assert one == same != other

        run(main())

    def test_side_channels_come_before_the_first_step(self, logs: Path) -> None:
        """The number of agents and areas must be known when the scene is made."""

        async def main() -> None:
            engine = Engine(0, 0, headless("balance", logs=logs), EngineOptions(num_areas=2))
            await engine.start()
            (batch,) = await engine.reset({"num_agents": 5.0})
            assert len(batch) == 10
            await engine.close()

        run(main())

    def test_several_engines_at_once(self, logs: Path) -> None:
        async def one(index: int) -> int:
            engine = Engine(index, 0, headless("basic", "--agents", str(index + 1), logs=logs))
            (batch,) = await play(engine, 10)
            await engine.close()
            return len(batch)

        async def main() -> None:
            assert await asyncio.gather(*(one(i) for i in range(3))) == [1, 2, 3]

        run(main())
        assert sorted(path.name for path in logs.iterdir()) == [f"Player-{i}.log" for i in range(3)]

    def test_messages_beyond_4_mib(self, logs: Path) -> None:
        flags = ("--tau-profile", "tau384", "--tau-data", "synthetic", "--agents", "4000")

        async def main() -> None:
            engine = Engine(0, 0, headless("tau", *flags, logs=logs))
            (batch,) = await play(engine, 2)
            assert batch.obs[0].nbytes > 4 * 2**20
            await engine.close()

        run(main())


@pytest.mark.parametrize(
    ("flags", "timeout_s", "kind", "sentence"),
    [
        (
            ("--fault", "wrong-version"),
            20,
            VersionError,
            r"engine 0 speaks communicator API 2\.0\.0 .*; use com\.unity",
        ),
        (("--fault", "exit"), 20, EngineExitedError, "engine 0 ended while it should connect: exit code 70"),
        (("--no-such-fault", "--agents", "x"), 20, EngineExitedError, r"log ends with: .*--agents"),
        (("--fault", "crash", "--fault-after", "3"), 20, EngineExitedError, "ended while it should answer a step"),
        (("--fault", "silent"), 1, EngineTimeoutError, "connected but asked for no decision within 1 s; does every"),
        (("--fault", "stall", "--fault-after", "3"), 1, EngineTimeoutError, "did not answer a step within 1 s; raise"),
        (
            ("--fault", "slow-start"),
            1,
            EngineTimeoutError,
            r"engine 0 did not connect to port \d+ within 1 s; is it an",
        ),
        (("--fault", "malformed", "--fault-after", "3"), 20, DecodeError, "64 bytes that are not a message"),
        (("--fault", "nan-reward", "--fault-after", "3"), 20, DecodeError, r"'3DBall\?team=0' .* reward of agent 0"),
        (("--fault", "nan-observation"), 20, DecodeError, "NaN or infinity in sensor 'VectorSensor_size8' of agent 0"),
    ],
)
def test_faults_are_named(
    flags: tuple[str, ...], timeout_s: float, kind: type[EngineError], sentence: str, logs: Path
) -> None:
    async def main() -> None:
        engine = Engine(0, 0, headless("balance", *flags, logs=logs), EngineOptions(timeout_s=timeout_s))
        with pytest.raises(kind, match=sentence):
            await play(engine, 20)
        await engine.kill()
        assert engine.process is not None
        assert engine.process.returncode is not None

    run(main())


def test_an_exit_is_detected_within_a_second(logs: Path) -> None:
    async def main() -> None:
        engine = Engine(0, 0, headless("balance", logs=logs))
        batches = await play(engine, 2)
        assert engine.process is not None
        waiting = asyncio.create_task(engine.step(zeros(engine, batches)))
        await waiting
        engine.process.kill()
        began = time.monotonic()
        with pytest.raises(EngineExitedError, match="ended while it should answer a step: "):
            await engine.step(zeros(engine, waiting.result()))
        assert time.monotonic() - began < 1.0
        await engine.close()

    run(main())


@posix
def test_an_engine_that_is_killed_while_it_owes_us(logs: Path) -> None:
    async def main() -> None:
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

    run(main())


@posix
def test_an_engine_that_says_goodbye_while_we_owe_it(logs: Path) -> None:
    """SIGTERM: the engine breaks off its call and sends status 400 with another."""

    async def main() -> None:
        engine = Engine(0, 0, headless("balance", logs=logs))
        batches = await play(engine, 2)
        assert engine.process is not None
        os.kill(engine.process.pid, signal.SIGTERM)
        await asyncio.sleep(0.3)
        with pytest.raises(EngineStoppedError, match=r"engine 0 closed the connection \(status 400\)"):
            await engine.step(zeros(engine, batches))
        await engine.close()
        assert engine.process.returncode == 0

    run(main())


def test_close_while_the_engine_still_computes(logs: Path) -> None:
    """The goodbye travels in a reply, so close waits for the call that is on its way."""

    async def main() -> None:
        engine = Engine(0, 0, headless("balance", "--step-ms", "300", logs=logs))
        batches = await play(engine, 0)
        step = asyncio.create_task(engine.step(zeros(engine, batches)))
        await asyncio.sleep(0.05)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await engine.close()
        assert engine.process is not None
        assert engine.process.returncode == 0

    run(main())


def test_close_does_not_wait_for_an_engine_that_has_crashed(logs: Path) -> None:
    async def main() -> None:
        engine = Engine(
            0, 0, headless("balance", "--step-ms", "300", "--fault", "crash", "--fault-after", "1", logs=logs)
        )
        batches = await play(engine, 0)
        step = asyncio.create_task(engine.step(zeros(engine, batches)))
        await asyncio.sleep(0.05)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        began = time.monotonic()
        await engine.close()
        assert time.monotonic() - began < 5.0

    run(main())


def test_a_program_that_cannot_be_started_frees_the_port(tmp_path: Path) -> None:
    async def main() -> None:
        engine = Engine(0, 0, LaunchSpec((str(tmp_path / "gone"),)))
        with pytest.raises(LaunchError):
            await engine.start()
        another = Engine(1, engine.port, None, EngineOptions(timeout_s=0.1))
        with pytest.raises(EngineTimeoutError):
            await another.start()

    run(main())


def test_a_port_that_is_taken(logs: Path) -> None:
    async def main() -> None:
        engine = Engine(0, 0, headless("basic", logs=logs))
        await play(engine, 0)
        with pytest.raises(PortInUseError):
            await Engine(1, engine.port, headless("basic", logs=logs)).start()
        await engine.close()

    run(main())


class Script:
    """The editor, played by the test: an engine that nobody launched."""

    def __init__(self, engine: Engine, game: Client) -> None:
        self.engine = engine
        self._game = game

    def says(self, data: bytes) -> asyncio.Future[bytes]:
        """What the trainer answers to ``data``."""
        return self._game.call(data)

    async def greets(self, initialization: EngineInitialization | None = None) -> bytes:
        """Calls 1 and 2 up to the first reset; the reply that holds the reset."""
        starting = asyncio.create_task(self.engine.start())
        await asyncio.sleep(0.02)  # a client that comes too early tries again only after a second
        reply = await self.says(encode_engine_message(initialization=initialization or EngineInitialization()))
        assert decode_trainer_message(reply, {}).initialization is not None
        second = self.says(encode_engine_message())
        await starting
        self.resetting = asyncio.create_task(self.engine.reset({"gravity": -9.5}))
        return await second


@asynccontextmanager
async def editor(timeout_s: float = 10.0, channels: SideChannelHub | None = None) -> AsyncIterator[Script]:
    """A trainer's engine without a process, and somebody who plays it."""
    engine = Engine(0, engine_ports(1)[0], None, EngineOptions(timeout_s=timeout_s), channels)
    with client(engine.port) as game:
        try:
            yield Script(engine, game)
        finally:
            await engine.kill()


SPEC = simple_spec(ActionSpec(1, (3,)), (2,))
ONE = Agent(4, (np.ones(2, np.float32),))
STEP = engine_message([(SPEC, [ONE])])


class TestEditor:
    def test_the_first_reset_carries_settings_and_parameters(self) -> None:
        async def main() -> None:
            async with editor() as script:
                reply = decode_trainer_message(await script.greets(), {})
                assert (reply.status, reply.command) == (200, Command.RESET)
                payloads = [payload for _, payload in unpack(reply.side_channel)]
                assert [parse_engine_configuration(payload)[0] for payload in payloads[:5]] == list(
                    EngineConfigurationKind
                )
                assert parse_environment_parameter(payloads[5]) == ("gravity", -9.5)

        run(main())

    def test_statistics_arrive(self) -> None:
        async def main() -> None:
            stats: list[Stat] = []
            async with editor(channels=SideChannelHub(stats.append)) as script:
                await script.greets()
                message = engine_message([(SPEC, [])], side_channel=pack(STATS, stat_payload("height", 2.5)))
                step = script.says(message)
                assert await script.resetting == []
                assert [(stat.key, stat.value) for stat in stats] == [("height", 2.5)]
                await script.engine.close(0.1)
                assert decode_trainer_message(await step, {}).status == 400

        run(main())

    def test_old_packages_get_the_deprecated_copy_of_actions(self) -> None:
        async def main() -> None:
            async with editor() as script:
                old = EngineInitialization("Academy", "1.0.0", "1.0.8", Capabilities(hybrid_actions=False))
                await script.greets(old)
                answer = script.says(STEP)
                (batch,) = await script.resetting
                assert batch.agent_ids.tolist() == [4]
                action = Actions(np.array([[0.5]], np.float32), np.array([[2]], np.int32))
                stepping = asyncio.create_task(script.engine.step({SPEC.name: action}))
                assert np.array([0.5, 2.0], "<f4").tobytes() in await answer
                stepping.cancel()

        run(main())

    @pytest.mark.parametrize("moment", ["first", "second", "reset", "step"])
    def test_status_400_at_any_time(self, moment: str) -> None:
        goodbye = encode_engine_message(status=400)

        async def main() -> None:
            async with editor() as script:
                waiting: asyncio.Task[Any]
                if moment in ("first", "second"):
                    waiting = asyncio.create_task(script.engine.start())
                    await asyncio.sleep(0.02)
                    if moment == "second":
                        await script.says(encode_engine_message(initialization=EngineInitialization()))
                else:
                    await script.greets()
                    waiting = script.resetting
                    if moment == "step":
                        answer = script.says(STEP)
                        batches = await script.resetting
                        waiting = asyncio.create_task(script.engine.step(zeros(script.engine, batches)))
                        await answer
                last = script.says(goodbye)
                with pytest.raises(EngineStoppedError, match="status 400"):
                    await waiting
                await script.engine.close(0.1)
                await asyncio.wait([last])

        run(main())

    @pytest.mark.parametrize("data", [encode_engine_message(), STEP])
    def test_a_first_message_that_is_no_introduction(self, data: bytes) -> None:
        async def main() -> None:
            async with editor() as script:
                starting = asyncio.create_task(script.engine.start())
                await asyncio.sleep(0.02)
                call = script.says(data)
                with pytest.raises(VersionError, match="engine 0 opened with a message that is no introduction"):
                    await starting
                await asyncio.wait([call])

        run(main())

    def test_nobody_presses_play(self) -> None:
        async def main() -> None:
            async with editor(timeout_s=0.3) as script:
                assert script.engine.stage == "connect"
                with pytest.raises(
                    EngineTimeoutError, match=r"nothing connected to port \d+ within 0\.3 s; press Play"
                ):
                    await script.engine.start()

        run(main())

    def test_behaviors_at_different_rates(self) -> None:
        """A message may hold one behavior or another, only ended agents, or nothing at all."""
        other = simple_spec(ActionSpec(2), (1,), name="Another?team=1")
        ended = Agent(9, (np.ones(1, np.float32),), done=True)

        async def main() -> None:
            async with editor() as script:
                await script.greets()
                call = script.says(STEP)
                batches = await script.resetting
                for message, names in (
                    (engine_message([(SPEC, []), (other, [ended])]), ["Another?team=1"]),
                    (engine_message([]), []),
                    (engine_message([(SPEC, [ONE]), (other, [ended])]), ["Another?team=1", "B?team=0"]),
                ):
                    stepping = asyncio.create_task(script.engine.step(zeros(script.engine, batches)))
                    await call
                    call = script.says(message)
                    batches = await stepping
                    assert [batch.behavior for batch in batches] == names
                assert set(script.engine.specs) == {"Another?team=1", "B?team=0"}
                assert len(batches[0]) == 0
                assert len(batches[0].terminals) == 1
                await script.engine.close(0.1)
                assert decode_trainer_message(await call, {}).status == 400

        run(main())

    def test_the_engines_own_end_is_no_wait(self) -> None:
        """Somebody pulls the plug while we owe an answer: closing is quick."""

        async def main() -> None:
            async with editor() as script:
                await script.greets()
                call = script.says(STEP)
                await script.resetting
                began = time.monotonic()
                await script.engine.close(5.0)
                assert time.monotonic() - began < 4.0
                assert decode_trainer_message(await call, {}).status == 400

        run(main())
