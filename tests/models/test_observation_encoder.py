from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.observation_encoder import ObservationEncoder, make_encoders, sensors_of
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tests.models.graphs import run_graph
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


def test_lists_are_embedded_beside_everything_else() -> None:
    encoder = encoder_of(LIST, FIRST, SECOND)
    (own,) = [layer for name, layer in encoder.named_modules() if name == "lists.own"]
    assert isinstance(own, torch.nn.Linear)
    assert own.in_features == 5
    assert encoder.size == 5 + 128
    alone = encoder_of(LIST)
    assert "lists.own.weight" not in alone.state_dict()
    inputs = inputs_of(LIST)
    inputs[0] = torch.zeros(4, 0)
    assert alone(inputs).features.shape == (4, 128)


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
def test_a_goal_may_be_a_list() -> None:
    encoder, inputs = encoder_of(FIRST, LISTED_GOAL), inputs_of(FIRST, LISTED_GOAL)
    features, goal = encoder(inputs)
    assert torch.equal(goal, features[:, 3:])


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    "sensors",
    [(IMAGE,), (LIST,), (FIRST, LIST), (GOAL, FIRST), (LIST, GOAL, IMAGE, SEEN_GOAL, FIRST, LISTED_GOAL)],
)
def test_the_graph_says_the_same(sensors: tuple[ObservationSpec, ...]) -> None:
    encoder, inputs = encoder_of(*sensors), inputs_of(*sensors)
    feed = {f"obs_{i}": one.numpy() / (255 if one.dtype == torch.uint8 else 1) for i, one in enumerate(inputs[1:])}
    feed = {name: values.astype(np.float32) for name, values in feed.items()}
    vectors = "vectors" if inputs[0].shape[1] else ""
    if vectors:
        feed[vectors] = inputs[0].numpy()

    def write(graph: Any) -> list[str]:
        features = encoder.write(graph, vectors, [name for name in feed if name.startswith("obs")])
        return [features, *([encoder.write_goal(graph, features)] if encoder.goal_size else [])]

    for found, expected in zip(run_graph(write, feed), encoder(inputs), strict=False):
        torch.testing.assert_close(torch.from_numpy(found), expected.detach())


def test_sensors_are_told_apart() -> None:
    assert sensors_of(behavior(LIST, FIRST, IMAGE, SECOND)) == ([1, 3], [0, 2])
    with pytest.raises(SettingsError, match="'table' of shape"):
        sensors_of(behavior(FIRST, ObservationSpec("table", (3, 4), (DimensionProperty.NONE,) * 2)))


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


@pytest.mark.usefixtures("toys")
def test_towers_begin_with_weights_of_their_own_from_the_generator() -> None:
    def made(seed: int) -> list[dict[str, torch.Tensor]]:
        encoders, *_ = make_encoders(behavior(IMAGE), NetworkSettings(), 2, torch.Generator().manual_seed(seed))
        return [encoder.state_dict() for encoder in encoders]

    (actor, critic), (again, _), (other, _) = made(0), made(0), made(1)
    for name, value in actor.items():
        assert torch.equal(value, again[name])
        assert not torch.equal(value, critic[name])
        assert not torch.equal(value, other[name])
