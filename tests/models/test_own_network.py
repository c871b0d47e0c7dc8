"""A user's module in the place of our networks: written as a model file that says the same, or refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tau_trainer.errors import ExportError
from tau_trainer.export import export_onnx
from tau_trainer.models import make_policy
from tau_trainer.models.own_network import OwnNetwork
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

ACTIONS = ActionSpec(2, (3, 2))


def behavior(*more: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec("b", (ObservationSpec("a", (3,)), ObservationSpec("c", (2,)), *more), ACTIONS)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.SiLU(), nn.Dropout(0.0), nn.Identity()
        )
        self.head = nn.Sequential(nn.Linear(8, 7), nn.Softplus())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(self.body(obs))
        return answer


class Dueling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.value, self.advantage = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, 7)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.body(obs))
        advantage = self.advantage(x.tanh())
        answer: torch.Tensor = self.value(x) + (advantage - advantage.mean(dim=1, keepdim=True)) * 2.0
        return answer


class Side(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, 4), nn.Linear(5, 3)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.cat([-nn.functional.silu(self.one(obs)), torch.sigmoid(self.two(obs)) / 0.5], dim=1)


class Grouped(Side):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.cumsum(self.one(obs), dim=1), self.two(obs)], dim=1)


class Numbers(Side):
    """Numbers on either side, a parameter of its own, and a bias that is added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(7))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        x = 1.0 - super().forward(obs) * self.scale.exp()
        return 1.0 / (x * x + 2) - 0.5


class Whimsical(Side):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return super().forward(obs if obs.sum() > 0 else -obs)


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(5 + 4, 7)

    def forward(self, obs: Any) -> torch.Tensor:
        vectors, image = obs
        answer: torch.Tensor = self.all(torch.cat([vectors, image.float().flatten(1) / 255], dim=1))
        return answer


def policy_of(module: nn.Module, spec: BehaviorSpec, normalize: bool = False) -> Any:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.0, 0.7)
    network = OwnNetwork(spec, module, normalize=normalize, exploration=None)
    if network.normalizer is not None:
        network.normalizer.merge(np.random.default_rng(0).normal(3.0, 2.0, size=(50, 5)).astype(np.float32))
    weights = {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}
    return make_policy(network, weights, 1)


@pytest.mark.parametrize("module", [Layers, Dueling, Side, Numbers])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_file_says_the_same(tmp_path: Path, module: type[nn.Module], normalize: bool) -> None:
    """export_onnx compares both with onnxruntime, and raises where they differ."""
    policy = policy_of(module(), behavior(), normalize)
    assert export_onnx(policy, behavior(), tmp_path / "own.onnx").is_file()


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Grouped, "its action uses 'cumsum'"),
        (Whimsical, "its action uses 'sum'"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_remedy(tmp_path: Path, module: type[nn.Module], why: str) -> None:
    with pytest.raises(ExportError, match=f"{why}.*set `exports = False`"):
        export_onnx(policy_of(module(), behavior()), behavior(), tmp_path / "own.onnx")
    assert not list(tmp_path.iterdir())


def test_images_are_beside_the_vectors_as_bytes() -> None:
    spec = behavior(ObservationSpec("image", (1, 2, 2), dtype=np.uint8))
    policy = policy_of(Pictures(), spec)
    obs = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32), np.full((4, 1, 2, 2), 255, np.uint8)
    dark = (*obs[:2], np.zeros((4, 1, 2, 2), np.uint8))
    bright, other = (policy.act(one, None, np.random.default_rng(0), deterministic=True) for one in (obs, dark))
    assert bright.continuous.shape == (4, 2)
    assert bright.discrete.shape == (4, 2)
    assert not np.allclose(bright.continuous, other.continuous)


def test_without_exploration_branches_are_drawn_and_continuous_actions_are_not() -> None:
    policy = policy_of(Side(), behavior())
    obs = np.zeros((300, 3), np.float32), np.zeros((300, 2), np.float32)
    decision = policy.act(obs, None, np.random.default_rng(0))
    assert len(np.unique(decision.discrete[:, 0])) > 1
    assert len(np.unique(decision.continuous, axis=0)) == 1


def test_writing_leaves_other_threads_alone(tmp_path: Path) -> None:
    """A run's export is tried while agents act."""
    policy, stop = policy_of(Layers(), behavior()), threading.Event()
    obs, failures = (np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)), list[Exception]()

    def act() -> None:
        while not stop.is_set():
            try:
                policy.act(obs, None, np.random.default_rng(0))
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=act)
    thread.start()
    try:
        for i in range(3):
            export_onnx(policy_of(Layers(), behavior()), behavior(), tmp_path / f"{i}.onnx")
    finally:
        stop.set()
        thread.join()
    assert failures == []
