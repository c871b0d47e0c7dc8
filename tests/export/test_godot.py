"""Models for Godot, run as the plugin runs them."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray

from tau_trainer.errors import ExportError
from tau_trainer.export import export_onnx
from tau_trainer.export.godot import build_godot_model, verify_godot
from tau_trainer.export.session import session_of
from tau_trainer.models import ActorCritic
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, NamedAction, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.networks import policy_of

JUMP, MOVE, FIRE, TURN = (
    NamedAction("jump", 2, True),
    NamedAction("move", 2, False),
    NamedAction("fire", 3, True),
    NamedAction("turn", 1, False),
)


def made(network_of: MakeNetwork, *named: NamedAction, **settings: Any) -> tuple[ActorCritic, BehaviorSpec]:
    """A random network for these actions of a game, and its behavior."""
    values = sum(action.size for action in named if not action.discrete)
    branches = tuple(action.size for action in named if action.discrete)
    network = network_of(values, branches, **settings)
    return network, replace(network.spec, actions=ActionSpec(values, branches, named))


def plugin(model: bytes, spec: BehaviorSpec, obs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The action of one agent by ``_extract_action_dict`` of the plugin's sync.gd, deterministic."""
    session = session_of(model)
    feed = {name: values[None] for name, values in obs.items()}
    output, state = session.run(["output", "state_outs"], {**feed, "state_ins": np.ones(1, np.float32)})
    assert state.tolist() == [1.0]
    named, chosen, at = spec.actions.named, {}, 0
    means_only = all(not action.discrete for action in named) and output.shape[1] == spec.actions.continuous_size
    for action in named:
        part = output[0, at : at + action.size]
        chosen[action.name] = int(part.argmax()) if action.discrete else np.clip(part, -1, 1).tolist()
        at += action.size * (1 if action.discrete or means_only else 2)
    assert at == output.shape[1]
    return chosen


@pytest.mark.parametrize(
    "named", [(MOVE, TURN), (JUMP, FIRE), (JUMP, MOVE, FIRE, TURN)], ids=["continuous", "discrete", "mixed"]
)
@pytest.mark.parametrize("head", [{}, {"squashed": True}, {"action_levels": 5}], ids=["clipped", "squashed", "levels"])
def test_the_plugin_takes_the_actions_of_the_policy(
    network_of: MakeNetwork, tmp_path: Path, named: tuple[NamedAction, ...], head: dict[str, Any]
) -> None:
    network, spec = made(network_of, *named, **head)
    path = export_onnx(policy_of(network), spec, tmp_path / "B.onnx")
    rng = np.random.default_rng(1)
    for _ in range(5):
        seen = rng.standard_normal((1, 5)).astype(np.float32)
        right = policy_of(network).act((seen,), None, rng, deterministic=True).to_env()
        found = plugin(path.read_bytes(), spec, {"sensor 0": seen[0]})
        discrete = [found[action.name] for action in named if action.discrete]
        continuous = [value for action in named if not action.discrete for value in found[action.name]]
        assert discrete == right.discrete[0].tolist()
        np.testing.assert_allclose(continuous, right.continuous[0], atol=1e-5)


def test_every_observation_is_an_input_whatever_its_name(network_of: MakeNetwork) -> None:
    sensors = ObservationSpec("mu", (3,)), ObservationSpec("obs_0", (2,))
    network, spec = made(network_of, MOVE, sensors=sensors)
    spec = replace(spec, observations=(ObservationSpec("target", (4,)), *spec.observations))  # hidden from the policy
    model = build_godot_model(network, spec)
    assert [value.name for value in model.graph.input] == ["target", "mu", "obs_0", "state_ins"]
    verify_godot(model.SerializeToString(), network, spec)
    assert len(
        plugin(model.SerializeToString(), spec, {s.name: np.ones(s.size, np.float32) for s in spec.observations})
    )


def test_a_file_holds_nothing_that_its_outputs_do_not_need(network_of: MakeNetwork) -> None:
    network, spec = made(network_of, JUMP, MOVE)
    model = build_godot_model(network, spec)
    assert {"RandomNormalLike", "Multinomial"}.isdisjoint(node.op_type for node in model.graph.node)
    used = {name for node in model.graph.node for name in node.input}
    assert {constant.name for constant in model.graph.initializer} <= used


def test_a_model_that_acts_otherwise_is_refused(network_of: MakeNetwork) -> None:
    network, spec = made(network_of, JUMP, MOVE)
    data = build_godot_model(network, spec).SerializeToString()
    with torch.no_grad():
        network.action.bias[0] += 0.5
    with pytest.raises(ExportError, match=r"'output' differs from the network"):
        verify_godot(data, network, spec)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"memory": MemorySettings(memory_size=8)}, "the plugin keeps no memory"),
        ({"sensors": (ObservationSpec("camera_2d", (3, 20, 20), dtype=np.uint8),)}, "'camera_2d' is none"),
    ],
)
def test_what_the_plugin_cannot_run_is_written_for_unity_and_said(
    network_of: MakeNetwork, tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], why: str
) -> None:
    network, spec = made(network_of, MOVE, **settings)
    spec = replace(spec, name=why)  # said once for each behavior
    with caplog.at_level(logging.WARNING):
        path = export_onnx(policy_of(network), spec, tmp_path / "B.onnx")
    assert onnx.load(path).graph.input[0].name == "obs_0"
    assert why in caplog.text
    with pytest.raises(ExportError, match=why):
        export_onnx(policy_of(network), spec, path, "godot")


def test_a_policy_of_another_engine_can_be_written_for_godot_and_the_reverse(
    network_of: MakeNetwork, tmp_path: Path
) -> None:
    network = network_of(continuous=2, branches=(3,))
    path = export_onnx(policy_of(network), network.spec, tmp_path / "B.onnx", "godot")
    assert onnx.load(path).graph.output[0].type.tensor_type.shape.dim[1].dim_value == 2 * 2 + 3
    network, spec = made(network_of, MOVE)
    path = export_onnx(policy_of(network), spec, tmp_path / "B.onnx", "unity")
    assert onnx.load(path).graph.input[0].name == "obs_0"
