from __future__ import annotations

import pytest

from tau_trainer.errors import SettingsError
from tests.models.encoders.images import UNITS, check_initial, images, made

LEAST = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5, "fully_connected": 1}


@pytest.mark.parametrize("name", LEAST)
def test_the_smallest_images_are_read(name: str) -> None:
    least = LEAST[name]
    assert made(name, (2, least, least))(images((2, least, least), 1)).shape == (1, UNITS)


@pytest.mark.parametrize(("height", "width"), [(19, 84), (84, 19)])
def test_smaller_ones_are_refused_with_sensor_size_and_remedy(height: int, width: int) -> None:
    said = (
        rf"^sensor 'camera' sends images of {height} x {width} pixels \(height x width\), but vis_encode_type simple "
        r"needs at least 20 a side; make the sensor's images larger or choose another vis_encode_type \(.* resnet 15,"
    )
    with pytest.raises(SettingsError, match=said):
        made("simple", (3, height, width))


@pytest.mark.parametrize("name", [name for name, least in LEAST.items() if least > 1])
def test_every_encoder_knows_its_least_side(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"vis_encode_type {name} needs at least {LEAST[name]} a side"):
        made(name, (3, LEAST[name], LEAST[name] - 1))


@pytest.mark.parametrize("name", LEAST)
def test_initial_weights_are_ml_agents(name: str) -> None:
    check_initial(name, (3, 40, 44))
