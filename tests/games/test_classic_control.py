"""Classic control is Gymnasium's own, step by step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from tau_trainer.envs.batched import Draws, Outcome, registry
from tau_trainer.games.classic_control import MOTION, ClassicControl
from tests.games.classic import EVERY, OF_GYMNASIUM, motion, opened

STEPS = 500
"""Each of them ends in less than that, played as here."""


def oracle(name: str) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(OF_GYMNASIUM[name], disable_env_checker=True)


def chosen(name: str, env: gymnasium.Env[Any, Any], generator: np.random.Generator, seen: Any) -> Any:
    """Actions that go everywhere: at random, mostly with the motion, and of numbers beyond the space as well."""
    if isinstance(env.action_space, gymnasium.spaces.Box):
        along = np.sign(seen[-1]) * generator.uniform(0.5, 1.5) * env.action_space.high
        return (along if generator.random() < 0.7 else env.action_space.sample() * 1.5).astype(np.float32)
    if name == "mountain_car" and generator.random() < 0.9:
        return 2 if seen[1] > 0 else 0
    if name == "acrobot" and generator.random() < 0.8:
        return 2 if seen[5] > 0 else 0
    return int(generator.integers(env.action_space.n))  # type: ignore[attr-defined]


def moved(env: ClassicControl, state: dict[str, torch.Tensor], action: Any) -> Outcome:
    draws = Draws(*(torch.zeros(1, dtype=torch.int64) for _ in range(3)))
    return env.advance(state, torch.as_tensor(np.array([[action]])), draws)


@EVERY
def test_every_step_from_the_same_state(name: str) -> None:
    env, theirs, generator = opened(name), oracle(name), np.random.default_rng(3)
    assert theirs.spec is not None
    assert env.limit == theirs.spec.max_episode_steps == registry.twin(name)._limit  # type: ignore[attr-defined]
    assert (env.agents, env.name) == (("agent",), name)
    # Gymnasium computes with float32 actions where they are values
    exact = 1e-7 if isinstance(env.action_space, gymnasium.spaces.Box) else 1e-10
    seen, _ = theirs.reset(seed=3)
    theirs.action_space.seed(3)
    step, ends = 0, {"terminated": 0, "truncated": 0}
    for _ in range(STEPS):
        step += 1
        action, before = chosen(name, theirs, generator, seen), (motion(theirs), seen)
        seen, reward, terminated, truncated, _ = theirs.step(action)
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, exact)):
            state = {MOTION: torch.as_tensor(before[0][None]).to(dtype), "step": torch.tensor([step])}
            np.testing.assert_allclose(env.observe(state)[0, 0], before[1], rtol=tolerance, atol=tolerance)
            found = moved(env, state, action)
            np.testing.assert_allclose(found.state[MOTION][0], motion(theirs), rtol=tolerance, atol=tolerance)
            assert found.state[MOTION].dtype == dtype
            assert float(found.rewards) == pytest.approx(float(reward), rel=1e-5, abs=1e-5)
            assert bool(found.terminated) == terminated
            assert bool(found.truncated) == truncated
        ends["terminated"] += terminated
        ends["truncated"] += truncated
        if terminated or truncated:
            seen, _ = theirs.reset()
            step = 0
    assert (ends["terminated"] > 0) == (name != "pendulum"), ends
    assert (ends["truncated"] > 0) == (name == "pendulum"), ends


@EVERY
def test_episodes_start_as_gymnasiums_do(name: str) -> None:
    env, theirs = opened(name, 20_000), oracle(name)
    env.reset()
    ours = env.state[MOTION].numpy()
    wanted = []
    for seed in range(1000):
        theirs.reset(seed=seed)
        wanted.append(motion(theirs))
    sample = np.stack(wanted)
    for column, other in zip(ours.T, sample.T, strict=True):
        if not other.any():
            assert not column.any()
            continue
        width = np.ptp(other)
        for share in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
            assert np.quantile(column, share) == pytest.approx(np.quantile(other, share), abs=0.05 * width)
        assert column.min() >= other.min() - 0.005 * width
        assert column.max() <= other.max() + 0.005 * width
    if ours.shape[1] > 1 and ours.std(axis=0).all():
        assert np.abs(np.corrcoef(ours.T) - np.eye(ours.shape[1])).max() < 0.03
