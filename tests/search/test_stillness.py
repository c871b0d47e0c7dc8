"""Gradient steps that are timed on a game that stands still."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tau_trainer.envs.faults import check_batch
from tau_trainer.errors import EngineError, EngineRefusedError
from tau_trainer.search import stillness
from tau_trainer.search.stillness import Costs, StillGame
from tau_trainer.search.trial import Cost
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, StepBatch, empty_terminals

SMALL = {"hidden_units": 8, "num_layers": 1}


def shown(name: str, agents: int, actions: ActionSpec) -> tuple[BehaviorSpec, StepBatch]:
    spec = BehaviorSpec(f"{name}?team=0", (ObservationSpec("v", (4,)),), actions)
    rng = np.random.default_rng(3)
    ids, none = np.arange(agents, dtype=np.int32), np.zeros(agents, np.float32)
    obs = (rng.standard_normal((agents, 4), np.float32),)
    return spec, StepBatch(
        spec.name, ids, obs, none, np.zeros(agents, np.int32), none, empty_terminals(spec.observations)
    )


SHOWN = dict([shown("Walker", 6, ActionSpec(2)), shown("Chooser", 3, ActionSpec(0, (3,)))])


def settings(trainer: str, **numbers: object) -> RunSettings:
    entry = {"trainer_type": trainer, "hyperparameters": numbers, "network_settings": SMALL, "max_steps": 100}
    return load_settings(None, {"default_settings": entry, "env_settings.seed": 1})


def ticks(step: float = 0.2) -> Callable[[], float]:
    """A clock that every look puts on."""
    counted = itertools.count()
    return lambda: step * next(counted)


@pytest.mark.parametrize(
    ("trainer", "numbers"),
    [
        ("ppo", {"batch_size": 16, "buffer_size": 100_000}),
        ("sac", {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 400_000}),
    ],
)
def test_every_behavior_is_timed_and_nothing_has_to_be_waited_for(trainer: str, numbers: dict[str, object]) -> None:
    """Whatever the file says of how long is gathered before anything is learned, or of what is played."""
    found = Costs(SHOWN, 1.0, ticks()).measure(settings(trainer, **numbers))
    assert found.keys() == {"Walker", "Chooser"}
    assert all(0.0 < seconds < 1.0 for seconds in found.values())


def test_what_cannot_learn_says_so() -> None:
    with pytest.raises(EngineRefusedError, match="Chooser"):
        Costs(SHOWN, 1.0, ticks()).measure(settings("ddpg"))


def test_it_stops_before_it_has_begun() -> None:
    costs = Costs(SHOWN, 1000.0)
    costs.stop()
    assert costs.measure(settings("ppo", batch_size=16, buffer_size=64)) == {}


def test_the_first_update_counts_only_where_it_is_alone() -> None:
    costs = [Cost("A", 2, 9.0), Cost("B", 1, 5.0), Cost("A", 4, 4.0)]
    assert stillness._seconds_a_step(costs) == {"A": 1.0, "B": 5.0}


def test_a_step_is_one_of_a_game() -> None:
    game = StillGame(SHOWN)

    async def played() -> list[StepBatch]:
        batches = [*await game.start({})]
        for _ in range(2 * stillness._EPISODE):
            game.answer({})
            batches += await game.next()
        assert len(await game.reset({})) == 2
        return batches

    batches = asyncio.run(played())
    for batch in batches:
        check_batch(batch, game.specs[batch.behavior])
    ends = [len(batch.terminals) for batch in batches if batch.behavior == "Walker?team=0"]
    assert [step for step, count in enumerate(ends) if count] == [50, 100]
    assert set(ends) == {0, 6}
    with pytest.raises(EngineError, match="gone"):
        asyncio.run(game.recover(EngineError("gone")))
