from __future__ import annotations

import math

import pytest
import torch

from tau_trainer.models import hyper as module
from tau_trainer.models.hyper import HyperLayer, make_body
from tau_trainer.settings import NetworkSettings

INPUTS, GOALS, UNITS = 5, 3, 8


def made(towers: int = 2) -> HyperLayer:
    generator = torch.Generator().manual_seed(0)
    layer = HyperLayer(INPUTS, GOALS, UNITS, towers, generator)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return layer


def expected(layer: HyperLayer, x: torch.Tensor, goal: torch.Tensor, tower: int) -> torch.Tensor:
    p = {name: value.detach()[tower] for name, value in layer.named_parameters()}
    for name in ("first", "second"):
        goal = goal @ p[f"{name}.weight"] + p[f"{name}.bias"]
        goal = goal * torch.sigmoid(goal)
    deviation = torch.sqrt(goal.var(dim=1, correction=0, keepdim=True) + 1e-5)
    goal = (goal - goal.mean(dim=1, keepdim=True)) / deviation
    weights = (goal @ p["made.weight"] + p["made.bias"]).view(-1, INPUTS, UNITS)
    answer = torch.einsum("ni,nio->no", x, weights) + p["bias"]
    if layer.normalized:
        deviation = torch.sqrt(answer.var(dim=1, correction=0, keepdim=True) + 1e-5)
        return ((answer - answer.mean(dim=1, keepdim=True)) / deviation).clamp(min=0.0)
    return answer * torch.sigmoid(answer)


def goals_of(rows: int, different: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    some = torch.randn(different, GOALS, generator=generator)
    return some[torch.arange(rows) * 7 % different]


@pytest.mark.parametrize("tower", [0, 1])
@pytest.mark.parametrize("different", [1, 3, 10, 20])
def test_weights_come_from_the_goal(different: int, tower: int) -> None:
    """Whether rows share goals or not."""
    layer, x, goal = made(), torch.randn(20, INPUTS), goals_of(20, different)
    for layer.normalized in (False, True):
        torch.testing.assert_close(layer(x, goal, tower), expected(layer, x, goal, tower), rtol=1e-4, atol=1e-5)


def test_shared_goals_make_their_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, sizes = made(), list[int]()
    inner = layer._weights

    def weights(goal: torch.Tensor, tower: int, frozen: bool) -> torch.Tensor:
        sizes.append(len(goal))
        return inner(goal, tower, frozen)

    monkeypatch.setattr(layer, "_weights", weights)
    layer(torch.randn(20, INPUTS), goals_of(20, 3), 0)
    layer(torch.randn(20, INPUTS), goals_of(20, 20), 0)
    assert sizes == [3, 20]
    monkeypatch.setattr(module, "_AT_ONCE", 8 * INPUTS * UNITS)
    whole = layer(torch.ones(20, INPUTS), goals_of(20, 10), 0)
    assert sizes[2:] == [8, 8, 4], "large weights are made a few rows at a time"
    torch.testing.assert_close(
        whole, expected(layer, torch.ones(20, INPUTS), goals_of(20, 10), 0), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("different", [2, 12])
def test_gradients_are_the_same_either_way(different: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(different)  # float32 is summed in another order, and one draw in thousands cancels
    x, goal = torch.randn(12, INPUTS), goals_of(12, different)
    gradients = []
    for grouped in (True, False):
        layer, given = made(), x.clone().requires_grad_()
        if not grouped:
            monkeypatch.setattr(module, "_by_goal", lambda *_: None)
        layer(given, goal, 1).square().sum().backward()
        assert given.grad is not None
        gradients.append([given.grad, *(parameter.grad for parameter in layer.parameters())])
    for first, second in zip(*gradients, strict=True):
        assert first is not None
        assert first.any()
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_a_goal_that_is_learned_gets_its_gradient() -> None:
    layer, x = made(), torch.randn(6, INPUTS)
    goal = goals_of(6, 1).requires_grad_()
    layer(x, goal, 0).square().sum().backward()
    assert goal.grad is not None
    assert goal.grad.any(dim=1).all(), "one for each row, though all have the same goal"


def test_together_is_every_tower_for_itself() -> None:
    layer, x = made(), torch.randn(2, 6, INPUTS)
    goals = [goals_of(6, 6), goals_of(6, 2)]
    both = layer.together(x, goals)
    for tower in range(2):
        torch.testing.assert_close(both[tower], layer(x[tower], goals[tower], tower))


@pytest.mark.parametrize("different", [2, 6])
def test_what_is_frozen_learns_nothing(different: int) -> None:
    layer, x = made(), torch.randn(2, 6, INPUTS, requires_grad=True)
    goals = [goals_of(6, different)] * 2
    frozen = layer.together(x, goals, frozen=True)
    torch.testing.assert_close(frozen, layer.together(x, goals))
    frozen.square().sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.any(dim=2).all()
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_initial_weights_are_ml_agents() -> None:
    layer = HyperLayer(50, 400, 30, 2, torch.Generator().manual_seed(0))
    assert layer.first.weight.std().item() == pytest.approx(1 / math.sqrt(400), rel=0.05)
    assert layer.second.weight.std().item() == pytest.approx(1 / math.sqrt(30), rel=0.05)
    bound = math.sqrt(1 / (30 * 50))
    assert 0.99 * bound < layer.made.weight.max().item() <= bound
    assert -bound <= layer.made.weight.min().item() < -0.99 * bound
    zero = {name for name, parameter in layer.named_parameters() if not parameter.any()}
    assert zero == {"first.bias", "second.bias", "made.bias", "bias"}
    again = HyperLayer(50, 400, 30, 2, torch.Generator().manual_seed(0))
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, dict(again.named_parameters())[name])


def test_the_last_layer_alone_is_made_from_the_goal() -> None:
    def body(goals: int, layers: int) -> tuple[int, tuple[int, int] | None]:
        settings = NetworkSettings(hidden_units=UNITS).model_copy(update={"num_layers": layers})
        layers_of, last = make_body(INPUTS, goals, settings, 2, torch.Generator().manual_seed(0))
        return len(layers_of), None if last is None else (last.inputs, last.size)

    assert body(0, 3) == (3, None)
    assert body(GOALS, 3) == (2, (UNITS, UNITS))
    assert body(GOALS, 1) == (0, (INPUTS, UNITS))
    assert body(GOALS, 0) == (0, None)
