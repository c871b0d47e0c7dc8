from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.algorithms import PPO
from tau_trainer.errors import CheckpointError
from tests.algorithms.experience import CONTINUOUS, HYBRID, Collector, behavior, settings


@pytest.fixture
def trained() -> PPO:
    ppo = PPO(behavior(HYBRID), settings({"normalize": True}), seed=1)
    ppo.update(Collector(HYBRID).collect(ppo.snapshot()).take(), 0.0)
    return ppo


def assert_unchanged(ppo: PPO, before: dict[str, torch.Tensor]) -> None:
    for name, tensor in ppo.state_dict()[0].items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize(
    ("network", "key"),
    [
        ({"normalize": True, "hidden_units": 17}, "hidden units"),
        ({"normalize": True, "num_layers": 1}, "num layers"),
        ({"normalize": False}, "normalize"),
    ],
)
def test_other_network_is_refused(trained: PPO, network: dict[str, Any], key: str) -> None:
    other = PPO(behavior(HYBRID), settings(network), seed=1)
    before = other.state_dict()[0]
    with pytest.raises(CheckpointError, match=f"checkpoint's {key} is .* behavior 'Walker' needs"):
        other.load_state_dict(*trained.state_dict())
    assert_unchanged(other, before)


def test_other_actions_are_refused(trained: PPO) -> None:
    other = PPO(behavior(CONTINUOUS), settings({"normalize": True}), seed=1)
    with pytest.raises(CheckpointError, match="discrete branches"):
        other.load_state_dict(*trained.state_dict())


@pytest.mark.parametrize("name", ["model.value.bias", "optimizer.exp_avg", "normalizer.mean", "random.generator"])
def test_missing_tensor_is_named_and_nothing_is_loaded(trained: PPO, name: str) -> None:
    tensors, metadata = trained.state_dict()
    del tensors[name]
    other = PPO(behavior(HYBRID), settings({"normalize": True}), seed=5)
    before = other.state_dict()[0]
    with pytest.raises(CheckpointError, match=f"no tensor '{name}'"):
        other.load_state_dict(tensors, metadata)
    assert_unchanged(other, before)


def test_damaged_tensors_are_refused(trained: PPO) -> None:
    tensors, metadata = trained.state_dict()
    other = PPO(behavior(HYBRID), settings({"normalize": True}), seed=5)
    before = other.state_dict()[0]
    bad = {**tensors, "model.value.bias": torch.tensor([float("nan")])}
    with pytest.raises(CheckpointError, match=r"'model\.value\.bias' of the checkpoint holds NaN"):
        other.load_state_dict(bad, metadata)
    bad = {**tensors, "model.value.bias": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=r"has shape \[3\], the settings ask for \[1\]"):
        other.load_state_dict(bad, metadata)
    assert_unchanged(other, before)


def test_weights_alone_start_a_new_run(trained: PPO) -> None:
    tensors, metadata = trained.state_dict()
    other = PPO(behavior(HYBRID), settings({"normalize": True}), seed=5)
    fresh = other.state_dict()[0]
    only = {name: tensor for name, tensor in tensors.items() if name.startswith(("model.", "normalizer."))}
    other.load_state_dict(only, metadata, weights_only=True)
    loaded = other.state_dict()[0]
    for name, tensor in loaded.items():
        source = tensors if name in only else fresh
        assert torch.equal(tensor, source[name]), name
    assert other.version == 0
