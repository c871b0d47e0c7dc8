"""Stacks of images of more than three channels from packages before 4.1, which leave out files of empty frames."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tau_trainer.bridge import demonstrations
from tau_trainer.bridge.codec import TrainerCodec, parse_engine_message
from tau_trainer.bridge.demonstrations import RESERVED, read_demonstration
from tau_trainer.bridge.images import ImageDecoder, ImageError, write_pngs
from tau_trainer.bridge.protocol import DemonstrationMeta
from tau_trainer.bridge.records import delimited, varint
from tests.bridge.oracle import PACKED, png

SIZE = 3, 4
"""Height and width."""
Pixels = NDArray[np.uint8]


def blank(colour: int) -> bytes:
    """``CreateEmptyPNG``: one file of three channels, however many the frames have."""
    return png(np.full((*SIZE, 3), colour, np.uint8))


def mapping_of(frames: int, channels: int) -> list[int]:
    """``ConstructStackedCompressedChannelMapping``, of a sensor without a mapping of its own."""
    spare = [-1] * (-channels % 3)
    return [value for frame in range(frames) for value in (*range(frame * channels, (frame + 1) * channels), *spare)]


def sent(frames: Pixels, empty: int, colour: int) -> bytes:
    """``GetCompressedObservation`` of frames [S, c, H, W] of which the first are empty, before 4.1."""
    return blank(colour) * empty + b"".join(write_pngs(frames[empty:]))


@given(st.data(), st.integers(2, 5), st.integers(4, 10), st.sampled_from([0, 205]))
def test_missing_files_are_zeros(data: st.DataObject, frames: int, channels: int, colour: int) -> None:
    """However many frames are empty; the newest never is. Some files of real frames are black, as of grids they are."""
    empty = data.draw(st.integers(0, frames - 1))
    seed = data.draw(st.integers(0, 2**32 - 1))
    stack = np.random.default_rng(seed).integers(0, 256, (frames, channels, *SIZE), np.uint8)
    stack[data.draw(st.lists(st.booleans(), min_size=frames, max_size=frames)), :3] = 0
    decoder = ImageDecoder((frames * channels, *SIZE), mapping_of(frames, channels))
    (found,) = decoder.decode([sent(stack, empty, colour)])
    stack[:empty] = 0
    np.testing.assert_array_equal(found, stack.reshape(-1, *SIZE))
    assert decoder.filled == (empty > 0)


def test_the_stack_of_the_report() -> None:
    """Four frames of FoodCollector's grid of six channels: "15 channels but its mapping had 24"."""
    stack = np.full((4, 6, *SIZE), 9, np.uint8)
    decoder = ImageDecoder((24, *SIZE), mapping_of(4, 6))
    assert len(decoder._stacks) == 2, "four frames of two files, or two of four: the files say which"
    found = decoder.decode([sent(stack, 3, 0), sent(stack, 0, 0), sent(stack, 1, 0)])
    assert [int((image == 0).all(axis=(1, 2)).sum()) for image in found] == [18, 0, 6]


def test_a_frame_whose_own_mapping_drops_and_averages() -> None:
    own = [0, 0, -1, 1, 2, 3]
    mapping = [*own, *(i if i < 0 else i + 4 for i in own)]
    frame = np.random.default_rng(0).integers(0, 256, (2, *SIZE, 3), np.uint8)
    sent_ = blank(205) + png(frame[0]) + png(frame[1])
    (found,) = ImageDecoder((8, *SIZE), mapping).decode([sent_])
    (whole,) = ImageDecoder((8, *SIZE), mapping).decode(
        [png(np.zeros((*SIZE, 3), np.uint8)) * 2 + sent_[len(blank(205)) :]]
    )
    np.testing.assert_array_equal(found, whole)
    assert not found[:4].any()
    np.testing.assert_array_equal(found[5:], frame[1].transpose(2, 0, 1))


GOOD = np.random.default_rng(1).integers(0, 256, (3, 5, *SIZE), np.uint8)
"""Three frames of five channels: no other stack has that mapping."""
FILES = [write_pngs(frame[None])[0] for frame in GOOD]
GREY, OTHER = blank(205), blank(204)


@pytest.mark.parametrize(
    ("mapping", "data"),
    [
        (mapping_of(3, 5), b"".join(FILES)[len(png(GOOD[0, :3].transpose(1, 2, 0))) :]),  # the first lost a file
        (mapping_of(3, 5), GREY + OTHER + FILES[2]),  # two empty ones that differ
        (mapping_of(3, 5), GREY * 3),  # without the newest
        (mapping_of(3, 5), GREY + FILES[2]),  # one empty one too few
        (mapping_of(3, 5), FILES[1] + GREY + FILES[2]),  # an empty one that is not the oldest
        (mapping_of(3, 5), png(np.zeros((*SIZE,), np.uint8)) * 2 + FILES[2]),  # grey files
        ([*mapping_of(3, 5)[:-3], 14, 13, -1], GREY * 2 + FILES[2]),  # of no stack
        (mapping_of(5, 3), GREY * 4),  # of frames of one file, which is never missing
        ([], GREY * 2 + FILES[2]),  # without a mapping
    ],
)
def test_what_is_no_stack_with_empty_frames_is_refused(mapping: list[int], data: bytes) -> None:
    decoder = ImageDecoder((15, *SIZE), mapping)
    with pytest.raises(ImageError, match=r"^PNG files of \d+ channels, but its (channel mapping|shape) has (15|18)$"):
        decoder.decode([data])
    assert not decoder.filled


def message(*images: bytes) -> Any:
    infos = PACKED.AgentInfos()
    for number, image in enumerate(images):
        info = infos.value.add(id=number)
        seen = info.observations.add(name="StackingSensor_size3_Grid", compression_type=1, compressed_data=image)
        seen.shape.extend([15, *SIZE])
        seen.compressed_channel_mapping.extend(mapping_of(3, 5))
    return infos


SAID = (
    "sensor 'StackingSensor_size3_Grid' of behavior 'Food?team=0' stacks images of more than 3 channels, and the files "
    "of its empty, oldest frames are missing (bug 5790 of com.unity.ml-agents before 4.1); they are read as zeros"
)


def test_a_run_is_told_once() -> None:
    codec = TrainerCodec()
    for images in ([GREY * 2 + FILES[2]], [GREY + FILES[1] + FILES[2]], [b"".join(FILES)], [GREY * 2 + FILES[2]]):
        envelope = PACKED.UnityMessage()
        output = envelope.unity_output
        brain = output.rl_initialization_output.brain_parameters.add(brain_name="Food?team=0")
        brain.action_spec.num_continuous_actions = 1
        output.rl_output.agent_infos["Food?team=0"].CopyFrom(message(*images))
        (batch,) = codec.steps(parse_engine_message(envelope.SerializeToString()))
        assert batch.obs[0].shape == (1, 15, *SIZE)
    assert codec.notes == [SAID]


def test_a_recording_is_read_and_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    demonstrations._warn.cache_clear()
    path = tmp_path / "food.demo"
    brain = PACKED.UnityMessage().unity_output.rl_initialization_output.brain_parameters.add(brain_name="Food?team=0")
    brain.action_spec.num_continuous_actions = 1
    meta = DemonstrationMeta(api_version=1, number_steps=2).SerializeToString()
    records = b""
    for info in message(GREY * 2 + FILES[2], GREY + FILES[1] + FILES[2]).value:
        answer = delimited(6, np.zeros(1, np.float32).tobytes())
        pair = delimited(1, info.SerializeToString()) + delimited(2, answer)
        records += varint(len(pair)) + pair
    described = brain.SerializeToString()
    head = (bytes([len(meta)]) + meta).ljust(RESERVED, b"\0")
    path.write_bytes(head + varint(len(described)) + described + records)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = read_demonstration(path)
    assert [int((image == 0).all(axis=(1, 2)).sum()) for image in found.obs[0]] == [10, 5]
    assert [record.message for record in caplog.records] == [f"demonstration '{path}': {SAID}"]
