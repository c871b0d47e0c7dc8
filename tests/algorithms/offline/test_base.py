"""What bc, iql and awac share: whole episodes held out, resumed to the bit, better than what was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.errors import CheckpointError, NonFiniteError, SettingsError
from tau_trainer.models.distributions import LEAST_LOG_SIGMA
from tau_trainer.settings import trainer_type
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec
from tests.algorithms.demonstrations import CARTPOLE, PENDULUM, balance, played, swing, worth
from tests.algorithms.experience import states_equal
from tests.algorithms.offline.learners import HYBRID, KINDS, everything, hybrid, learner, train
from tests.bridge.demos import made_up

LEVELS = {"action_levels": 5}


@pytest.mark.parametrize("network", [{}, LEVELS], ids=["gaussians", "levels"])
def test_the_loss_of_cloning_is_the_mean_negative_log_likelihood(network: dict[str, Any], tmp_path: Path) -> None:
    one = learner("bc", tmp_path, hybrid(), network=network, held_out=0.0)
    batch = everything(one)
    outputs = one.network.outputs(batch.inputs)
    head, total = one.network.action, torch.zeros(len(outputs))
    size = head.choices.continuous_size
    if size:
        gaussian = torch.distributions.Normal(outputs[:, :size], head.log_sigma.exp())
        total = total + gaussian.log_prob(batch.continuous).sum(dim=1)  # type: ignore[no-untyped-call]
    begin = size
    for branch, choices in enumerate(head.choices.discrete_branches):
        hidden = batch.forbidden[:, begin - size : begin - size + choices]
        logits = outputs[:, begin : begin + choices].masked_fill(hidden, -1e8)
        total = total + logits.log_softmax(dim=1).gather(1, batch.discrete[:, branch : branch + 1])[:, 0]
        begin += choices
    loss, numbers = one.losses(batch)
    torch.testing.assert_close(loss, -total.mean())
    assert numbers == [loss]


def test_what_the_critics_say_teaches_the_policy_and_not_the_reverse(tmp_path: Path) -> None:
    """Gradients of the policy's loss stay in the actor's tower, those of the others out of it."""
    for kind in ("iql", "awac"):
        one = learner(kind, tmp_path, hybrid(), held_out=0.0)
        train(one, 20)
        _, told = one.losses(everything(one))
        policy = torch.autograd.grad(told[0], one.module.q.weight, retain_graph=True, allow_unused=True)[0]
        assert policy is None or not policy.any()
        critic = torch.autograd.grad(told[-1], one.network.action.weight, allow_unused=True)[0]
        assert critic is None or not critic.any()


@pytest.mark.parametrize("kind", ["iql", "awac"])
def test_targets_follow_at_tau(kind: str, tmp_path: Path) -> None:
    one = learner(kind, tmp_path, hybrid(), {"tau": 0.25})
    train(one, 1)
    before = one.module.target.weight.clone()
    train(one, 1)
    torch.testing.assert_close(one.module.target.weight, torch.lerp(before, one.module.q.weight.detach(), 0.25))
    assert not torch.equal(before, one.module.target.weight)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_learner_goes_on_to_the_bit(kind: str, tmp_path: Path) -> None:
    first, again, straight = (learner(kind, tmp_path, hybrid(), network={"normalize": True}) for _ in range(3))
    train(first, 10)
    again.load(*first.state(), fresh=False)
    assert (again.steps, again.version) == (10, 1)
    train(again, 15, 0.5)
    train(straight, 10)
    train(straight, 15, 0.5)
    states_equal(again, straight)
    np.testing.assert_array_equal(again.data.reward, straight.data.reward)


def test_recurrent_networks_clone_sequences(tmp_path: Path) -> None:
    """What to do was seen a step ago: nobody without a memory can know."""
    rng = np.random.default_rng(0)
    spec = BehaviorSpec("Echo", CARTPOLE.observations, ActionSpec(0, (2,)))
    steps, episodes = 20, 40
    obs = np.zeros((episodes, steps, 4), np.float32)
    obs[..., 0] = rng.integers(0, 2, (episodes, steps)) * 2 - 1
    discrete = np.zeros((episodes, steps, 1), np.int32)
    discrete[:, 1:, 0] = obs[:, :-1, 0] > 0
    begins, ended, truncated = np.zeros((3, episodes, steps), np.bool_)
    begins[:, 0] = ended[:, -1] = truncated[:, -1] = True
    discrete[ended] = 0
    count = episodes * steps
    flat = Actions(np.zeros((count, 0), np.float32), discrete.reshape(count, 1))
    reward = np.zeros(count, np.float32)
    demo = Demonstration(spec, (obs.reshape(count, 4),), reward, begins.ravel(), ended.ravel(), truncated.ravel(), flat)
    network = {"memory": {"memory_size": 16, "sequence_length": 10}}
    one = learner("bc", tmp_path, demo, {"batch_size": 64, "learning_rate": 1e-2}, network)
    before = one.assess()["Validation/Policy Loss"]
    train(one, 150)
    after = one.assess()["Validation/Policy Loss"]
    assert before > 0.6
    assert after < 0.25
    one.load(*one.state(), fresh=False)


@pytest.mark.parametrize("kind", ["iql", "awac"])
def test_critics_refuse_recurrent_networks(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"{kind} does not support memory; remove"):
        learner(kind, tmp_path, hybrid(), network={"memory": {"sequence_length": 8}})


def test_images_are_learned_from_too(tmp_path: Path) -> None:
    image = replace(CARTPOLE.observations[0], name="eye", shape=(3, 20, 20), dtype=np.uint8)
    spec = BehaviorSpec("Seeing", (*CARTPOLE.observations, image), ActionSpec(1, (2,)))
    one = learner("iql", tmp_path, made_up(spec, lengths=(12, 10, 14)))
    before = one.weights()["action.weight"]
    told = train(one, 3)
    assert np.isfinite(list(told.values())).all()
    assert np.isfinite(list(one.assess().values())).all()
    assert not np.array_equal(before, one.weights()["action.weight"])


def test_a_player_who_never_errs_does_not_make_gaussians_infinitely_narrow(tmp_path: Path) -> None:
    def steady(obs: Any, _: Any) -> Actions:
        return Actions(np.full((len(obs), 1), 0.25, np.float32), np.zeros((len(obs), 0), np.int32))

    one = learner("bc", tmp_path, played(PENDULUM, steady, copies=3), {"learning_rate": 0.05})
    train(one, 400)
    assert float(one.network.action.log_sigma.detach().min()) > LEAST_LOG_SIGMA - 0.5


def test_what_becomes_infinite_leaves_everything_as_it_was(tmp_path: Path) -> None:
    one = learner("bc", tmp_path, hybrid())
    before = one.state()
    losses = one.losses
    one.losses = lambda batch: (losses(batch)[0] * float("nan"), [losses(batch)[0] * float("nan")])
    with pytest.raises(NonFiniteError, match="became NaN or infinite"):
        train(one, 3)
    np.testing.assert_equal(one.state()[0], before[0])
    assert one.steps == 0
    assert one.ready(Counters(10**6, 0)) is None, "there is nothing to collect"


def test_keys_of_collection_are_refused(tmp_path: Path) -> None:
    for key, value in {
        "buffer_size": 500,
        "buffer_init_steps": 5,
        "terminal_share": 0.1,
        "steps_per_update": 2,
    }.items():
        with pytest.raises(ValueError, match=f"{key} has no effect for a trainer that learns only from recordings"):
            learner("iql", tmp_path, hybrid(), {key: value})


def test_bc_clones_an_expert_of_cartpole(tmp_path: Path) -> None:
    numbers = {"batch_size": 256, "learning_rate": 1e-3}
    one = learner("bc", tmp_path, played(CARTPOLE, balance), numbers, {"hidden_units": 64})
    assert worth(one.snapshot()) < 200
    train(one, 1500)
    assert worth(one.snapshot()) > 450


@pytest.mark.parametrize("kind", ["iql", "awac"])
def test_critics_beat_the_player_that_they_learn_from(kind: str, tmp_path: Path) -> None:
    """A swing-up with a shaking hand gets -757; cloning it is worth about as much.

    Seeds 1, 2 and 3: IQL -251, -248 and -248, AWAC -351, -285 and -261.
    """
    demo = played(PENDULUM, lambda obs, rng: swing(obs, rng, noise=1.5), copies=40)
    numbers = {"batch_size": 128, "learning_rate": 2e-3, "tau": 0.02}
    signals = {"extrinsic": {"gamma": 0.95, "strength": 0.1}}
    one = learner(kind, tmp_path, demo, numbers, {"hidden_units": 64}, reward_signals=signals)
    train(one, 1500)
    assert demo.returns.mean() < -650
    assert worth(one.snapshot(), copies=20) > demo.returns.mean() + 200


@pytest.mark.parametrize(
    "network", [{"normalize": True}, {"memory": {"memory_size": 8, "sequence_length": 4}}], ids=str
)
def test_ppo_starts_from_a_cloned_policy_but_cannot_resume_it(network: dict[str, Any], tmp_path: Path) -> None:
    cloned = learner("bc", tmp_path, hybrid(), network=network)
    train(cloned, 20)
    arrays, metadata = cloned.state()

    def other(kind: str) -> Any:
        trainer = {"trainer_type": kind, "network_settings": {"hidden_units": 16, **network}}
        return make_algorithm(Setup(HYBRID, trainer_type(kind).settings.model_validate(trainer), 2))

    ppo = other("ppo")
    with pytest.raises(CheckpointError, match=r"trainer type is 'bc', behavior 'Hybrid' needs 'ppo'; use .* the run"):
        ppo.load(arrays, metadata, fresh=False)
    ppo.load(arrays, metadata, fresh=True)
    np.testing.assert_equal(cloned.weights(), ppo.weights())
    assert arrays["optimizer.exp_avg"].any()
    assert not ppo.state()[0]["optimizer.exp_avg"].any(), "the moments are of another loss"
    with pytest.raises(CheckpointError, match=r"'bc', behavior 'Hybrid' needs 'poca'; use .* its run"):
        other("poca").load(arrays, metadata, fresh=True)


def test_whoever_looks_at_what_was_set_aside_changes_nothing(tmp_path: Path) -> None:
    one, other = (learner("awac", tmp_path, hybrid()) for _ in range(2))
    assert one.assess() == one.assess()
    train(one, 20)
    train(other, 20)
    states_equal(one, other)
    assert set(one.assess()) == {f"Validation/{name.split('/')[1]}" for name in one.reported}


def test_whole_episodes_are_set_aside_by_the_seed(tmp_path: Path) -> None:
    demo = hybrid()
    lengths = np.bincount(np.cumsum(demo.begins) - 1, ~demo.ended)
    lengths[-1] -= 1  # open
    default = learner("bc", tmp_path, demo)
    held = everything(default, default.held_out)
    wanted = float(default.losses(held)[0].detach())
    assert default.assess() == pytest.approx({"Validation/Policy Loss": wanted}, rel=1e-5), "the mean of its decisions"
    one = learner("bc", tmp_path, demo, held_out=0.4)
    assert len(one.replay) + len(one.held_out) == lengths.sum()
    assert len(one.held_out) in {int(a + b) for i, a in enumerate(lengths) for b in lengths[:i]}
    same, other = learner("bc", tmp_path, demo, held_out=0.4), learner("bc", tmp_path, demo, held_out=0.4, seed=7)
    sides = [one.held_out.take(np.arange(len(one.held_out)))["input_0"] for one in (one, same, other)]
    np.testing.assert_array_equal(sides[0], sides[1])
    assert sides[0].shape != sides[2].shape or not np.array_equal(sides[0], sides[2])
    none = learner("bc", tmp_path, demo, held_out=0.0)
    assert len(none.held_out) == 0
    assert none.assess() == {}
    alone = learner("bc", tmp_path, made_up(HYBRID, lengths=(30,)))
    assert (len(alone.replay), len(alone.held_out)) == (29, 0), "of a single episode nothing is set aside"
