"""Steps of tag in both of its forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.envs.batched import BatchedEnv, Draws, State


def actions_for(env: BatchedEnv, generator: torch.Generator) -> torch.Tensor:
    sizes = torch.as_tensor(getattr(env.action_space, "nvec", [getattr(env.action_space, "n", 0)]))
    drawn = torch.rand(env.num_envs, env.num_agents, len(sizes), generator=generator) * sizes
    return drawn.long().view(env.num_envs, env.num_agents, *(env.action_space.shape or ()))


def row(state: State, index: int) -> dict[str, NDArray[Any]]:
    return {name: values[index].numpy() for name, values in state.items()}


def compare(env: BatchedEnv, twin: Any, state: State, actions: torch.Tensor) -> None:
    """One step of every copy, and what is seen before it, by both."""
    state = {**state, "step": state["step"] + 1}
    clock = {key: state.pop(key) for key in ("seed", "episode")}
    outcome = env.advance({**state, **clock}, actions, Draws(clock["seed"], clock["episode"], state["step"]))
    seen = env.observe({**state, **outcome.state})
    assert seen.dtype == torch.float32
    for i in range(len(actions)):
        new, rewards, terminated, truncated = twin.advance(row(state, i), actions[i].numpy())
        assert set(new) == set(outcome.state)
        for name, values in new.items():
            np.testing.assert_allclose(outcome.state[name][i].numpy(), values, rtol=0, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(outcome.rewards[i].numpy(), rewards, rtol=0, atol=1e-5)
        assert (outcome.terminated[i].numpy() == terminated).all()
        assert (outcome.truncated[i].numpy() == truncated).all()
        found = twin.observe(row({**state, **outcome.state}, i))
        np.testing.assert_allclose(seen[i].numpy(), found, rtol=0, atol=1e-5)
        assert seen[i].shape == (env.num_agents, *env.observation_space.shape)
