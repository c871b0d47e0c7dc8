"""Recommends an algorithm and a number of engines for a game: measured in about a minute, decided by one rule.

The speed of the game is measured with random actions (:mod:`.speed`), the time of gradient steps with its observations
(:mod:`.stillness`); :func:`~tau_trainer.training.advice.advised_trainer` is the rule. The number of decisions that the
task needs cannot be measured so quickly.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tau_trainer import plugins
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.evaluation.play import Say
from tau_trainer.metrics.format import format_milliseconds
from tau_trainer.search.scaling import Probe, Scaling, scaled
from tau_trainer.search.speed import LargestMessages, Speed, speed_of
from tau_trainer.search.stillness import Costs
from tau_trainer.search.stopping import Stoppable
from tau_trainer.settings import RunSettings
from tau_trainer.settings.engines import plays_unreal
from tau_trainer.training.advice import (
    LEAST_STEPS,
    SLOW,
    USUAL,
    advised_trainer,
    read_advised,
    reasons_for_ppo,
    replaceable,
    rewritten,
    steps_a_decision,
    trainers_of,
)

FILE = "file"
"""Key of the file's own trainers."""
GAIN = 0.25
"""Minimum gain of a doubling, as a share: an engine costs memory and a core."""
_FIRST, _EACH = 1 / 6, 1 / 12
"""Shares of the total seconds for the first measurement, and for each further one."""
_PROBES = 5
"""Maximum number of sizes to try, for engines and for areas."""
_QUICKER = 5.0
"""Factor on the time scale to try."""
_AN_HOUR_S = 3600.0

Tell = Callable[[str, float, str], None]
"""Called with the name of a measurement, its progress (0 to 1), and its result."""


@dataclass(slots=True)
class Measured:
    """The measurements so far."""

    game: Speed
    """Speed with the settings as they are."""
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of a gradient step: by :data:`FILE` or the trainer type that would replace it, then by behavior."""
    refused: dict[str, str] = field(default_factory=dict)
    """Trainer types that cannot learn this game, with the reasons."""
    engines: Scaling | None = None
    areas: Scaling | None = None
    """None: not measured, or the scene does not support several areas."""
    quicker: float | None = None
    """Factor on the decisions per second at the higher :attr:`time_scale`; None: not measured."""
    time_scale: float = 0.0
    """The higher time scale that was tried."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommendation."""

    trainer: str | None
    """The trainer type; None: the file's."""
    why: str
    """The reason, in a sentence."""
    engines: int
    areas: int
    hours: float | None
    """Hours for the file's ``max_steps``; None if the time of learning is unknown."""
    hours_of_file: float | None
    """Hours for the unchanged file, with its own number of engines."""
    room: float | None
    """Gradient steps per decision, of the algorithm for slow games, that fit into the time of the game."""


class Measuring(Stoppable):
    """Plays a game with random actions, and collects the messages of its first play.

    Args:
        settings: settings of the run, with a seed.
        seconds: total seconds of play and learning, without the time to start engines.
        say: called with sentences for the user.
    """

    def __init__(self, settings: RunSettings, seconds: float, say: Say = lambda text: None) -> None:
        self._settings, self._seconds, self._say = settings, seconds, say
        self._tell: Tell = lambda *_: None
        self._seen = LargestMessages()

    def _speed(self, name: str, settings: RunSettings, engines: int, seconds: float) -> Speed | None:
        """Play for ``seconds`` and report the progress of ``name``; None if there was no result."""

        def look(share: float) -> bool:
            self._tell(name, share, "plays" if share else "starts")
            return not self.stopped

        seen = self._seen if not self._seen.shown else None
        return speed_of(settings, engines, seconds, seen=seen, look=look, say=self._say)


class Adviser(Measuring):
    """Measures a game and the trainers that may learn it.

    Args:
        settings: settings of the run, with a seed.
        candidates: settings by the trainer type that would replace the file's; the file's own are :data:`FILE`.
        refused: trainer types that cannot learn the game, with the reasons.
        seconds: total seconds of play and learning, without the time to start engines.
        say: called with sentences for the user.
    """

    measured: Measured
    """The measurements so far, once the game has been played."""

    def __init__(
        self,
        settings: RunSettings,
        candidates: Mapping[str, RunSettings],
        refused: Mapping[str, str],
        seconds: float,
        say: Say = lambda text: None,
    ) -> None:
        super().__init__(settings, seconds, say)
        self._candidates, self._refused = candidates, refused
        self._engines = engines_of(settings)

    def run(self, tell: Tell = lambda *_: None) -> Measured:
        """Measure; ``tell`` receives the progress.

        Raises TauError: the game cannot be played, or it was stopped before any result.
        """
        self._tell = tell
        game = self._play("the game", self._settings, self._engines, _FIRST)
        if game is None:
            why = "it was stopped" if self.stopped else "it ended by itself"
            raise TauError(f"the game was not measured, because {why}; let it play for longer")
        self.measured = found = Measured(game, refused=dict(self._refused))
        for name, settings in self._candidates.items():
            self._learn(name, settings)
        env = self._settings.env_settings
        if env.awaited:
            return found
        found.engines = self._scaled(self._engines, 2 * (os.cpu_count() or 1), self._with_engines)
        found.areas = self._scaled(env.num_areas, None, self._with_areas)
        path = env.env_path or ""
        if path and not plays_unreal(path) and path.partition(":")[0] not in plugins.names("environments"):
            self._quicken()
        return found

    def _play(self, name: str, settings: RunSettings, engines: int, share: float = _EACH) -> Speed | None:
        speed = None if self.stopped else self._speed(name, settings, engines, share * self._seconds)
        if speed is not None:
            self._tell(name, 1.0, f"{speed.rate:,.0f} decisions a second")
        return speed

    def _learn(self, name: str, settings: RunSettings) -> None:
        """Measure the time of gradient steps with these settings."""
        if self.stopped:
            return
        self._tell(f"learning ({name})", 0.0, "learning from the game's observations")
        costs = self.running(Costs(self._seen.shown, _EACH * self._seconds))
        try:
            found = costs.measure(settings)
        except TauError as error:
            if name == FILE:
                raise
            self.measured.refused[name] = str(error)
            return
        if found:
            self.measured.costs[name] = found
            took = ", ".join(map(format_milliseconds, found.values()))
            self._tell(f"learning ({name})", 1.0, f"{took} a gradient step")

    def _scaled(self, first: int, most: int | None, tried: Callable[[int], Probe]) -> Scaling | None:
        """The number that is worth it; None if no more than the first are possible."""
        if self.stopped or (most is not None and most <= first):
            return None
        known = [Probe(first, self.measured.game.rate)]
        probes = 0

        def measure(size: int) -> Probe:
            nonlocal probes
            if known and size == first:
                return known.pop()
            probes += 1
            return tried(size)

        found = scaled(measure, first, gain=GAIN, most=most, stopped=lambda: self.stopped or probes >= _PROBES)
        return found if any(not probe.failure for probe in found.probes[1:]) else None

    def _with_engines(self, count: int) -> Probe:
        return self._tried(f"{count} engines", count, self._settings, count)

    def _with_areas(self, count: int) -> Probe:
        """The speed with this number of training areas in each engine, if the game supports them."""
        settings = self._settings.having(env_settings={"num_areas": count})
        more = 0.5 * (count / self._settings.env_settings.num_areas - 1.0)
        return self._tried(f"{count} areas", count, settings, self._engines, (1.0 + more) * self.measured.game.agents)

    def _tried(self, name: str, count: int, settings: RunSettings, engines: int, agents: float = 0.0) -> Probe:
        """The speed with ``count`` engines or areas, which need at least ``agents`` decisions in an exchange."""
        try:
            speed = self._play(name, settings, engines)
        except TauError as error:
            return Probe(count, failure="error", text=str(error))
        if speed is None:
            return Probe(count, failure="ended")
        if speed.agents < agents:
            return Probe(count, failure="error", text="it has no more agents than before")
        return Probe(count, speed.rate)

    def _quicken(self) -> None:
        """Measure whether a higher time scale is faster."""
        scale = _QUICKER * self._settings.engine_settings.time_scale
        quick = self._settings.having(engine_settings={"time_scale": scale})
        speed = self._play(f"time scale {scale:g}", quick, self._engines)
        if speed is not None:
            self.measured.quicker = speed.rate / self.measured.game.rate
            self.measured.time_scale = scale

    def advice(self) -> Advice:
        """The recommendation from the measurements."""
        reasons = [reasons_for_ppo(spec, self._settings.of_behavior(spec.short_name)) for spec in self._seen.shown]
        return advice_of(self.measured, self._settings, self._candidates, frozenset().union(*reasons))


def candidates_of(
    data: Mapping[str, Any], settings: RunSettings, name: str
) -> tuple[dict[str, RunSettings], dict[str, str]]:
    """Settings of a file as it is (:data:`FILE`) and with other trainer types; and refused ones with the reasons.

    Args:
        data: content of the file, with flags applied.
        settings: settings read from it.
        name: name of the file, for messages.
    """
    found, refused = {FILE: settings}, dict[str, str]()
    known = {trainer.trainer_type for trainer in trainers_of(settings)}
    for trainer in dict.fromkeys((SLOW, USUAL)) if replaceable(settings) else ():
        if known == {trainer}:
            continue
        try:
            read = read_advised(rewritten(data, settings, trainer, {}), name)
        except SettingsError as error:
            refused[trainer] = str(error)
        else:
            found[trainer] = settings.having(behaviors=read.behaviors, default_settings=read.default_settings)
    return found, refused


def engines_of(settings: RunSettings) -> int:
    """Number of engines in the settings, including those of actors."""
    return settings.async_trainer.actors if settings.execution == "async" else settings.env_settings.engines


def advice_of(
    measured: Measured,
    settings: RunSettings,
    candidates: Mapping[str, RunSettings],
    reasons: frozenset[str] = frozenset(),
) -> Advice:
    """The recommendation for a game ``measured`` with these ``settings``; ``reasons``: to use PPO at any speed."""
    game = measured.game
    file = {settings.of_behavior(name).trainer_type for name in measured.game.rates}
    room = room_of(game, measured.costs.get(FILE if file == {SLOW} else SLOW, {}))
    trainer, why = algorithm_of(measured.refused, replaceable(settings), room, reasons)
    trainer = None if file == {trainer} else trainer
    old, new = (_Pace(measured, name, candidates[name]) for name in (FILE, trainer or FILE))
    engines = _worth(measured.engines, Probe(engines_of(settings), game.rate), new)
    areas = _worth(measured.areas, Probe(settings.env_settings.num_areas, game.rate), new)
    several = engines.rate > areas.rate  # both together were not measured
    return Advice(
        trainer=trainer,
        why=why,
        engines=engines.size if several else engines_of(settings),
        areas=settings.env_settings.num_areas if several else areas.size,
        hours=new.hours(max(engines.rate, areas.rate)),
        hours_of_file=old.hours(game.rate),
        room=room,
    )


def room_of(game: Speed, costs: Mapping[str, float]) -> float | None:
    """Gradient steps for each decision that fit into the time of a game; None: no cost is known.

    Args:
        game: how fast it plays.
        costs: seconds of a gradient step, by behavior.
    """
    busy = sum(game.rates.get(name, 0.0) * cost for name, cost in costs.items())
    return 1.0 / busy if busy else None


class _Pace:
    """Speed of a run that learns with one of the candidates."""

    def __init__(self, measured: Measured, name: str, settings: RunSettings) -> None:
        rates, costs = measured.game.rates, measured.costs.get(name)
        self._rates, self._rate = rates, measured.game.rate
        self._trainers = {behavior: settings.of_behavior(behavior) for behavior in rates}
        self.work_s: float | None = None
        """Seconds of learning for a decision; None: not measured."""
        if costs is not None:
            steps = {behavior: steps_a_decision(trainer) for behavior, trainer in self._trainers.items()}
            works = (rate * steps[behavior] * costs.get(behavior, 0.0) for behavior, rate in rates.items())
            self.work_s = sum(works) / self._rate

    def __call__(self, rate: float) -> float:
        """Decisions per second: limited by the game or by learning."""
        return rate / max(1.0, rate * (self.work_s or 0.0))

    def hours(self, rate: float) -> float | None:
        """Hours until every behavior has reached its ``max_steps``; None if learning was not measured."""
        if self.work_s is None:
            return None
        times = self(rate) / self._rate
        return max(self._trainers[name].max_steps / (times * each) for name, each in self._rates.items()) / _AN_HOUR_S


def algorithm_of(
    refused: Mapping[str, str], others: bool, room: float | None, reasons: frozenset[str]
) -> tuple[str | None, str]:
    """The trainer type by the rule, and a sentence that says why.

    Args:
        refused: trainer types that cannot learn this, and why.
        others: whether another trainer type may replace the file's.
        room: gradient steps of the algorithm for slow games that fit, see :func:`room_of`.
        reasons: to use PPO at any speed, see :func:`.reasons_for_ppo`.

    Returns:
        The trainer type, None: the file's; and why.
    """
    if not others:
        return None, "No other algorithm can replace the file's trainer_type."
    if room is None:
        return None, refused.get(SLOW, f"The time of a gradient step of {SLOW} was not measured.")
    trainer = advised_trainer(room, reasons)
    if trainer in refused:
        return None, refused[trainer]
    if trainer == USUAL and room >= LEAST_STEPS:
        clauses = " and ".join(sorted(reasons))
        return trainer, f"If {clauses}, {USUAL} needs fewer decisions than {SLOW}."
    if trainer == USUAL:
        return (
            trainer,
            f"The game is faster than gradient steps of {SLOW}; {USUAL} learns best from this number of decisions.",
        )
    return (
        trainer,
        f"The game is slow enough for gradient steps of {SLOW} during play, so each decision teaches more.",
    )


def _worth(tried: Scaling | None, first: Probe, pace: _Pace) -> Probe:
    """The size that is worth it for a run, whose learning may be slower than the play of the largest size."""
    taken = first
    for probe in tried.curve if tried is not None else ():
        more = probe.size > taken.size and tried is not None and probe.size <= tried.best
        if more and pace(probe.rate) >= (1.0 + GAIN) ** math.log2(probe.size / taken.size) * pace(taken.rate):
            taken = probe
    return taken
