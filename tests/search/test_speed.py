"""How fast a game plays: what is counted, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import EngineError, EngineStoppedError
from tau_trainer.search import speed
from tau_trainer.search.speed import LargestMessages, speed_of
from tau_trainer.settings import load_settings
from tau_trainer.specs import Actions, StepBatch
from tests.evaluation.scripted import SPEC, batch
from tests.waiting import NEVER_S

SETTINGS = load_settings(None, {"env_settings.seed": 1, "env_settings.env_path": "game"})


class Game:
    """Two agents that ask in every step; it fails, or never begins, where told."""

    def __init__(self, *, fails: bool = False, begins: bool = True, lasts: float = float("inf")) -> None:
        self.specs, self.exchanges, self.ended = {SPEC.name: SPEC}, 0, ""
        self._fails, self._begins, self._lasts = fails, begins, lasts

    async def start(self, parameters: Any) -> list[StepBatch]:
        if not self._begins:
            await asyncio.sleep(NEVER_S)
        return [batch([1], [], 0)]

    def answer(self, actions: Mapping[str, Actions]) -> None:
        self.exchanges += 1

    async def next(self) -> list[StepBatch]:
        await asyncio.sleep(0)
        if self._fails:
            raise EngineError("it broke")
        if self.exchanges > self._lasts:
            raise EngineStoppedError("bye")
        return [batch([1, 2], [], self.exchanges)]

    async def recover(self, error: EngineError) -> list[StepBatch]:
        raise error

    async def close(self) -> None:
        self.ended = "closed"

    async def kill(self) -> None:
        self.ended = "killed"


@pytest.fixture
def games(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What plays."""
    found: list[Any] = []

    @contextmanager
    def opened(settings: Any, count: int, say: Any) -> Iterator[list[Any]]:
        assert len(found) == count
        yield found

    monkeypatch.setattr(speed, "all_opened", opened)
    return found


def test_exchanges_and_decisions_are_counted(games: list[Any]) -> None:
    games += [Game(), Game()]
    seen, told = LargestMessages(), list[float]()

    def look(share: float) -> bool:
        told.append(share)
        return True

    found = speed_of(SETTINGS, 2, 0.2, seen=seen, look=look)
    assert found is not None
    assert (found.engines, found.agents, list(found.rates)) == (2, 2.0, ["Walker"])
    assert found.rate == pytest.approx(found.engines * found.agents / found.exchange_s)
    assert [len(shown) for shown in seen.shown.values()] == [2], "the message with the most agents"
    assert [game.ended for game in games] == ["closed", "closed"]
    assert all(0.0 <= share <= 1.0 for share in told)
    assert sum(game.exchanges for game in games) * found.exchange_s / 2 == pytest.approx(0.2, rel=0.5)


def test_who_fails_ends_all_with_one_sentence(games: list[Any]) -> None:
    games += [Game(), Game(fails=True)]
    with pytest.raises(EngineError, match="it broke"):
        speed_of(SETTINGS, 2, NEVER_S)
    assert [game.ended for game in games] == ["killed", "killed"]


def test_it_can_be_stopped_before_the_game_has_begun(games: list[Any]) -> None:
    games.append(Game(begins=False))
    assert speed_of(SETTINGS, 1, 1.0, look=lambda share: False) is None
    assert games[0].ended == "killed"


@pytest.mark.parametrize(("warm_up", "counts"), [(0.0, True), (1.0, False)])
def test_what_was_counted_until_it_was_stopped_counts(
    warm_up: float, counts: bool, games: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    games.append(Game())
    monkeypatch.setattr(speed, "_WARM_UP", warm_up)
    found = speed_of(SETTINGS, 1, NEVER_S, look=lambda share: games[0].exchanges < 10)
    assert (found is not None) == counts
    assert games[0].ended == "killed"


def test_a_game_that_leaves_at_once_gave_nothing(games: list[Any]) -> None:
    games.append(Game(lasts=0))
    assert speed_of(SETTINGS, 1, 0.05) is None


def test_the_message_with_the_most_agents_is_kept() -> None:
    seen = LargestMessages()
    for ids in ([], [1], [1, 2, 3], [4, 5]):
        seen.see(SPEC, batch(ids, [], 7))
    seen.abandon()
    np.testing.assert_array_equal(seen.shown[SPEC].agent_ids, [1, 2, 3])
