from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tau_trainer.algorithms.ppo import PPO
from tau_trainer.errors import ExportError
from tau_trainer.settings import TrainerSettings
from tau_trainer.specs import ActionSpec
from tau_trainer.training.exporting import check_export, export_policy
from tests.training.fakes import vector_spec

SPEC = vector_spec(actions=ActionSpec(2, (3, 2)))
SETTINGS = TrainerSettings.model_validate({"network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True}})


def test_the_file_acts_as_the_policy(tmp_path: Path) -> None:
    policy = PPO(SPEC, SETTINGS, seed=3).snapshot()
    path = export_policy(policy, SPEC, tmp_path / "deep" / "Agent.onnx")
    session = onnxruntime.InferenceSession(str(path))
    obs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    inputs = {"obs_0": obs, "action_masks": np.ones((4, 5), np.float32)}
    continuous = session.run(["deterministic_continuous_actions"], inputs)[0]
    expected = policy.act((obs,), None, np.random.default_rng(0), deterministic=True).continuous
    np.testing.assert_allclose(continuous, np.clip(expected, -3, 3) / 3, atol=1e-5)


def test_a_check_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check_export(PPO(SPEC, SETTINGS, seed=3).snapshot(), SPEC)
    assert list(tmp_path.iterdir()) == []


def test_a_policy_of_another_behavior() -> None:
    with pytest.raises(ExportError):
        check_export(PPO(SPEC, SETTINGS, seed=3).snapshot(), vector_spec(actions=ActionSpec(4)))
