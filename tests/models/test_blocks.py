from __future__ import annotations

import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.blocks import drawn_from, encoder_name, make_encoder
from tau_trainer.settings import NetworkSettings
from tests.networks import IMAGE, LIST, ToyImage, ToyList, unplug


def test_names_of_encoders() -> None:
    assert encoder_name(IMAGE, NetworkSettings(vis_encode_type="resnet")) == "visual:resnet"
    assert encoder_name(LIST, NetworkSettings()) == "buffer"


@pytest.mark.usefixtures("toys")
def test_encoders_are_found_by_sensor() -> None:
    assert isinstance(make_encoder(IMAGE, NetworkSettings()), ToyImage)
    assert isinstance(make_encoder(LIST, NetworkSettings()), ToyList)


def test_a_sensor_that_no_encoder_reads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    unplug(monkeypatch)
    with pytest.raises(SettingsError, match=r"^sensor 'camera' has shape \(2, 4, 3\), and this version learns from"):
        make_encoder(IMAGE, NetworkSettings())


def test_blocks_that_initialise_themselves_follow_the_generator() -> None:
    def draw(seed: int) -> torch.Tensor:
        with drawn_from(torch.Generator().manual_seed(seed)):
            return torch.rand(5)

    before = torch.random.get_rng_state()
    first, again, other = draw(1), draw(1), draw(2)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own random numbers are left alone"
