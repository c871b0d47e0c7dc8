"""One sensor of a message."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.bridge.agent_records import AgentLayout
from tau_trainer.bridge.codec import TrainerCodec
from tau_trainer.bridge.codec import parse_engine_message as parsed
from tau_trainer.bridge.package import ImageOrder
from tests.bridge.oracle import PACKED, UNPACKED, unity_png
from tests.bridge.sensing import CAMERA, FIRST, PICTURE, C, H, W, seen, step, through_indexer


@pytest.mark.parametrize("package", ["3.0.0", "4.0.0", "4.0.3", ""])
def test_png_and_one_channel_have_one_order_and_nothing_is_told(package: str) -> None:
    pixels = PICTURE.astype(np.uint8)
    grey = PICTURE[:1]
    message = step((*CAMERA, unity_png(pixels)), ("grey", (1, H, W), FIRST, grey.ravel().tolist()))
    (colours, found), notes = seen(package, message)
    np.testing.assert_array_equal(colours, pixels)
    np.testing.assert_array_equal(found, grey)
    assert notes == []


def test_images_without_another_order_are_not_turned_around() -> None:
    """That would be a copy for nothing."""
    info = PACKED.AgentInfos().value.add()
    for shape in ((1, H, W), (C, 1, 1), (C, H)):
        observation = info.observations.add(shape=shape, dimension_properties=FIRST[: len(shape)])
        observation.float_data.data.extend([0.5] * int(np.prod(shape)))
    layout = AgentLayout(info.SerializeToString(), ImageOrder(declared_last=True, written_last=True, settled=False))
    assert [(one.turned, one.unsettled) for one in layout.sensors] == [(False, False)] * 3


def test_a_sender_that_does_not_pack_its_numbers() -> None:
    codec = TrainerCodec()
    codec.images = ImageOrder(written_last=True)
    message = step((*CAMERA, through_indexer(PICTURE, last=True)), messages=UNPACKED)
    (batch,) = codec.steps(parsed(message))
    np.testing.assert_array_equal(batch.obs[0], PICTURE[None])
