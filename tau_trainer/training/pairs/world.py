"""The copies that the pairs of a population play, each pair its own rows of one batched environment.

Shapes: ``T`` steps; ``P`` pairs with ``E`` copies each, those of a pair in a row; ``R`` numbers in a reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.batched import ActorInput
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.collection.batched import RolloutRows
from tau_trainer.columns import EXTRINSIC, Arrays, Rows
from tau_trainer.envs.batched import BatchedEnv
from tau_trainer.memory import TensorRollout
from tau_trainer.rewards import Rewarder, RewardResult
from tau_trainer.specs import Actions, BoolArray, FloatArray, IntArray
from tau_trainer.training.task import Task

_WORLD = "world."
"""Prefix of the names of a pair's copies in its checkpoints."""
_SUMS = "own", "paid", "length"
"""Of each copy's running episode: sums of the environment's reward and of the learned reward, and its decisions."""


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """A rollout of all pairs, and its results: [T, P E]."""

    rollout: TensorRollout
    reward: FloatArray
    """The environment's reward."""
    paid: FloatArray
    """The reward that is learned from, as the mean over components."""
    ended: BoolArray
    results: list[RewardResult]
    """Of each step."""


class Payment:
    """Rewards of the decisions of all copies, from the task's rewarder.

    Args:
        rewarder: of the task.
        hidden: of each sensor, whether only the rewarder sees it and the policy does not.
    """

    def __init__(self, rewarder: Rewarder, hidden: list[bool]) -> None:
        self.rewarder, self.hidden = rewarder, hidden

    def pay(self, rollout: TensorRollout, targets: list[torch.Tensor]) -> tuple[torch.Tensor, list[RewardResult]]:
        """Rewards [T, P E, 1, R] from the task's rewarder, as an AgentTrainer would ask for them, and its scores.

        ``targets``: of each step, the values of hidden sensors [P E, 1, c]; none if no sensor is hidden.
        """
        actions = rollout.actions[:, :, 0].cpu().numpy()
        engine = rollout.rewards[:, :, 0].cpu().numpy()
        wrong = ~np.isfinite(engine)
        engine = np.where(wrong, np.float32(0.0), engine)
        ended = (rollout.terminated | rollout.truncated)[:, :, 0].cpu().numpy()
        rows = np.arange(actions.shape[1])
        none: IntArray = np.zeros((len(rows), 0), np.int32)
        rewards = np.empty((*ended.shape, self.rewarder.width), np.float32)
        results: list[RewardResult] = []
        for step, over in enumerate(ended):
            shown = tuple(targets[step][:, 0].cpu().numpy() if hidden else none for hidden in self.hidden)
            scored = [self.rewarder.decided(rows, Actions(actions[step], none), shown)]
            for some, ends in ((np.flatnonzero(~over), False), (np.flatnonzero(over), True)):
                if len(some):
                    acted = np.ones(len(some), np.bool_)
                    answer = self.rewarder.answered(some, engine[step, some], acted=acted, ended=ends)
                    rewards[step, some] = answer[0]
                    scored.append(None if answer[1] is None else _spread(answer[1], some, len(rows)))
            results += [result for result in scored if result is not None]
        rewards[wrong] = np.nan
        return torch.from_numpy(rewards).to(rollout.rewards.device).unsqueeze(2), results


class World:
    """All copies, and the population that acts in them."""

    def __init__(self, task: Task, env: BatchedEnv, population: Population, payment: Payment) -> None:
        """``env`` must not have begun; its copies are those of all pairs."""
        self.env, self.payment = env, payment
        self._task, self._population, self._copies = task, population, task.copies
        self._observations = env.reset()
        self._sums = {name: np.zeros(len(self._observations)) for name in _SUMS}

    def rows(self, pair: int) -> slice:
        """Rows of a pair's copies."""
        return slice(pair * self._copies, (pair + 1) * self._copies)

    def go_on(self, stood: Mapping[int, Arrays]) -> None:
        """Restore the copies of these pairs from :meth:`state_of`. Raises CheckpointError."""
        state = {name: values.clone() for name, values in self.env.state.items()}
        for pair, arrays in stood.items():
            rows = self.rows(pair)
            for name, values in state.items():
                found = fitting(arrays, f"{_WORLD}{name}", tuple(values[rows].shape))
                values[rows] = torch.from_numpy(np.array(found)).to(values)
            for name, sums in self._sums.items():
                sums[rows] = fitting(arrays, f"{_WORLD}sum.{name}", (self._copies,))
        self.env.state, self._observations = state, self.env.observe(state)

    def state_of(self, pair: int) -> dict[str, NDArray[Any]]:
        """State of a pair's copies, for its checkpoint."""
        rows = self.rows(pair)
        world = {name: values[rows].cpu().numpy() for name, values in self.env.state.items()}
        world |= {f"sum.{name}": sums[rows] for name, sums in self._sums.items()}
        # A pair whose copies met NaN is frozen, but what it has learned is still worth saving.
        return {f"{_WORLD}{name}": np.nan_to_num(values, nan=0.0) for name, values in world.items()}

    @torch.no_grad()
    def play(self, steps: int, given_up: Callable[[], bool], *, deterministic: bool) -> PlayedRollout | None:
        """Play ``steps`` decisions of all copies.

        None: the run was ended in the meantime, and the state is as before.
        """
        env, population = self.env, self._population
        before = env.state, self._observations, population.steps
        foresees = population.foresees and env.truncates
        rows = RolloutRows(torch.zeros(1, dtype=torch.int64, device=env.device))
        targets = list[torch.Tensor]()
        for _ in range(steps):
            if given_up():
                env.state, self._observations, population.steps = before
                return None
            observations, present = self._observations, env.state["present"]
            acted = population.act(ActorInput(observations), deterministic=deterministic)
            if any(self.payment.hidden):
                targets.append(self._task.batched_target(env))
            found = env.step(acted.actions)
            rows.add(acted, found, foresees=foresees, observations=observations, present=present)
            self._observations = found.observations
        rollout = rows.rollout(self._observations, None)
        paid, results = self.payment.pay(rollout, targets)
        ended = (rollout.terminated | rollout.truncated)[..., 0].cpu().numpy()
        reward = rollout.rewards[..., 0].cpu().numpy()
        mean = paid[:, :, 0].mean(dim=2).cpu().numpy()
        return PlayedRollout(replace(rollout, rewards=paid), reward, mean, ended, results)

    def episodes(self, played: PlayedRollout) -> dict[str, FloatArray]:
        """Episodes that ended, in order: their ``copy``, and the sums of :data:`_SUMS`."""
        found = {name: [np.zeros(0)] for name in (*_SUMS, "copy")}
        strength = self._population.members[0].settings.reward_signals[EXTRINSIC].strength
        for reward, paid, ended in zip(played.reward, played.paid, played.ended, strict=True):
            self._sums["own"] += reward
            self._sums["paid"] += paid * strength
            self._sums["length"] += 1.0
            if ended.any():
                found["copy"].append(np.flatnonzero(ended).astype(np.float64))
                for name, sums in self._sums.items():
                    found[name].append(sums[ended])
                    sums[ended] = 0.0
        return {name: np.concatenate(parts) for name, parts in found.items()}


def _spread(some: RewardResult, rows: Rows, count: int) -> RewardResult:
    """The values of ``rows`` spread over ``count`` agents; NaN for all others."""

    def wide(values: FloatArray | None) -> FloatArray | None:
        if values is None:
            return None
        spread = np.full((count, *values.shape[1:]), np.nan, np.float32)
        spread[rows] = values
        return spread

    mean, reward = wide(some.mean), wide(some.reward)
    assert mean is not None
    assert reward is not None
    return RewardResult(reward, mean, wide(some.success), wide(some.aggregated))
