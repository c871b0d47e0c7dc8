"""AIRL beside PPO and SAC: paid right, learned beside the policy, resumed to the bit, and it finds the expert."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.offline import recordings
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.signals import experience_of, log_prob
from tau_trainer.bridge.demonstrations import Demonstration, read_demonstrations
from tau_trainer.bridge.package import RECORDED, ImageOrder
from tau_trainer.errors import CheckpointError, DataError
from tau_trainer.memory import Rollout, StepFacts
from tau_trainer.settings import trainer_type
from tau_trainer.specs import BehaviorSpec
from tests.algorithms.demonstrations import (
    CARTPOLE,
    LINE,
    PENDULUM,
    Game,
    balance,
    demo_file,
    learn_in,
    played,
    swing,
    walk,
    worth,
)
from tests.algorithms.experience import acted, states_equal


@pytest.fixture
def cartpole(tmp_path: Path) -> str:
    return demo_file(tmp_path, played(CARTPOLE, balance, copies=4))


@pytest.fixture
def pendulum(tmp_path: Path) -> str:
    return demo_file(tmp_path, played(PENDULUM, swing, copies=4))


def setup_of(
    kind: str, spec: BehaviorSpec, demo: str, numbers: dict[str, Any] | None = None, *, learns: bool = True, **more: Any
) -> Setup:
    signal = {"demo_path": demo, "gamma": 0.98, "learning_rate": 1e-3, "network_settings": {"hidden_units": 32}}
    settings = {
        "trainer_type": kind,
        "hyperparameters": {"batch_size": 64, "learning_rate": 1e-3, **(numbers or {})},
        "network_settings": {"hidden_units": 64},
        "reward_signals": {"airl": signal | more},
        "time_horizon": 500,
    }
    made = trainer_type(kind).settings.model_validate(settings)
    return Setup(spec, made, seed=1, learns=learns)


def learner(*given: Any, **more: Any) -> Any:
    return make_algorithm(setup_of(*given, **more))


def rollout_of(algorithm: PPO | OffPolicy, steps: int = 40, seed: int = 0) -> Any:
    """Work of some steps of 8 copies, with extrinsic rewards that nobody asked for."""
    game, rng, rows = Game(algorithm.spec, 8, seed), np.random.default_rng(seed), np.arange(8)
    policy, reward = algorithm.snapshot(), np.zeros((8, 1), np.float32)
    for _ in range(steps):
        decision = policy.act((game.obs,), None, rng)
        values = acted((game.obs,), decision)
        algorithm.memory.append(rows, StepFacts({"extrinsic": reward}), values, policy.version)
        earned, ended, truncated, last = game.step(decision.to_env())
        reward, over = earned[:, None], np.flatnonzero(ended)
        if len(over):
            algorithm.memory.end(rows[over], StepFacts({"extrinsic": reward[over]}), (last[over],), truncated[over])
    return algorithm.memory.take().data


PPO_NUMBERS = {"buffer_size": 256, "num_epoch": 2, "beta": 0.0, "lambd": 0.9}


@pytest.mark.parametrize("kind", ["ppo", "sac", "sac_ln"])
def test_an_update_that_fails_leaves_the_signal_as_it_was(kind: str, cartpole: str) -> None:
    numbers = PPO_NUMBERS if kind == "ppo" else {"steps_per_update": 8.0}
    one = learner(kind, CARTPOLE, cartpole, numbers)
    work = rollout_of(one)
    before = one.state()[0]

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle")

    one.check_finite = fail
    with pytest.raises(RuntimeError, match="in the middle"):
        one.update(work, 0.0, None)
    np.testing.assert_equal(one.state()[0], before)


def test_a_checkpoint_without_the_signal_changes_nothing(cartpole: str) -> None:
    one = learner("ppo", CARTPOLE, cartpole, PPO_NUMBERS)
    other = learner("ppo", CARTPOLE, cartpole, PPO_NUMBERS)
    other.update(rollout_of(other), 0.0, None)
    arrays, metadata = other.state()
    before = one.state()[0]
    damaged = {name: values for name, values in arrays.items() if name != "model.action.weight"}
    with pytest.raises(CheckpointError):
        one.load(damaged, metadata, fresh=False)
    with pytest.raises(CheckpointError):
        one.load(
            {name: values for name, values in arrays.items() if not name.startswith("signal.")}, metadata, fresh=False
        )
    np.testing.assert_equal(one.state()[0], before)


def test_ppo_learns_from_what_the_signal_pays_and_from_nothing_else(cartpole: str) -> None:
    one, other = (learner("ppo", CARTPOLE, cartpole, PPO_NUMBERS) for _ in range(2))
    work = rollout_of(one)
    changed = {**work, "reward.extrinsic": work["reward.extrinsic"] * 100.0 + 7.0}
    told = one.update(work, 0.0, None)
    other.update(changed, 0.0, None)
    states_equal(one, other)
    assert {"Losses/AIRL Loss", "Policy/AIRL Expert Estimate", "Policy/Airl Value Estimate"} <= told.keys()


def test_beside_an_extrinsic_signal_both_count(cartpole: str) -> None:
    settings = trainer_type("ppo").settings.model_validate(
        {
            "hyperparameters": {"batch_size": 64, **PPO_NUMBERS},
            "reward_signals": {"extrinsic": {}, "airl": {"demo_path": cartpole, "strength": 0.5}},
        }
    )
    one: Any = make_algorithm(Setup(CARTPOLE, settings, seed=1))
    assert [stream.name for stream in one.streams] == ["extrinsic", "airl"]
    assert list(one.update(rollout_of(one), 0.0, None))
    assert one.network.value.streams == {"extrinsic": 1, "airl": 1}


def test_sac_is_paid_what_the_signal_thinks_now(cartpole: str) -> None:
    """The same stored transitions are worth something else once the signal has learned: nothing is frozen."""
    one = learner("sac", CARTPOLE, cartpole, {"steps_per_update": 8.0}, strength=2.0)
    one.update(rollout_of(one), 0.0, None)
    rows = one.replay.take(np.arange(50))
    assert not rows["rewards"].any()
    before = one._taken(np.arange(50)).rewards
    own = one._experience(rows)
    # SAC adds the entropy itself: what is paid is f alone.
    zero = own._replace(log_prob=torch.zeros(50))
    torch.testing.assert_close(before[:, 0], 2.0 * one.signals[0].model.rewards(zero).detach())
    one.update(rollout_of(one, seed=1), 0.1, None)
    assert not torch.allclose(before, one._taken(np.arange(50)).rewards)


def test_several_steps_are_paid_what_the_signal_thinks_of_each(cartpole: str) -> None:
    one = learner("sac", CARTPOLE, cartpole, {"n_step": 3, "steps_per_update": 8.0}, strength=2.0)
    one.update(rollout_of(one), 0.0, None)
    places = np.arange(len(one.replay))
    ahead = one.replay.follow(places, 3)
    assert (ahead < 0).any()
    assert (ahead[:, 2] >= 0).any()
    single = one._rewards(one.replay.take(np.maximum(ahead, 0).ravel())).reshape(-1, 3)
    expected = (np.where(ahead >= 0, single, 0.0) * one.gammas ** np.arange(3)).sum(axis=1)
    np.testing.assert_allclose(one._taken(places).rewards[:, 0].numpy(), expected, rtol=1e-5)
    assert np.abs(expected - single[:, 0]).max() > 0.1


def test_the_signal_has_gradient_steps_of_its_own(cartpole: str) -> None:
    numbers = {"steps_per_update": 8.0, "reward_signal_steps_per_update": 32.0}
    one = learner("sac", CARTPOLE, cartpole, numbers)
    one.update(rollout_of(one, steps=4), 0.0, None)  # 24 transitions or so: no minibatch yet
    assert int(one.signals[0].parameters.optimizer.step) == 0
    one.update(rollout_of(one, steps=41), 0.0, None)
    assert int(one.signals[0].parameters.optimizer.step) == one.seen // 32 - 24 // 32
    assert int(one.parameters.optimizer.step) > 3 * int(one.signals[0].parameters.optimizer.step)


def test_squashed_and_raw_actions_of_the_expert_are_as_likely_as_they_were(pendulum: str) -> None:
    """The same action in the environment: raw times three for PPO, itself for SAC, and its density under each."""
    for kind in ("ppo", "sac", "sac_ln"):
        one = learner(kind, PENDULUM, pendulum)
        expert = one.signals[0]._expert
        assert float(expert.continuous.abs().max()) == pytest.approx(3.0 if kind == "ppo" else 1.0)
        assert bool(torch.isfinite(log_prob(one.network, expert)).all())


def test_the_newest_transitions_are_told_from_the_experts(cartpole: str) -> None:
    one = learner("sac", CARTPOLE, cartpole, {"buffer_size": 100})
    one.update(rollout_of(one, steps=30), 0.0, None)
    newest = one.replay.recent(5)
    rollout = Rollout(rollout_of(one, steps=10, seed=4))
    assert len(newest) == 5
    rollout.rewards["airl"] = np.zeros((len(rollout), 1), np.float32)
    one.replay.append(one._rows(rollout))
    stored = one.replay.take(one.replay.recent(len(rollout)))["input_0"]
    np.testing.assert_array_equal(stored[::-1], rollout.observations[0])


def test_who_only_plays_needs_no_demonstration(cartpole: str) -> None:
    trained = learner("ppo", CARTPOLE, cartpole, PPO_NUMBERS)
    trained.update(rollout_of(trained), 0.0, None)
    plays = learner("ppo", CARTPOLE, "gone.demo", PPO_NUMBERS, learns=False)
    plays.load(*trained.state(), fresh=False)
    np.testing.assert_array_equal(plays.weights()["action.weight"], trained.weights()["action.weight"])


def test_recordings_are_read_in_the_order_of_the_setup(cartpole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ImageOrder] = []

    def read(paths: Any, spec: BehaviorSpec, images: ImageOrder) -> Demonstration:
        asked.append(images)
        return read_demonstrations(paths, spec)

    monkeypatch.setattr(recordings, "read_demonstrations", read)
    setup, order = setup_of("ppo", CARTPOLE, cartpole, PPO_NUMBERS), ImageOrder(flat=("heat",))
    for each in (setup, replace(setup, images=order)):
        make_algorithm(each)
    assert asked == [RECORDED, order]


def test_demonstrations_that_do_not_serve_are_refused(cartpole: str, pendulum: str) -> None:
    with pytest.raises(DataError, match="there is no demonstration"):
        learner("ppo", CARTPOLE, "gone.demo")
    with pytest.raises(DataError, match="its actions are 1 continuous"):
        learner("ppo", CARTPOLE, demo_file(Path(pendulum).parent, played(PENDULUM, swing, copies=1)))


def test_what_a_rollout_is_to_a_signal(cartpole: str) -> None:
    one = learner("ppo", CARTPOLE, cartpole, PPO_NUMBERS)
    rollout = Rollout(rollout_of(one, steps=60))
    own = experience_of(rollout, one.network, one.device)
    np.testing.assert_array_equal(own.goes_on.numpy() == 0, rollout.terminated)
    np.testing.assert_array_equal(own.following[0].numpy(), rollout.next_observations(0))
    found = log_prob(one.network, own).detach().numpy()
    np.testing.assert_allclose(found, rollout.column("log_prob").sum(axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["ppo", "sac", pytest.param("sac_ln", marks=pytest.mark.nightly)])
def test_airl_goes_where_the_expert_went(kind: str, tmp_path: Path) -> None:
    """The expert gets 9.1; who is paid for the entropy alone gets 2.7 at most. Nobody falls, so f alone shows the way.

    Seeds 1, 2 and 3: 9.1 each, by PPO and by SAC; SAC with layer normalisation 7.0, whose entropy is soon spent.
    """
    numbers = {"buffer_size": 512, "num_epoch": 4, "beta": 0.0, "learning_rate_schedule": "constant"}
    if kind != "ppo":
        numbers = {"steps_per_update": 8.0, "init_entcoef": 0.1}
    small = {"hidden_units": 16}
    one = learner(
        kind,
        LINE,
        demo_file(tmp_path, played(LINE, walk, copies=40)),
        {"learning_rate": 1e-3 if kind == "sac_ln" else 3e-3, **numbers},
        gamma=0.9,
        learning_rate=3e-3,
        network_settings=small,
    )
    returns = learn_in(one, 8000 if kind == "ppo" else 4000, copies=16)
    assert np.mean(returns[:64]) < 2.5
    assert worth(one.snapshot(), copies=40) > 5.0


@pytest.mark.nightly
def test_airl_finds_an_expert_of_cartpole_without_seeing_a_reward(cartpole: str) -> None:
    """500 is the most there is; who knows nothing gets 22. That a real end is bad is enough to come there."""
    numbers = {**PPO_NUMBERS, "buffer_size": 1024, "num_epoch": 10, "learning_rate_schedule": "constant"}
    one = learner("ppo", CARTPOLE, cartpole, numbers)
    returns = learn_in(one, 40_000)
    assert np.mean(returns[:20]) < 60
    assert worth(one.snapshot()) > 400


@pytest.mark.nightly
def test_airl_teaches_sac_too(cartpole: str) -> None:
    one = learner("sac", CARTPOLE, cartpole, {"steps_per_update": 4.0, "buffer_init_steps": 500, "buffer_size": 50_000})
    learn_in(one, 16_000)
    assert worth(one.snapshot()) > 200
