from __future__ import annotations

import math

import pytest
import torch

from tau_trainer.models import ActorCritic
from tau_trainer.specs import ActionSpec

HYBRID = ActionSpec(2, (3, 4))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_forward_equals_plain_layers(layers: int, shared: bool) -> None:
    network = ActorCritic(
        observation_size=5, actions=HYBRID, hidden_units=7, num_layers=layers, values=2, shared_critic=shared
    )
    flat = network.layout.zeros()
    network.initialize(flat, torch.Generator().manual_seed(0))
    parameters, x = network.layout.views(flat), torch.randn(6, 5)
    outputs, values = network.forward(parameters, x)
    hidden = [x, x]
    for layer in range(layers):
        weight, bias = parameters[f"body.{layer}.weight"], parameters[f"body.{layer}.bias"]
        for tower in range(2):
            z = hidden[tower] @ weight[-tower] + bias[-tower, 0]
            hidden[tower] = z * torch.sigmoid(z)
    torch.testing.assert_close(outputs, hidden[0] @ parameters["action.weight"] + parameters["action.bias"])
    torch.testing.assert_close(values, hidden[1] @ parameters["value.weight"] + parameters["value.bias"])
    assert outputs.shape == (6, 2 + 7)
    assert values.shape == (6, 2)


def test_initial_weights_have_ml_agents_spread() -> None:
    network = ActorCritic(observation_size=400, actions=ActionSpec(200, (200,)), hidden_units=300, num_layers=2)
    flat = network.layout.zeros()
    network.initialize(flat, torch.Generator().manual_seed(1))
    parameters = network.layout.views(flat)
    for name, deviation in [("body.0.weight", 1 / math.sqrt(400)), ("body.1.weight", 1 / math.sqrt(300))]:
        assert parameters[name].std().item() == pytest.approx(deviation, rel=0.02)
    head = parameters["action.weight"]
    assert head[:, :200].std().item() == pytest.approx(0.2 / math.sqrt(300), rel=0.02)
    assert head[:, 200:].std().item() == pytest.approx(0.1 / math.sqrt(300), rel=0.02)
    assert parameters["value.weight"].abs().max().item() <= math.sqrt(6 / 301)
    for name in ("body.0.bias", "body.1.bias", "action.bias", "action.log_sigma", "value.bias"):
        assert not parameters[name].any()


def test_layout_keeps_parameters_apart_and_weights_first() -> None:
    layout = ActorCritic(observation_size=3, actions=HYBRID, hidden_units=5).layout
    flat = layout.zeros()
    for number, view in enumerate(layout.views(flat).values()):
        assert not view.any(), "parameters overlap"
        view.fill_(number + 1)
    assert int((flat != 0).sum()) == layout.parameter_count
    in_front = {name for name, offset in layout.offsets.items() if offset < layout.decayed_size}
    assert in_front == {"body.0.weight", "body.1.weight", "action.weight", "value.weight"}
    assert all(offset % 16 == 0 for offset in layout.offsets.values())


def test_layouts_compare_by_names_and_shapes() -> None:
    def make(units: int) -> ActorCritic:
        return ActorCritic(observation_size=3, actions=HYBRID, hidden_units=units)

    assert make(5).layout == make(5).layout
    assert make(5).layout != make(6).layout
    assert make(5).layout != "a layout"
