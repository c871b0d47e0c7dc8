from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tau_trainer.errors import ExportError, TauError
from tau_trainer.export import check_export, export_onnx
from tau_trainer.export.policy import OnnxPolicy
from tau_trainer.models import ActorCritic
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.export.policies import shifted
from tests.export.unity_check import unity_check
from tests.networks import IMAGE, LIST, policy_of

TARGET = ObservationSpec("target", (3,))


def export(network: ActorCritic, path: Path) -> Path:
    return export_onnx(policy_of(network), network.spec, path)


def test_nothing_appears_and_nothing_changes_on_failure(tmp_path: Path, network_of: MakeNetwork) -> None:
    network, path = network_of(continuous=2), tmp_path / "B.onnx"
    with pytest.raises(ExportError, match="differs"):
        export_onnx(shifted(network, 0.5), network.spec, path)
    assert list(tmp_path.iterdir()) == []
    export(network, path)
    before = path.read_bytes()
    with pytest.raises(ExportError, match="differs"):
        export_onnx(shifted(network, 0.5), network.spec, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["B.onnx"]
    with torch.no_grad():
        network.action.bias.add_(1.0)
    assert export(network, path).read_bytes() != before, "a newer model takes its place"


def test_a_failing_disk_leaves_nothing(
    tmp_path: Path, network_of: MakeNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TauError, match="No space left on device"):
        export(network_of(continuous=1), tmp_path / "B.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written(tmp_path: Path, network_of: MakeNetwork) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="Cannot create the folder of"):
        export(network_of(continuous=1), tmp_path / "file" / "B.onnx")


def test_an_export_can_be_tried(tmp_path: Path, network_of: MakeNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    network = network_of(continuous=1)
    check_export(policy_of(network), network.spec)
    with pytest.raises(ExportError, match="differs"):
        check_export(shifted(network, 0.5), network.spec)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("toys")
def test_the_policy_of_a_learner(tmp_path: Path, network_of: MakeNetwork) -> None:
    memory = MemorySettings(memory_size=6)
    network = network_of(3, (4, 2), ((384,), IMAGE, LIST), hidden_units=128, memory=memory)
    spec = replace(network.spec, observations=(*network.spec.observations, TARGET))
    path = export_onnx(policy_of(network), spec, tmp_path / "Tau.onnx")
    assert unity_check(path, spec) == unity_check(path, spec, deterministic=True) == []


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("seen", [TARGET, IMAGE])
def test_a_sensor_that_is_kept_for_learning_alone_is_an_input_without_effect(
    tmp_path: Path, network_of: MakeNetwork, seen: ObservationSpec
) -> None:
    """Unity rejects a model of which an optimiser has dropped an input."""
    sensors = ObservationSpec("achieved_goal", (2,), hidden=True), seen
    network = network_of(continuous=3, sensors=sensors)
    path = export(network, tmp_path / "B.onnx")
    model = onnx.load(path)
    assert [value.name for value in model.graph.input] == ["obs_0", "obs_1"]
    assert any("obs_0" in node.input for node in model.graph.node)
    assert unity_check(path, network.spec) == []


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("empty", "actions"), [((0,), (2, ())), ((0, 20, 20), (1, (3,))), ((4, 0), (2, ())), ((2, 0, 1), (1, (3,)))]
)
def test_a_sensor_of_size_0_is_no_input(
    tmp_path: Path,
    network_of: MakeNetwork,
    actions: tuple[int, tuple[int, ...]],
    empty: tuple[int, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Wherever it stands, seen or hidden; onnxruntime then says what the network says, as ``export_onnx`` checks."""
    blank = ObservationSpec(f"blank {empty} {actions}", empty)
    network = network_of(
        *actions, (replace(blank, name=f"{blank.name} first"), (5,), blank, IMAGE, (4,)), normalize=True
    )
    hidden = replace(blank, name=f"{blank.name} hidden")
    spec = replace(network.spec, observations=(*network.spec.observations, hidden, TARGET))
    for name in ("one", "two"):
        path = export_onnx(policy_of(network), spec, tmp_path / f"{name}.onnx")
    masks = ["action_masks"] if actions[1] else []
    assert [value.name for value in onnx.load(path).graph.input] == ["obs_1", "obs_3", "obs_4", "obs_6", *masks]
    said = [record.message for record in caplog.records]
    assert len(said) == 3, "of each once, though it was exported twice"
    assert said[1] == (
        f"sensor '{blank.name}' of behavior 'Test' has size 0, so the model has no input 'obs_2' for it; remove the "
        "sensor in the game"
    )
    played = OnnxPolicy(path, spec)
    obs = tuple(np.ones((3, *sensor.shape), sensor.dtype) for sensor in spec.observations)
    rng = np.random.default_rng(0)
    found = played.act(obs, None, rng, deterministic=True).to_env()
    wanted = policy_of(network).act(obs[:5], None, rng, deterministic=True).to_env()
    np.testing.assert_allclose(found.continuous, wanted.continuous, atol=1e-5)
    np.testing.assert_array_equal(found.discrete, wanted.discrete)
