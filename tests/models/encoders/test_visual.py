from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.encoders.visual import with_middles
from tau_trainer.specs import ObservationSpec
from tests.algorithms.experience import HYBRID, behavior, ppo
from tests.algorithms.replayed import sac
from tests.models.encoders.images import UNITS, check, check_initial, images, made
from tests.networks import observations

LEAST = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5}


@pytest.mark.parametrize(("height", "width"), [(19, 84), (84, 19)])
def test_smaller_ones_are_refused_with_sensor_size_and_remedy(height: int, width: int) -> None:
    said = (
        rf"^sensor 'camera' sends images of {height} x {width} pixels \(height x width\), but vis_encode_type simple "
        r"needs at least 20 a side; make the sensor's images larger or choose another vis_encode_type \(.* resnet 15,"
    )
    with pytest.raises(SettingsError, match=said):
        made("simple", (3, height, width))


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_every_encoder_knows_its_least_side(name: str, least: int) -> None:
    assert made(name, (2, least, least))(images((2, least, least), 1)).shape == (1, UNITS)
    with pytest.raises(SettingsError, match=rf"vis_encode_type {name} needs at least {least} a side"):
        made(name, (3, least, least - 1))


@pytest.mark.parametrize("name", [*LEAST, "fully_connected"])
def test_initial_weights_are_ml_agents(name: str) -> None:
    check_initial(name, (3, 40, 44))


@pytest.mark.parametrize(("channels", "middle"), [(1, 0.5), (2, 0.0), (3, 0.5), (6, 0.0)])
def test_images_of_cameras_are_seen_around_0_and_planes_as_they_are(channels: int, middle: float) -> None:
    shape = channels, 4, 5
    encoder = made("fully_connected", shape)
    x = images(shape).flatten(1) / 255 - middle
    expected = torch.nn.functional.leaky_relu(x @ encoder.dense.weight.T + encoder.dense.bias, 0.01)
    torch.testing.assert_close(check(encoder, shape), expected.detach())
    assert {name for name, _ in encoder.named_parameters()} == {"dense.weight", "dense.bias"}


def test_weights_of_an_earlier_version_see_images_as_they_did_then() -> None:
    first, second, another = "encoders.0.images.0.middle", "encoders.0.images.1.middle", "user.middle"
    found = with_middles([first, second, another], {second: np.full((), 0.5, np.float32)})
    assert {name: values.tolist() for name, values in found.items()} == {first: 0.0, second: 0.5}


@pytest.mark.parametrize("make", [ppo, sac])
def test_a_checkpoint_of_an_earlier_version_sees_images_as_it_did_then(make: Any) -> None:
    spec = behavior(HYBRID, ObservationSpec("camera", (3, 20, 20), dtype=np.uint8))
    earlier, later, rng = make(spec, seed=2), make(spec), np.random.default_rng(0)
    (arrays, metadata), weights, seen = earlier.state(), earlier.weights(), observations(spec, 3)
    unmoved = [{name: found[name] for name in found if not name.endswith(".middle")} for found in (arrays, weights)]
    assert len(unmoved[0]) < len(arrays)
    later.load(unmoved[0], metadata, fresh=False)
    now, then, again = (
        policy.act(seen, None, rng, deterministic=True).continuous
        for policy in (earlier.snapshot(), earlier.policy(unmoved[1], 0), later.snapshot())
    )
    np.testing.assert_array_equal(again, then)
    assert not np.array_equal(now, then)
