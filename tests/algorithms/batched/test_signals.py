"""Curiosity, RND, GAIL and AIRL beside A2C and PPO on tensors: what they see, when they pay, how they go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.algorithms.base import Setup, TensorCopies, make_algorithm
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import TensorReader
from tau_trainer.errors import CheckpointError
from tau_trainer.metrics import keys
from tau_trainer.settings.trainers import TrainerSettings
from tests.algorithms.batched.test_on_policy import SPACES, A, E, T, learn, learner_of, play, policy
from tests.algorithms.demonstrations import recording

SMALL = {"hidden_units": 8, "num_layers": 1}
NOVEL = {"strength": 0.5, "gamma": 0.8, "network_settings": SMALL}


def with_signals(kind: str, *, gamma: float = 0.9, **signals: Any) -> TrainerSettings:
    settings = policy(kind, gamma, batch_size=8, optimizer="adam", learning_rate=1e-3)
    given = settings.model_dump() | {"reward_signals": {"extrinsic": {"gamma": gamma}, **signals}}
    return type(settings).model_validate(given)


@torch.no_grad()
def test_what_pays_for_news_looks_beyond_an_episodes_end() -> None:
    """Advantages by GAE's definition, row by row: real ends are ends of the environment's rewards alone."""
    space = SPACES["discrete"]
    learner = learner_of(with_signals("ppo", curiosity=NOVEL), space)
    rollout, update, lambd = play(learner, space), learner.policy_update, 0.95
    paid = torch.rand(T, E, A, generator=torch.Generator().manual_seed(3))
    reader = TensorReader(rollout, learner.generator)
    reader.pay("curiosity", paid[rollout.present][:, None])
    samples = reader.samples(learner.network)
    values = update.values(samples.inputs)
    assert values.shape == (int(rollout.present.sum()), 2)
    advantage, returns = reader.advantages(values, update)

    def worth(observation: torch.Tensor) -> list[float]:
        found: list[float] = learner.network.values([observation[None]])[0].tolist()
        return found

    assert rollout.final is not None
    for row, (t, e, a) in enumerate(rollout.present.nonzero().tolist()):
        found = [0.0, 0.0]
        for stream, (gamma, rewards) in enumerate(((0.9, rollout.rewards), (0.8, 0.5 * paid))):
            for k in range(t, T):
                over = bool(rollout.terminated[k, e, a] | rollout.truncated[k, e, a])
                following = rollout.after[e, a] if k == T - 1 else rollout.observations[k + 1, e, a]
                after = worth(rollout.final[k, e, a] if over else following)[stream]
                if stream == 0 and rollout.terminated[k, e, a]:
                    after = 0.0
                delta = float(rewards[k, e, a]) + gamma * after - worth(rollout.observations[k, e, a])[stream]
                found[stream] += (gamma * lambd) ** (k - t) * delta
                if over:
                    break
        assert float(advantage[row, 0]) == pytest.approx(sum(found), abs=1e-4)
        np.testing.assert_allclose(returns[row], np.array(found) + values[row].numpy(), atol=1e-4)


def test_models_see_what_came_after_each_decision_of_who_was_there() -> None:
    space = SPACES["branches"]
    learner = learner_of(with_signals("ppo", curiosity=NOVEL), space)
    rollout = play(learner, space)
    seen = TensorReader(rollout, learner.generator).experience(learner.network)
    assert rollout.final is not None
    assert rollout.mask is not None
    for row, (t, e, a) in enumerate(rollout.present.nonzero().tolist()):
        over = bool(rollout.terminated[t, e, a] | rollout.truncated[t, e, a])
        following = rollout.after[e, a] if t == T - 1 else rollout.observations[t + 1, e, a]
        assert torch.equal(seen.inputs[0][row], rollout.observations[t, e, a])
        assert torch.equal(seen.following[0][row], rollout.final[t, e, a] if over else following)
        assert float(seen.goes_on[row]) == float(not rollout.terminated[t, e, a])
        assert torch.equal(seen.discrete[row], rollout.kept["discrete"][t, e, a])
    assert len(seen.goes_on) == row + 1 < T * E * A
    assert seen.forbidden.shape == (row + 1, 5)
    assert 0 < int(seen.forbidden.sum()) < seen.forbidden.numel()


def test_what_episodes_were_paid_is_told_as_they_end() -> None:
    """Summed over rollouts, strengths included; before it has learned anything curiosity pays nothing."""
    space = SPACES["box"]
    learner = learner_of(with_signals("ppo", curiosity=NOVEL, rnd=NOVEL), space)
    sums, told, rollouts = np.zeros((E, A, 2)), list[Any](), [play(learner, space, seed=number) for number in range(3)]
    for rollout in rollouts:
        reader = TensorReader(rollout, learner.generator)
        statistics = learner._pay(reader, rollout)
        rewards = {name: values.view(T, E, A) for name, values in reader.paid.items()}
        assert bool((rewards["curiosity"] == 0.0).all()) == (not told)
        assert bool((rewards["rnd"][rollout.present] > 0.0).all())
        assert bool((rewards["rnd"][~rollout.present] == 0.0).all())
        ended = list[Any]()
        for t in range(T):
            sums += 0.5 * np.stack((rewards["curiosity"][t], rewards["rnd"][t]), axis=2)
            over = (rollout.terminated | rollout.truncated)[t].numpy()
            ended += list(sums[over])
            sums[over] = 0.0
        told.append(statistics)
        means = np.mean(ended, axis=0)
        assert statistics[keys.episode_reward("curiosity")] == pytest.approx(means[0], rel=1e-5)
        assert statistics[keys.episode_reward("rnd")] == pytest.approx(means[1], rel=1e-5)
        assert statistics[keys.return_size("rnd")] == pytest.approx(means[1], rel=1e-5)
        assert keys.episode_reward("extrinsic") not in statistics
        assert statistics[keys.return_size("extrinsic")] > 0.0
    quiet = replace(
        rollouts[0], terminated=torch.zeros(T, E, A, dtype=torch.bool), truncated=rollouts[0].truncated & False
    )
    assert keys.episode_reward("rnd") not in learner._pay(TensorReader(quiet, learner.generator), quiet)


def walker(kind: str, folder: Path) -> PPO:
    """With all four signals; its demonstrations are of other spaces' sizes than SPACES has."""
    space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    spec = spec_of("p", spaces.Box(-9.0, 9.0, (3,), np.float32), space)
    demo = {"demo_path": recording(folder, spec), "network_settings": SMALL}
    settings = with_signals(kind, curiosity=NOVEL, rnd=NOVEL, gail=demo | {"use_actions": True}, airl=demo)
    learner = make_algorithm(Setup(spec, settings, 1, copies=TensorCopies(E, A)))
    assert isinstance(learner, PPO)
    return learner


@pytest.mark.parametrize("kind", ["a2c", "ppo"])
def test_all_of_them_learn_and_go_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    first, again = walker(kind, tmp_path), walker(kind, tmp_path)
    space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    told = learn(first, play(first, space), 0.0)
    losses = {"Losses/Curiosity Forward Loss", "Losses/RND Loss", "Losses/GAIL Loss", keys.value_estimate("rnd")}
    assert losses < set(told)
    arrays, metadata = first.state()
    again.load(arrays, metadata, fresh=False)
    one, other = (learn(learner, play(learner, space, seed=2), 0.5) for learner in (first, again))
    assert one.keys() == other.keys()
    for name in (keys.episode_reward("rnd"), keys.return_size("extrinsic")):  # of episodes that began before
        assert one[name] == other[name], name
    for name, values in first.state()[0].items():
        np.testing.assert_array_equal(values, again.state()[0][name], name)
        if name.startswith("signal.") and name.endswith("parameters"):
            assert not np.array_equal(values, arrays[name]), name
    another = "ppo" if kind == "a2c" else "a2c"
    without_signals = learner_of(policy(another), SPACES["discrete"]).state()
    with pytest.raises(CheckpointError, match=f"trainer type is '{another}', behavior 'p' needs '{kind}'"):
        again.load(*without_signals, fresh=False)
    nobody = play(first, space)
    nobody.present[:] = False
    assert not learn(first, nobody, 0.0), "a rollout of nobody pays nobody"
