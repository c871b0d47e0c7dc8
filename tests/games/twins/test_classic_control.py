"""Classic control as games of engines."""

from __future__ import annotations

import numpy as np
import torch

from tau_trainer.envs.batched import registry
from tests.games.classic import EVERY, opened


@EVERY
def test_a_step_is_the_twins(name: str) -> None:
    env, twin = opened(name, 3, starts="pool", pool=5), registry.twin(name, limit=7)
    env.limit = 7
    env.reset()
    env.action_space.seed(0)
    for _ in range(20):
        actions = np.stack([[env.action_space.sample()] for _ in range(3)])
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
