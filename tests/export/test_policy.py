"""A model file at play does what the network does that it was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tau_trainer.errors import ExportError, NonFiniteError
from tau_trainer.export import export_onnx
from tau_trainer.export.build import build_model
from tau_trainer.export.policy import OnnxPolicy
from tau_trainer.models import tensor_names as names
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.export.conftest import MakeNetwork
from tests.networks import IMAGE, observations, policy_of

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("sensors", "actions"),
    [
        (((5,),), ActionSpec(2)),
        (((5,),), ActionSpec(0, (3, 2))),
        (((5,), IMAGE), ActionSpec(1, (4,))),
    ],
)
@pytest.mark.usefixtures("toys")
def test_it_acts_as_the_network_at_its_most_likely(
    network_of: MakeNetwork, tmp_path: Path, sensors: tuple[Any, ...], actions: ActionSpec
) -> None:
    network = network_of(sensors=sensors, continuous=actions.continuous_size, branches=actions.discrete_branches)
    path = export_onnx(policy_of(network), network.spec, tmp_path / "model.onnx")
    file, policy, obs = OnnxPolicy(path, network.spec), policy_of(network), observations(network.spec, 9)
    mask = np.random.default_rng(1).random((9, actions.mask_size)) < 0.3
    for forbidden in (None, mask):
        ours, theirs = file.act(obs, forbidden, RNG), policy.act(obs, forbidden, RNG, deterministic=True)
        np.testing.assert_allclose(ours.to_env().continuous, theirs.to_env().continuous, atol=1e-5)
        free = np.ones(9, np.bool_) if forbidden is None else _some_allowed(forbidden, actions.discrete_branches)
        np.testing.assert_array_equal(ours.to_env().discrete[free], theirs.to_env().discrete[free])


def _some_allowed(mask: Any, branches: tuple[int, ...]) -> Any:
    """Of branches that are forbidden as a whole a file says anything."""
    ends = np.cumsum(branches)
    parts = [~mask[:, end - size : end].all(axis=1) for end, size in zip(ends, branches, strict=True)]
    return np.all(parts, axis=0)


@pytest.mark.usefixtures("toys")
def test_what_it_remembers_is_carried_by_who_asks(network_of: MakeNetwork, tmp_path: Path) -> None:
    network = network_of(continuous=1, memory=MemorySettings(memory_size=6))
    path = export_onnx(policy_of(network), network.spec, tmp_path / "model.onnx")
    file, policy = OnnxPolicy(path, network.spec), policy_of(network)
    (column,) = file.state_columns
    state = {column.name: np.zeros((4, *column.shape), np.float32)}
    theirs = {each.name: np.zeros((4, *each.shape), np.float32) for each in policy.state_columns}
    for _ in range(3):
        obs = observations(network.spec, 4)
        ours, wanted = (
            file.act(obs, None, RNG, state=state),
            policy.act(obs, None, RNG, state=theirs, deterministic=True),
        )
        np.testing.assert_allclose(ours.to_env().continuous, wanted.to_env().continuous, atol=1e-5)
        state, theirs = dict(ours.state), dict(wanted.state)
    assert np.abs(state[column.name]).max() > 0.0


@pytest.mark.parametrize("actions", [ActionSpec(2), ActionSpec(0, (3, 2))])
def test_with_a_seed_it_draws(network_of: MakeNetwork, tmp_path: Path, actions: ActionSpec) -> None:
    network = network_of(continuous=actions.continuous_size, branches=actions.discrete_branches)
    path = export_onnx(policy_of(network), network.spec, tmp_path / "model.onnx")
    file, again, another = (OnnxPolicy(path, network.spec, seed) for seed in (7, 7, 8))
    assert not file.only_draws
    obs = tuple(np.repeat(values, 400, axis=0) for values in observations(network.spec, 1))
    ours, same, other = (one.act(obs, None, np.random.default_rng(1)).to_env() for one in (file, again, another))
    for name in ("continuous", "discrete"):
        drawn = getattr(ours, name)
        np.testing.assert_array_equal(drawn, getattr(same, name), "the same seed, the same actions")
        assert drawn.shape[1] == 0 or not np.array_equal(drawn, getattr(other, name))
    assert len(np.unique(file.act(obs, None, RNG, deterministic=True).continuous.round(5), axis=0)) <= 1
    assert len(np.unique(file.act(obs, None, RNG, deterministic=True).discrete, axis=0)) <= 1


def test_a_file_without_most_likely_actions_draws(network_of: MakeNetwork, tmp_path: Path) -> None:
    network = network_of(continuous=2)
    model = build_model(network, network.spec)
    kept = [output for output in model.graph.output if output.name != names.DETERMINISTIC_CONTINUOUS]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, tmp_path / "old.onnx")
    file, obs = OnnxPolicy(tmp_path / "old.onnx", network.spec), observations(network.spec, 3)
    assert file.only_draws
    first, second = (file.act(obs, None, RNG).continuous for _ in range(2))
    assert first.shape == (3, 2)
    assert (first != second).any()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (BehaviorSpec("B", (ObservationSpec("a", (7,)),), ActionSpec(2)), r"its 'obs_0' is \[5\], but the sensor's"),
        (BehaviorSpec("B", (), ActionSpec(2)), "it asks for 'obs_0', which the behavior does not have"),
        (BehaviorSpec("B", (ObservationSpec("a", (5,)),), ActionSpec(0, (2,))), "its actions are of another kind"),
        (BehaviorSpec("B", (ObservationSpec("a", (5,)),), ActionSpec(3)), "it has 2 continuous actions and 0 branches"),
    ],
)
def test_a_file_for_another_behavior_is_refused(
    network_of: MakeNetwork, tmp_path: Path, other: BehaviorSpec, said: str
) -> None:
    network = network_of(continuous=2)
    path = export_onnx(policy_of(network), network.spec, tmp_path / "model.onnx")
    with pytest.raises(ExportError, match=said):
        OnnxPolicy(path, other)


def test_what_is_no_file_or_no_number_is_told(network_of: MakeNetwork, tmp_path: Path) -> None:
    network = network_of(continuous=2)
    with pytest.raises(ExportError, match="cannot be read"):
        OnnxPolicy(tmp_path / "gone.onnx", network.spec)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ExportError, match="cannot load the model"):
        OnnxPolicy(tmp_path / "bad.onnx", network.spec)
    path = export_onnx(policy_of(network), network.spec, tmp_path / "model.onnx")
    file = OnnxPolicy(path, network.spec)
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        file.act((np.full((1, 5), np.nan, np.float32),), None, RNG)
    with pytest.raises(ExportError, match="without a network to train"):
        file.network()
