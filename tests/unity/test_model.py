"""The policy that lies in the Unity project answers held-out questions, and Unity would load it without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tau_trainer.export.session import run_feed, session_of
from tau_trainer.models import tensor_names as names
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, FloatArray, ObservationSpec
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.evaluation import evaluate
from tau_trainer.tau.profiles import EMBEDDING_SIZE, PROFILES
from tests.export.unity_check import unity_check

PROJECT = Path(__file__).parents[2] / "unity_project"
MODEL = PROJECT / "Assets" / "Tau" / "Resources" / "Models" / "TauAgent.onnx"
SPEC = BehaviorSpec(
    "TauAgent?team=0",
    (ObservationSpec(f"VectorSensor_size{EMBEDDING_SIZE}", (EMBEDDING_SIZE,), (DimensionProperty.NONE,)),),
    ActionSpec(continuous_size=3),
)
"""The agent of the inference scene: it has no sensor `target`."""
LARGEST = 500_000
"""Bytes: a model in a repository stays small."""


def act(prompts: FloatArray) -> FloatArray:
    """The deterministic output, which the inference scene asks for."""
    session = session_of(MODEL.read_bytes())
    outputs = run_feed(session, {names.observation_name(0): prompts})
    return np.asarray(outputs["deterministic_continuous_actions"], np.float32)


@pytest.mark.parametrize("deterministic", [False, True])
def test_unity_has_nothing_to_say_against_it(deterministic: bool) -> None:
    assert unity_check(MODEL, SPEC, deterministic=deterministic) == []
    assert MODEL.stat().st_size < LARGEST


def test_it_answers_held_out_questions_of_the_projects_own_data() -> None:
    """Which are those of the package: `test_unity_file.py` holds the project's file equal to it."""
    scores = evaluate(act, load_dataset(), PROFILES["tau3"])
    assert scores.beats_blind
    assert scores.accuracy > scores.baselines["ridge"].accuracy
    assert scores.accuracy_all > 0.9
