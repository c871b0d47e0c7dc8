"""Algorithms learn what they should, in seconds: small numpy environments, fixed seeds, wide margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.memory import StepFacts
from tau_trainer.models import Decision, to_env
from tau_trainer.models.heads import QuantileHead
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import acted

NIGHTLY = pytest.mark.nightly
AGENTS = 16
NUMBERS: dict[str, dict[str, Any]] = {
    "ppo": {"buffer_size": 512, "num_epoch": 4, "learning_rate_schedule": "constant"},
    "sac": {"steps_per_update": 8, "init_entcoef": 0.1},
    "dqn": {"steps_per_update": 8, "tau": 0.02},
    "iqn": {"steps_per_update": 16, "tau": 0.02, "num_quantile_samples": 8},
    "maddpg": {"group_size": 3, "steps_per_update": 15, "buffer_size": 2000},
}
FALLING = {"type": "eps_greedy", "eps": 1.0, "eps_min": 0.02, "n_steps_annealing": 3000}


def make(
    kind: str,
    inputs: int,
    actions: ActionSpec,
    *,
    width: int = 1,
    gamma: float = 0.0,
    memory: dict[str, Any] | None = None,
    **numbers: Any,
) -> Any:
    exploration = {"exploration": FALLING} if kind in ("dqn", "iqn") else {}
    settings: dict[str, Any] = {
        "trainer_type": kind,
        "hyperparameters": {"batch_size": 64, "learning_rate": 3e-3, **NUMBERS.get(kind, {}), **exploration, **numbers},
        "network_settings": {"hidden_units": 32, "memory": memory},
        "reward_signals": {"extrinsic": {"gamma": gamma}},
        "max_steps": 5000,
    }
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (inputs,)),), actions)
    read = trainer_type(kind).settings.model_validate(settings | ({"time_horizon": 64} if kind == "ppo" else {}))
    return make_algorithm(Setup(spec, read, seed=1, reward_width=width))


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


def misses(algorithm: Algorithm, actions: ActionSpec, steps: int = 400) -> list[float]:
    """How far continuous actions are from a linear function of the observation, and branches from its digits.

    0 is perfect; 0.24 for each pair of continuous actions is as good as noise.
    """
    loop, matrix = Loop(algorithm), np.random.default_rng(7).normal(size=(6, 2)).astype(np.float32) * 0.25
    reward, found = np.zeros((AGENTS, 1), np.float32), list[float]()
    for _ in range(steps):
        digits = [loop.rng.integers(size, size=AGENTS) for size in actions.discrete_branches]
        vector = loop.rng.normal(size=(AGENTS, 6)).astype(np.float32)
        shown = [one_hot(digit, size) for digit, size in zip(digits, actions.discrete_branches, strict=True)]
        result = loop.act(np.concatenate((vector, *shown), axis=1), reward)
        missed = np.abs(result.to_env().continuous - vector @ matrix).mean(axis=1)
        for branch, digit in enumerate(digits):
            missed += 0.5 * (result.discrete[:, branch] != digit)
        reward = -5.0 * missed[:, None].astype(np.float32)
        found.append(float(missed.mean()))
        loop.learn_when_full()
    return found


def test_ppo_learns_a_contextual_bandit_with_binary_rewards() -> None:
    """Three continuous actions; each earns +1 or -1 for being near a linear function of the observation."""
    loop = Loop(make("ppo", 6, ActionSpec(3), width=3))
    matrix = np.random.default_rng(7).normal(size=(6, 3)).astype(np.float32) * 0.25
    reward, recent = np.zeros((AGENTS, 3), np.float32), []
    for _ in range(900):
        obs = loop.rng.normal(size=(AGENTS, 6)).astype(np.float32)
        near = np.abs(to_env(loop.act(obs, reward).continuous) - obs @ matrix) < 0.25
        reward = np.where(near, 1.0, -1.0).astype(np.float32)
        recent.append(float(reward.mean()))
        loop.learn_when_full()
    assert np.mean(recent[:30]) < -0.2
    assert np.mean(recent[-60:]) > 0.6


@pytest.mark.parametrize("kind", ["ddpg", "td3"])
def test_deterministic_policies_learn_a_contextual_bandit(kind: str) -> None:
    noise = {"type": "gaussian_white_noise", "sigma": 0.3, "sigma_min": 0.02}
    learner = make(kind, 6, ActionSpec(2), steps_per_update=8, buffer_init_steps=100, exploration=noise)
    found = misses(learner, ActionSpec(2))
    assert np.mean(found[:20]) > 0.35
    assert np.mean(found[-50:]) < 0.12, found[-50:]


def test_sac_learns_a_contextual_bandit() -> None:
    found = misses(make("sac", 6 + 5, ActionSpec(2, (3, 2))), ActionSpec(2, (3, 2)))
    assert np.mean(found[:20]) > 0.45
    assert np.mean(found[-50:]) < 0.3, found[-50:]


def test_maddpg_learns_from_what_groups_are_paid() -> None:
    """Groups of three, all paid for what the three do: to repeat the digit that each sees. A third is chance."""
    loop = Loop(make("maddpg", 3, ActionSpec(0, (3,))))
    loop.groups = groups = np.array([0, *np.repeat(np.arange(1, 6), 3)], np.int32)
    reward, hits = np.zeros((AGENTS, 1), np.float32), []
    for _ in range(500):
        digit = loop.rng.integers(3, size=AGENTS)
        good = (loop.act(one_hot(digit, 3), reward).discrete[:, 0] == digit).astype(np.float32)
        hits.append(float(good[1:].mean()))
        shared = np.bincount(groups, good) / np.bincount(groups)
        reward = shared[groups][:, None].astype(np.float32)
        loop.learn_when_full()
    assert np.mean(hits[:20]) < 0.7
    assert np.mean(hits[-100:]) > 0.85, hits[-100:]


def test_a_cue_is_remembered_over_a_delay() -> None:
    memory = {"memory_size": 32, "sequence_length": 16}
    ppo = make("ppo", 3, ActionSpec(0, (2,)), gamma=0.9, memory=memory, batch_size=144, buffer_size=576)
    assert np.mean(cues(ppo, 9, 150)[-20:]) >= 0.95


@NIGHTLY
@pytest.mark.parametrize("kind", ["sac", "dqn"])
def test_sac_remembers_a_cue(kind: str) -> None:
    """Seeds 1, 2 and 3 need 43, 46 and 48 episodes, and 53 each of DQN."""
    memory = {"memory_size": 16, "sequence_length": 4}
    hits = cues(make(kind, 3, ActionSpec(0, (2,)), gamma=0.9, memory=memory), 4, 160)
    assert np.mean(hits[:10]) < 0.7
    assert np.mean(hits[-20:]) > 0.9, hits


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
    loop = Loop(make("ppo", 1, ActionSpec(1), gamma=0.9, lambd=0.0, learning_rate=1e-2, num_epoch=8, buffer_size=480))
    obs, reward = np.ones((AGENTS, 1), np.float32), np.ones((AGENTS, 1), np.float32)
    estimate = 0.0
    for step in range(1, 1500):
        loop.act(obs, reward)
        if step % 10 == 0:
            loop.end(loop.rows, reward, obs, truncated=truncated)
        result = loop.learn_when_full()
        estimate = result["Policy/Extrinsic Value Estimate"] if result else estimate
    assert estimate == pytest.approx(expected, rel=0.08)


RAINBOW: dict[str, Any] = {
    "kind": "dqn",
    "double": True,
    "dueling": True,
    "noisy": True,
    "prioritized": {},
    "n_step": 3,
    "exploration": {"type": "greedy"},
}


@pytest.mark.parametrize(
    "switches",
    [
        {"kind": "dqn", "double": True, "prioritized": {}, "n_step": 2},
        {"kind": "iqn"},
        pytest.param(RAINBOW, marks=NIGHTLY),
    ],
)
def test_dqn_walks_a_corridor(switches: dict[str, Any]) -> None:
    """Nine cells, a reward of 1 beyond the last and of 0.1 before the first: only who looks far goes right."""
    cells = 9
    loop = Loop(make(inputs=cells, actions=ActionSpec(0, (2,)), gamma=0.95, **switches))
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


def test_iqn_knows_what_may_come_of_an_action() -> None:
    """One action earns 0.2, the other 1 or -0.4 by chance: the mean of its worst quarter is -0.4."""
    learner = make("iqn", 1, ActionSpec(0, (2,)), cvar=0.25, kappa=0.05)
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
    assert int(learner.snapshot().act((seen[:1],), None, loop.rng, deterministic=True).discrete[0, 0]) == 0
