from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import LearnerError
from tau_trainer.remote.channel import Channel, SharedBytes
from tau_trainer.remote.process import Message

DTYPES = hnp.scalar_dtypes() | hnp.byte_string_dtypes(min_len=1) | hnp.unicode_string_dtypes(min_len=1)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
FACTS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text())


class Line:
    """Two channels that speak with each other; the first one opened it and owns the memory."""

    def __init__(self) -> None:
        self.memories = [SharedBytes()]
        self.memories.append(SharedBytes(self.memories[0].place))
        ends = zip((*os.pipe(), *os.pipe()), ("rb", "wb") * 2, strict=True)
        self.files = [os.fdopen(end, mode) for end, mode in ends]
        self.first = Channel(self.files[0], self.files[3], self.memories[0])
        self.second = Channel(self.files[2], self.files[1], self.memories[1])

    def carry(self, data: dict[str, Any], arrays: Arrays, *, through_memory: bool) -> Message:
        """Send by the first, receive by the second; a pipe does not hold everything, so both at once."""
        with ThreadPoolExecutor(1) as executor:
            sending = executor.submit(self.first.send, "kind", data, arrays, through_memory=through_memory)
            message, seconds = self.second.receive()
            assert seconds >= 0.0
            sending.result()
        return message

    def close(self) -> None:
        for file in self.files:
            with contextlib.suppress(OSError):
                file.close()
        self.memories[0].close()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


def same(sent: NDArray[Any], received: NDArray[Any]) -> None:
    assert (received.dtype, received.shape) == (sent.dtype, sent.shape)
    assert received.tobytes() == sent.tobytes()
    assert received.flags.aligned


@settings(max_examples=60)
@given(
    st.lists(st.tuples(FACTS, st.dictionaries(st.text(), ARRAYS, max_size=4), st.booleans()), min_size=1, max_size=4)
)
def test_any_arrays_come_back_equal(messages: list[tuple[dict[str, Any], dict[str, NDArray[Any]], bool]]) -> None:
    line = Line()
    for data, whole, through_memory in messages:
        arrays = {name: array.T if name > "a" else array for name, array in whole.items()}  # some are not contiguous
        kind, told, received = line.carry(data, arrays, through_memory=through_memory)
        assert (kind, told) == ("kind", data)
        assert list(received) == list(arrays)
        for name, sent in arrays.items():
            same(sent, received[name])
    line.close()


def test_memory_grows_and_what_came_before_stays(line: Line) -> None:
    sizes = [10, 2_000_000, 1_000, 3_000_000, 40_000_000]
    before = line.carry({}, {"x": np.full(10, 7.0)}, through_memory=True)[2]["x"]
    line.carry({}, {"x": np.ones(10)}, through_memory=True)
    assert before.tolist() == [1.0] * 10, "arrays in memory are not copied: that is what it is for"
    for size in sizes:
        sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        same(sent, line.carry({}, {"x": sent}, through_memory=True)[2]["x"])
    assert len(before) == 10, "it can still be read, though it holds what came after"


def test_memory_that_is_full_is_an_error_and_no_crash(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    line.carry({}, {"x": np.zeros(10)}, through_memory=True)
    for call in ("posix_fallocate", "ftruncate"):
        monkeypatch.setattr(os, call, full, raising=False)
    with pytest.raises(LearnerError, match=r"no room for the 8,[\d,]+ bytes .* \(No space left on device\); .*--shm"):
        line.first.send("kind", {}, {"x": np.zeros(1_000_000)}, through_memory=True)
    _, _, received = line.carry({}, {"x": np.ones(10)}, through_memory=True)
    assert received["x"].tolist() == [1.0] * 10


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="a file has holes there")
def test_there_is_room_behind_every_byte(line: Line) -> None:
    """A system that has no room left kills whoever writes into a hole."""
    line.memories[0].view(3_000_000)
    assert os.fstat(int(line.memories[0].place)).st_blocks * 512 >= 3_000_000


def test_messages_wait_in_order(line: Line) -> None:
    for number in range(5):
        line.first.send(f"kind {number}", {"number": number}, {"x": np.full(number, number)})
    for number in range(5):
        (kind, data, arrays), _ = line.second.receive()
        assert (kind, data, arrays["x"].tolist()) == (f"kind {number}", {"number": number}, [number] * number)


@pytest.mark.parametrize("cut", [0, 3, 8, 20, -1])
def test_the_other_end_is_gone_before_or_in_the_middle_of_a_message(line: Line, cut: int) -> None:
    line.second.send("kind", {"a": 1}, {"x": np.arange(30)})
    whole = os.read(line.files[0].fileno(), 100_000)
    os.write(line.files[1].fileno(), whole[:cut])
    line.files[1].close()
    with pytest.raises(EOFError):
        line.first.receive()


def test_nobody_listens(line: Line) -> None:
    line.files[2].close()
    with pytest.raises(OSError, match="pipe"):
        line.first.send("kind", {})
