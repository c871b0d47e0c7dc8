"""Steps and specs as mlagents-envs has them."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.envs.mlagents import (
    ActionTuple,
    UnityActionException,
    UnityCommunicatorStoppedException,
    UnityEnvironment,
)
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec
from tests.envs.mlagents.engines import GOODBYE, SPEC, Talk, batch, message
from tests.envs.mlagents.games import NAME


def test_actions_that_do_not_fit(basic: UnityEnvironment) -> None:
    with pytest.raises(UnityActionException, match="unknown behavior 'Basic'; this environment has none"):
        basic.set_actions("Basic", ActionTuple())
    basic.reset()
    with pytest.raises(UnityActionException, match=r"unknown behavior 'Other'; this environment has 'Basic\?team=0'"):
        basic.get_steps("Other")
    with pytest.raises(UnityActionException, match=r"takes discrete actions of shape \(3, 1\) .* got \(2, 1\)"):
        basic.set_actions(NAME, ActionTuple(discrete=np.zeros((2, 1))))
    with pytest.raises(UnityActionException, match=r"takes discrete actions .* got None"):
        basic.set_actions(NAME, ActionTuple())
    for wrong in (3, -1):
        with pytest.raises(UnityActionException, match=f"3 choices in branch 0, and row 1 .* asks for number {wrong}"):
            basic.set_actions(NAME, ActionTuple(discrete=np.array([[0], [wrong], [0]])))
    one = ActionTuple(discrete=np.array([[1]]))
    with pytest.raises(UnityActionException, match="actions of shape"):
        basic.set_action_for_agent(NAME, 0, ActionTuple(discrete=np.zeros((2, 1))))
    with pytest.raises(IndexError, match="agent 9 of behavior 'Basic"):
        basic.set_action_for_agent(NAME, 9, one)
    basic.set_action_for_agent(NAME, 0, one)
    basic.step()


def test_behaviors_stand_as_the_engine_describes_them_and_those_without_agents_are_empty() -> None:
    other = BehaviorSpec(
        "Ant", (ObservationSpec("x", (3,), (DimensionProperty.NONE,)),), ActionSpec(discrete_branches=(4,))
    )
    talk = Talk(
        message(batch(SPEC, 4), batch(other, 1, 2), specs=[SPEC, other]),
        message(batch(other, 2), specs=[other]),
        GOODBYE,
    )
    env = talk.environment()
    env.reset()
    assert list(env.behavior_specs) == [SPEC.name, "Ant"]
    assert env.behavior_specs[SPEC.name].observation_specs[0].dimension_property == (DimensionProperty.UNSPECIFIED,)
    env.step()
    gone, _ = env.get_steps(SPEC.name)
    here, _ = env.get_steps("Ant")
    assert (len(gone), gone.action_mask, here.agent_id.tolist()) == (0, None, [2])
    assert here.action_mask is not None
    assert [mask.tolist() for mask in here.action_mask] == [[[False] * 4]]
    with pytest.raises(UnityActionException):
        env.set_actions(SPEC.name, ActionTuple(np.zeros((1, 1)), np.zeros((1, 2))))
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()
    env.close()
