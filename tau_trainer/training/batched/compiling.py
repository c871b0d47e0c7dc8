"""Stepping and acting, compiled where that pays."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from tau_trainer.algorithms.batched import BatchedLearner
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.settings.batched import Compile

_log = logging.getLogger(__name__)
_COMPILER = ("torch._dynamo", "torch._inductor")
"""Loggers of the compiler."""
_PROBE = 20
"""Steps that are timed."""
_COSTS_S = 60.0
"""About what compiling takes on two cores; a run that steps for less than this is over before it would be done."""


def choose(
    mode: Compile,
    env: BatchedEnv,
    learners: Sequence[tuple[BatchedLearner, Sequence[int]]],
    steps: int,
    say: Callable[[str], None] = lambda sentence: None,
) -> tuple[bool, str]:
    """Compile as ``mode`` says, or not. Changes nothing of the environment's state.

    Args:
        mode: ``auto``: where stepping would take longer than compiling, and is faster for it.
        env: begun.
        learners: who acts for which agents.
        steps: of every copy that are still to come.
        say: told before it takes long.

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
    say("compiling stepping and acting, which may take a minute or two; --compile off leaves it out")
    env.played = torch.compile(eager, dynamic=False)  # type: ignore[method-assign]
    try:
        with _unheard():
            _seconds(env, actions, 2)
            after = _seconds(env, actions) if mode == "auto" else 0.0
            if after > before and mode == "auto":
                env.played = eager  # type: ignore[method-assign]
                slower = f"{after * 1e3:.2f} ms a step instead of {before * 1e3:.2f}"
                return False, f"stepping is not compiled: that took {slower}"
            observations, mask = env.observe(env.state), env.mask
            for learner, agents in learners:
                theirs = list(agents)
                learner.compile(observations[:, theirs], None if mask is None else mask[:, theirs])
    except Exception as error:  # whatever a compiler, or a machine without one, raises
        env.played = eager  # type: ignore[method-assign]
        why = next(iter(str(error).splitlines()), "")
        return False, f"stepping cannot be compiled here, and goes on as it is ({type(error).__name__}: {why[:120]})"
    return True, "stepping and acting are compiled" + (f", {before / after:.1f} times as fast" if after else "")


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep what the compiler tells its own developers away from the terminal, but where everything is asked for."""
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
