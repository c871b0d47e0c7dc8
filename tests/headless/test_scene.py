"""Scenes of several behaviors, shown on the smallest: agents that change their behavior with every episode."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.errors import DecodeError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IndexArray,
    Observations,
    ObservationSpec,
    StepBatch,
)

NAMES = ("Even?team=0", "Odd?team=0")
SPECS = tuple(BehaviorSpec(name, (ObservationSpec("seen", (2,)),), ActionSpec(1, (3,))) for name in NAMES)


class Turns(LockstepScene):
    """Agent i's episodes last i + 1 decisions and are Even, Odd, Even, ...; sees its number and its episode's."""

    def __init__(self, agents: int) -> None:
        super().__init__(SPECS, agents, 0, max_decisions=0)
        self.episode = np.full(agents, -1)
        self.taken = Actions.zeros(SPECS[0].actions, agents)

    def begin(self, index: IndexArray) -> None:
        self.episode[index] += 1
        self.behavior[index] = self.episode[index] % 2

    def advance(self, actions: Actions) -> tuple[FloatArray, BoolArray]:
        self.taken = actions
        return np.ones(self.agents, np.float32), self.age >= np.arange(self.agents)

    def observe(self) -> Observations:
        return (np.stack([np.arange(self.agents), self.episode], axis=1).astype(np.float32),)

    def mask(self) -> BoolArray:
        own: BoolArray = np.arange(self.agents)[:, None] == np.arange(3)
        return own


def answered(batches: list[StepBatch]) -> dict[str, Actions]:
    """Each agent does its own number; behaviors that nobody plays are left out."""
    return {
        batch.behavior: Actions(batch.agent_ids[:, None].astype(np.float32), batch.agent_ids[:, None] % 3)
        for batch in batches
        if len(batch)
    }


def test_an_agent_ends_under_one_behavior_and_begins_under_the_other() -> None:
    scene = Turns(3)
    even, odd = scene.reset(EnvironmentParameters())
    assert (even.behavior, odd.behavior) == NAMES
    assert (even.agent_ids.tolist(), odd.agent_ids.tolist()) == ([0, 1, 2], [])
    assert odd.obs[0].shape == (0, 2)
    even, odd = scene.step(answered([even, odd]))
    assert even.terminals.agent_ids.tolist() == [0]
    assert even.terminals.obs[0].tolist() == [[0.0, 0.0]]
    assert (even.terminals.reward.tolist(), even.terminals.truncated.tolist()) == ([1.0], [False])
    assert (even.agent_ids.tolist(), even.reward.tolist()) == ([1, 2], [1.0, 1.0])
    assert len(odd.terminals) == 0
    assert (odd.agent_ids.tolist(), odd.reward.tolist()) == ([0], [0.0])
    assert odd.obs[0].tolist() == [[0.0, 1.0]]
    even, odd = scene.step(answered([even, odd]))
    assert (even.terminals.agent_ids.tolist(), odd.terminals.agent_ids.tolist()) == ([1], [0])
    assert (even.agent_ids.tolist(), odd.agent_ids.tolist()) == ([0, 2], [1])


def test_actions_reach_the_agents_that_asked_and_masks_stand_beside_them() -> None:
    scene = Turns(7)
    batches = scene.reset(EnvironmentParameters())
    for _ in range(30):
        batches = scene.step(answered(batches))
        assert scene.taken.continuous[:, 0].tolist() == list(range(7))
        assert scene.taken.discrete[:, 0].tolist() == [agent % 3 for agent in range(7)]
        assert sorted(agent for batch in batches for agent in batch.agent_ids) == list(range(7))
        for batch in batches:
            assert batch.action_mask is not None
            assert batch.action_mask.tolist() == [[agent == k for k in range(3)] for agent in batch.agent_ids]
            np.testing.assert_array_equal(batch.obs[0][:, 0], batch.agent_ids)


def test_nan_is_told_with_the_behavior_that_the_agent_plays() -> None:
    scene = Turns(3)
    batches = scene.step(answered(scene.reset(EnvironmentParameters())))
    actions = answered(batches)
    actions[NAMES[1]].continuous[0] = np.nan
    with pytest.raises(DecodeError, match=r"Odd\?team=0.*agent 0"):
        scene.step(actions)
