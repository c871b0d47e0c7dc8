"""What is measured for advice, in which order, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError, TauError
from tau_trainer.search import advice
from tau_trainer.search.advice import FILE, Adviser, Measured, advice_of, candidates_of
from tau_trainer.search.scaling import Probe, Scaling
from tau_trainer.search.speed import Speed
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.settings.document import configs_folder, read_document
from tau_trainer.training.advice import LEAST_STEPS, SLOW, USUAL, steps_a_decision
from tests.search.test_stillness import SHOWN

GAME = {"env_settings.env_path": "game", "env_settings.seed": 1}
BALL = load_settings("3DBall", GAME)
DATA = read_document(configs_folder() / "3DBall.yaml").data
CANDIDATES, NONE = candidates_of(DATA, BALL, "3DBall")
SECONDS = st.floats(1e-5, 1.0)


def game(rate: float) -> Speed:
    return Speed(1, 12 / rate, 12.0, {"3DBall": rate})


def tried(rates: dict[int, float], best: int) -> Scaling:
    return Scaling([Probe(size, rate) for size, rate in rates.items()], best, "")


def test_a_file_and_what_could_take_its_algorithms_place() -> None:
    assert CANDIDATES.keys() == {FILE, SLOW}
    assert NONE == {}
    assert CANDIDATES[SLOW].of_behavior("3DBall").trainer_type == SLOW
    assert CANDIDATES[SLOW].env_settings == BALL.env_settings
    groups = load_settings("DungeonEscape")
    assert candidates_of({}, groups, "DungeonEscape") == ({FILE: groups}, {})


def test_what_cannot_take_its_place_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(data: Any, name: str) -> RunSettings:
        raise SettingsError(f"{name}: no")

    monkeypatch.setattr(advice, "read_advised", refuses)
    assert candidates_of(DATA, BALL, "3DBall") == ({FILE: BALL}, {SLOW: "3DBall: no"})


@given(st.floats(1.0, 1e6), SECONDS, SECONDS)
def test_advice_follows_the_rule_and_its_time_both_game_and_learner(rate: float, slow: float, file: float) -> None:
    measured = Measured(game(rate), {FILE: {"3DBall": file}, SLOW: {"3DBall": slow}})
    found = advice_of(measured, BALL, CANDIDATES)
    assert found.room is not None
    assert found.room == pytest.approx(1 / (rate * slow))
    assert found.trainer == (SLOW if found.room >= LEAST_STEPS else None), "the file's is PPO"
    assert found.hours is not None
    assert found.hours_of_file is not None
    floor = 500_000 / rate / 3600
    assert found.hours_of_file == pytest.approx(max(floor, 500_000 * file * 3 / 64 / 3600), rel=0.05)
    assert found.hours >= floor * (1 - 1e-9)
    assert (found.engines, found.areas) == (1, 1)


def test_as_many_engines_as_the_learner_has_use_for() -> None:
    engines = tried({1: 1000, 2: 2000, 4: 4000, 8: 7000}, best=8)
    quick = Measured(game(1000), {FILE: {"3DBall": 1e-6}, SLOW: {"3DBall": 1e-6}}, engines=engines)
    assert advice_of(quick, BALL, CANDIDATES).engines == 8
    slow = Measured(game(1000), {FILE: {"3DBall": 1e-3}, SLOW: {"3DBall": 1e-3}}, engines=engines)
    limited = advice_of(slow, BALL, {FILE: CANDIDATES[SLOW], SLOW: CANDIDATES[SLOW]})
    work = 1e-3 * steps_a_decision(CANDIDATES[SLOW].of_behavior("3DBall"))
    assert limited.engines == max([1, *(size for size in (2, 4, 8) if 500 * size * work < 0.81)])


def test_areas_or_engines_whatever_gives_more() -> None:
    costs = {FILE: {"3DBall": 1e-6}, SLOW: {"3DBall": 1e-6}}
    engines, areas = tried({1: 1000, 2: 1500}, best=2), tried({1: 1000, 2: 2000}, best=2)
    both = advice_of(Measured(game(1000), costs, engines=engines, areas=areas), BALL, CANDIDATES)
    assert (both.engines, both.areas) == (1, 2)
    tie = advice_of(Measured(game(1000), costs, engines=areas, areas=areas), BALL, CANDIDATES)
    assert (tie.engines, tie.areas) == (1, 2), "an engine costs memory"
    one = advice_of(Measured(game(1000), costs, engines=engines), BALL, CANDIDATES)
    assert (one.engines, one.areas) == (2, 1)
    assert both.hours is not None
    assert one.hours is not None
    assert both.hours < one.hours


def test_without_a_measurement_nothing_is_said_of_it() -> None:
    found = advice_of(Measured(game(100)), BALL, CANDIDATES)
    assert (found.trainer, found.hours, found.hours_of_file, found.room) == (None, None, None, None)
    assert "was not measured" in found.why
    refused = Measured(game(100), {FILE: {"3DBall": 1e-3}}, {SLOW: "it has no actions"})
    assert advice_of(refused, BALL, CANDIDATES).why == "it has no actions"
    groups = load_settings("DungeonEscape")
    [name] = groups.behaviors
    of_groups = Measured(Speed(1, 0.1, 1.0, {name: 10.0}), {FILE: {name: 1e-3}})
    assert advice_of(of_groups, groups, {FILE: groups}).why.startswith("No other algorithm")


def test_ppo_if_there_are_reasons_and_sac_gives_way() -> None:
    settings = load_settings("3DBallSAC", {"env_settings.env_path": "game"})
    candidates, _ = candidates_of(read_document(configs_folder() / "3DBallSAC.yaml").data, settings, "3DBallSAC")
    costs = {name: {"3DBall": 1e-4} for name in candidates}
    costs[SLOW] = {"3DBall": 1e-4}
    found = advice_of(Measured(game(100), costs), settings, candidates, REASONS)
    said = f"If agents have a goal signal and rewards are rare, {USUAL} needs fewer decisions than {SLOW}."
    assert (found.trainer, found.why) == (USUAL, said)
    refused = Measured(game(100), costs, {USUAL: "no"})
    assert advice_of(refused, settings, candidates, REASONS).why == "no"


REASONS = frozenset({"rewards are rare", "agents have a goal signal"})


class Bench:
    """Stands for the game and for learning: as fast as is told, and notes what is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, areas: bool = True, engines: bool = True) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.areas, self.engines = areas, engines
        self.on_play: Callable[[], None] = lambda: None
        monkeypatch.setattr(advice, "speed_of", self.speed_of)
        monkeypatch.setattr(advice, "Costs", lambda shown, seconds: self)
        monkeypatch.setattr("os.cpu_count", lambda: 2)

    def speed_of(self, settings: RunSettings, engines: int, seconds: float, **more: Any) -> Speed | None:
        env, scale = settings.env_settings, settings.engine_settings.time_scale
        self.asked.append((engines, env.num_areas, scale, seconds))
        self.on_play()
        if not more["look"](0.5):
            return None
        if engines > 1 and not self.engines:
            raise TauError("there is one")
        if more["seen"] is not None:
            for spec, shown in SHOWN.items():
                more["seen"].see(spec, shown)
        areas = env.num_areas if self.areas else 1
        return Speed(engines, 0.1, 12.0 * areas, {"3DBall": 100.0 * engines * areas})

    def measure(self, settings: RunSettings) -> dict[str, float]:
        self.asked.append(("learn", settings.of_behavior("3DBall").trainer_type))
        return {"3DBall": 1e-3}

    def stop(self) -> None:
        self.asked.append(("stop",))


def adviser(settings: RunSettings = BALL) -> Adviser:
    return Adviser(settings, CANDIDATES, {}, 60.0)


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    found = adviser().run()
    assert bench.asked == [
        (1, 1, 20.0, 10.0),
        ("learn", "ppo"),
        ("learn", SLOW),
        *((engines, 1, 20.0, 5.0) for engines in (2, 4)),
        *((1, areas, 20.0, 5.0) for areas in (2, 4, 8, 16, 32)),
        (1, 1, 100.0, 5.0),
    ]
    assert found.engines is not None
    assert found.areas is not None
    assert (found.engines.best, found.areas.best, found.quicker, found.time_scale) == (4, 32, 1.0, 100.0)


def test_a_game_that_does_not_multiply_its_areas_or_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    Bench(monkeypatch, areas=False, engines=False)
    one = adviser()
    found = one.run()
    assert (found.engines, found.areas) == (None, None)
    monkeypatch.setattr(advice, "reasons_for_ppo", lambda spec, trainer: frozenset())
    monkeypatch.setattr(type(BALL), "of_behavior", lambda self, name: self.behaviors["3DBall"])
    assert (one.advice().engines, one.advice().areas) == (1, 1)


@pytest.mark.parametrize(
    ("env", "games"), [(None, {1}), ("attach:1", {1}), ("gym:X-v0", {1, 2, 4}), ("unreal:Game", {1, 2, 4})]
)
def test_who_starts_the_game_is_not_asked_for_another_and_some_have_no_time_scale(
    env: str | None, games: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(monkeypatch)
    assert adviser(load_settings("3DBall", {"env_settings.env_path": env})).run().quicker is None
    played = [asked for asked in bench.asked if asked[0] != "learn"]
    assert {asked[0] for asked in played} == games
    assert {asked[2] for asked in played} == {20.0}
    assert len(played) > 1 or games == {1}


def test_what_was_measured_until_it_was_stopped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    one = adviser()

    def play() -> None:
        if len(bench.asked) > 3:
            one.stop()

    bench.on_play = play
    found = one.run()
    assert (found.engines, found.areas, found.quicker) == (None, None, None)
    assert found.costs.keys() == {FILE, SLOW}
    assert bench.asked[-1] == ("stop",), "nothing was begun after it"


def test_nothing_is_known_where_it_was_stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Bench(monkeypatch)
    one = adviser()
    one.stop()
    with pytest.raises(TauError, match="it was stopped; let it play for longer"):
        one.run()


def test_what_the_file_itself_cannot_learn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)

    def refuses(settings: RunSettings) -> dict[str, float]:
        if settings.of_behavior("3DBall").trainer_type == refused:
            raise SettingsError("no")
        return {"3DBall": 1e-3}

    monkeypatch.setattr(bench, "measure", refuses)
    refused = SLOW
    assert adviser().run().refused == {SLOW: "no"}
    refused = "ppo"
    with pytest.raises(SettingsError, match="no"):
        adviser().run()


def test_actors_are_engines() -> None:
    assert advice.engines_of(load_settings("3DBall", GAME | {"execution": "async", "async_trainer.actors": 3})) == 3
    assert advice.engines_of(load_settings("3DBall", GAME | {"env_settings.num_envs": 2})) == 2
