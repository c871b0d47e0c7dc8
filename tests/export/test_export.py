"""From a learner's policy to Unity's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.export import export_onnx
from tau_trainer.models import Policy
from tau_trainer.specs import ActionSpec
from tests.training.fakes import ppo_settings, vector_spec

SPEC = vector_spec(actions=ActionSpec(2, (3, 2)))


BODIES = {"hidden_units": 8, "num_layers": 1}, {"net_arch": [8, "b", "r6", "b"]}


@pytest.fixture(params=BODIES, ids=["layers", "net_arch"])
def policy(request: pytest.FixtureRequest) -> Policy:
    network = {**request.param, "normalize": True}
    return make_algorithm(Setup(SPEC, ppo_settings(network_settings=network), seed=3)).snapshot()


def test_the_file_acts_as_the_policy(policy: Policy, tmp_path: Path) -> None:
    path = export_onnx(policy, SPEC, tmp_path / "deep" / "Agent.onnx")
    session = onnxruntime.InferenceSession(str(path))
    obs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    inputs = {"obs_0": obs, "action_masks": np.ones((4, 5), np.float32)}
    continuous = session.run(["deterministic_continuous_actions"], inputs)[0]
    expected = policy.act((obs,), None, np.random.default_rng(0), deterministic=True).continuous
    np.testing.assert_allclose(continuous, np.clip(expected, -3, 3) / 3, atol=1e-5)
