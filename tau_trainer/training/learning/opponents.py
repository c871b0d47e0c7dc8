"""Whom a behavior plays against: earlier versions of its policy, its newest one, policies from outside; and Elo.

Elo as ML-Agents computes it, with K = 1: whoever is expected to score ``1 / (1 + 10^((other - own) / 400))`` and scores
1, 0.5 or 0 gains the difference, and the other loses it. An opponent that is the newest policy has the learner's own
rating, so such a game moves nothing. Against several teams at once every pair is rated so, each with its share of K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import ExportError, SettingsError
from tau_trainer.export.policy import OnnxPolicy
from tau_trainer.metrics.games import Games
from tau_trainer.models import Policy
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.specs import BehaviorSpec

PREFIX: Final = "self_play."
"""What the names of a checkpoint's arrays begin with that are snapshots."""
NEWEST: Final = "newest"
"""How the newest policy is called as an opponent."""


@dataclass(slots=True)
class Rating:
    """Elo, in the usual units."""

    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Opponent:
    """A policy that ghosts act with.

    Attributes:
        key: its number among the snapshots, :data:`NEWEST`, or the file that it is.
        made: decisions behind it, where it is a snapshot.
    """

    key: str
    policy: Policy
    rating: Rating
    made: int | None = None

    @property
    def weights_key(self) -> int | str:
        """The same for opponents whose weights are the same.

        Two of them may hold two copies of one policy: one comes from a checkpoint, the other was drawn since.
        """
        return self.key if isinstance(self.policy, OnnxPolicy) else self.policy.version

    @property
    def games(self) -> Games:
        """None so far."""
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


def outside(settings: SelfPlaySettings, spec: BehaviorSpec) -> list[Policy]:
    """The policies of ``opponents``. Raises SettingsError for a file that cannot play this behavior."""
    try:
        return [OnnxPolicy(Path(path), spec) for path in settings.opponents]
    except ExportError as error:
        raise SettingsError(f"self_play.opponents of '{spec.short_name}': {error}") from error


@dataclass(slots=True)
class Clock:
    """What is due when, for one behavior."""

    ghost_steps: int = 0
    """Decisions of its ghosts."""
    ended: int = 0
    """Episodes that ended, of all its teams."""
    made: int = 0
    """Snapshots, those that are dropped included."""
    last_save: int = 0
    """Decisions of the behavior as the last of them was made."""
    last_swap: int = 0
    """Ghost steps as opponents were drawn last."""
    last_change: int = 0
    """Decisions of the behavior as its turn passed on last."""


class Opponents:
    """The opponents that one behavior offers its adversaries, and what it has scored against theirs.

    Attributes:
        rating: of the newest policy.
        kept: the snapshots of the window, in the order of their places.
        first: the first snapshot, which stays known when the window has moved on.
        current: whom each team of this behavior acts with as a ghost, from its agents' next episodes on.
        results: games that this behavior has played, by opponent: its behavior and its key.
        acting: what the agents of each team draw actions with as ghosts.
    """

    def __init__(self, settings: SelfPlaySettings, seed: int, newest: Callable[[], Policy], spec: BehaviorSpec) -> None:
        """``newest``: the learner's newest whole policy."""
        self.settings = settings
        self.rating = Rating(settings.initial_elo)
        self.kept: list[Opponent] = []
        self.first: Opponent | None = None
        self.current: dict[int, Opponent] = {}
        self.results: dict[tuple[str, str], Games] = {}
        self.clock = Clock()
        self.outside = [
            Opponent(path, policy, Rating(settings.initial_elo))
            for path, policy in zip(settings.opponents, outside(settings, spec), strict=True)
        ]
        self._newest, self._seed = newest, seed
        self._rng = np.random.default_rng([seed, 5])
        self.acting: dict[int, np.random.Generator] = {}

    def save(self, decisions: int) -> None:
        """Keep the newest policy, in the place of the oldest where the window is full."""
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
        """A team appears: as a ghost it begins with the first snapshot."""
        self.current.setdefault(team, self.kept[0])
        self.acting.setdefault(team, np.random.default_rng([self._seed, 6, team]))

    def swap(self, teams: Sequence[int]) -> None:
        """Draw anew whom these teams act with as ghosts."""
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
        """Whether results against this one are still told: it can be met, or is the first."""
        first = () if self.first is None else (self.first,)
        return key == NEWEST or any(key == some.key for some in (*first, *self.kept, *self.outside))

    def table(self, behavior: str, others: Mapping[str, Opponents]) -> tuple[Games, ...]:
        """What ``behavior``, whose these are, has scored: against newest policies, snapshots by age, files.

        Whom it has not played yet is left out.
        """
        results = {(of, key): games for (of, key), games in self.results.items() if of in others}
        results = {(of, key): games for (of, key), games in results.items() if others[of].known(key) and games.played}
        found = [replace(games, behavior=None if of == behavior else of) for (of, _), games in results.items()]
        return tuple(sorted(found, key=lambda games: (games.opponent != NEWEST, games.made is None, games.made or 0)))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able values for a checkpoint.

        Asked for in the learner's thread, while games go on: what may grow is copied first.
        """
        arrays: dict[str, NDArray[Any]] = {}
        current, results, acting = list(self.current.items()), list(self.results.items()), list(self.acting.items())

        def put(opponent: Opponent | None) -> dict[str, Any] | None:
            """The weights of each version once."""
            if opponent is None:
                return None
            facts: dict[str, Any] = {"key": opponent.key, "made": opponent.made, "elo": opponent.rating.value}
            if not isinstance(opponent.policy, OnnxPolicy):
                version, weights = opponent.policy.version, opponent.policy.weights
                arrays.update({f"{PREFIX}{version}.{name}": array for name, array in weights.items()})
                facts["version"] = version
            return facts

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

    def load(self, arrays: Arrays, values: Mapping[str, Any], make: Callable[[Arrays, int], Policy]) -> None:
        """Go on from :meth:`state`; ``make``: the policy of weights and a version."""
        self.rating.value = float(values["elo"])
        known: dict[str, Opponent] = {opponent.key: opponent for opponent in self.outside}
        policies: dict[int, Policy] = {}

        def get(facts: Mapping[str, Any]) -> Opponent | None:
            key = str(facts["key"])
            if "version" not in facts:  # a file, which the settings may name no more
                return known.get(key)
            version = int(facts["version"])
            if version not in policies:
                begin = f"{PREFIX}{version}."
                weights = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
                policies[version] = make(weights, version)
            if key == NEWEST:
                return Opponent(NEWEST, policies[version], self.rating)
            return known.setdefault(key, Opponent(key, policies[version], Rating(facts["elo"]), int(facts["made"])))

        for facts in values["outside"]:
            if (found := get(facts)) is not None:
                found.rating.value = float(facts["elo"])
        self.first = get(values["first"])
        window = self.settings.window
        self.kept = [snapshot for facts in values["kept"] if (snapshot := get(facts)) is not None][:window]
        self.current = {int(team): get(facts) or self.kept[0] for team, facts in values["current"].items()}
        self.results = {
            (of, key): Games(opponent, won, drawn, lost, made)
            for of, key, opponent, won, drawn, lost, made in values["results"]
        }
        self.clock = Clock(**values["clock"])
        self._rng.bit_generator.state = values["rng"]
        for team, state in values["acting"].items():
            self.acting[int(team)] = np.random.default_rng()
            self.acting[int(team)].bit_generator.state = state
