"""Compile stepping and acting if that pays off."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from tau_trainer.algorithms.batched import ActorInput, TensorActor
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.settings.tasks import Compile

_log = logging.getLogger(__name__)
_COMPILER = ("torch._dynamo", "torch._inductor")
"""Loggers of the compiler."""
_PROBE = 20
"""Number of steps to time."""
_COSTS_S = 60.0
"""About the seconds that compiling takes on two cores; a run that steps for less time ends before it would pay off."""


def choose(
    mode: Compile,
    env: BatchedEnv,
    actors: Sequence[tuple[TensorActor, Sequence[int]]],
    steps: int,
    say: Callable[[str], None] = lambda sentence: None,
) -> tuple[bool, str]:
    """Compile or do not compile, depending on ``mode``. Does not change the environment's state.

    Args:
        mode: ``auto`` compiles if stepping would take longer than compiling, and becomes faster by it.
        env: an environment that has begun.
        actors: each with the agents that it decides for.
        steps: number of steps of every copy that are left.
        say: called with a sentence before something takes long.

    Returns:
        Whether both are compiled now, and a sentence to show (empty if there is nothing to say).
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
    say("compiling stepping and acting, which may take a minute or two; --compile off prevents that")
    env.played = torch.compile(eager, dynamic=False)  # type: ignore[method-assign]
    try:
        with _unheard():
            _seconds(env, actions, 2)
            after = _seconds(env, actions) if mode == "auto" else 0.0
            if after > before and mode == "auto":
                env.played = eager  # type: ignore[method-assign]
                slower = f"{after * 1e3:.2f} ms a step instead of {before * 1e3:.2f}"
                return False, f"stepping is not compiled, because that was slower: {slower}"
            observations, mask = env.observe(env.state), env.mask
            for actor, agents in actors:
                theirs = list(agents)
                actor.compile(ActorInput(observations[:, theirs], None if mask is None else mask[:, theirs]))
    except Exception as error:  # a compiler, or a machine without one, can raise anything
        env.played = eager  # type: ignore[method-assign]
        why = next(iter(str(error).splitlines()), "")
        return False, f"stepping cannot be compiled here and continues uncompiled ({type(error).__name__}: {why[:120]})"
    return True, "stepping and acting are compiled" + (f", {before / after:.1f} times as fast" if after else "")


@contextmanager
def _unheard() -> Iterator[None]:
    """Hide the compiler's messages to its own developers, except at log level DEBUG."""
    if _log.isEnabledFor(logging.DEBUG):
        yield
        return
    loggers = [logging.getLogger(name) for name in _COMPILER]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _actions(env: BatchedEnv) -> torch.Tensor:
    """Example actions of every agent, in the environment's format: zeros."""
    space = env.action_space
    action = torch.as_tensor(space.sample(), device=env.device)
    return torch.zeros_like(action).expand(env.num_envs, env.num_agents, *action.shape).contiguous()


def _seconds(env: BatchedEnv, actions: torch.Tensor, steps: int = _PROBE) -> float:
    """Seconds per step, including the device's work."""
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
