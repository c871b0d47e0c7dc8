"""Stepping and acting, compiled where that pays."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

import torch

from tau_trainer.algorithms.batched import BatchedLearner
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.settings.batched import Compile

_PROBE = 20
"""Steps that are timed."""
_COSTS_S = 60.0
"""About what compiling takes on two cores; a run that steps for less than this is over before it would be done."""


def choose(mode: Compile, env: BatchedEnv, learners: Sequence[BatchedLearner], steps: int) -> tuple[bool, str]:
    """Compile as ``mode`` says, or not. Changes nothing of the environment's state.

    Args:
        mode: ``auto``: where stepping would take longer than compiling, and is faster for it.
        env: begun.
        learners: those that act by a network.
        steps: of every copy that are still to come.

    Returns:
        Whether both are compiled now, and a sentence where there is something to say.
    """
    if mode == "off":
        return False, ""
    actions = _actions(env)
    eager = env.played
    before = 0.0
    if mode == "auto":
        before = _seconds(env, actions)
        if before * steps < _COSTS_S:
            return False, ""
    # The compiler's own use of what torch has deprecated is nothing that a user could mend.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\._inductor")
    env.played = torch.compile(eager, dynamic=False)  # type: ignore[method-assign]
    try:
        _seconds(env, actions, 2)
        after = _seconds(env, actions) if mode == "auto" else 0.0
    except Exception as error:  # whatever a compiler, or a machine without one, raises
        env.played = eager  # type: ignore[method-assign]
        why = next(iter(str(error).splitlines()), "")
        return False, f"stepping cannot be compiled here, and goes on as it is ({type(error).__name__}: {why[:120]})"
    if after > before and mode == "auto":
        env.played = eager  # type: ignore[method-assign]
        return False, f"stepping is not compiled: that took {after * 1e3:.2f} ms a step instead of {before * 1e3:.2f}"
    for learner in learners:
        learner.compile()
    return True, "stepping and acting are compiled" + (f", {before / after:.1f} times as fast" if after else "")


def _actions(env: BatchedEnv) -> torch.Tensor:
    """Actions of every agent, as an environment takes them: the first of their kind."""
    space = env.action_space
    action = torch.as_tensor(space.sample(), device=env.device)
    return torch.zeros_like(action).expand(env.num_envs, env.num_agents, *action.shape).contiguous()


def _seconds(env: BatchedEnv, actions: torch.Tensor, steps: int = _PROBE) -> float:
    """Of a step, the device waited for."""
    wait: Callable[[], None] = torch.cuda.synchronize if env.device.type == "cuda" else lambda: None
    with torch.no_grad():
        env.transition(env.state, actions)
        wait()
        begun = time.perf_counter()
        state = env.state
        for _ in range(steps):
            state, _ = env.transition(state, actions)
        wait()
    return (time.perf_counter() - begun) / steps
