"""Recordings of small games, Gymnasium's and one of our own, played by formulas, to learn from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from tau_trainer.algorithms import PPO, Counters
from tau_trainer.bridge.demonstrations import Demonstration, write_demonstration
from tau_trainer.memory import StepFacts
from tau_trainer.models import Policy
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import acted
from tests.networks import observations

CARTPOLE = BehaviorSpec("CartPole-v1", (ObservationSpec("observation", (4,)),), ActionSpec(0, (2,)))
LINE = BehaviorSpec("Line", (ObservationSpec("observation", (7,)),), ActionSpec(0, (3,)))
PENDULUM = BehaviorSpec("Pendulum-v1", (ObservationSpec("observation", (3,)),), ActionSpec(1))


def balance(obs: Any, rng: np.random.Generator) -> Actions:
    """A linear controller that holds CartPole up for 500 steps."""
    right = obs @ np.array([0.3, 0.6, 3.0, 1.0], np.float32) > 0.0
    return Actions(np.zeros((len(obs), 0), np.float32), right[:, None].astype(np.int32))


def swing(obs: Any, rng: np.random.Generator, noise: float = 0.6) -> Actions:
    """Swings the pendulum up by its energy and holds it there, with a trembling hand."""
    cos, sin, speed = obs.T
    energy = 0.5 * speed**2 / 3.0 + 5.0 * cos
    torque = np.where(cos > 0.9, -8.0 * np.arctan2(sin, cos) - 2.0 * speed, np.sign(speed) * (5.0 - energy))
    wanted = np.clip(torque / 2.0, -1.0, 1.0) + noise * rng.standard_normal(len(obs))
    return Actions(np.clip(wanted, -1.0, 1.0).astype(np.float32)[:, None], np.zeros((len(obs), 0), np.int32))


def walk(obs: Any, rng: np.random.Generator) -> Actions:
    """Goes to the middle of the line and stays."""
    move = np.sign(3 - obs.argmax(axis=1)) + 1
    return Actions(np.zeros((len(obs), 0), np.float32), move[:, None].astype(np.int32))


class Game:
    """Copies of a game of Gymnasium."""

    def __init__(self, spec: BehaviorSpec, copies: int, seed: int = 0) -> None:
        mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._env: Any = gymnasium.make_vec(spec.name, copies, vectorization_mode="sync", vector_kwargs=mode)
        self.spec, self.copies = spec, copies
        self.obs = self._env.reset(seed=seed)[0].astype(np.float32)

    def step(self, actions: Actions) -> tuple[Any, Any, Any, Any]:
        """Rewards, which copies ended, whether by a limit, and all last observations; then :attr:`obs` are new."""
        chosen = 2.0 * actions.continuous if self.spec.actions.continuous_size else actions.discrete[:, 0]
        obs, reward, terminated, truncated, info = self._env.step(chosen)
        self.obs, ended, last = obs.astype(np.float32), terminated | truncated, obs.astype(np.float32)
        if ended.any():
            last = last.copy()
            last[ended] = np.stack([info["final_obs"][i] for i in np.flatnonzero(ended)])
        return reward.astype(np.float32), ended, truncated & ~terminated, last


class Line:
    """Copies of a walk over seven cells, from any of them: ten steps, one point for each that ends in the middle."""

    def __init__(self, spec: BehaviorSpec, copies: int, seed: int = 0) -> None:
        self.spec, self.copies, self._rng = spec, copies, np.random.default_rng(seed)
        self._place, self._steps = self._rng.integers(7, size=copies), 0

    @property
    def obs(self) -> Any:
        return np.eye(7, dtype=np.float32)[self._place]

    def step(self, actions: Actions) -> tuple[Any, Any, Any, Any]:
        """As :meth:`Game.step`; all begin anew together, and nobody ever falls."""
        self._place = np.clip(self._place + actions.discrete[:, 0] - 1, 0, 6)
        reward, last = (self._place == 3).astype(np.float32), self.obs
        self._steps = (self._steps + 1) % 10
        ended = np.full(self.copies, self._steps == 0)
        if self._steps == 0:
            self._place = self._rng.integers(7, size=self.copies)
        return reward, ended, ended, last


def game_of(spec: BehaviorSpec, copies: int, seed: int = 0) -> Game | Line:
    return Line(spec, copies, seed) if spec.name == LINE.name else Game(spec, copies, seed)


def played(spec: BehaviorSpec, player: Callable[..., Actions], copies: int = 10, seed: int = 0) -> Demonstration:
    """One episode of each copy."""
    game, rng = game_of(spec, copies, seed), np.random.default_rng(seed)
    episodes: list[dict[str, list[Any]]] = [{key: [] for key in "orectd"} for _ in range(copies)]
    reward, going = np.zeros(copies, np.float32), np.ones(copies, np.bool_)
    while going.any():
        actions, before = player(game.obs, rng), game.obs
        following, ended, truncated, last = game.step(actions)
        for i in np.flatnonzero(going):
            row = (before[i], reward[i], False, actions.continuous[i], False, actions.discrete[i])
            rows = [row]
            if ended[i]:
                none = np.zeros_like(actions.continuous[i]), truncated[i], np.zeros_like(actions.discrete[i])
                rows.append((last[i], following[i], True, *none))
            for one in rows:
                for key, value in zip("orectd", one, strict=True):
                    episodes[i][key].append(value)
        reward, going = following, going & ~ended
    column = {key: np.array([value for one in episodes for value in one[key]]) for key in "orectd"}
    begins = np.concatenate([np.arange(len(one["r"])) == 0 for one in episodes])
    actions = Actions(column["c"].astype(np.float32), column["d"].astype(np.int32))
    reward = column["r"].astype(np.float32)
    return Demonstration(spec, (column["o"],), reward, begins, column["e"], column["t"], actions)


def demo_file(folder: Path, demonstration: Demonstration) -> str:
    path = folder / "recorded.demo"
    write_demonstration(path, demonstration)
    return str(path)


def recording(folder: Path, spec: BehaviorSpec, *, masked: bool = False) -> str:
    """Three episodes of 20 decisions and a last look, by a player who does not know what he does."""
    rows, rng, size = 63, np.random.default_rng(5), spec.actions.continuous_size
    begins, ended = np.arange(rows) % 21 == 0, np.arange(rows) % 21 == 20
    discrete = [rng.integers(branch, size=rows) for branch in spec.actions.discrete_branches]
    chosen = np.array(discrete, np.int32).reshape(len(discrete), rows).T
    actions = Actions(rng.uniform(-1, 1, (rows, size)).astype(np.float32), chosen)
    mask = None
    if masked:  # a value of the first branch that was not chosen
        mask = np.zeros((rows, spec.actions.mask_size), np.bool_)
        mask[np.arange(rows), (chosen[:, 0] + 1) % spec.actions.discrete_branches[0]] = True
    given = np.zeros(rows, np.float32), begins, ended, np.zeros(rows, np.bool_)
    return demo_file(folder, Demonstration(spec, observations(spec, rows, 5, scale=1.0), *given, actions, mask))


def worth(policy: Policy, copies: int = 10, seed: int = 100) -> float:
    """Mean return of the most likely actions."""
    rng = np.random.default_rng(0)
    player = lambda obs, _: policy.act((obs,), None, rng, deterministic=True).to_env()  # noqa: E731
    return float(played(policy.spec, player, copies, seed).returns.mean())


def learn_in(algorithm: PPO, decisions: int, copies: int = 8) -> list[float]:
    """Let it learn from so many decisions; the returns of episodes, which it is not told."""
    game, rng, rows = game_of(algorithm.spec, copies), np.random.default_rng(0), np.arange(copies)
    policy, reward, total, returns = algorithm.snapshot(), np.zeros((copies, 1), np.float32), np.zeros(copies), []
    for step in range(decisions // copies):
        decision = policy.act((game.obs,), None, rng)
        values = acted((game.obs,), decision)
        algorithm.memory.append(rows, StepFacts({"extrinsic": reward}), values, policy.version)
        earned, ended, truncated, last = game.step(decision.to_env())
        total += earned
        over = np.flatnonzero(ended)
        if len(over):
            nothing = np.zeros((len(over), 1), np.float32)
            algorithm.memory.end(rows[over], StepFacts({"extrinsic": nothing}), (last[over],), truncated[over])
            returns += total[over].tolist()
            total[over] = 0.0
        work = algorithm.ready(Counters(0, algorithm.version))
        if work is not None:
            algorithm.update(work.data, step * copies / decisions, None)
            work.release()
            policy = algorithm.snapshot()
    return returns
