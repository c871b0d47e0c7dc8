from __future__ import annotations

import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.blocks import drawn_from, encoder_name, make_encoder
from tau_trainer.settings import MemorySettings, NetworkSettings
from tests.networks import IMAGE, LIST, CountingMemory, ToyImage, ToyList, unplug


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


def test_a_memory_that_knows_single_steps_goes_through_sequences() -> None:
    """What comes out of this one is the number of decisions before, on top of what the state says."""
    memory = CountingMemory(1, MemorySettings(memory_size=2))
    begins = torch.tensor([True, False, False, True, True, False])
    state = torch.tensor([[5.0, 0.0]]).expand(6, -1)
    found = memory.unrolled(torch.zeros(6, 1), state, begins)
    assert found.tolist() == [[5.0, 0.0], [6.0, 1.0], [7.0, 2.0], [5.0, 0.0], [5.0, 0.0], [6.0, 1.0]]


def test_blocks_that_initialise_themselves_follow_the_generator() -> None:
    def draw(seed: int) -> torch.Tensor:
        with drawn_from(torch.Generator().manual_seed(seed)):
            return torch.rand(5)

    before = torch.random.get_rng_state()
    first, again, other = draw(1), draw(1), draw(2)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own random numbers are left alone"
