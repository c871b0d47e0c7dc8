"""Classic control as games of engines."""

from __future__ import annotations

import numpy as np
import torch

from tau_trainer.envs.batched import registry
from tau_trainer.games.classic_control import MOTION
from tests.games.classic import EVERY, opened

WIDEST = {"cartpole": [3.0, 3.0, 0.3, 3.0], "acrobot": [3.1, 3.1, 12.0, 28.0], "pendulum": [9.0, 8.0]}
"""Places where play does not lead: at the goal and on the way back, beyond the track."""


@EVERY
def test_a_step_is_the_twins(name: str) -> None:
    env, twin = opened(name, 3, starts="pool", pool=5), registry.twin(name, limit=7)
    env.limit = 7
    env.reset()
    env.action_space.seed(0)
    generator = np.random.default_rng(5)
    high = np.array(WIDEST.get(name, [0.6, 0.07]))
    low = -high if name in WIDEST else np.array([-1.2, -0.07])
    for turn in range(80):
        actions = np.stack([[env.action_space.sample()] for _ in range(3)])
        if turn >= 20:  # from anywhere
            places = torch.as_tensor(generator.uniform(low, high, (3, len(high))), dtype=torch.float32)
            env.state = {**env.state, MOTION: places}
        before = env.state
        step = env.step(torch.as_tensor(actions))
        for i in range(3):
            row = {key: values[i].numpy() for key, values in before.items()}
            row["step"] = row["step"] + 1
            after, rewards, terminated, truncated = twin.advance(row, actions[i])
            np.testing.assert_allclose(step.rewards[i], rewards, rtol=1e-5, atol=1e-5)
            assert step.terminated[i].tolist() == terminated.tolist()
            assert step.truncated[i].tolist() == (truncated & ~terminated).tolist()
            np.testing.assert_allclose(step.final_observations[i], twin.observe(row | after), rtol=1e-4, atol=1e-4)
