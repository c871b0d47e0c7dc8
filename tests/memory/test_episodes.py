"""Which rows are one episode is what a list of everything that was played says, whatever happened in between."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.columns import Column
from tau_trainer.memory import Links, Replay, Rollout, RolloutMemory, StepFacts
from tau_trainer.memory.episodes import EpisodeIndex

AGENTS = 4
MARKER, IMAGE = Column("obs_0", (1,)), Column("obs_1", (2,), np.uint8)
EVERYBODY = list(range(AGENTS))
MANY = 60
"""Chances that are tried: more than an episode has rows."""

_some = st.sets(st.integers(0, AGENTS - 1), min_size=1).map(sorted)
_happening = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), _some),
        st.just(("decide", EVERYBODY)),
        st.just(("decide", EVERYBODY)),
        st.tuples(st.sampled_from(["terminate", "truncate", "abandon"]), _some),
        st.just(("learn", [])),
        st.just(("learn", [])),
        st.tuples(st.sampled_from(["fail", "lose", "read back"]), st.just([])),
    ),
    min_size=5,
    max_size=60,
)


@dataclass
class Decision:
    marker: float
    agent: int
    episode: int
    """As far as can be known: where work was lost another one begins."""


class Playing:
    """Agents whose transitions go to a ring, and a list of what it should hold."""

    def __init__(self, capacity: int, *, images: bool, ends: bool = True) -> None:
        self.memory = RolloutMemory((MARKER, IMAGE), (), rewards={"extrinsic": 1}, capacity=8, horizon=1, ends=ends)
        self.images = images
        self.replay = self.new_replay(capacity)
        self.rows: list[Decision] = []
        self.new: list[Decision] = []
        self.waiting: dict[int, Decision] = {}
        self.markers, self.episodes = count(), count()
        self.current = {agent: next(self.episodes) for agent in EVERYBODY}
        self.over: set[int] = set()

    def new_replay(self, capacity: int) -> Replay:
        return Replay((MARKER,), capacity, {"next_1": IMAGE} if self.images else {}, episodes=True)

    def decide(self, agents: list[int]) -> None:
        markers = np.array([[next(self.markers)] for _ in agents], np.float32)
        obs: dict[str, Any] = {"obs_0": markers, "obs_1": np.repeat(markers, 2, axis=1).astype(np.uint8)}
        self.memory.append(np.array(agents), StepFacts({"extrinsic": np.zeros((len(agents), 1), np.float32)}), obs, 0)
        for agent, marker in zip(agents, markers[:, 0].tolist(), strict=True):
            if agent in self.waiting:
                self.new.append(self.waiting[agent])
            self.waiting[agent] = Decision(marker, agent, self.current[agent])

    def end(self, agents: list[int], *, truncated: bool) -> None:
        shape = len(agents), 1
        obs = np.zeros(shape, np.float32), np.zeros((len(agents), 2), np.uint8)
        cut = np.full(len(agents), truncated)
        self.memory.end(np.array(agents), StepFacts({"extrinsic": np.zeros(shape, np.float32)}), obs, cut)
        for agent in agents:
            if agent in self.waiting:
                self.new.append(self.waiting.pop(agent))
        self.begin(agents)

    def abandon(self, agents: list[int]) -> None:
        self.memory.abandon(np.array(agents))
        for agent in agents:
            self.waiting.pop(agent, None)
        self.begin(agents)

    def begin(self, agents: list[int]) -> None:
        for agent in agents:
            self.current[agent] = next(self.episodes)

    def forget(self) -> None:
        """What was there and what comes have nothing to do with one another."""
        self.begin(EVERYBODY)
        for agent, decision in self.waiting.items():
            decision.episode = self.current[agent]
        self.new = []

    def take(self) -> tuple[dict[str, Any], Links]:
        rollout = Rollout(self.memory.take().data)
        last = {"obs_1": rollout.bootstrap_observations[1]} if self.images else {}
        return {f"obs_{i}": values for i, values in enumerate(rollout.observations)}, Links.of(rollout, last)

    def learn(self) -> None:
        values, links = self.take()
        self.replay.append(values, links)
        arrived = values["obs_0"][:, 0].tolist()
        self.new.sort(key=lambda one: arrived.index(one.marker))
        assert [one.marker for one in self.new] == arrived
        self.rows = [*self.rows, *self.new][-self.replay.capacity :]
        self.new, self.over = [], {one.episode for one in self.rows} - {one.episode for one in self.waiting.values()}

    def happen(self, what: str, agents: list[int]) -> None:
        if what == "decide":
            self.decide(agents)
        elif what in ("terminate", "truncate"):
            self.end(agents, truncated=what == "truncate")
        elif what == "abandon":
            self.abandon(agents)
        elif what == "read back":
            arrays, following = self.replay.state()
            other = self.new_replay(self.replay.capacity)
            other.load({name: values.copy() for name, values in arrays.items()}, following)
            self.replay = other
            self.forget()
            self.memory.clear()
            self.waiting = {}
            self.over = {one.episode for one in self.rows}
        elif self.memory.completed:
            if what == "learn":
                self.learn()
            elif what == "fail":
                self.replay.append(*self.take())()
                self.forget()
            else:
                self.take()
                self.replay.forget()
                self.forget()

    def check(self) -> None:
        held = self.replay.take(np.arange(len(self.replay)))["obs_0"][:, 0].tolist()
        assert sorted(held) == sorted(one.marker for one in self.rows)
        place_of, episodes = {marker: place for place, marker in enumerate(held)}, self.replay.episodes
        assert episodes is not None
        for one in self.rows:
            place = np.array([place_of[one.marker]])
            assert episodes.ended(place).tolist() == [one.episode in self.over]
            if one.episode not in self.over:
                continue
            everything = [place_of[other.marker] for other in self.rows if other.episode == one.episode]
            later = everything[everything.index(place[0]) :]
            chances = (np.arange(MANY) + 0.5) / MANY
            for strategy, wanted in {"future": later, "final": later[-1:], "episode": everything}.items():
                picked = episodes.pick(np.repeat(place, MANY), strategy, chances)  # type: ignore[arg-type]
                counts = {at: picked.tolist().count(at) for at in wanted}
                assert sum(counts.values()) == MANY
                assert max(counts.values()) - min(counts.values()) <= 1, "even chances"


@given(_happening, st.integers(1, 14), st.booleans())
def test_episodes_are_what_was_played(happening: Any, capacity: int, images: bool) -> None:
    """Agents in turns and out of turn, ends, limits, lost engines, a ring of any size, failed and lost work."""
    playing = Playing(capacity, images=images)
    for what, agents in happening:
        playing.happen(what, agents)
        if what in ("learn", "fail", "lose", "read back"):
            playing.check()
    playing.happen("learn", [])
    playing.check()


def test_a_long_run_in_a_small_ring() -> None:
    """Slots go round many times."""
    playing, rng = Playing(37, images=False), np.random.default_rng(0)
    for step in range(1500):
        playing.decide(np.flatnonzero(rng.random(AGENTS) < 0.8).tolist() or [0])
        for agent in EVERYBODY:
            if rng.random() < 0.02 + 0.3 * (agent == 1):
                playing.end([agent], truncated=bool(rng.random() < 0.5))
        if rng.random() < 0.4:
            playing.happen("learn", [])
            if step % 20 == 0:
                playing.check()
    playing.check()


def test_an_end_that_waits_is_the_same_as_one_that_is_told_at_once() -> None:
    """Whether a checkpoint lies between does not change what is drawn."""
    one, other = EpisodeIndex(8), EpisodeIndex(8)
    before = np.array([-1, -1, 0, 1, 2])
    one.add(before, np.zeros(0, np.intp))
    other.add(before[:2], np.array([0, 1]))
    assert not other.ended(np.array([0, 1])).any()
    other.add(before[2:], np.array([3]))
    assert other.ended(np.arange(5)).tolist() == [True, False, True, False, True]
    other.add(np.zeros(0, np.intp), np.zeros(0, np.intp))
    chances = np.full(5, 0.99)
    assert other.pick(np.arange(5), "future", chances).tolist() == [4, 3, 4, 3, 4]
    np.testing.assert_array_equal(one.pick(np.arange(5), "future", chances), [4, 3, 4, 3, 4])


def test_what_one_collector_adds_ends_no_episode_of_another() -> None:
    """Each collector's agents bear the same numbers; two decisions of agent 0 are open with each all the time."""
    mine, others = Playing(capacity=40, images=False), Playing(capacity=40, images=False)
    ring = mine.replay
    assert ring.episodes is not None

    def learn(playing: Playing, source: int) -> Any:
        values, links = playing.take()
        ring.append(values, links, source)
        return ring.newest

    places: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(3):
        for source, playing in enumerate((mine, others)):
            playing.decide([0])
            playing.decide([0])
            places[source] += learn(playing, source).tolist()
    assert not ring.episodes.ended(np.arange(len(ring))).any()
    for source, playing in enumerate((mine, others)):
        playing.end([0], truncated=False)
        places[source] += learn(playing, source).tolist()
        chances = (np.arange(len(places[source])) + 0.5) / len(places[source])
        picked = ring.episodes.pick(np.repeat(places[source][:1], len(chances)), "episode", chances)
        assert picked.tolist() == places[source]


def test_where_all_environments_began_anew_the_episodes_before_end_at_once() -> None:
    """Also of collectors that have brought nothing since: a ring that is read from a checkpoint knows no other."""
    ring = Playing(capacity=40, images=False).replay
    assert ring.episodes is not None
    for source in (0, 1, 0):
        playing = Playing(capacity=40, images=False)
        for _ in range(3):
            playing.decide([0])
        if len(ring) == 4:
            ring.forget_all()
        ring.append(*playing.take(), source)
    assert ring.episodes.ended(np.arange(len(ring))).tolist() == [True] * 4 + [False] * 2
