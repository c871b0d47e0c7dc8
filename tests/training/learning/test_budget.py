"""How many gradient steps samples are worth, whenever they come and whenever there is time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.metrics import MetricsHub
from tau_trainer.settings import OffPolicyHyperparameters
from tau_trainer.training.learning import budget as module
from tau_trainer.training.learning.budget import MOST_STEPS, Budget, Filling, budget_of
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.progress import Progress

LEAST, MOST = OffPolicyHyperparameters.auto_decisions


def learner(samples: int = 0, opts: int = 0, *, remembers: bool = True) -> Any:
    progress = Progress("Agent", MetricsHub(), 1000, 1000)
    progress.samples, progress.opts = samples, opts
    return cast(Learner, SimpleNamespace(progress=progress, remembers=remembers))


def auto(one: Any, *, repeatable: bool = False, **numbers: Any) -> Budget:
    numbers = {"batch_size": 1, "steps_per_update": "auto", **numbers}
    return budget_of(one, OffPolicyHyperparameters(**numbers), repeatable=repeatable)


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0.0, 1.0)), min_size=1, max_size=40))
def test_steps_are_between_floor_and_ceiling_of_any_stretch_of_samples(turns: list[tuple[int, float]]) -> None:
    """Whatever comes at once, and whatever share of the time between floor and ceiling there is for it."""
    one = learner(samples=1, opts=0)
    budget, progress = auto(one), one.progress
    moments = [(progress.samples, progress.opts)]
    for samples, share in turns:
        budget.take_in(samples)
        owed, allowed = budget.owed(), budget.allowed()
        assert 0 <= owed <= allowed
        progress.opts += owed + round(share * (allowed - owed))
        assert budget.owed() <= 0 <= budget.allowed()
        moments.append((progress.samples, progress.opts))
    for i, (first_samples, first_opts) in enumerate(moments):
        for samples, opts in moments[i + 1 :]:
            came, taken = samples - first_samples, opts - first_opts
            assert came / MOST - 1 <= taken <= came / LEAST + MOST_STEPS + 1


def test_a_long_time_of_either_kind_changes_nothing_of_what_comes_after_it() -> None:
    one = learner(samples=1)
    budget = auto(one)
    for _ in range(100):  # there is time for all
        budget.take_in(80)
        one.progress.opts += budget.allowed()
    budget.take_in(80)
    assert (budget.owed(), budget.allowed()) == (80 / MOST, 80 / LEAST)
    for _ in range(100):  # there is none
        one.progress.opts += budget.owed()
        budget.take_in(80)
    assert (budget.owed(), budget.allowed()) == (80 / MOST, 80 / LEAST + MOST_STEPS)


def test_what_was_not_taken_of_what_is_owed_stays_owed() -> None:
    one = learner(samples=1)
    budget = auto(one)
    for _ in range(100):
        budget.take_in(80)
    assert budget.owed() == 100 * 80 / MOST <= budget.allowed()


@pytest.mark.parametrize(
    ("samples", "opts", "remembers", "allowed"),
    [
        (0, 0, True, [0, 0, 10, 20]),
        (1000, 700, True, [74, 74, 74, 74]),
        (1000, 700, False, [0, 0, 10, 20]),
        (0, 700, True, [0, 0, 10, 20]),
    ],
    ids=["fresh", "goes on", "without its experience", "from before samples were counted"],
)
def test_nothing_is_earned_before_there_is_a_minibatch(
    samples: int, opts: int, remembers: bool, allowed: list[int]
) -> None:
    one = learner(samples, opts, remembers=remembers)
    budget, found = auto(one, batch_size=16, buffer_init_steps=20), []
    for _ in range(4):
        budget.take_in(10)
        found.append(max(0, budget.allowed()))
    assert found == allowed
    one.progress.opts += found[-1]
    budget.take_in(10)
    assert budget.allowed() == 10, "counters that do not belong together are no debt for ever"


def test_a_run_that_can_be_repeated_takes_the_floor_alone() -> None:
    one = learner(samples=1)
    budget = auto(one, repeatable=True)
    budget.take_in(80)
    assert budget.owed() == budget.allowed() == 80 / MOST


def test_a_number_is_floor_and_ceiling_of_all_samples_together() -> None:
    one = learner()
    budget = auto(one, steps_per_update=2.0)
    for _ in range(50):
        budget.take_in(3)
    assert budget.owed() == budget.allowed() == 149 // 2


BLOCKS = {
    "4 ms of steps": (20.0, 1.0, 4.0, 4),
    "more of short ones": (20.0, 0.1, 4.0, 40),
    "a step and what comes then would be too long": (20.0, 4.5, 18.0, 0),
    "one fits": (20.0, 3.0, 12.0, 1),
    "until the next and a little beyond it": (6.0, 1.0, 4.0, 4),
    "a game that costs little": (4.5, 1.0, 4.0, 1),
    "one that costs nothing": (4.2, 1.0, 4.0, 0),
    "what should have come is late": (20.0, 1.0, 500.0, 4),
    "and may come at any moment": (6.0, 1.0, 500.0, 2),
    "a step that is long itself": (400.0, 30.0, 120.0, 1),
}


@pytest.mark.parametrize(
    ("every_ms", "step_ms", "later_ms", "steps"),
    BLOCKS.values(),
    ids=BLOCKS,
)
def test_a_block_fits_into_the_time_that_the_game_takes(
    every_ms: float, step_ms: float, later_ms: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps are taken for what comes every so often; then there is so much time since it came."""
    now = 0.0
    monkeypatch.setattr(module, "_now", lambda: now)
    one = learner(samples=1000)
    one.done = False
    filling = Filling(one, OffPolicyHyperparameters.model_validate({"batch_size": 1, "steps_per_update": "auto"}))
    for _ in range(30):
        now += every_ms / 1e3
        filling.comes()
        filling._budget.take_in(64)
        filling.took(Work({}, gradient_steps=4), 4 * step_ms / 1e3)
    now += later_ms / 1e3
    block = filling.between()
    assert (0 if block is None else block.gradient_steps) == steps
    assert block is None or block.data is NO_TRANSITIONS
    one.done = True
    assert filling.between() is None


def test_one_slow_update_is_soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "_now", lambda: now)
    one = learner(samples=1000)
    one.done, found = False, []
    filling = Filling(one, OffPolicyHyperparameters.model_validate({"batch_size": 1, "steps_per_update": "auto"}))
    for seconds in (2.0, *[0.004] * 9):
        now += 0.02
        filling.comes()
        filling._budget.take_in(64)
        filling.took(Work({}, gradient_steps=4), seconds)
        found.append(filling.between() is not None)
    assert found == [False] * 6 + [True] * 4
