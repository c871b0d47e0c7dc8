from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.models.observation_encoder import ObservationEncoder, make_encoders
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, ObservationType
from tests.networks import IMAGE, LIST

FIRST, SECOND = ObservationSpec("first", (3,)), ObservationSpec("second", (2,))
GOAL = ObservationSpec("goal", (2,), (), ObservationType.GOAL_SIGNAL)
SEEN_GOAL = ObservationSpec("target", IMAGE.shape, (), ObservationType.GOAL_SIGNAL, np.uint8)
LISTED_GOAL = ObservationSpec("wanted", LIST.shape, LIST.dimension_property, ObservationType.GOAL_SIGNAL)


def behavior(*sensors: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec("Walker", sensors, ActionSpec(1))


def encoder_of(*sensors: ObservationSpec, **settings: Any) -> ObservationEncoder:
    return ObservationEncoder(behavior(*sensors), NetworkSettings(**settings))


def inputs_of(*sensors: ObservationSpec, rows: int = 4) -> list[torch.Tensor]:
    """What a network's `prepare` makes of observations."""
    vectors = sum(sensor.size for sensor in sensors if len(sensor.shape) == 1)
    others = [sensor for sensor in sensors if len(sensor.shape) > 1]
    images = [torch.randint(0, 256, (rows, *s.shape), dtype=torch.uint8) for s in others if len(s.shape) == 3]
    lists = [torch.randn(rows, *s.shape) for s in others if len(s.shape) == 2]
    return [torch.randn(rows, vectors), *((images if len(s.shape) == 3 else lists).pop(0) for s in others)]


@pytest.mark.usefixtures("toys")
def test_features_are_vectors_then_images_then_lists() -> None:
    sensors = LIST, FIRST, IMAGE, SECOND, LIST, IMAGE
    encoder, inputs = encoder_of(*sensors), inputs_of(*sensors)
    vectors, first_list, first_image, second_list, second_image = inputs
    features, goal = encoder(inputs)
    own = torch.cat([vectors, encoder.images[0](first_image), encoder.images[1](second_image)], dim=1)
    assert encoder.lists is not None
    torch.testing.assert_close(features, torch.cat([own, encoder.lists([first_list, second_list], own)], dim=1))
    assert features.shape == (4, encoder.size)
    assert goal.shape == (4, encoder.goal_size) == (4, 0)


@pytest.mark.usefixtures("toys")
def test_goals_are_parts_of_the_features() -> None:
    sensors = GOAL, IMAGE, FIRST, SEEN_GOAL, GOAL
    encoder, inputs = encoder_of(*sensors), inputs_of(*sensors)
    features, goal = encoder(inputs)
    vectors = inputs[0]
    expected = torch.cat([vectors[:, :2], vectors[:, 5:7], encoder.images[1](inputs[2])], dim=1)
    torch.testing.assert_close(goal, expected)
    assert encoder.goal_size == 4 + 5
    assert features.shape[1] == 7 + 5 + 5, "goals are seen as everything else is, too"


@pytest.mark.usefixtures("toys")
def test_no_gradient_flows_to_a_goal_of_vectors() -> None:
    """So that rows that share one can be told (`hyper.py`)."""
    assert not encoder_of(GOAL, IMAGE)(inputs_of(GOAL, IMAGE)).goal.requires_grad
    assert encoder_of(SEEN_GOAL)(inputs_of(SEEN_GOAL)).goal.requires_grad


@pytest.mark.usefixtures("toys")
def test_vectors_alone_need_no_encoder_unless_one_makes_weights() -> None:
    def made(settings: NetworkSettings, *sensors: ObservationSpec) -> tuple[int, int, int]:
        encoders, size, goal = make_encoders(behavior(*sensors), settings, 2, torch.Generator().manual_seed(0))
        return len(encoders), size, goal

    hyper, none = NetworkSettings(), NetworkSettings(goal_conditioning_type="none")
    assert made(hyper, FIRST, SECOND) == (0, 5, 0)
    assert made(hyper, FIRST, GOAL) == (2, 5, 2)
    assert made(none, FIRST, GOAL) == (0, 5, 0)
    assert made(none, FIRST, SEEN_GOAL) == (2, 8, 0)
    assert made(hyper, FIRST, SEEN_GOAL) == (2, 8, 5)
