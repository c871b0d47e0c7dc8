"""environment_parameters: numbers, samplers, curricula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tau_trainer.settings import Curriculum, GaussianSampler, MultiRangeUniformSampler, UniformSampler
from tests.settings.reading import parse_settings


def parse(tmp_path: Path, value: object) -> Any:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump({"environment_parameters": {"p": value}}))
    parameters = parse_settings(path).environment_parameters
    assert parameters is not None
    return parameters["p"]


def sampler(kind: str, **parameters: object) -> dict[str, object]:
    return {"sampler_type": kind, "sampler_parameters": parameters}


@pytest.mark.parametrize(
    ("written", "value"), [(3, 3.0), (2.5, 2.5), ("1e-3", 1e-3), (sampler("constant", value=4), 4)]
)
def test_a_constant_is_a_number(tmp_path: Path, written: object, value: float) -> None:
    read = parse(tmp_path, written)
    assert read == value
    assert type(read) is float


def test_samplers_have_mlagents_defaults(tmp_path: Path) -> None:
    uniform = parse(tmp_path, sampler("uniform"))
    assert isinstance(uniform, UniformSampler)
    assert uniform.sampler_parameters.model_dump() == {"seed": -1, "min_value": 0.0, "max_value": 1.0}
    gaussian = parse(tmp_path, sampler("gaussian", seed=3))
    assert isinstance(gaussian, GaussianSampler)
    assert gaussian.sampler_parameters.model_dump() == {"seed": 3, "mean": 1.0, "st_dev": 1.0}
    ranges = parse(tmp_path, sampler("multirangeuniform", intervals=[[0, 1], [3, "4"]]))
    assert isinstance(ranges, MultiRangeUniformSampler)
    assert ranges.sampler_parameters.intervals == ((0.0, 1.0), (3.0, 4.0))


@pytest.mark.parametrize("value", [2.0, sampler("constant", seed=5, value=2)])
def test_a_curriculum_of_one_lesson_is_its_value(tmp_path: Path, value: object) -> None:
    """The form in which mlagents-learn writes constants and samplers."""
    assert parse(tmp_path, {"curriculum": [{"name": "p", "value": value, "completion_criteria": None}]}) == 2.0


def test_a_curriculum_keeps_its_lessons(tmp_path: Path) -> None:
    criteria = {"behavior": "A", "measure": "progress", "threshold": 0.5}
    lessons = [
        {"name": "one", "value": 1, "completion_criteria": criteria},
        {"name": "two", "value": sampler("uniform"), "completion_criteria": {"behavior": "A", "threshold": 9}},
    ]
    curriculum = parse(tmp_path, {"curriculum": lessons})
    assert isinstance(curriculum, Curriculum)
    first, last = curriculum.curriculum
    assert first.value == 1.0
    assert isinstance(last.value, UniformSampler)
    assert first.completion_criteria is not None
    assert first.completion_criteria.signal_smoothing is True
    # Criteria of the last lesson have no effect, as in ML-Agents, but are kept.
    assert last.completion_criteria is not None
