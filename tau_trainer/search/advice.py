"""What to learn a game with, and on how many engines: measured in about a minute, decided by one rule.

How fast it plays is measured with actions by chance (:mod:`.speed`), what gradient steps cost on what it shows
(:mod:`.stillness`); :func:`~tau_trainer.training.advice.advised_trainer` is the rule. How many decisions a task takes
cannot be seen so soon.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tau_trainer import plugins
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.search.scaling import Probe, Scaling, scaled
from tau_trainer.search.speed import Seen, Speed, speed_of
from tau_trainer.search.stillness import Costs
from tau_trainer.settings import RunSettings
from tau_trainer.training.advice import (
    LEAST_STEPS,
    PPO_KINDS,
    SLOW,
    USUAL,
    advised_trainer,
    kinds_of,
    read_advised,
    replaceable,
    rewritten,
    steps_a_decision,
    trainers_of,
)

FILE = "file"
"""Who learns as the file says."""
GAIN = 0.25
"""Share by which a doubling has to be faster: an engine costs memory, and a core of its own."""
_FIRST, _EACH = 1 / 6, 1 / 12
"""Of all seconds: those of the first measurement, and of each that follows."""
_PROBES = 5
"""Numbers of engines, or of areas, that are tried at most."""
_QUICKER = 5.0
"""Times the time scale, to see whether that helps."""
_AN_HOUR_S = 3600.0

Tell = Callable[[str, float, str], None]
"""Told what is measured, how far that is (0 to 1), and what came of it."""


@dataclass(slots=True)
class Measured:
    """What was measured until it ended."""

    game: Speed
    """As the settings are."""
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of a gradient step: by :data:`FILE` or the trainer type that would take its place, by behavior."""
    refused: dict[str, str] = field(default_factory=dict)
    """Trainer types that cannot learn this, and why."""
    engines: Scaling | None = None
    areas: Scaling | None = None
    """None: not looked for, or the scene does not multiply."""
    quicker: float | None = None
    """Times the decisions a second at a time scale that is so much higher; None: not looked for."""
    time_scale: float = 0.0
    """That one."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do."""

    trainer: str | None
    """The trainer type; None: the file's."""
    why: str
    """A sentence."""
    engines: int
    areas: int
    hours: float | None
    """For the file's ``max_steps``; None: nobody knows what learning costs."""
    hours_of_file: float | None
    """The same as the file is, on the engines that it names."""
    room: float | None
    """Gradient steps of the algorithm for slow games for each decision that fit into the time of the game."""

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


class Adviser:
    """Measures a game and what learns it.

    Args:
        settings: of the run, with a seed.
        candidates: settings by the trainer type that would take the place of the file's; those it has as
            :data:`FILE`.
        refused: trainer types that cannot, and why.
        seconds: of play and learning, in all; engines take their time to start besides.
        say: told sentences for the person who watches.
    """

    def __init__(
        self,
        settings: RunSettings,
        candidates: Mapping[str, RunSettings],
        refused: Mapping[str, str],
        seconds: float,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.measured: Measured | None = None
        self._settings, self._candidates, self._refused = settings, candidates, refused
        self._seconds, self._say = seconds, say
        self._tell: Tell = lambda *_: None
        self._seen = Seen()
        self._costs: Costs | None = None
        self._stopped = False

    @property
    def first(self) -> int:
        """Engines that the settings ask for."""
        return engines_of(self._settings)

    def stop(self) -> None:
        """End what is under way, begin nothing else, and keep what was measured. Call from any thread."""
        self._stopped = True
        if self._costs is not None:
            self._costs.stop()

    def run(self, tell: Tell = lambda *_: None) -> Measured:
        """Measure; ``tell`` hears how it goes.

        Raises TauError: the game cannot be played, or it was stopped before anything was known of it.
        """
        self._tell = tell
        game = self._play("the game", self._settings, self.first, _FIRST)
        if game is None:
            why = "it was stopped" if self._stopped else "it ended by itself"
            raise TauError(f"nothing is known of the game yet, for {why}; let it play for longer")
        self.measured = found = Measured(game, refused=dict(self._refused))
        for name, settings in self._candidates.items():
            self._learn(name, settings)
        env = self._settings.env_settings
        if env.awaited:
            return found
        found.engines = self._scaled(self.first, 2 * (os.cpu_count() or 1), self._with_engines)
        found.areas = self._scaled(env.num_areas, None, self._with_areas)
        if env.env_path is not None and env.env_path.partition(":")[0] not in plugins.names("environments"):
            self._quicken()
        return found

    def _play(self, name: str, settings: RunSettings, engines: int, share: float = _EACH) -> Speed | None:
        if self._stopped:
            return None
        seen = self._seen if not self._seen.shown else None

        def look(share: float) -> bool:
            self._tell(name, share, "plays" if share else "starts")
            return not self._stopped

        speed = speed_of(
            settings,
            engines,
            share * self._seconds,
            seen=seen,
            look=look,
            say=self._say,
        )
        if speed is not None:
            self._tell(name, 1.0, f"{speed.rate:,.0f} decisions a second")
        return speed

    def _learn(self, name: str, settings: RunSettings) -> None:
        """What gradient steps of these settings cost."""
        if self._stopped:
            return
        assert self.measured is not None
        self._tell(f"learning ({name})", 0.0, "learning from what the game shows")
        costs = self._costs = Costs(self._seen.shown, _EACH * self._seconds)
        try:
            found = costs.measure(settings)
        except TauError as error:
            if name == FILE:
                raise
            self.measured.refused[name] = str(error)
            return
        if found:
            self.measured.costs[name] = found
            took = ", ".join(f"{1e3 * seconds:.2g} ms" for seconds in found.values())
            self._tell(f"learning ({name})", 1.0, f"{took} a gradient step")

    def _scaled(self, first: int, most: int | None, tried: Callable[[int], Probe]) -> Scaling | None:
        """How many are worth it; None: more than the first cannot be."""
        if self._stopped or (most is not None and most <= first):
            return None
        assert self.measured is not None
        known = [Probe(first, self.measured.game.rate)]
        probes = 0

        def measure(size: int) -> Probe:
            nonlocal probes
            if known and size == first:
                return known.pop()
            probes += 1
            return tried(size)

        found = scaled(measure, first, gain=GAIN, most=most, stopped=lambda: self._stopped or probes >= _PROBES)
        return found if any(not probe.failure for probe in found.probes[1:]) else None

    def _with_engines(self, count: int) -> Probe:
        try:
            speed = self._play(f"{count} engines", self._settings, count)
        except TauError as error:
            return Probe(count, failure="error", text=str(error))
        return Probe(count, failure="ended") if speed is None else Probe(count, speed.rate)

    def _with_areas(self, count: int) -> Probe:
        """So many training areas in each engine, where the game lets itself be told."""
        assert self.measured is not None
        env, game = self._settings.env_settings, self.measured.game
        settings = self._settings.model_copy(update={"env_settings": env.model_copy(update={"num_areas": count})})
        try:
            speed = self._play(f"{count} areas", settings, self.first)
        except TauError as error:
            return Probe(count, failure="error", text=str(error))
        if speed is None:
            return Probe(count, failure="ended")
        if speed.agents < (1.0 + 0.5 * (count / env.num_areas - 1.0)) * game.agents:
            return Probe(count, failure="error", text="it has no more agents so")
        return Probe(count, speed.rate)

    def _quicken(self) -> None:
        """Whether a higher time scale gives more."""
        assert self.measured is not None
        engine = self._settings.engine_settings
        scale = _QUICKER * engine.time_scale
        quick = self._settings.model_copy(update={"engine_settings": engine.model_copy(update={"time_scale": scale})})
        speed = self._play(f"time scale {scale:g}", quick, self.first)
        if speed is not None:
            self.measured.quicker, self.measured.time_scale = speed.rate / self.measured.game.rate, scale

    def advice(self) -> Advice:
        """What follows from what was measured."""
        assert self.measured is not None
        kinds = [kinds_of(spec, self._settings.of_behavior(spec.short_name)) for spec in self._seen.shown]
        return advice_of(self.measured, self._settings, self._candidates, frozenset().union(*kinds))


def candidates_of(
    data: Mapping[str, Any], settings: RunSettings, name: str
) -> tuple[dict[str, RunSettings], dict[str, str]]:
    """Settings of a file as it is (:data:`FILE`) and with other trainer types; and of those that it refuses, why.

    Args:
        data: of the file, with what flags say.
        settings: that were read from it.
        name: of the file, for messages.
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
            changes = {"behaviors": read.behaviors, "default_settings": read.default_settings}
            found[trainer] = settings.model_copy(update=changes)
    return found, refused


def engines_of(settings: RunSettings) -> int:
    """Engines that settings ask for, those of actors included."""
    return settings.async_trainer.actors if settings.execution == "async" else settings.env_settings.engines


def advice_of(
    measured: Measured,
    settings: RunSettings,
    candidates: Mapping[str, RunSettings],
    kinds: frozenset[str] = frozenset(),
) -> Advice:
    """What follows from what was ``measured`` of a game with these ``settings``, of these ``kinds`` of task."""
    game, file = measured.game, {settings.of_behavior(name).trainer_type for name in measured.game.rates}
    room = room_of(game, measured.costs.get(FILE if file == {SLOW} else SLOW, {}))
    trainer, why = algorithm_of(measured.refused, replaceable(settings), room, kinds)
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
    """How fast a run gets on that learns as one of the candidates does."""

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
        """Decisions a second: as many as the game gives, or as are learned from."""
        return rate / max(1.0, rate * (self.work_s or 0.0))

    def hours(self, rate: float) -> float | None:
        """Until the last behavior has had its ``max_steps``; None: what learning takes was not measured."""
        if self.work_s is None:
            return None
        times = self(rate) / self._rate
        return max(self._trainers[name].max_steps / (times * each) for name, each in self._rates.items()) / _AN_HOUR_S


def algorithm_of(
    refused: Mapping[str, str], others: bool, room: float | None, kinds: frozenset[str]
) -> tuple[str | None, str]:
    """The trainer type by the rule, and a sentence that says why.

    Args:
        refused: trainer types that cannot learn this, and why.
        others: whether another trainer type may take the place of the file's.
        room: gradient steps of the algorithm for slow games that fit, see :func:`room_of`.
        kinds: of the task.

    Returns:
        The trainer type, None: the file's; and why.
    """
    if not others:
        return None, "No other algorithm takes the place of the file's trainer_type."
    if room is None:
        return None, refused.get(SLOW, f"What a gradient step of {SLOW} costs was not measured.")
    trainer = advised_trainer(room, kinds)
    if trainer in refused:
        return None, refused[trainer]
    if trainer == USUAL and room >= LEAST_STEPS:
        return trainer, f"For {', '.join(sorted(kinds & set(PPO_KINDS)))} {USUAL} takes fewer decisions."
    if trainer == USUAL:
        return (
            trainer,
            f"The game is quicker than gradient steps of {SLOW}: so many decisions are best learned by {USUAL}.",
        )
    return (
        trainer,
        f"The game is slow enough for gradient steps of {SLOW} while it plays, so each decision teaches more.",
    )


def _worth(tried: Scaling | None, first: Probe, pace: _Pace) -> Probe:
    """The size that is worth it for a run, which may not be able to learn from all that the largest gives."""
    taken = first
    for probe in tried.curve if tried is not None else ():
        more = probe.size > taken.size and tried is not None and probe.size <= tried.best
        if more and pace(probe.rate) >= (1.0 + GAIN) ** math.log2(probe.size / taken.size) * pace(taken.rate):
            taken = probe
    return taken
