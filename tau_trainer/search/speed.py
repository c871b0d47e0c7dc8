"""Speed of a game without learning, with a number of engines: agents take random actions."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tau_trainer.envs import Environment, Parameters
from tau_trainer.evaluation.play import Play, Say, all_opened
from tau_trainer.evaluation.players import RANDOM, make_players
from tau_trainer.settings import RunSettings
from tau_trainer.specs import BehaviorSpec, StepBatch
from tau_trainer.training.lessons import Lessons

_WARM_UP = 0.2
"""Share of the seconds to play before measuring."""
_LOOK_S = 0.1
"""Seconds between checks whether to stop."""

Look = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Speed:
    """Measured speed of engines."""

    engines: int
    exchange_s: float
    """Seconds of an exchange of one engine, from one step to the next."""
    agents: float
    """Decisions per exchange."""
    rates: Mapping[str, float]
    """Decisions per second of all engines, by the behavior's short name."""

    @property
    def rate(self) -> float:
        """Decisions per second of all engines and behaviors."""
        return sum(self.rates.values())


class LargestMessages:
    """Keeps the message with the most agents of every behavior. Implements :class:`~.play.Referee`."""

    def __init__(self) -> None:
        self.shown: dict[BehaviorSpec, StepBatch] = {}

    def see(self, spec: BehaviorSpec, batch: StepBatch) -> None:
        """A behavior's part of a message."""
        if len(batch) > (len(self.shown[spec]) if spec in self.shown else 0):
            self.shown[spec] = batch

    def abandon(self) -> None:
        """Do nothing: messages stay valid."""


def speed_of(
    settings: RunSettings,
    engines: int,
    seconds: float,
    *,
    seen: LargestMessages | None = None,
    look: Look = lambda share: True,
    say: Say = lambda text: None,
) -> Speed | None:
    """Play for ``seconds`` after all engines have started; None if it was stopped before there was a result.

    Args:
        settings: settings with the game.
        engines: number of engines at once.
        seconds: seconds to play.
        seen: receives all messages.
        look: called regularly with the share of the seconds that is over; returns whether to continue.
        say: called with sentences for the user.

    Raises:
        TauError: the game cannot be played.
    """
    parameters = Lessons(settings.environment_parameters or {}).parameters
    player_of = make_players(RANDOM, settings.env_settings.seed, deterministic=False)
    with all_opened(settings, engines, say) as environments:
        plays = [Play(environment, player_of, referee=seen) for environment in environments]
        return asyncio.run(_Round(environments, plays).played(parameters, seconds, look))


class _Round:
    """Engines that play at once."""

    def __init__(self, environments: Sequence[Environment], plays: Sequence[Play]) -> None:
        self._environments, self._plays = environments, plays
        self._start = 0.0
        """Time when all engines had started."""
        self._begun: tuple[float, int, Counter[str]] | None = None
        """Time, exchanges and decisions at the start of measuring; None before it."""

    async def played(self, parameters: Parameters, seconds: float, look: Look) -> Speed | None:
        playing = asyncio.create_task(self._play(parameters, seconds))
        try:
            while not playing.done() and look(self._share(seconds)):
                await asyncio.wait({playing}, timeout=_LOOK_S)
            speed = self._speed()
            if playing.done():
                playing.result()
            return speed
        except ExceptionGroup as several:  # the first failure
            raise several.exceptions[0] from None
        finally:
            whole = playing.done() and playing.exception() is None
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            ends = (each.close() if whole else each.kill() for each in self._environments)
            await asyncio.gather(*ends, return_exceptions=True)

    async def _play(self, parameters: Parameters, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            for play in self._plays:
                group.create_task(play.begin(parameters))
        self._start = time.perf_counter()
        await self._until(self._start + _WARM_UP * seconds)
        self._begun = self._now()
        await self._until(self._begun[0] + (1.0 - _WARM_UP) * seconds)

    async def _until(self, end: float) -> None:
        async with asyncio.TaskGroup() as group:
            for play in self._plays:
                group.create_task(play.until(lambda play: time.perf_counter() >= end))

    def _share(self, seconds: float) -> float:
        return min(1.0, (time.perf_counter() - self._start) / seconds) if self._start else 0.0

    def _now(self) -> tuple[float, int, Counter[str]]:
        decisions = Counter[str]()
        for play in self._plays:
            for side in play.sides.values():
                decisions[side.player.spec.short_name] += side.decisions
        return time.perf_counter(), sum(each.exchanges for each in self._environments), decisions

    def _speed(self) -> Speed | None:
        if self._begun is None:
            return None
        begun, now = self._begun, self._now()
        lasted, exchanges, decisions = now[0] - begun[0], now[1] - begun[1], now[2] - begun[2]
        if not exchanges or not decisions:
            return None
        engines = len(self._plays)
        rates = {behavior: count / lasted for behavior, count in decisions.items()}
        return Speed(engines, lasted * engines / exchanges, decisions.total() / exchanges, rates)
