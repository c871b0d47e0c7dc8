from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tau_trainer.errors import ExportError
from tau_trainer.export import Linear, PolicyGraph, export_onnx, unity_check
from tau_trainer.export.reference import forward
from tau_trainer.models import NormalizerState, Policy, PolicyWeights
from tau_trainer.specs import ActionSpec, BehaviorSpec, BoolArray, FloatArray, IntArray, ObservationSpec

MakeGraph = Callable[..., PolicyGraph]
BehaviorOf = Callable[[PolicyGraph], BehaviorSpec]


@dataclass
class Answer:
    continuous: FloatArray
    discrete: IntArray


@dataclass
class FakePolicy:
    """Acts as its graph says, plus ``shift``: the interface of a trained policy."""

    network: PolicyGraph
    shift: float = 0.0

    def graph(self) -> PolicyGraph:
        return self.network

    def act(
        self,
        obs: tuple[FloatArray, ...],
        mask: BoolArray | None,
        rng: np.random.Generator,
        deterministic: bool = False,
    ) -> Answer:
        assert deterministic
        answer = forward(self.network, obs, mask)
        return Answer((answer.mu.value + self.shift).astype(np.float32), answer.best().astype(np.int32))


def test_a_policy_is_exported_with_hidden_sensors(tmp_path: Path, make_graph: MakeGraph) -> None:
    policy = FakePolicy(make_graph(continuous=3, shapes=((5,),), normalize=True))
    spec = BehaviorSpec("Tau?team=0", (*policy.network.observations, ObservationSpec("target", (3,))), ActionSpec(3))
    path = tmp_path / "new" / "folder" / "Tau.onnx"
    assert export_onnx(policy, spec, path) == path
    assert [value.name for value in onnx.load(path).graph.input] == ["obs_0", "obs_1"]
    assert unity_check(path, spec) == []
    assert [p.name for p in path.parent.iterdir()] == ["Tau.onnx"]


def test_nothing_appears_and_nothing_changes_on_failure(
    tmp_path: Path, make_graph: MakeGraph, behavior_of: BehaviorOf
) -> None:
    graph = make_graph(continuous=2)
    path = tmp_path / "B.onnx"
    with pytest.raises(ExportError, match="differs"):
        export_onnx(FakePolicy(graph, shift=0.5), behavior_of(graph), path)
    assert list(tmp_path.iterdir()) == []
    export_onnx(graph, behavior_of(graph), path)
    before = path.read_bytes()
    with pytest.raises(ExportError, match="differs"):
        export_onnx(FakePolicy(graph, shift=0.5), behavior_of(graph), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["B.onnx"]


def test_a_newer_model_takes_the_place_of_the_older(
    tmp_path: Path, make_graph: MakeGraph, behavior_of: BehaviorOf
) -> None:
    graph = make_graph(branches=(3,))
    path = export_onnx(graph, behavior_of(graph), tmp_path / "B.onnx")
    before = path.read_bytes()
    head = graph.branches[0]
    export_onnx(replace(graph, branches=[Linear(head.weight, head.bias + 1)]), behavior_of(graph), path)
    assert path.read_bytes() != before


def test_a_failing_disk_leaves_nothing(
    tmp_path: Path, make_graph: MakeGraph, behavior_of: BehaviorOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    graph = make_graph(continuous=1)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ExportError, match="No space left on device"):
        export_onnx(graph, behavior_of(graph), tmp_path / "B.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written(tmp_path: Path, make_graph: MakeGraph, behavior_of: BehaviorOf) -> None:
    graph = make_graph(continuous=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="Cannot write the model"):
        export_onnx(graph, behavior_of(graph), tmp_path / "file" / "B.onnx")


def _real_policy(spec: BehaviorSpec, normalize: bool) -> Policy:
    rng = np.random.default_rng(1)

    def array(*shape: int) -> FloatArray:
        values: FloatArray = (rng.standard_normal(shape) * np.sqrt(2 / max(1, shape[0]))).astype(np.float32)
        return values

    size = sum(sensor.size for sensor in spec.observations)
    outputs = spec.actions.continuous_size + spec.actions.mask_size
    statistics = NormalizerState(array(size), np.full(size, 0.5, np.float32)) if normalize else None
    body = ((array(size, 128), array(128)), (array(128, 128), array(128)))
    weights = PolicyWeights(statistics, body, array(128, outputs), array(outputs), array(spec.actions.continuous_size))
    return Policy(spec, weights, version=1)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("actions", [ActionSpec(2), ActionSpec(3, (4, 2)), ActionSpec(0, (3,))])
def test_the_policy_of_a_learner(tmp_path: Path, actions: ActionSpec, normalize: bool) -> None:
    seen = (ObservationSpec("prompt", (384,)), ObservationSpec("state", (2, 3)))
    policy = _real_policy(BehaviorSpec("Tau?team=0", seen, actions), normalize)
    spec = BehaviorSpec("Tau?team=0", (*seen, ObservationSpec("target", (3,))), actions)
    path = export_onnx(policy, spec, tmp_path / "Tau.onnx")
    assert unity_check(path, spec) == unity_check(path, spec, deterministic=True) == []


def test_the_exporter_does_not_need_torch() -> None:
    code = "import sys, tau_trainer.export; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=50, check=False).returncode == 0


@pytest.mark.parametrize("size", [(8, 2), (384, 384)])
def test_sizes_of_real_tasks(
    tmp_path: Path, make_graph: MakeGraph, behavior_of: BehaviorOf, size: tuple[int, int]
) -> None:
    graph = make_graph(continuous=size[1], shapes=((size[0],),), hidden=(128, 128), normalize=True)
    assert export_onnx(graph, behavior_of(graph), tmp_path / "B.onnx").stat().st_size > 4 * 128 * 128
