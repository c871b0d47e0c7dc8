from __future__ import annotations

import threading

import numpy as np
import pytest

from tau_trainer.columns import Arrays
from tau_trainer.remote.channel import SharedBytes
from tau_trainer.remote.weights import WeightMemory, layout_of


def channels(count: int) -> tuple[WeightMemory, WeightMemory]:
    """Both ends of a channel for an odd lot of arrays."""
    weights: Arrays = {"a": np.zeros(count, np.float32), "b": np.zeros((3, 2), np.float64), "c": np.zeros(1, np.uint8)}
    here = SharedBytes()
    return WeightMemory(here, layout_of(weights)), WeightMemory(SharedBytes(here.place), layout_of(weights))


def weights_of(number: int, count: int) -> Arrays:
    return {
        "a": np.full(count, number, np.float32),
        "b": np.full((3, 2), number, np.float64),
        "c": np.full(1, number % 256, np.uint8),
    }


def test_what_was_written_last_is_read() -> None:
    writer, reader = channels(5)
    with pytest.raises(RuntimeError, match="no weights"):
        reader.read()
    for number in (1, 2, 3):
        writer.write(weights_of(number, 5), version=10 * number, opts=100 * number)
        got = reader.read()
        assert (reader.written, got.version, got.opts, reader.opts) == (number, 10 * number, 100 * number, 100 * number)
        for name, values in weights_of(number, 5).items():
            np.testing.assert_array_equal(got.arrays[name], values)
            assert got.arrays[name].dtype == values.dtype
            assert got.arrays[name].shape == values.shape
    got.arrays["a"][:] = -1.0
    assert reader.read().arrays["a"][0] == 3.0, "what was read is a copy"


def test_opts_are_told_between_two_versions() -> None:
    writer, reader = channels(5)
    writer.write(weights_of(1, 5), 1, 100)
    writer.tell(140)
    assert (reader.opts, reader.read().opts) == (140, 100)


def test_no_reader_ever_sees_half_of_a_write() -> None:
    """With a writer that never rests, whole versions are read, and never an older one than before."""
    count = 200_000
    writer, reader = channels(count)
    writer.write(weights_of(1, count), 1, 1)
    stop, written = threading.Event(), [1]

    def write() -> None:
        while not stop.is_set():
            written[0] += 1
            writer.write(weights_of(written[0], count), written[0], written[0])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = []
        for _ in range(150):
            got = reader.read()
            assert got.arrays["a"].min() == got.arrays["a"].max() == got.arrays["b"].min() == got.version == got.opts
            seen.append(got.version)
    finally:
        stop.set()
        thread.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 5, "the writer did write meanwhile"


def test_a_place_that_is_written_while_it_is_read_is_read_again() -> None:
    """The newest place is damaged as a writer twice ahead would leave it: the reader waits for what is whole."""
    writer, reader = channels(5)
    writer.write(weights_of(1, 5), 1, 1)
    place = writer._places[1]
    whole = bytes(place)
    place[64:68] = np.float32(7.0).tobytes()
    mended = threading.Timer(0.2, lambda: place.__setitem__(slice(None), whole))
    mended.start()
    assert reader.read().arrays["a"][0] == 1.0
    mended.join()
