from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.parameters import FlatParameters, optimizer_step
from tau_trainer.errors import CheckpointError
from tau_trainer.models import ActorCritic
from tau_trainer.settings import MemorySettings, PPOHyperparameters
from tau_trainer.settings.hyperparameters import Optimizer
from tests.algorithms.experience import HYBRID, behavior
from tests.networks import IMAGE, make_network, observations
from tests.waiting import HANG_S

SPEC = behavior(HYBRID, IMAGE)
pytestmark = pytest.mark.usefixtures("toys")


def made(seed: int = 0) -> ActorCritic:
    return make_network(SPEC, memory=MemorySettings(memory_size=6), seed=seed)


def flat(network: torch.nn.Module, **numbers: Any) -> FlatParameters:
    return FlatParameters(network, torch.device("cpu"), PPOHyperparameters(**numbers))


def test_parameters_are_apart_aligned_and_matrices_first() -> None:
    parameters = flat(made())
    vector = torch.zeros_like(parameters.optimizer.parameters)
    views = parameters.views(vector)
    for number, view in enumerate(views.values()):
        assert not view.any(), "parameters overlap"
        assert view.storage_offset() % 16 == 0
        view.fill_(number + 1)
    named = dict(parameters.module.named_parameters())
    assert {name: view.shape for name, view in views.items()} == {name: one.shape for name, one in named.items()}
    assert int((vector != 0).sum()) == sum(one.numel() for one in named.values())
    in_front = {name for name, view in views.items() if view.storage_offset() < parameters.optimizer.decayed}
    assert in_front == {name for name in named if name.endswith("weight")}
    assert not parameters.optimizer.parameters[vector == 0].any(), "the gaps are zero"


def test_the_module_and_the_vector_are_the_same() -> None:
    network = made()
    obs = observations(SPEC, 4)
    before = network(network.prepare(obs))
    parameters = flat(network)
    after = network(network.prepare(obs))
    assert torch.equal(before.outputs, after.outputs), "moving into the vector changes no answer"
    assert torch.equal(before.values, after.values)
    parameters.optimizer.parameters.fill_(0.25)
    assert all((parameter == 0.25).all() for parameter in network.parameters())
    network(network.prepare(obs)).outputs.sum().backward()
    gradients = parameters.views(parameters.optimizer.gradient)
    assert gradients["action.bias"].tolist() == [4.0] * 7
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.data_ptr() == gradients[name].data_ptr(), name


@torch.no_grad()
def test_a_backup_is_everything() -> None:
    network = made()
    parameters = flat(network)
    vectors = [one for one in parameters.optimizer if isinstance(one, torch.Tensor)]
    everything = (*vectors, *network.buffers())
    for number, tensor in enumerate(everything):
        tensor.fill_(number + 1)
    backup = parameters.backup()
    for tensor in everything:
        tensor.fill_(torch.nan if tensor.is_floating_point() else 99)
    assert not parameters.finite()
    parameters.restore(backup)
    assert parameters.finite()
    assert all((tensor == number + 1).all() for number, tensor in enumerate(everything))


@torch.no_grad()
def test_state_makes_another_module_the_same() -> None:
    first, second = flat(made(1)), flat(made(2))
    for number, tensor in enumerate((first.optimizer.exp_avg, first.optimizer.exp_avg_sq, first.optimizer.step)):
        tensor.fill_(number + 5)
    state = first.state()
    first.optimizer.exp_avg.zero_()
    second.load(state)
    torch.testing.assert_close(second.module.state_dict(), first.module.state_dict(), rtol=0.0, atol=0.0)
    assert (second.optimizer.exp_avg == 5).all()
    assert (second.optimizer.exp_avg_sq == 6).all()
    assert int(second.optimizer.step) == 7
    assert "model.memories.0.seen.weight" in state


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("model.action.bias", None, "has no tensor 'model.action.bias'; it was written by another kind of trainer"),
        ("optimizer.exp_avg", None, "has no tensor 'optimizer.exp_avg'"),
        ("normalizer.mean", None, "has no tensor 'normalizer.mean'"),
        ("model.value.bias", np.zeros(3, np.float32), r"has shape \[3\], but the settings ask for \[1\]"),
        ("model.value.bias", np.array([np.nan], np.float32), r"'model\.value\.bias' of the checkpoint holds NaN"),
    ],
)
@torch.no_grad()
def test_what_does_not_fit_changes_nothing(name: str, value: np.ndarray | None, said: str) -> None:
    state, other = flat(made(1)).state(), flat(made(2))
    before = other.state()
    del state[name]
    if value is not None:
        state[name] = value
    with pytest.raises(CheckpointError, match=said):
        other.load(state)
    np.testing.assert_equal(other.state(), before)


OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter], float], torch.optim.Optimizer]] = {
    "adam": lambda weights, rate: torch.optim.Adam(weights, lr=rate),
    "adamw": lambda weights, rate: torch.optim.AdamW(weights, lr=rate),
    "nadam": lambda weights, rate: torch.optim.NAdam(weights, lr=rate),
    "rmsprop": lambda weights, rate: torch.optim.RMSprop(weights, lr=rate),
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate),
}


def descend(parameters: FlatParameters, generator: torch.Generator, *, scripted: bool) -> None:
    """A step along a gradient that is smaller than the one before, so that momentum shows."""
    optimizer = parameters.optimizer
    optimizer.gradient.copy_(torch.randn(optimizer.gradient.shape, generator=generator) / (1 + optimizer.step))
    if scripted:
        optimizer.step.add_(1)
        torch.jit.script(optimizer_step)(optimizer, 1e-2, int(optimizer.step))
    else:
        parameters.descend(1e-2)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("kind", OPTIMIZERS)
@torch.no_grad()
def test_every_optimizer_is_torchs(kind: str, scripted: bool) -> None:
    assert OPTIMIZERS.keys() == set(get_args(Optimizer))
    module = torch.nn.Linear(16, 3, bias=False)
    parameters = flat(module, optimizer=kind)
    copy = torch.nn.Parameter(parameters.optimizer.parameters.clone())
    reference = OPTIMIZERS[kind]([copy], 1e-2)
    generator = torch.Generator().manual_seed(3)
    for step in range(20):
        if step == 10:  # another goes on from its state
            state, parameters = parameters.state(), flat(torch.nn.Linear(16, 3, bias=False), optimizer=kind)
            parameters.load(state)
        before = generator.get_state()
        descend(parameters, generator, scripted=scripted)
        generator.set_state(before)
        copy.grad = torch.randn(copy.shape, generator=generator) / (1 + parameters.optimizer.step - 1)
        reference.step()
        torch.testing.assert_close(parameters.optimizer.parameters, copy.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "nadam", "rmsprop", "sgd"])
def test_parts_take_steps_of_their_own_and_what_is_not_learned_stays(optimizer: Any) -> None:
    """A target network is neither learned nor made smaller by weight decay."""
    module = torch.nn.ModuleDict({name: torch.nn.Linear(3, 2) for name in ("target", "q", "actor")})
    module["target"].requires_grad_(False)
    numbers = PPOHyperparameters(optimizer=optimizer, weight_decay=0.5)
    whole, parted = (
        FlatParameters(copy.deepcopy(module), torch.device("cpu"), numbers, parts)
        for parts in (("",), ("actor.", "q.", "target."))
    )
    before = {name: values.clone() for name, values in whole.module.state_dict().items()}
    for _ in range(3):
        for one in (whole, parted):
            one.optimizer.gradient.fill_(0.25)
            for name, values in one.views(one.optimizer.gradient).items():
                values.mul_(0.0 if name.startswith("target") else 1.0)
        whole.descend(0.1)
        step = int(parted.optimizer.step.add_(1))
        for prefix in ("q.", "actor."):
            optimizer_step(parted.part(prefix), 0.1, step)
    after = whole.module.state_dict()
    for name, values in parted.module.state_dict().items():
        torch.testing.assert_close(values, after[name])
        assert torch.equal(values, before[name]) == name.startswith("target")
    assert parted.span("actor.", "q.").stop == parted.span("target.").start


def test_a_step_does_not_import_torchs_compiler() -> None:
    """It takes most of a second, with which every run would begin."""
    code = """
import sys
import torch
from tau_trainer.algorithms.parameters import FlatParameters
FlatParameters(torch.nn.Linear(2, 2), torch.device("cpu")).descend(1e-3)
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S)


def test_a_span_ends_after_its_last_parameter_also_where_one_of_no_numbers_shares_its_place() -> None:
    part = torch.nn.Module()
    for name, shape in {"weight": (3, 3), "empty": (0,), "bias": (5,)}.items():
        part.register_parameter(name, torch.nn.Parameter(torch.ones(shape)))
    module = torch.nn.Module()
    module.part = part
    parameters = FlatParameters(module, torch.device("cpu"), PPOHyperparameters())
    assert float(parameters.optimizer.parameters[parameters.span("part.")].sum()) == 9 + 5
