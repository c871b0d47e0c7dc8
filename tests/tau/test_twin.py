"""The task as a twin that a reader can follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.envs.batched import registry
from tau_trainer.tau.batched import TauBatched
from tests.tau.answering import answers


@pytest.mark.parametrize("profile", ["tau3", "tau384"])
def test_a_step_is_the_twins(profile: str) -> None:
    arguments: dict[str, Any] = {"profile": profile, "max_decisions": 5, "reward_threshold": -1.0, "columns": 3}
    env, twin = registry.make("tau", 8, **arguments), registry.twin("tau", **arguments)
    assert isinstance(env, TauBatched)
    env.reset()
    generator = np.random.default_rng(2)
    ends = np.zeros(2)
    for _ in range(20):
        output, before = answers(env, generator), env.state
        step = env.step(torch.tensor(output)[:, None])
        for i in range(8):
            row = {key: values[i].numpy() for key, values in before.items()}
            np.testing.assert_array_equal(env.observe(before)[i], twin.observe(row))
            row["step"] = row["step"] + 1
            after, rewards, terminated, truncated = twin.advance(row, output[i : i + 1])
            np.testing.assert_allclose(step.rewards[i], rewards, rtol=1e-6)
            assert step.terminated[i].tolist() == terminated.tolist()
            assert step.truncated[i].tolist() == (truncated & ~terminated).tolist()
            if not step.over[i]:
                assert float(env.state["earned"][i]) == pytest.approx(float(after["earned"]), rel=1e-12)
            ends += np.array([terminated[0], truncated[0]])
    assert ends.all()
