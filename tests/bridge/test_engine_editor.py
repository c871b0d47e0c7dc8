"""One engine that nobody launched, as the Unity editor is: the test plays it message by message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tau_trainer.bridge.codec import Capabilities, EngineInitialization, encode_close
from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.engine_codec import decode_trainer_message, encode_engine_message
from tau_trainer.bridge.launcher import EngineOptions
from tau_trainer.bridge.protocol import Command
from tau_trainer.bridge.side_channels import (
    STATS,
    SideChannelHub,
    Stat,
    engine_configuration_payloads,
    pack_payload,
    parse_environment_parameter,
    stat_payload,
    unpack_payloads,
)
from tau_trainer.errors import EngineError, EngineStoppedError, EngineTimeoutError, VersionError
from tau_trainer.settings import EngineSettings
from tau_trainer.specs import Actions, ActionSpec, StepBatch
from tests.bridge.conftest import Client, client, free_port
from tests.bridge.oracle import Agent, engine_message, simple_spec
from tests.waiting import NEVER_S, run


def zeros(engine: Engine, batches: list[StepBatch]) -> dict[str, Actions]:
    return {batch.behavior: Actions.zeros(engine.specs[batch.behavior].actions, len(batch)) for batch in batches}


@dataclass(frozen=True)
class PackageRow:
    """A row of the table in docs/guides/mlagents.md."""

    first: str
    last: str
    api: str
    trains: bool
    loads: bool


def package_table() -> list[PackageRow]:
    """Rows as ``| 1.9.0-preview to 1.9.1-preview | 1.5.0 | yes | no: ... |``."""
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "mlagents.md").read_text("utf-8")
    found = []
    for line in guide[guide.index("| `com.unity.ml-agents` |") :].split("\n\n")[0].splitlines()[2:]:
        packages, api, trains, loads = (cell.strip() for cell in line.strip("|").split("|"))
        first, _, last = packages.partition(" to ")
        found.append(PackageRow(first, last or first, api, trains.startswith("yes"), loads.startswith("yes")))
    return found


def test_the_table_of_packages_leaves_none_out() -> None:
    rows = package_table()
    assert [row.first[:3] for row in rows] == ["3.0", "2.0", "1.9", "1.8", "1.0", "0.1"]
    assert {row.trains for row in rows} == {row.loads for row in rows} == {True, False}


class Script:
    """The editor, played by the test: an engine that nobody launched."""

    def __init__(self, engine: Engine, game: Client) -> None:
        self.engine = engine
        self._game = game

    def says(self, data: bytes) -> asyncio.Future[bytes]:
        """What the trainer answers to ``data``."""
        return self._game.call(data)

    def begins(self, data: bytes) -> grpc.Future:
        """The same, to be broken off."""
        return self._game.begin(data)

    async def leaves(self) -> None:
        """As a process that crashes: the connection is gone without a word."""
        await asyncio.to_thread(self._game.channel.close)

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
async def editor(
    timeout_s: float = NEVER_S,
    channels: SideChannelHub | None = None,
    on_event: Callable[[str], None] = lambda said: None,
    **options: Any,
) -> AsyncIterator[Script]:
    """A trainer's engine without a process, and somebody who plays it."""
    engine = Engine(0, free_port(), None, EngineOptions(timeout_s=timeout_s, **options), channels, on_event=on_event)
    with client(engine.port) as game:
        try:
            yield Script(engine, game)
        finally:
            await engine.kill()


@pytest.fixture
def script() -> AbstractAsyncContextManager[Script]:
    return editor()


SPEC = simple_spec(ActionSpec(1, (3,)), (2,))
ONE = Agent(4, (np.ones(2, np.float32),))
STEP = engine_message([(SPEC, [ONE])])


async def test_the_first_reset_carries_settings_and_parameters(script: Script) -> None:
    reply = decode_trainer_message(await script.greets(), {})
    assert (reply.status, reply.command) == (200, Command.RESET)
    payloads = [payload for _, payload in unpack_payloads(reply.side_channel)]
    assert payloads[:5] == engine_configuration_payloads(EngineSettings())
    assert parse_environment_parameter(payloads[5]) == ("gravity", -9.5)


async def test_statistics_arrive() -> None:
    stats: list[Stat] = []
    async with editor(channels=SideChannelHub(stats.append)) as script:
        await script.greets()
        message = engine_message([(SPEC, [])], side_channel=pack_payload(STATS, stat_payload("height", 2.5)))
        step = script.says(message)
        assert await script.resetting == []
        assert [(stat.key, stat.value) for stat in stats] == [("height", 2.5)]
        await script.engine.close(0.1)
        assert decode_trainer_message(await step, {}).status == 400


@pytest.mark.parametrize("moment", ["second", "reset", "step"])
async def test_status_400_at_any_time(script: Script, moment: str) -> None:
    goodbye = encode_close()
    waiting: asyncio.Task[Any]
    if moment == "second":
        waiting = asyncio.create_task(script.engine.start())
        await asyncio.sleep(0.02)
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
    with pytest.raises(EngineStoppedError, match=r"^the Unity editor stopped the game$"):
        await waiting
    await script.engine.close(0.1)
    await asyncio.wait([last])


@pytest.mark.parametrize("moment", ["while we wait", "while we think"])
async def test_an_editor_that_is_gone_is_known_at_once(script: Script, moment: str) -> None:
    await script.greets()
    answer = script.says(STEP)
    batches = await script.resetting
    if moment == "while we think":
        await script.leaves()
        stepping = asyncio.create_task(script.engine.step(zeros(script.engine, batches)))
    else:
        stepping = asyncio.create_task(script.engine.step(zeros(script.engine, batches)))
        await answer
        await script.leaves()
    with pytest.raises(EngineStoppedError) as gone:
        await stepping
    assert str(gone.value) == "the Unity editor closed the connection (crashed or was killed?)"
    await asyncio.wait([answer])


@pytest.mark.parametrize(("package", "told"), [("1.9.1-preview", "0.20.0"), ("2.0.1", "1.1.0")])
@pytest.mark.parametrize("how", ["breaks off", "goodbye", "silence"])
async def test_an_engine_that_leaves_in_the_handshake(package: str, told: str, how: str) -> None:
    """Packages before 2.0 are told of a trainer that they know; if they leave all the same, they are the cause."""
    greeting = encode_engine_message(initialization=EngineInitialization("Academy", package_version=package))
    async with editor(0.5 if how == "silence" else NEVER_S) as script:
        starting = asyncio.create_task(script.engine.start())
        await asyncio.sleep(0.02)
        reply = decode_trainer_message(await script.says(greeting), {}).initialization
        assert reply is not None
        assert reply.package_version == told
        if how == "breaks off":
            await script.leaves()
        last = script.says(encode_close()) if how == "goodbye" else None
        with pytest.raises(EngineError) as gone:
            await starting
        blamed = (
            f"com.unity.ml-agents {package} may refuse this trainer's version, like other packages before 2.0; "
            "see its log; use a package from 2.0 to 4.x"
        )
        assert (blamed in str(gone.value)) == (told == "0.20.0"), str(gone.value)
        if last is not None:
            await script.engine.kill()
            await asyncio.wait([last])


@pytest.mark.parametrize("row", package_table(), ids=lambda row: f"{row.first} to {row.last}")
def test_every_row_of_the_table_of_packages(row: PackageRow) -> None:
    """`docs/guides/mlagents.md` says which packages train and which load our models: so does the handshake."""

    async def meet(package: str) -> None:
        new = row.api >= "1.3"
        capabilities = Capabilities(hybrid_actions=new, variable_length=row.api >= "1.5")
        async with editor() as script:
            greeting = EngineInitialization("Academy", row.api, package, capabilities)
            if not row.trains:
                starting = asyncio.create_task(script.engine.start())
                await asyncio.sleep(0.02)
                call = script.says(encode_engine_message(initialization=greeting))
                with pytest.raises(VersionError, match=re.escape(f"package {package} uses communicator API")):
                    await starting
                await asyncio.wait([call])
                return
            await script.greets(greeting)
            answer = script.says(STEP)
            (batch,) = await script.resetting
            sent = Actions(np.array([[0.5]], np.float32), np.array([[2]], np.int32))
            stepping = asyncio.create_task(script.engine.step({SPEC.name: sent}))
            assert (np.array([0.5, 2.0], "<f4").tobytes() in await answer) == (not new)
            assert len(batch) == 1
            notes = script.engine.notes
            assert (notes == []) == row.loads
            for note in notes:
                assert note.startswith(f"package {package} (API {row.api}) can train, but cannot load")
                assert "upgrade com.unity.ml-agents to 2.0 or newer" in note
            stepping.cancel()

    for package in (row.first, row.last):
        run(meet(package))


@pytest.mark.parametrize("listen", [None, "127.0.0.1"], ids=["native", "grpcio"])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (encode_engine_message(), "its first message is not an introduction"),
        (STEP, "its first message is not an introduction"),
        (b"\xff\xff\xff", "received 3 bytes that are not a message of the protocol"),
    ],
    ids=["header", "step", "garbage"],
)
async def test_a_first_message_that_is_no_introduction_is_refused_and_the_engine_waited_for(
    listen: str | None, data: bytes, why: str
) -> None:
    told: list[str] = []
    async with editor(on_event=told.append, listen=listen) as script:
        with client(script.engine.port) as stranger:
            starting = asyncio.create_task(script.engine.start())
            await asyncio.sleep(0.02)
            with pytest.raises(grpc.RpcError) as refusal:
                await stranger.call(data)
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "whose first message is an introduction" in str(refusal.value.details())
        assert script.engine.stage == "connect"
        (sentence,) = told
        assert re.fullmatch(
            rf"(127\.0\.0\.1|\[::1\]):\d+ called but is not an engine \({why}\) and was refused; still waiting "
            "for engine 0",
            sentence,
        )
        await script.says(encode_engine_message(initialization=EngineInitialization()))
        second = script.says(encode_engine_message())
        await starting
        resetting = asyncio.create_task(script.engine.reset())
        await second
        answer = script.says(STEP)
        (batch,) = await resetting
        assert batch.agent_ids.tolist() == [4]
        await script.engine.close(0.1)
        assert decode_trainer_message(await answer, {}).status == 400


async def test_strangers_alone_are_waited_beside_until_time_is_up() -> None:
    """And who called instead stands in the sentence."""
    async with editor(0.5) as script:
        starting = asyncio.create_task(script.engine.start())
        await asyncio.sleep(0.02)
        with pytest.raises(grpc.RpcError):
            await script.says(STEP)
        with pytest.raises(EngineTimeoutError) as late:
            await starting
        assert re.match(
            r"nothing connected to port \d+ within 0\.5 s \(\S+ called but is not an engine \(its first "
            r"message is not an introduction\) and was refused\); press Play",
            str(late.value),
        )


async def test_nobody_presses_play() -> None:
    async with editor(timeout_s=0.3) as script:
        assert script.engine.stage == "connect"
        with pytest.raises(EngineTimeoutError, match=r"nothing connected to port \d+ within 0\.3 s; press Play"):
            await script.engine.start()


async def test_behaviors_at_different_rates(script: Script) -> None:
    """A message may hold one behavior or another, only ended agents, or nothing at all."""
    other = simple_spec(ActionSpec(2), (1,), name="Another?team=1")
    ended = Agent(9, (np.ones(1, np.float32),), done=True)
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


async def test_a_goodbye_that_nobody_has_read_is_answered_at_the_close(script: Script) -> None:
    """The engine broke off the call that we owed, and said goodbye with another."""
    await script.greets()
    step = script.begins(STEP)
    await script.resetting
    step.cancel()
    last = script.says(encode_close())
    await asyncio.sleep(0.1)
    await script.engine.close(5.0)
    assert decode_trainer_message(await last, {}).status == 400
