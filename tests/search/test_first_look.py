"""The first look at a game: what it finds, by which rule, and that its engine always ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import SettingsError, TauError
from tau_trainer.search import advice, first_look
from tau_trainer.search.first_look import FirstLook
from tau_trainer.search.speed import Speed
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.advice import LEAST_STEPS, SLOW, USUAL
from tau_trainer.training.starting import GROUPS
from tests.search.test_stillness import SHOWN

SETTINGS = load_settings(None, {"env_settings.seed": 1, "env_settings.env_path": "game"})
GROUPED = {
    spec: replace(batch, group_id=np.array([1, 1, 2, 2, 3, 3][: len(batch)], np.int32))
    for spec, batch in SHOWN.items()
    if spec.short_name == "Walker"
}


class Bench:
    """A game and a learner as fast as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rate, self.step_s = 100.0, 1e-3
        self.shown: Any = SHOWN
        self.plays = True
        self.played: list[tuple[int, float]] = []
        self.learned: list[tuple[Any, float, RunSettings]] = []
        self.refuses = ""
        self.stopped = 0
        monkeypatch.setattr(advice, "speed_of", self.speed_of)
        monkeypatch.setattr(first_look, "Costs", lambda shown, seconds: self.costs(shown, seconds))

    def speed_of(self, settings: RunSettings, engines: int, seconds: float, **more: Any) -> Speed | None:
        self.played.append((engines, seconds))
        more["look"](0.0)
        if not more["look"](0.5):
            return None
        more["say"]("press Play")
        for spec, batch in self.shown.items():
            more["seen"].see(spec, batch)
        rates = {spec.short_name: self.rate for spec in self.shown}
        return Speed(1, 0.1, 12.0, rates) if self.plays else None

    def costs(self, shown: Any, seconds: float) -> Bench:
        self.given = shown, seconds
        return self

    def measure(self, settings: RunSettings) -> dict[str, float]:
        self.learned.append((*self.given, settings))
        if self.refuses:
            raise SettingsError(self.refuses)
        return {spec.short_name: self.step_s for spec in self.given[0]}

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize(("room", "trainer"), [(1.01, SLOW), (0.99, USUAL)])
def test_the_rule_of_advise_decides(room: float, trainer: str, bench: Bench) -> None:
    """Gradient steps that fit, a little above or below the least that are enough, of both behaviors together."""
    bench.step_s = 1.0 / (2 * bench.rate * room * LEAST_STEPS)
    found = FirstLook(SETTINGS, 6.0).run()
    assert bench.played == [(1, 3.0)]
    assert [each.name for each in found] == ["Walker", "Chooser"]
    assert {each.trainer for each in found} == {trainer}
    assert all(SLOW in each.why and "game" in each.why for each in found)
    ((shown, seconds, settings),) = bench.learned
    assert (shown, seconds) == (SHOWN, 3.0)
    assert {each.trainer_type for each in settings.behaviors.values()} == {SLOW}
    assert settings.env_settings == SETTINGS.env_settings


@pytest.mark.usefixtures("bench")
def test_progress_and_sentences_reach_the_caller() -> None:
    said, progress = list[str](), list[tuple[str, float, str]]()
    FirstLook(SETTINGS, 6.0, said.append).run(lambda *told: progress.append(told))
    assert said == ["press Play"]
    assert progress == [
        ("the game", 0.0, "starts"),
        ("the game", 0.5, "plays"),
        ("learning", 0.0, "learning from what the game shows"),
    ]


@pytest.mark.parametrize("name", [spec.short_name for spec in SHOWN])
@pytest.mark.usefixtures("bench")
def test_the_reasons_of_all_behaviors_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {name: frozenset({"agents have a goal signal"})}
    monkeypatch.setattr(first_look, "reasons_for_ppo", lambda spec, trainer: reasons.get(spec.short_name, frozenset()))
    found = FirstLook(SETTINGS, 6.0).run()
    said = "If agents have a goal signal, ppo needs fewer decisions than sac_ln."
    assert {(each.trainer, each.why) for each in found} == {(USUAL, said)}


def test_groups_need_no_measurement_unless_they_are_copies_of_a_game(bench: Bench) -> None:
    bench.shown = GROUPED
    (found,) = FirstLook(SETTINGS, 6.0).run()
    assert (found.trainer, found.groups, bench.learned) == (GROUPS, (2, 2, 2), [])
    copies = load_settings(None, {"env_settings.seed": 1, "env_settings.env_path": "pettingzoo:module"})
    (found,) = FirstLook(copies, 6.0).run()
    assert (found.trainer, found.groups) == (SLOW, ())


def test_beside_groups_the_others_are_measured_alone(bench: Bench) -> None:
    bench.shown = SHOWN | GROUPED
    found = {each.name: each.trainer for each in FirstLook(SETTINGS, 6.0).run()}
    assert found == {"Walker": GROUPS, "Chooser": SLOW}
    ((shown, _, settings),) = bench.learned
    assert [spec.short_name for spec in shown] == ["Chooser"] == list(settings.behaviors)


def test_teams_are_measured_without_taking_turns(bench: Bench) -> None:
    bench.shown = {
        replace(spec, name=f"{spec.short_name}?team={i}"): batch for i, (spec, batch) in enumerate(SHOWN.items())
    }
    assert [each.teams for each in FirstLook(SETTINGS, 6.0).run()] == [(0,), (1,)]
    assert all(each.self_play is None for each in bench.learned[0][2].behaviors.values())


def test_what_cannot_be_learned_so_is_learned_by_ppo(bench: Bench) -> None:
    bench.refuses = "it has no actions"
    assert {(each.trainer, each.why) for each in FirstLook(SETTINGS, 6.0).run()} == {(USUAL, "it has no actions")}


def test_a_game_that_no_exchange_ended_of_is_not_measured(bench: Bench) -> None:
    bench.plays = False
    for each in FirstLook(SETTINGS, 6.0).run():
        assert each.trainer == USUAL
        assert "too slow to be measured" in each.why
    assert bench.learned == []


def test_a_game_in_which_no_agent_asks(bench: Bench) -> None:
    bench.shown = {}
    with pytest.raises(TauError, match="no agent of the game asked for a decision"):
        FirstLook(SETTINGS, 6.0).run()


@pytest.mark.parametrize(
    ("moment", "learned", "stopped"), [("plays", 0, 0), ("learning from what the game shows", 1, 1), ("learns", 1, 1)]
)
def test_where_it_is_stopped_what_goes_on_ends_and_nothing_else_begins(
    moment: str, learned: int, stopped: int, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, measure = FirstLook(SETTINGS, 6.0), bench.measure

    def reaches(*told: object) -> None:
        if told[-1] == moment:
            looking.stop()

    def measured(settings: RunSettings) -> dict[str, float]:
        reaches("learns")
        return measure(settings)

    monkeypatch.setattr(bench, "measure", measured)
    assert bool(looking.run(reaches)) == bool(learned)
    assert (looking.stopped, len(bench.learned), bench.stopped) == (True, learned, stopped)
