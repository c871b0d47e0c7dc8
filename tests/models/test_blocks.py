from __future__ import annotations

import threading

import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.models.blocks import drawn_from, kind_of, make_encoder, make_list_encoder
from tau_trainer.settings import MemorySettings, NetworkSettings
from tau_trainer.specs import DimensionProperty, ObservationSpec
from tests.networks import IMAGE, LIST, CountingMemory, ToyImage, ToyLists
from tests.waiting import HANG_S

NONE, SHIFTED, VARIABLE = (
    DimensionProperty.NONE,
    DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
    DimensionProperty.VARIABLE_SIZE,
)


@pytest.mark.parametrize(
    ("shape", "properties", "kind"),
    [
        ((4,), (), "vector"),
        ((4,), (NONE,), "vector"),
        ((3, 20, 30), (), "image"),
        ((3, 20, 30), (DimensionProperty.UNSPECIFIED,) * 3, "image"),
        ((3, 20, 30), (NONE, SHIFTED, SHIFTED), "image"),
        ((5, 4), (VARIABLE, NONE), "list"),
    ],
)
def test_what_a_sensor_is(shape: tuple[int, ...], properties: tuple[DimensionProperty, ...], kind: str) -> None:
    assert kind_of(ObservationSpec("sensor", shape, properties)) == kind


@pytest.mark.parametrize(
    ("shape", "properties"),
    [
        ((), ()),
        ((5, 4), ()),
        ((5, 4), (NONE, NONE)),
        ((20, 30, 3), (SHIFTED, SHIFTED, NONE)),
        ((5, 4, 3), (VARIABLE, NONE)),
        ((1, 2, 3, 4), ()),
    ],
)
def test_what_no_network_reads_is_named(shape: tuple[int, ...], properties: tuple[DimensionProperty, ...]) -> None:
    said = rf"^sensor 'odd' of shape \({', '.join(map(str, shape))}\) is neither a vector, nor an image .*; flatten it"
    with pytest.raises(SettingsError, match=said):
        kind_of(ObservationSpec("odd", shape, properties))


@pytest.mark.usefixtures("toys")
def test_plugged_in_encoders_are_found() -> None:
    assert isinstance(make_encoder(IMAGE, NetworkSettings()), ToyImage)
    assert isinstance(make_list_encoder([LIST, LIST], 7, NetworkSettings()), ToyLists)


def test_a_memory_that_knows_single_steps_goes_through_sequences() -> None:
    """What comes out of this one is the number of decisions before, on top of what the state says."""
    memory = CountingMemory(1, MemorySettings(memory_size=2))
    begins = torch.tensor([True, False, False, True, True, False])
    state = torch.tensor([[5.0, 0.0]]).expand(6, -1)
    found = memory.unrolled(torch.zeros(6, 1), state, begins)
    assert found.tolist() == [[5.0, 0.0], [6.0, 1.0], [7.0, 2.0], [5.0, 0.0], [5.0, 0.0], [6.0, 1.0]]


def test_threads_draw_one_after_the_other() -> None:
    """Two runs of one process make their networks at the same time; each begins as if it were alone."""
    drawn, before = list[torch.Tensor](), torch.random.get_rng_state()
    with drawn_from(torch.Generator().manual_seed(1)):
        alone = [torch.rand(3), torch.rand(3)]

    inside, enough = threading.Event(), threading.Event()

    def draw_beside() -> None:
        with drawn_from(torch.Generator().manual_seed(2)):
            inside.set()
            enough.wait(HANG_S)

    beside = threading.Thread(target=draw_beside)
    with drawn_from(torch.Generator().manual_seed(1)):
        drawn.append(torch.rand(3))
        beside.start()
        assert not inside.wait(0.05)
        drawn.append(torch.rand(3))
        enough.set()
    beside.join()
    assert inside.is_set()
    assert all(torch.equal(one, other) for one, other in zip(alone, drawn, strict=True))
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own random numbers are left alone"
