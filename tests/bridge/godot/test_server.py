"""The server of Godot games, against plain sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from tau_trainer.bridge.dialect import Dialect
from tau_trainer.bridge.godot.dialect import GREETING, Godot
from tau_trainer.bridge.godot.server import GodotServer, framed
from tau_trainer.errors import EngineDisconnectedError
from tests.bridge.godot.games import introduction

HELLO = json.dumps(introduction()).encode()


class Game:
    """A game that says what the test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, message: bytes) -> None:
        self.writer.write(framed(message))

    async def hear(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "little")
        return await self.reader.readexactly(size)


class Place:
    """A listening server, the calls that it refused, and games that connect."""

    def __init__(self) -> None:
        self.server = GodotServer(Godot())
        self.server.objection = Dialect.objection
        self.refused: list[str] = []
        self.server.on_stranger = lambda peer, why: self.refused.append(why)
        self._games: list[Game] = []

    async def game(self) -> Game:
        self._games.append(Game(*await asyncio.open_connection("127.0.0.1", self.server.port)))
        return self._games[-1]

    async def __aenter__(self) -> Place:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for game in self._games:
            game.writer.close()
            with contextlib.suppress(ConnectionError):
                await game.writer.wait_closed()
        await self.server.stop()


@pytest.fixture
def place() -> Place:
    return Place()


async def test_the_trainer_speaks_first_and_then_in_turn(place: Place) -> None:
    server, game = place.server, await place.game()
    assert [json.loads(await game.hear())["type"] for _ in GREETING] == ["handshake", "env_info"]
    waiting = server.receive()
    game.say(HELLO)
    assert await waiting == HELLO
    owed = [server.owes_reply]
    for text in (b"", b"{}", b'"a"' * 2**21):
        server.reply(text)
        owed.append(server.owes_reply)
        assert await game.hear() == text
        game.say(text)
        assert await server.receive() == text
    assert owed == [True, False, False, False]


async def test_a_message_may_come_in_pieces(place: Place) -> None:
    game, data = await place.game(), framed(HELLO)
    waiting = place.server.receive()
    for part in (data[:2], data[2:7], data[7:]):
        game.writer.write(part)
        await game.writer.drain()
        await asyncio.sleep(0)
    assert await waiting == HELLO


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", r"its message would have 542,393,671 bytes, and 4,194,304 is the limit"),
        (framed(b"{}"), "its first message is not an introduction"),
        (framed(b"hello"), "5 bytes that are not JSON"),
        (framed(b'{"type": "step"}'), "its first message is not an introduction"),
    ],
)
async def test_strangers_are_refused_and_the_game_can_still_come(place: Place, data: bytes, why: str) -> None:
    stranger = await place.game()
    stranger.writer.write(data)
    await stranger.reader.read()  # until it is closed
    assert len(place.refused) == 1
    assert why in place.refused[0]
    game = await place.game()
    game.say(HELLO)
    assert await place.server.receive() == HELLO


async def test_a_second_game_is_refused(place: Place) -> None:
    game, other = await place.game(), await place.game()
    game.say(HELLO)
    assert await place.server.receive() == HELLO
    other.say(HELLO)
    await other.reader.read()
    assert place.refused == []
    place.server.reply(b"{}")
    game.say(b"1")
    assert await place.server.receive() == b"1"


@pytest.mark.parametrize("twice", [framed(b"{}") * 2, framed(b"{}") + b"\xff\xff\xff\xff"])
async def test_a_game_that_speaks_out_of_turn_is_cut_off(place: Place, twice: bytes) -> None:
    game = await place.game()
    game.say(HELLO)
    await place.server.receive()
    place.server.reply(b"{}")
    game.writer.write(twice)
    assert await place.server.receive() == b"{}"
    with pytest.raises(EngineDisconnectedError, match=r"was cut off: its? "):
        await place.server.receive()


async def test_a_game_that_leaves_has_disconnected(place: Place) -> None:
    game = await place.game()
    game.say(HELLO)
    await place.server.receive()
    game.writer.close()
    with pytest.raises(EngineDisconnectedError, match="closed the connection"):
        await place.server.receive()
    assert not place.server.owes_reply


async def test_silent_callers_make_room_for_others(place: Place) -> None:
    callers = [await place.game() for _ in range(17)]
    with contextlib.suppress(ConnectionResetError):
        await callers[0].reader.read()  # until it is closed
    callers[-1].say(HELLO)
    assert await place.server.receive() == HELLO
