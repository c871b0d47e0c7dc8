"""Two implementations of one game, step by step, within a tolerance (WarpDrive's consistency checker)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tau_trainer.envs.batched.contract import CLOCK, BatchedEnv, BatchedStep, State, Twin
from tau_trainer.envs.batched.draws import Draws
from tau_trainer.envs.batched.players import RandomPlayer

Values = dict[str, torch.Tensor]
"""[E, ...] by name."""
OnStep = Callable[[int], None]
"""Called with the number of each finished step, to show progress."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between two implementations."""

    step: int
    """Number of the step, from 1; 0: before the first step."""
    copy: int
    agent: str | None
    """None: the quantity belongs to all agents."""
    quantity: str
    place: tuple[int, ...]
    """Index within the quantity of that copy and agent."""
    values: tuple[float, float]

    def sentence(self, here: str, there: str) -> str:
        """``step 3, copy 1, agent left: rewards is 1 here and 2 there``."""
        whose = f", agent {self.agent}" if self.agent is not None else ""
        what = self.quantity + (f"[{', '.join(map(str, self.place))}]" if self.place else "")
        first, second = (f"{value:.7g}" for value in self.values)
        return f"step {self.step}, copy {self.copy}{whose}: {what} is {first} {here} and {second} {there}"


def sampled(env: BatchedEnv, mask: torch.Tensor | None, generator: torch.Generator) -> torch.Tensor:
    """Random actions for every agent, uniform over the allowed ones."""
    player = RandomPlayer(env, range(env.num_agents))
    drawn = torch.rand(env.num_envs, env.num_agents, player.size, generator=generator)
    return player.chosen(drawn.to(env.device), mask)


def compare(
    env: BatchedEnv,
    other: BatchedEnv | Twin,
    *,
    steps: int,
    seed: int,
    tolerance: float,
    on_step: OnStep = lambda step: None,
) -> Difference | None:
    """Play both, with the same actions from the same states, until they differ by more than ``tolerance``.

    Each step starts from the state of ``env``, so rounding errors do not add up. Only an environment whose state has
    other names than that of ``env`` continues from its own state.

    Args:
        env: the environment; this function resets it.
        other: an environment with the same seeds and the same number of copies; or a twin.
        steps: number of steps of every copy.
        seed: seed of the actions.
        tolerance: absolute, and relative to the larger value.
        on_step: called with the number of each step, starting with 1.
    """
    generator = torch.Generator().manual_seed(seed)
    peer = _Peer(env, other) if isinstance(other, BatchedEnv) else _Twins(env, other)
    found = first_difference(env, 0, {"observations": env.reset()}, {"observations": peer.reset()}, tolerance)
    for at in range(1, steps + 1):
        if found is not None:
            return found
        mask, before = env.mask, env.state
        actions = sampled(env, mask, generator)
        step = env.step(actions)
        ours, theirs = peer.both(before, actions, step, mask)
        found = first_difference(env, at, ours, theirs, tolerance)
        on_step(at)
    return found


def first_difference(env: BatchedEnv, step: int, ours: Values, theirs: Values, tolerance: float) -> Difference | None:
    """The first value of ``ours``, in order, that differs from ``theirs`` beyond the tolerance; nan equals nan."""
    for name, mine in ours.items():
        value = theirs[name].to(mine.device)
        if mine.shape != value.shape:
            return Difference(
                step, 0, None, f"the number of dimensions or rows of {name}", (), (mine.dim(), value.dim())
            )
        mine, value = mine.double(), value.double()
        close = torch.isclose(mine, value, rtol=tolerance, atol=tolerance, equal_nan=True)
        if not bool(close.all()):
            at = tuple((~close).nonzero()[0].tolist())
            by_agent = not name.startswith("state") and len(at) > 1
            agent = env.agents[at[1]] if by_agent else None
            return Difference(step, at[0], agent, name, at[2 if by_agent else 1 :], (float(mine[at]), float(value[at])))
    return None


def told_by(step: BatchedStep) -> Values:
    """The results of a step, in the order of comparison."""
    names = "rewards", "terminated", "truncated", "final_observations", "observations"
    return {name: getattr(step, name) for name in names}


def game_of(state: State) -> Values:
    """The author's part of a state."""
    return {f"state['{name}']": values for name, values in state.items() if name not in CLOCK}


class _Peer:
    """Another batched environment."""

    def __init__(self, env: BatchedEnv, other: BatchedEnv) -> None:
        self._env, self._other = env, other

    def reset(self) -> torch.Tensor:
        return self._other.reset()

    def both(
        self, before: State, actions: torch.Tensor, step: BatchedStep, mask: torch.Tensor | None
    ) -> tuple[Values, Values]:
        other = self._other
        alike = {(name, values.shape) for name, values in before.items()} == {
            (name, values.shape) for name, values in other.state.items()
        }
        if alike:
            other.state = {name: values.to(other.device, other.state[name].dtype) for name, values in before.items()}
        valuemask = other.mask
        found = told_by(other.step(actions.to(other.device)))
        ours = told_by(step)
        if mask is not None and valuemask is not None:
            ours, found = {"allowed": mask} | ours, {"allowed": valuemask} | found
        if alike:
            ours, found = ours | game_of(self._env.state), found | game_of(other.state)
        return ours, found


class _Twins:
    """A twin, which plays the copies one after the other."""

    def __init__(self, env: BatchedEnv, twin: Twin) -> None:
        self._env, self._twin = env, twin

    def reset(self) -> torch.Tensor:
        return self._observed(self._env.state)

    def both(
        self, before: State, actions: torch.Tensor, step: BatchedStep, mask: torch.Tensor | None
    ) -> tuple[Values, Values]:
        counted = {**before, "step": before["step"] + 1}
        found = self._env.advance(counted, actions, Draws(counted["seed"], counted["episode"], counted["step"]))
        still = before["present"] & ~found.terminated & ~found.truncated
        after = {**counted, **found.state, "present": still}  # before any copy starts a new episode
        rows = zip(_rows(counted), _rows(after), actions.cpu().numpy(), strict=True)
        played = [(next_row, *self._twin.advance(row, action)) for row, next_row, action in rows]
        ends, states, *others = zip(*played, strict=True)
        rewards, terminated, truncated = (torch.as_tensor(np.stack(values)) for values in others)
        present = before["present"].cpu()
        # Values missing in a twin's state are random: take them over.
        final = np.stack([self._twin.observe(row | state) for row, state in zip(ends, states, strict=True)])
        theirs = {
            "rewards": rewards * present,
            "terminated": terminated & present,
            "truncated": truncated & present & ~terminated,
            "final_observations": torch.as_tensor(final),
            "observations": self._observed(self._env.state),
        }
        ours = told_by(step)
        for name in states[0]:
            ours[f"state['{name}']"] = after[name]
            theirs[f"state['{name}']"] = torch.as_tensor(np.stack([np.asarray(row[name]) for row in states]))
        return ours, theirs

    def _observed(self, state: State) -> torch.Tensor:
        return torch.as_tensor(np.stack([self._twin.observe(row) for row in _rows(state)]))


def _rows(state: State) -> Iterator[dict[str, Any]]:
    """Each copy's state as arrays without ``E``."""
    arrays = {name: values.cpu().numpy() for name, values in state.items()}
    for i in range(len(arrays["seed"])):
        yield {name: values[i] for name, values in arrays.items()}
