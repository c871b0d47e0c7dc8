"""Opponents of a behavior in self-play: earlier versions of its policy, the newest one, model files; and Elo.

Elo as ML-Agents computes it, with K = 1: a player whose expected score is ``1 / (1 + 10^((other - own) / 400))`` and
whose actual score is 1, 0.5 or 0 gains the difference, and the other loses it. An opponent that is the newest policy
has the learner's own rating, so such a game changes nothing. A game against several teams is rated for every pair, each
with its share of K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, prefixed, unprefixed
from tau_trainer.errors import ExportError, SettingsError
from tau_trainer.export.policy import OnnxPolicy
from tau_trainer.metrics.games import Games
from tau_trainer.models import Policy
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.specs import BehaviorSpec, Json

PREFIX: Final = "self_play."
"""Prefix of the names of a checkpoint's arrays that belong to snapshots."""
NEWEST: Final = "newest"
"""Name of the newest policy as an opponent."""


@dataclass(slots=True)
class Rating:
    """Elo, in the usual units."""

    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Opponent:
    """A policy that ghosts act with.

    Attributes:
        key: its number among the snapshots, :data:`NEWEST`, or the path of its file.
        made: number of decisions behind it, if it is a snapshot.
    """

    key: str
    policy: Policy
    rating: Rating
    made: int | None = None

    @property
    def weights_key(self) -> int | str:
        """A key that is equal for opponents with the same weights.

        Two of them may hold two copies of one policy: one from a checkpoint, the other drawn since.
        """
        return self.key if isinstance(self.policy, OnnxPolicy) else self.policy.version

    @property
    def games(self) -> Games:
        """An empty record of games."""
        if self.made is not None:
            return Games(f"snapshot at {self.made:,}", made=self.made)
        return Games(self.key if self.key == NEWEST else Path(self.key).name)


def rate(rating: Rating, others: Sequence[Rating], result: float) -> None:
    """Count a game against ``others``; ``result``: 1 won, 0.5 drawn, 0 lost."""
    share = 1.0 / max(1, len(others))
    changes = [share * (result - 1.0 / (1.0 + 10.0 ** ((other.value - rating.value) / 400.0))) for other in others]
    for other, change in zip(others, changes, strict=True):
        other.value -= change
    rating.value += sum(changes)


def outside(settings: SelfPlaySettings, spec: BehaviorSpec) -> list[Opponent]:
    """Those of ``opponents``. Raises SettingsError for a file that cannot play this behavior."""
    elo, paths = settings.initial_elo, settings.opponents
    try:
        return [Opponent(path, OnnxPolicy(Path(path), spec), Rating(elo)) for path in paths]
    except ExportError as error:
        raise SettingsError(f"self_play.opponents of '{spec.short_name}': {error}") from error


@dataclass(slots=True)
class Clock:
    """Counters of one behavior that decide when something is due."""

    ghost_steps: int = 0
    """Decisions of its ghosts."""
    ended: int = 0
    """Episodes that ended, of all its teams."""
    made: int = 0
    """Number of snapshots made, including dropped ones."""
    last_save: int = 0
    """Decisions of the behavior when the last snapshot was made."""
    last_swap: int = 0
    """Ghost steps when opponents were last drawn."""
    last_change: int = 0
    """Decisions of the behavior when its turn last passed on."""


class Opponents:
    """The opponents that one behavior offers to other teams, and its scores against theirs.

    Attributes:
        rating: of the newest policy.
        kept: the snapshots of the window, in the order of their places.
        first: the first snapshot, which is kept when the window has moved on.
        current: the opponent that each team of this behavior acts with as a ghost, from its agents' next episodes on.
        results: games that this behavior has played, by opponent: its behavior and its key.
        acting: random generator of each team's actions as ghosts.
    """

    def __init__(self, settings: SelfPlaySettings, seed: int, newest: Callable[[], Policy], spec: BehaviorSpec) -> None:
        """``newest``: returns the learner's newest whole policy."""
        self.settings = settings
        self.rating = Rating(settings.initial_elo)
        self.kept: list[Opponent] = []
        self.first: Opponent | None = None
        self.current: dict[int, Opponent] = {}
        self.results: dict[tuple[str, str], Games] = {}
        self.clock = Clock()
        self.outside = outside(settings, spec)
        self._newest, self._seed = newest, seed
        self._rng = np.random.default_rng([seed, 5])
        self.acting: dict[int, np.random.Generator] = {}

    def save(self, decisions: int) -> None:
        """Keep the newest policy; if the window is full, it replaces the oldest."""
        snapshot = Opponent(str(self.clock.made), self._newest(), Rating(self.rating.value), decisions)
        if self.first is None:
            self.first = snapshot
        if len(self.kept) < self.settings.window:
            self.kept.append(snapshot)
        else:
            self.kept[self.clock.made % self.settings.window] = snapshot
        self.clock.made += 1
        self.clock.last_save = decisions

    def join(self, team: int) -> None:
        """A team appears: as a ghost it starts with the first snapshot."""
        self.current.setdefault(team, self.kept[0])
        self.acting.setdefault(team, np.random.default_rng([self._seed, 6, team]))

    def swap(self, teams: Sequence[int]) -> None:
        """Draw new opponents for these teams to act with as ghosts."""
        for team in teams:
            if self._rng.random() < 1.0 - self.settings.play_against_latest_model_ratio:
                choice = [*self.kept, *self.outside]
                self.current[team] = choice[int(self._rng.integers(len(choice)))]
            else:
                self.current[team] = Opponent(NEWEST, self._newest(), self.rating)
        self.clock.last_swap = self.clock.ghost_steps

    def score(self, against: Mapping[tuple[str, int], Opponent], result: float, count: int = 1) -> None:
        """Count games with one result against the opponents of other teams, by behavior and team."""
        for (behavior, _), opponent in against.items():
            before = self.results.get((behavior, opponent.key), opponent.games)
            self.results[behavior, opponent.key] = before.and_more(result, count)

    def known(self, key: str) -> bool:
        """Whether results against this opponent are still reported: it can be met, or it is the first snapshot."""
        first = () if self.first is None else (self.first,)
        return key == NEWEST or any(key == some.key for some in (*first, *self.kept, *self.outside))

    def table(self, behavior: str, others: Mapping[str, Opponents]) -> tuple[Games, ...]:
        """Scores of ``behavior``, to which these opponents belong: against newest policies, snapshots by age, files.

        Opponents that it has not played yet are left out.
        """
        results = {of: games for of, games in self.results.items() if of[0] in others and games.played}
        known = [(of, games) for (of, key), games in results.items() if others[of].known(key)]
        found = [replace(games, behavior=None if of == behavior else of) for of, games in known]
        return tuple(sorted(found, key=lambda games: (games.opponent != NEWEST, games.made is None, games.made or 0)))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able values for a checkpoint.

        Called in the learner's thread, while games continue: data that may grow is copied first.
        """
        arrays: dict[str, NDArray[Any]] = {}
        current, results, acting = list(self.current.items()), list(self.results.items()), list(self.acting.items())

        def put(opponent: Opponent | None) -> dict[str, Any] | None:
            """Store the weights of each version once."""
            if opponent is None:
                return None
            entry: dict[str, Any] = {"key": opponent.key, "made": opponent.made, "elo": opponent.rating.value}
            if not isinstance(opponent.policy, OnnxPolicy):
                version, weights = opponent.policy.version, opponent.policy.weights
                arrays.update(prefixed(f"{PREFIX}{version}.", weights))
                entry["version"] = version
            return entry

        return arrays, {
            "elo": self.rating.value,
            "kept": [put(opponent) for opponent in list(self.kept)],
            "first": put(self.first),
            "outside": [put(opponent) for opponent in self.outside],
            "current": {str(team): put(opponent) for team, opponent in current},
            "results": [
                [of, key, games.opponent, games.won, games.drawn, games.lost, games.made]
                for (of, key), games in results
            ],
            "clock": asdict(self.clock),
            "rng": self._rng.bit_generator.state,
            "acting": {str(team): rng.bit_generator.state for team, rng in acting},
        }

    def load(self, arrays: Arrays, values: Json, make: Callable[[Arrays, int], Policy]) -> None:
        """Restore :meth:`state`; ``make``: makes a policy from weights and a version."""
        self.rating.value = float(values["elo"])
        known: dict[str, Opponent] = {opponent.key: opponent for opponent in self.outside}
        policies: dict[int, Policy] = {}

        def get(entry: Json) -> Opponent | None:
            key = str(entry["key"])
            if "version" not in entry:  # a file, which the settings may no longer name
                return known.get(key)
            version = int(entry["version"])
            if version not in policies:
                policies[version] = make(unprefixed(f"{PREFIX}{version}.", arrays), version)
            if key == NEWEST:
                return Opponent(NEWEST, policies[version], self.rating)
            return known.setdefault(key, Opponent(key, policies[version], Rating(entry["elo"]), int(entry["made"])))

        for entry in values["outside"]:
            if (found := get(entry)) is not None:
                found.rating.value = float(entry["elo"])
        self.first = get(values["first"])
        window = self.settings.window
        self.kept = [snapshot for entry in values["kept"] if (snapshot := get(entry)) is not None][:window]
        self.current = {int(team): get(entry) or self.kept[0] for team, entry in values["current"].items()}
        self.results = {
            (of, key): Games(opponent, won, drawn, lost, made)
            for of, key, opponent, won, drawn, lost, made in values["results"]
        }
        self.clock = Clock(**values["clock"])
        self._rng.bit_generator.state = values["rng"]
        for team, state in values["acting"].items():
            self.acting[int(team)] = np.random.default_rng()
            self.acting[int(team)].bit_generator.state = state
