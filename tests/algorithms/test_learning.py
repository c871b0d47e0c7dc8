"""Algorithms learn what they should, in seconds: small numpy environments, fixed seeds, wide margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.iqn import IQN
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.memory import StepFacts
from tau_trainer.models import Decision, to_env
from tau_trainer.models.heads import QuantileHead
from tau_trainer.settings import (
    DQNHyperparameters,
    IQNHyperparameters,
    MADDPGHyperparameters,
    MADDPGTrainerSettings,
    MemorySettings,
    NetworkSettings,
    PPOHyperparameters,
    RewardSignalSettings,
    SACHyperparameters,
    trainer_type,
)
from tau_trainer.settings.trainers import DQNTrainerSettings, IQNTrainerSettings, PPOTrainerSettings, SACTrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import acted

NIGHTLY = pytest.mark.nightly
AGENTS = 16


def make(
    inputs: int,
    actions: ActionSpec,
    *,
    width: int = 1,
    gamma: float,
    memory: MemorySettings | None = None,
    **numbers: Any,
) -> PPO:
    numbers = {"batch_size": 64, "buffer_size": 512, "learning_rate": 3e-3, "num_epoch": 4, **numbers}
    settings = PPOTrainerSettings(
        hyperparameters=PPOHyperparameters(learning_rate_schedule="constant", **numbers),
        network_settings=NetworkSettings(hidden_units=32, memory=memory),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
        time_horizon=64,
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (inputs,)),), actions)
    return PPO(Setup(spec, settings, seed=1, reward_width=width))


class Loop:
    """Acts in turns: observe, act, reward, end."""

    def __init__(self, ppo: Algorithm) -> None:
        self.ppo, self.rng = ppo, np.random.default_rng(0)
        self.groups: NDArray[np.int32] | int = 0
        self.moments = 0
        self.policy, self.rows = ppo.snapshot(), np.arange(AGENTS)
        self.state = {column.name: column.empty(AGENTS) for column in self.policy.state_columns}

    def act(self, obs: Any, reward: Any) -> Decision:
        decision = self.policy.act((obs,), None, self.rng, state=self.state)
        self.state = {name: values.copy() for name, values in decision.state.items()}
        self.moments += 1
        known = StepFacts({"extrinsic": reward}, group=self.groups, moment=self.moments)
        self.ppo.memory.append(self.rows, known, acted((obs,), decision), self.policy.version)
        return decision

    def end(self, agents: Any, reward: Any, obs: Any, *, truncated: bool) -> None:
        self.ppo.memory.end(
            self.rows[agents], StepFacts({"extrinsic": reward}), (obs,), np.full(len(reward), truncated)
        )
        for values in self.state.values():
            values[agents] = 0

    def learn_when_full(self) -> dict[str, float] | None:
        work = self.ppo.ready(Counters(0, self.ppo.version))
        if work is None:
            return None
        result = self.ppo.update(work.data, 0.0, None)
        work.release()
        self.policy = self.ppo.snapshot()
        return result


def one_hot(index: Any, size: int) -> Any:
    return np.eye(size, dtype=np.float32)[index]


def cues(algorithm: Algorithm, steps: int, most: int) -> list[float]:
    """One of two cues, steps with nothing to see, then one action that should name the cue; blind: a half.

    Shares of hits, episode by episode, until nearly all of the last are.
    """
    loop, hits = Loop(algorithm), list[float]()
    while len(hits) < most and (len(hits) < 20 or np.mean(hits[-20:]) < 0.95):
        cue = loop.rng.integers(2, size=AGENTS)
        for step in range(steps):
            obs = one_hot(cue if step == 0 else np.full(AGENTS, 2), 3)
            decision = loop.act(obs, np.zeros((AGENTS, 1), np.float32))
            loop.learn_when_full()
        hit = (decision.discrete[:, 0] == cue).astype(np.float32)
        loop.end(loop.rows, hit[:, None], one_hot(cue, 3), truncated=False)
        hits.append(float(hit.mean()))
    return hits


@pytest.mark.parametrize("credit", [pytest.param(False, marks=NIGHTLY), True])
def test_contextual_bandit_with_binary_rewards(credit: bool) -> None:
    """Three continuous actions; each earns +1 or -1 for being near a linear function of the observation."""
    actions = ActionSpec(3)
    ppo = make(6, actions, width=3 if credit else 1, gamma=0.0)
    loop = Loop(ppo)
    matrix = np.random.default_rng(7).normal(size=(6, 3)).astype(np.float32) * 0.25
    reward, recent = np.zeros((AGENTS, 3 if credit else 1), np.float32), []
    for _ in range(900):
        obs = loop.rng.normal(size=(AGENTS, 6)).astype(np.float32)
        near = np.abs(to_env(loop.act(obs, reward).continuous) - obs @ matrix) < 0.25
        parts = np.where(near, 1.0, -1.0).astype(np.float32)
        reward = parts if credit else parts.mean(axis=1, keepdims=True)
        recent.append(float(parts.mean()))
        loop.learn_when_full()
    assert np.mean(recent[:30]) < -0.2
    assert np.mean(recent[-60:]) > (0.6 if credit else 0.2)


@NIGHTLY
def test_corridor_needs_credit_over_time() -> None:
    """Seven cells; only the right end pays, every step costs: walking right is worth 0.96, the other end nothing."""
    cells, middle = 7, 3
    ppo = make(cells, ActionSpec(0, (2,)), gamma=0.95)
    loop = Loop(ppo)
    place, reward = np.full(AGENTS, middle), np.zeros((AGENTS, 1), np.float32)
    returns: list[float] = []
    total = np.zeros(AGENTS)
    for _ in range(800):
        result = loop.act(one_hot(place, cells), reward)
        place = np.clip(place + np.where(result.discrete[:, 0] == 1, 1, -1), 0, cells - 1)
        step_reward = np.where(place == cells - 1, 1.0, -0.02)
        total += step_reward
        ended = (place == cells - 1) | (place == 0)
        reward = step_reward[:, None].astype(np.float32)
        agents = np.flatnonzero(ended)
        if len(agents):
            loop.end(agents, reward[agents], one_hot(place[agents], cells), truncated=False)
            returns += total[agents].tolist()
            total[agents], place[agents] = 0.0, middle
        loop.learn_when_full()
    assert np.mean(returns[:50]) < 0.75
    assert np.mean(returns[-100:]) > 0.93


@pytest.mark.parametrize(
    ("memory", "least", "most"),
    [
        pytest.param(MemorySettings(memory_size=32, sequence_length=16), 0.95, 1.0, id="lstm"),
        pytest.param(MemorySettings(memory_size=32, sequence_length=4), 0.0, 0.65, id="too-short", marks=NIGHTLY),
        pytest.param(None, 0.35, 0.65, id="no-memory", marks=NIGHTLY),
    ],
)
def test_a_cue_is_remembered_over_a_delay(memory: MemorySettings | None, least: float, most: float) -> None:
    ppo = make(3, ActionSpec(0, (2,)), gamma=0.9, memory=memory, batch_size=144, buffer_size=576)
    assert least <= np.mean(cues(ppo, 9, 150)[-20:]) <= most


@pytest.mark.parametrize(
    ("truncated", "expected"),
    [
        pytest.param(True, 1.0 / (1.0 - 0.9), id="limit"),
        # One observation for all steps has one value: V = 1 + 0.9 * (9 / 10) * V, for one step in ten ends.
        pytest.param(False, 1.0 / (1.0 - 0.81), id="real-end"),
    ],
)
def test_value_after_a_limit_and_after_a_real_end(truncated: bool, expected: float) -> None:
    """Reward 1 a step, episodes of 10 steps, gamma 0.9, one-step returns: a limit must not lower the value."""
    ppo = make(1, ActionSpec(1), gamma=0.9, lambd=0.0, learning_rate=1e-2, num_epoch=8, buffer_size=480)
    loop = Loop(ppo)
    obs, reward = np.ones((AGENTS, 1), np.float32), np.ones((AGENTS, 1), np.float32)
    estimate = 0.0
    for step in range(1, 1500):
        loop.act(obs, reward)
        if step % 10 == 0:
            loop.end(loop.rows, reward, obs, truncated=truncated)
        result = loop.learn_when_full()
        estimate = result["Policy/Extrinsic Value Estimate"] if result else estimate
    assert estimate == pytest.approx(expected, rel=0.08)


def make_sac(inputs: int, actions: ActionSpec, memory: MemorySettings | None = None, gamma: float = 0.0) -> SAC:
    settings = SACTrainerSettings(
        hyperparameters=SACHyperparameters(batch_size=64, learning_rate=3e-3, steps_per_update=8, init_entcoef=0.1),
        network_settings=NetworkSettings(hidden_units=32, memory=memory),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (inputs,)),), actions)
    return SAC(Setup(spec, settings, seed=1))


@pytest.mark.parametrize("kind", ["ddpg", "td3"])
def test_deterministic_policies_learn_a_contextual_bandit(kind: str) -> None:
    """Two continuous actions are to be a linear function of the observation; 0 is perfect, 0.24 as good as noise."""
    settings = trainer_type(kind).settings.model_validate(
        {
            "trainer_type": kind,
            "hyperparameters": {
                "batch_size": 64,
                "learning_rate": 3e-3,
                "steps_per_update": 8,
                "buffer_init_steps": 100,
                "exploration": {"type": "gaussian_white_noise", "sigma": 0.3, "sigma_min": 0.02},
            },
            "network_settings": {"hidden_units": 32},
            "reward_signals": {"extrinsic": {"gamma": 0.0}},
            "max_steps": 5000,
        }
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (6,)),), ActionSpec(2))
    loop = Loop(make_algorithm(Setup(spec, settings, seed=1)))
    matrix = np.random.default_rng(7).normal(size=(6, 2)).astype(np.float32) * 0.25
    reward, misses = np.zeros((AGENTS, 1), np.float32), []
    for _ in range(400):
        obs = loop.rng.normal(size=(AGENTS, 6)).astype(np.float32)
        missed = np.abs(loop.act(obs, reward).to_env().continuous - obs @ matrix).mean(axis=1)
        reward = -5.0 * missed[:, None].astype(np.float32)
        misses.append(float(missed.mean()))
        loop.learn_when_full()
    assert np.mean(misses[:20]) > 0.35
    assert np.mean(misses[-50:]) < 0.12, misses[-50:]


@pytest.mark.parametrize(("truncated", "expected"), [(True, 10.0), (False, 5.263)])
@pytest.mark.parametrize("kind", ["ddpg", pytest.param("td3", marks=NIGHTLY)])
def test_q_after_a_limit_and_after_a_real_end(kind: str, truncated: bool, expected: float) -> None:
    """As for PPO above: reward 1 a step, episodes of 10 steps, gamma 0.9."""
    settings = trainer_type(kind).settings.model_validate(
        {
            "trainer_type": kind,
            "hyperparameters": {"batch_size": 64, "learning_rate": 3e-3, "steps_per_update": 16, "tau": 0.5},
            "network_settings": {"hidden_units": 16, "num_layers": 1},
            "reward_signals": {"extrinsic": {"gamma": 0.9}},
        }
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (1,)),), ActionSpec(1))
    loop = Loop(make_algorithm(Setup(spec, settings, seed=1)))
    obs, reward = np.ones((AGENTS, 1), np.float32), np.ones((AGENTS, 1), np.float32)
    estimates = []
    for step in range(1, 600):
        loop.act(obs, reward)
        if step % 10 == 0:
            loop.end(loop.rows, reward, obs, truncated=truncated)
        result = loop.learn_when_full() or {}
        estimates += [result[name] for name in result if name.endswith(" Value")]
    assert np.mean(estimates[-50:]) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("actions", [ActionSpec(0, (3,)), pytest.param(ActionSpec(1), marks=NIGHTLY)])
def test_maddpg_learns_from_what_groups_are_paid(actions: ActionSpec) -> None:
    """Groups of three, all paid for what the three do: to repeat the digit that each sees, or to point where it does.

    By chance a third of them are right, or half as near as can be.
    """
    settings = MADDPGTrainerSettings(
        hyperparameters=MADDPGHyperparameters(
            group_size=3, batch_size=64, learning_rate=3e-3, steps_per_update=15, buffer_size=2000
        ),
        network_settings=NetworkSettings(hidden_units=32),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=0.0)},
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (3,)),), actions)
    loop = Loop(make_algorithm(Setup(spec, settings, seed=1)))
    loop.groups = groups = np.array([0, *np.repeat(np.arange(1, 6), 3)], np.int32)
    reward, hits = np.zeros((AGENTS, 1), np.float32), []
    for _ in range(500):
        digit = loop.rng.integers(3, size=AGENTS)
        result = loop.act(one_hot(digit, 3), reward)
        if actions.discrete_size:
            good = (result.discrete[:, 0] == digit).astype(np.float32)
        else:
            good = 1.0 - np.abs(result.to_env().continuous[:, 0] - (digit - 1.0) / 2.0)
        hits.append(float(good[1:].mean()))
        shared = np.bincount(groups, good) / np.bincount(groups)
        reward = shared[groups][:, None].astype(np.float32)
        loop.learn_when_full()
    assert np.mean(hits[:20]) < 0.7
    assert np.mean(hits[-100:]) > 0.85, hits[-100:]


@pytest.mark.parametrize(
    "actions",
    [*(pytest.param(spec, marks=NIGHTLY) for spec in (ActionSpec(2), ActionSpec(0, (3, 2)))), ActionSpec(2, (3, 2))],
)
def test_sac_learns_a_contextual_bandit(actions: ActionSpec) -> None:
    """Continuous actions are to be a linear function of the observation, branches to repeat a digit; 0 is perfect."""
    loop = Loop(make_sac(6 + 5, actions))
    matrix = np.random.default_rng(7).normal(size=(6, 2)).astype(np.float32) * 0.25
    reward, misses = np.zeros((AGENTS, 1), np.float32), []
    for _ in range(400):
        first, second = loop.rng.integers(3, size=AGENTS), loop.rng.integers(2, size=AGENTS)
        vector = loop.rng.normal(size=(AGENTS, 6)).astype(np.float32)
        result = loop.act(np.concatenate((vector, one_hot(first, 3), one_hot(second, 2)), axis=1), reward)
        missed = np.zeros(AGENTS)
        if actions.continuous_size:
            missed += np.abs(result.to_env().continuous - vector @ matrix).mean(axis=1)
        if actions.discrete_size:
            missed += 0.5 * (result.discrete[:, 0] != first) + 0.5 * (result.discrete[:, 1] != second)
        reward = -5.0 * missed[:, None].astype(np.float32)
        misses.append(float(missed.mean()))
        loop.learn_when_full()
    assert np.mean(misses[:20]) > 0.45
    assert np.mean(misses[-50:]) < (0.3 if actions.continuous_size and actions.discrete_size else 0.2), misses[-50:]


@NIGHTLY
def test_sac_remembers_a_cue() -> None:
    """Seeds 1, 2 and 3 need 43, 46 and 48 episodes."""
    sac = make_sac(3, ActionSpec(0, (2,)), MemorySettings(memory_size=16, sequence_length=4), 0.9)
    hits = cues(sac, 4, 120)
    assert np.mean(hits[:10]) < 0.7
    assert np.mean(hits[-20:]) > 0.9, hits


def make_dqn(
    inputs: int, branches: tuple[int, ...], gamma: float, memory: Any = None, kind: type[DQN] = DQN, **numbers: Any
) -> DQN:
    falling = {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.02, "n_steps_annealing": 3000}
    numbers = {"batch_size": 64, "learning_rate": 3e-3, "steps_per_update": 8, "exploration": falling, **numbers}
    made = (IQNTrainerSettings, IQNHyperparameters) if kind is IQN else (DQNTrainerSettings, DQNHyperparameters)
    settings = made[0](
        hyperparameters=made[1](tau=0.02, **numbers),
        network_settings=NetworkSettings(hidden_units=32, memory=memory),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (inputs,)),), ActionSpec(0, branches))
    return kind(Setup(spec, settings, seed=1))


BOLTZMANN = {"type": "boltzmann", "tau": 0.1}
RAINBOW: dict[str, Any] = {
    "double": True,
    "dueling": True,
    "noisy": True,
    "prioritized": {},
    "n_step": 3,
    "exploration": {"type": "greedy"},
}


@NIGHTLY
@pytest.mark.parametrize("switches", [{}, RAINBOW | {"steps_per_update": 32}, {"exploration": BOLTZMANN}])
def test_dqn_learns_an_identity_of_two_branches(switches: dict[str, Any]) -> None:
    """Reward 1/2 for each branch that repeats the digit shown; 1 is perfect. What is forbidden earns nothing."""
    loop = Loop(make_dqn(5, (3, 2), 0.0, **{**switches, "n_step": 1}))
    reward, recent = np.zeros((AGENTS, 1), np.float32), []
    for _ in range(500):
        first, second = loop.rng.integers(3, size=AGENTS), loop.rng.integers(2, size=AGENTS)
        result = loop.act(np.concatenate((one_hot(first, 3), one_hot(second, 2)), axis=1), reward)
        hits = 0.5 * (result.discrete[:, 0] == first) + 0.5 * (result.discrete[:, 1] == second)
        reward = hits[:, None].astype(np.float32)
        recent.append(float(reward.mean()))
        loop.learn_when_full()
    assert np.mean(recent[:10]) < 0.65
    assert np.mean(recent[-50:]) > 0.93, recent[-50:]


SLOWLY = [pytest.param(switches, marks=NIGHTLY) for switches in ({}, RAINBOW)]
QUANTILES: dict[str, Any] = {"kind": IQN, "num_quantile_samples": 8, "steps_per_update": 16}


@pytest.mark.parametrize("switches", [*SLOWLY, {"double": True, "prioritized": {}, "n_step": 2}, QUANTILES])
def test_dqn_walks_a_corridor(switches: dict[str, Any]) -> None:
    """Nine cells, a reward of 1 beyond the last and of 0.1 before the first: only who looks far goes right."""
    cells = 9
    loop = Loop(make_dqn(cells, (2,), 0.95, **switches))
    place, reward, ends = loop.rng.integers(cells, size=AGENTS), np.zeros((AGENTS, 1), np.float32), list[float]()
    for _ in range(900):
        if len(ends) >= 150 and np.mean(ends[-60:]) > 0.95:
            break
        decision = loop.act(one_hot(place, cells), reward)
        place = place + 2 * decision.discrete[:, 0] - 1
        over = np.flatnonzero((place < 0) | (place >= cells))
        reward = np.where(place >= cells, 1.0, np.where(place < 0, 0.1, 0.0)).astype(np.float32)[:, None]
        if len(over):
            ends += reward[over, 0].tolist()
            loop.end(over, reward[over], one_hot(place[over].clip(0, cells - 1), cells), truncated=False)
            place[over] = loop.rng.integers(cells, size=len(over))
            reward[over] = 0.0
        loop.learn_when_full()
    if "noisy" not in switches:  # whose first weights may walk right by luck, and at once
        assert np.mean(ends[:40]) < 0.75
    assert np.mean(ends[-60:]) > 0.93, ends[-60:]


@pytest.mark.parametrize(("cvar", "chosen"), [pytest.param(1.0, 1, marks=NIGHTLY), (0.25, 0)])
def test_iqn_knows_what_may_come_of_an_action(cvar: float, chosen: int) -> None:
    """One action earns 0.2, the other 1 or -0.4 by chance: the mean of its worst quarter is -0.4."""
    learner = make_dqn(1, (2,), 0.0, kind=IQN, cvar=cvar, kappa=0.05, num_quantile_samples=8, steps_per_update=16)
    loop, seen = Loop(learner), np.ones((AGENTS, 1), np.float32)
    reward = np.zeros((AGENTS, 1), np.float32)
    for _ in range(300):
        risky = loop.act(seen, reward).discrete[:, 0] == 1
        reward = np.where(risky, np.where(loop.rng.random(AGENTS) < 0.5, 1.0, -0.4), 0.2).astype(np.float32)[:, None]
        loop.learn_when_full()
    head = learner.network.action
    assert isinstance(head, QuantileHead)
    with torch.no_grad():
        features = learner.network.features(learner.network.prepare((seen[:1],)))
        found = head.quantiles(features, torch.tensor([[0.2, 0.8]]))[0]  # [N, M]
    np.testing.assert_allclose(found, [[0.2, -0.4], [0.2, 1.0]], atol=0.15)
    assert int(learner.snapshot().act((seen[:1],), None, loop.rng, deterministic=True).discrete[0, 0]) == chosen


@NIGHTLY
def test_dqn_remembers_a_cue() -> None:
    """Seeds 1, 2 and 3 need 53 episodes each."""
    hits = cues(make_dqn(3, (2,), 0.9, MemorySettings(memory_size=16, sequence_length=4)), 4, 160)
    assert np.mean(hits[:10]) < 0.7
    assert np.mean(hits[-20:]) > 0.9, hits
