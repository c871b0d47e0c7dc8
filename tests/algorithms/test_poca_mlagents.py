"""The same losses and gradients as mlagents 1.1.0's own MA-POCA, recorded by `tools/mlagents_poca.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.groups import Seating
from tau_trainer.algorithms.losses import minibatch_loss, summarize_epoch
from tau_trainer.algorithms.minibatches import EpochStatistics, Rows, Samples
from tau_trainer.algorithms.poca import POCA, GroupEpochs
from tau_trainer.settings import NetworkSettings, RewardSignalSettings
from tau_trainer.settings.signals import CuriositySettings
from tau_trainer.settings.trainers import POCATrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

BODY = "network_body._body_endoder.seq_layers"
CRITIC = {
    "alone": "obs_encoder.self_ent_encoder.seq_layers.0",
    "acted": "obs_action_encoder.self_ent_encoder.seq_layers.0",
    "query": "self_attn.fc_q",
    "key": "self_attn.fc_k",
    "value": "self_attn.fc_v",
    "out": "self_attn.fc_out",
}
Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> Arrays:
    with np.load(Path(__file__).with_name("mlagents_poca.npz")) as file:
        return dict(file)


def ours(recorded: Arrays, kind: str) -> dict[str, torch.Tensor]:
    """Its parameters (``kind`` empty), or their gradients, by our names and as ours lie."""

    def turned(name: str) -> torch.Tensor:
        return torch.from_numpy(recorded[kind + name].T.copy())

    found = {"action.log_sigma": turned("actor.action_model._continuous_distribution.log_sigma")[:, 0]}
    for part, names in {
        "action": ["_continuous_distribution.mu", *(f"_discrete_distribution.branches.{i}" for i in range(2))],
        "critic.worth": ["extrinsic", "curiosity"],
    }.items():
        before = "actor.action_model." if part == "action" else "critic.value_heads.value_heads."
        for what in ("weight", "bias"):
            found[f"{part}.{what}"] = torch.cat([turned(f"{before}{name}.{what}") for name in names], dim=-1)
    for layer in range(2):
        for part, name in (("body", f"actor.{BODY}"), ("critic.body", "critic.network_body.linear_encoder.seq_layers")):
            found[f"{part}.{layer}.weight"] = turned(f"{name}.{2 * layer}.weight")[None]
            found[f"{part}.{layer}.bias"] = turned(f"{name}.{2 * layer}.bias")[None, None]
    for part, name in CRITIC.items():
        found[f"critic.{part}.weight"] = turned(f"critic.network_body.{name}.weight").T
        found[f"critic.{part}.bias"] = turned(f"critic.network_body.{name}.bias")
    return found


@pytest.fixture
def learner(recorded: Arrays) -> POCA:
    sensors = tuple(ObservationSpec(f"vector_{i}", recorded[f"obs_{i}"].shape[1:]) for i in range(2))
    spec = BehaviorSpec("Walker?team=0", sensors, ActionSpec(2, (3, 2)))
    settings = POCATrainerSettings(
        network_settings=NetworkSettings(hidden_units=16),
        reward_signals={"extrinsic": RewardSignalSettings(), "curiosity": CuriositySettings()},
    )
    learner = POCA(Setup(spec, settings, 1))
    parameters, values = dict(learner.network.named_parameters()), ours(recorded, "")
    assert parameters.keys() - values.keys() == {"value.weight", "value.bias"}, "which have no numbers"
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value.view_as(parameters[name]))
    return learner


class Read:
    """A reader of what was recorded."""

    def __init__(self, recorded: Arrays, learner: POCA) -> None:
        network: Any = learner.network
        tensors = {name: torch.from_numpy(values) for name, values in recorded.items()}
        sizes, rows = tensors["sizes"], len(recorded["returns"])
        network.critic.most.fill_(float(sizes.max()))
        inputs = network.prepare((recorded["obs_0"], recorded["obs_1"]))
        self.seating = Seating(
            inputs=inputs,
            done=network.critic.done(tensors["continuous"], tensors["discrete"]),
            sizes=sizes,
            begins=sizes.cumsum(0) - sizes,
            set_of=torch.arange(len(sizes)).repeat_interleave(sizes),
            worth=torch.zeros(0),
            before=torch.cat((tensors["old_values"], tensors["old_baselines"]), dim=1),
        )
        nothing = torch.zeros(0)
        self.samples = Samples(
            inputs=[*inputs, torch.arange(rows)],
            state=nothing,
            continuous=tensors["continuous"],
            discrete=tensors["discrete"],
            mask=tensors["forbidden"],
            log_prob=tensors["old_log_probs"],
            advantage=tensors["advantages"][:, None],
            returns=tensors["returns"].repeat(1, 2),
            begins=nothing,
        )


def test_values_losses_and_gradients_are_ml_agents(recorded: Arrays, learner: POCA) -> None:
    update: Any = learner.policy_update
    read = update._reader = Read(recorded, learner)
    numbers = learner.schedule(0.0)._replace(epsilon=0.2, beta=0.01)
    update._prepared(read.samples, Rows(len(read.samples.returns), learner.generator))
    assert update._reach.tolist() == [1.0] * 4, "so the trust region is as wide as there"
    said = update.of_groups(read.samples.inputs[-1])
    torch.testing.assert_close(said[:, :2], torch.from_numpy(recorded["values"]), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(said[:, 2:], torch.from_numpy(recorded["baselines"]), rtol=1e-5, atol=1e-5)

    epochs = GroupEpochs(update, update.objective)
    learner.parameters.optimizer.gradient.zero_()
    answer = epochs.answer(read.samples)
    loss, log_ratio, values, entropy = minibatch_loss(learner.network, numbers, read.samples, update.objective, answer)
    learner.parameters.differentiate(loss)
    policy_loss, value_loss, baseline_loss, mean_entropy, whole = recorded["losses"]
    assert float(loss.detach()) == pytest.approx(whole, abs=1e-5)
    assert float(entropy.mean()) == pytest.approx(mean_entropy, abs=1e-5)
    log_probs = (log_ratio + read.samples.log_prob).numpy()
    np.testing.assert_allclose(log_probs, recorded["log_probs"], rtol=1e-5, atol=1e-5)
    statistics = EpochStatistics(log_ratio, values, entropy.mean()[None], torch.zeros(1))
    row = summarize_epoch(read.samples, statistics, 0.2, update.objective).tolist()
    assert (row[0], row[1], row[6]) == pytest.approx((policy_loss, value_loss, baseline_loss), abs=1e-5)

    found = learner.parameters.views(learner.parameters.optimizer.gradient)
    for name, gradient in ours(recorded, "gradient.").items():
        torch.testing.assert_close(found[name], gradient.view_as(found[name]), rtol=1e-5, atol=1e-5, msg=name)
        assert bool(gradient.any()), name


def test_the_record_takes_every_branch(recorded: Arrays) -> None:
    """Some old values are farther than epsilon away from what is said now, on both sides of the return."""
    for said, old in (("values", "old_values"), ("baselines", "old_baselines")):
        far = np.abs(recorded[said] - recorded[old]) > 0.2
        towards = np.abs(recorded["returns"] - recorded[said]) < np.abs(recorded["returns"] - recorded[old])
        assert (far & towards).any()
        assert (far & ~towards).any()
        assert (~far).any()
    ratio = np.exp(recorded["log_probs"] - recorded["old_log_probs"])
    assert ((ratio > 1.2) | (ratio < 0.8)).any()
