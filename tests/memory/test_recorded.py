from __future__ import annotations

import numpy as np

from tau_trainer.columns import action_columns, observation_columns
from tau_trainer.memory import Rollout, RolloutMemory, StepFacts, recorded
from tests.bridge.demos import HYBRID, made_up


def test_a_recording_is_what_a_memory_would_have_handed_out() -> None:
    """Episodes that end, that a limit cuts, and one that stays open, message by message into a memory."""
    demo = made_up(lengths=(4, 3, 2, 5, 4), seed=3)
    continuous, discrete = demo.actions.continuous, demo.actions.discrete
    memory = RolloutMemory(
        observation_columns(HYBRID),
        action_columns(HYBRID, HYBRID.actions),
        rewards={"extrinsic": 1},
        capacity=10,
        horizon=1000,
    )
    row = -1
    for k in range(len(demo)):
        row += int(demo.begins[k])
        one, rewards = np.array([row]), {"extrinsic": demo.reward[k : k + 1, None]}
        obs = tuple(sensor[k : k + 1] for sensor in demo.obs)
        if demo.ended[k]:
            memory.end(one, StepFacts(rewards), obs, demo.truncated[k : k + 1])
            continue
        assert demo.mask is not None
        values = {f"obs_{i}": sensor for i, sensor in enumerate(obs)}
        values |= {"continuous": continuous[k : k + 1], "discrete": discrete[k : k + 1], "mask": demo.mask[k : k + 1]}
        memory.append(one, StepFacts(rewards), values, 0)
    wanted = Rollout(memory.take().data)
    work = recorded(
        demo.obs,
        {"continuous": continuous, "discrete": discrete, "mask": demo.mask},
        {"extrinsic": demo.reward[:, None]},
        begins=demo.begins,
        ended=demo.ended,
        truncated=demo.truncated,
    )
    found = Rollout(work)
    assert len(found) == len(wanted) == int((~demo.ended).sum()) - 1  # the last decision is open
    for name in ("terminated", "truncated", "following", "bootstrap", "bootstrapped", "rows"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), name)
    for name in ("continuous", "discrete", "mask"):
        np.testing.assert_array_equal(found.column(name), wanted.column(name), name)
    np.testing.assert_array_equal(found.rewards["extrinsic"], wanted.rewards["extrinsic"])
    for i in range(len(demo.obs)):
        np.testing.assert_array_equal(found.observations[i], wanted.observations[i])
        np.testing.assert_array_equal(found.next_observations(i), wanted.next_observations(i))


def test_columns_that_nobody_gave_are_left_out() -> None:
    demo = made_up()
    work = recorded(demo.obs, {"mask": None}, {}, begins=demo.begins, ended=demo.ended, truncated=demo.truncated)
    assert Rollout(work).mask is None
