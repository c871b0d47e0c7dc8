"""Behavioral cloning beside PPO and SAC: its loss, how often and how fast, what it resumes, and that it imitates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.errors import CheckpointError, DataError, NonFiniteError
from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.models.distributions import LEAST_LOG_SIGMA, LOG_SQRT_2PI
from tau_trainer.settings import RewardSignalSettings, trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.learning.parameters_only import lean, whole
from tests.algorithms.demonstrations import LINE, PENDULUM, demo_file, learn_in, played, swing, walk, worth
from tests.algorithms.demonstrations import recording as recording
from tests.algorithms.experience import states_equal
from tests.algorithms.test_learned_streams import IMAGES, LEVELS, LSTM, NUMBERS, SMALL, VECTORS, rollout_of
from tests.rewards.peer import Layers, case_of, layers, parameters, same
from tests.rewards.peer import spec_of as peers_spec

LOSS = "Losses/Pretraining Loss"


def learner(
    kind: str,
    demo: str,
    spec: BehaviorSpec = VECTORS,
    network: dict[str, Any] | None = None,
    numbers: dict[str, Any] | None = None,
    *,
    learns: bool = True,
    **cloning: Any,
) -> Any:
    settings = {
        "trainer_type": kind,
        "hyperparameters": {"learning_rate": 1e-3, **NUMBERS[kind], **(numbers or {})},
        "network_settings": SMALL | (network or {}),
        "behavioral_cloning": {"demo_path": demo, **cloning},
        "time_horizon": 500,
        "max_steps": 1000,
    }
    return make_algorithm(Setup(spec, trainer_type(kind).settings.model_validate(settings), seed=1, learns=learns))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_its_loss_is_that_of_mlagents_but_for_a_factor(kind: str, tmp_path: Path) -> None:
    """Of branches the sum where the peer has the mean. Of Gaussians the likelihood, where the peer compares a sample:

    it was given its means for samples, and a sigma of 1, and then both are squares with another factor. (Its means it
    compares with what the environment got, which is a third of them; here raw actions stand on both sides.)
    """
    case, actions = case_of(f"cloning_{kind}"), ActionSpec(2) if kind == "continuous" else ActionSpec(0, (3, 2))
    spec, head = peers_spec(actions), "action_model._continuous_distribution.mu"
    branches = "action_model._discrete_distribution.branches."
    sources = [head] if kind == "continuous" else [f"{branches}{branch}" for branch in range(2)]
    named: Layers = {**layers("body", "network_body."), "action": sources}
    one = learner("ppo", recording(tmp_path, spec), spec, {"hidden_units": 16, "num_layers": 2})
    found = dict(one.network.named_parameters())
    with torch.no_grad():
        for name, values in parameters(case, "w", named).items():
            place = found[name][0] if name.startswith("body") else found[name]
            place.copy_(values.reshape(place.shape))
    mask = torch.zeros(8, actions.mask_size, dtype=torch.bool)
    one.cloning._inputs = [case["obs"]]
    one.cloning._actions = [case["continuous"], case["discrete"], mask]
    loss = one.cloning.loss(torch.arange(8))
    factor, rest = (1.0, 2.0 * LOG_SQRT_2PI) if kind == "continuous" else (2.0, 0.0)  # c / 2, or the branches
    same(loss, factor * case["loss"] + rest)
    one.parameters.optimizer.gradient.zero_()
    loss.backward()
    for name, values in parameters(case, "g", named).items():
        gradient = found[name].grad
        assert gradient is not None
        ours = gradient[0] if name.startswith("body") else gradient
        same(ours, factor * values.reshape(ours.shape), name)


def test_the_loss_is_the_likelihood_of_whole_actions_by_hand(tmp_path: Path) -> None:
    """Of a hybrid action under PPO, whose raw samples are three times what the environment got."""
    one, rows = learner("ppo", recording(tmp_path, VECTORS)), torch.arange(7)
    with torch.no_grad():
        one.network.action.log_sigma.fill_(-9.0)  # as narrow as LEAST_LOG_SIGMA counts
    outputs = one.network.outputs([one.cloning._inputs[0][rows]])
    raw, chosen = one.cloning._actions[0][rows], one.cloning._actions[1][rows, 0]
    assert float(one.cloning._actions[0].abs().max()) > 1.5
    sigma = np.exp(LEAST_LOG_SIGMA)
    gaussian = 0.5 * ((raw[:, 0] - outputs[:, 0]) / sigma) ** 2 + LEAST_LOG_SIGMA + LOG_SQRT_2PI
    branch = -torch.log_softmax(outputs[:, 1:], dim=1)[rows, chosen]
    torch.testing.assert_close(one.cloning.loss(rows), (gaussian + branch).mean())


def test_what_was_forbidden_is_no_choice(tmp_path: Path) -> None:
    spec = BehaviorSpec("Chooser", (ObservationSpec("vector", (4,)),), ActionSpec(0, (3, 2)))
    one = learner("ppo", recording(tmp_path, spec, masked=True), spec)
    loss, (_, chosen, forbidden) = one.cloning.loss(torch.arange(9)), one.cloning._actions
    logits = one.network.outputs([one.cloning._inputs[0][:9]]).masked_fill(forbidden[:9], -torch.inf)
    parts = [torch.log_softmax(part, dim=1) for part in (logits[:, :3], logits[:, 3:])]
    wanted = -sum(part.gather(1, chosen[:9, branch : branch + 1]) for branch, part in enumerate(parts)).mean()  # type: ignore[union-attr]
    torch.testing.assert_close(loss, wanted)
    assert int(forbidden.sum()) == len(forbidden) == 60, "the last looks are no decisions"


def test_its_step_size_falls_to_nothing_over_its_steps(tmp_path: Path) -> None:
    demo = recording(tmp_path, VECTORS)
    fading, steady = learner("ppo", demo, steps=400, strength=0.5), learner("ppo", demo, strength=0.5)
    rates = [round(fading.cloning.rate(progress), 9) for progress in (0.0, 0.1, 0.4, 0.8)]
    assert rates == [5e-4, 3.75e-4, 0.0, 0.0]
    points = {"learning_rate": [[0, 2e-3], [1000, 1e-3]]}
    assert learner("ppo", demo, numbers=points).cloning.rate(0.5) == 2e-3, "the first of a schedule"
    assert steady.cloning.rate(0.9) == 5e-4
    work = rollout_of(fading)
    assert LOSS not in fading.update(work, 0.5, None)
    assert int(fading.cloning._step) == 0
    assert LOSS in steady.update(work, 0.5, None)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, 3 * (60 // 32)),
        ({"batch_size": 10, "num_epoch": 1}, 6),
        ({"batch_size": 10, "samples_per_update": 25}, 3 * 2),
        ({"batch_size": 500, "samples_per_update": 7}, 3),
    ],
)
def test_how_much_it_sees_in_an_update(options: dict[str, Any], steps: int, tmp_path: Path) -> None:
    one = learner("ppo", recording(tmp_path, VECTORS), **options)
    one.update(rollout_of(one), 0.0, None)
    assert int(one.cloning._step) == steps


@pytest.mark.parametrize(("every", "steps"), [("auto", [3, 3]), (1.0, [3, 6])])
def test_steps_that_fill_time_are_not_its_own(every: str | float, steps: list[int], tmp_path: Path) -> None:
    one, found = learner("sac", recording(tmp_path, VECTORS), numbers={"steps_per_update": every}), []
    for work in (replace(Work.of(rollout_of(one)), gradient_steps=4), Work(NO_TRANSITIONS, gradient_steps=4)):
        one.update(work, 0.0, None)
        found.append(int(one.cloning._step))
    assert found == steps


@pytest.mark.parametrize(
    ("kind", "spec", "network"),
    [
        ("ppo", VECTORS, LSTM),
        ("ppo", IMAGES, {}),
        ("ppo", VECTORS, LEVELS | {"normalize": True}),
        ("sac", VECTORS, {}),
        ("sac_ln", VECTORS, LSTM),
        ("sac_ln", VECTORS, LEVELS | {"normalize": True}),
    ],
)
def test_it_learns_beside_and_resumes_to_the_bit(
    kind: str, spec: BehaviorSpec, network: dict[str, Any], tmp_path: Path
) -> None:
    demo = recording(tmp_path, spec)
    first, again = (learner(kind, demo, spec, network, samples_per_update=40, batch_size=20) for _ in range(2))
    told = first.update(rollout_of(first), 0.0, None)
    assert told[LOSS] > 0.0
    first.memory.clear()  # as a checkpoint does
    arrays, metadata = first.state()
    assert arrays["cloning.exp_avg"].any()
    again.load(arrays, metadata, fresh=False)
    for each in (first, again):
        each.update(rollout_of(each, seed=2), 0.1, None)
    states_equal(first, again)


def test_its_moments_are_its_own(tmp_path: Path) -> None:
    """The policy's optimizer goes on as if nothing had been imitated, and the critic is not touched."""
    one = learner("ppo", recording(tmp_path, VECTORS))
    moments = one.parameters.optimizer.exp_avg.clone()
    before = {name: value.clone() for name, value in one.network.named_parameters()}
    one.cloning.learn(0.0)
    assert torch.equal(one.parameters.optimizer.exp_avg, moments)
    for name, value in one.network.named_parameters():
        if name.startswith("value."):
            assert torch.equal(value, before[name])
        elif name.startswith("body."):
            assert torch.equal(value[1], before[name][1])
            assert not torch.equal(value[0], before[name][0])


def test_a_checkpoint_of_parameters_alone_begins_to_imitate_anew(tmp_path: Path) -> None:
    first, again = (learner("ppo", recording(tmp_path, VECTORS)) for _ in range(2))
    first.update(rollout_of(first), 0.0, None)
    arrays, metadata = first.state()
    kept, values = lean(arrays, {"algorithm": metadata})
    assert not any(name.startswith("cloning.") for name in kept)
    bare = {name: values for name, values in arrays.items() if not name.startswith("cloning.")}
    with pytest.raises(CheckpointError, match=r"no tensor 'cloning\."):
        again.load(bare, metadata, fresh=False)
    again.load(bare, metadata, fresh=True)
    everything, values = whole(kept, values, again.state)
    again.load(everything, values["algorithm"], fresh=False)
    assert int(again.cloning._step) == 0 < int(first.cloning._step)
    np.testing.assert_array_equal(again.weights()["action.weight"], first.weights()["action.weight"])


def test_an_update_that_fails_leaves_it_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner("ppo", recording(tmp_path, VECTORS))
    before, work = one.state()[0], rollout_of(one)
    monkeypatch.setattr(one.cloning, "_rate", np.inf)
    with pytest.raises(NonFiniteError, match="behavioral_cloning made the policy NaN or infinite; lower its strength"):
        one.update(work, 0.0, None)
    np.testing.assert_equal(one.state()[0], before)


def test_demonstrations_that_do_not_serve_are_refused_where_they_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no demonstration"):
        learner("ppo", "gone.demo")
    with pytest.raises(DataError, match="its actions are 1 continuous"):
        learner("sac", recording(tmp_path, VECTORS), PENDULUM)
    assert learner("ppo", "gone.demo", learns=False).cloning is not None


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_it_imitates(kind: str, tmp_path: Path) -> None:
    """The expert gets 9.1, who has not learned yet 0 to 1.3. Seeds 1, 2, 3: 7.9, 9.1, 9.1 by PPO; 9.1 each by SAC."""
    demo = demo_file(tmp_path, played(LINE, walk, copies=40))
    numbers: dict[str, Any] = {"batch_size": 64, "learning_rate": 3e-3}
    numbers |= {"init_entcoef": 0.01} if kind == "sac" else {"buffer_size": 512}
    samples = 128 if kind == "sac" else 0
    settings = learner(kind, demo, LINE, {"hidden_units": 32}, numbers, samples_per_update=samples).settings
    alone = settings.model_copy(update={"reward_signals": {"extrinsic": RewardSignalSettings(strength=0.0)}})
    one: Any = make_algorithm(Setup(LINE, alone, seed=1))
    learn_in(one, 3000, copies=16)
    assert worth(one.snapshot(), copies=40) > 6.0


def test_it_imitates_continuous_actions(tmp_path: Path) -> None:
    """The mean of what a player with a trembling hand did, in the environment's units."""
    demonstration = played(PENDULUM, swing, copies=4)
    one = learner(
        "ppo", demo_file(tmp_path, demonstration), PENDULUM, {"hidden_units": 32, "num_layers": 2}, batch_size=64
    )
    for _ in range(60):
        told = one.cloning.learn(0.0)
    assert told[LOSS] < 1.9
    going = ~demonstration.ended
    obs = demonstration.obs[0][going]
    policy, rng = one.snapshot(), np.random.default_rng(0)
    mine = policy.act((obs,), None, rng, deterministic=True).to_env().continuous[:, 0]
    error = np.abs(mine - swing(obs, rng, noise=0.0).continuous[:, 0])
    assert float(np.median(error)) < 0.3
