"""PNG files of any number of channels against Pillow and the reference's rules; what is refused, and what it costs."""

from __future__ import annotations

import struct
import time
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tau_trainer.bridge import images
from tau_trainer.bridge.images import SIGNATURE, ImageDecoder, ImageError, read_png, write_pngs
from tests.bridge.oracle import png, read_images, unity_png

SIZES = st.integers(1, 5)
Pixels = NDArray[np.uint8]


@st.composite
def pixels(draw: st.DrawFn, *shape: int) -> Pixels:
    size = int(np.prod(shape))
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8).reshape(shape)


@st.composite
def files(draw: st.DrawFn, height: int, width: int) -> tuple[bytes, int]:
    """Up to four PNG files of any 8-bit kind, and how many channels they have."""
    data, total = b"", 0
    kinds = draw(st.lists(st.sampled_from([1, 2, 3, 3, 3, 4]), min_size=1, max_size=4))
    for channels in kinds:
        image = draw(pixels(height, width, channels))
        data += png(image[:, :, 0] if channels == 1 else image, compress_level=draw(st.sampled_from([0, 1, 9])))
        data += draw(st.sampled_from([b"", b"", b"between"]))
        total += channels
    assume(data.count(SIGNATURE) == len(kinds))  # pixels that are stored as they are may look like a file's beginning
    return data, total


@given(st.data(), SIZES, SIZES)
def test_the_first_channels_are_kept_without_a_mapping(data: st.DataObject, height: int, width: int) -> None:
    sent, total = data.draw(files(height, width))
    channels = data.draw(st.integers(2, max(total, 2)))
    if total < channels:
        with pytest.raises(ImageError, match=f"of {total} channels, but its shape has {channels}"):
            ImageDecoder((channels, height, width)).decode([sent])
        return
    found = ImageDecoder((channels, height, width)).decode([sent])
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[0], read_images(sent, channels))


@given(st.data(), SIZES, SIZES)
def test_a_single_channel_is_the_mean_of_the_first_file(data: st.DataObject, height: int, width: int) -> None:
    sent, _ = data.draw(files(height, width))
    found, wanted = ImageDecoder((1, height, width)).decode([sent]), read_images(sent, 1)
    assert np.abs(found[0] - wanted).max() <= 0.5
    rounded = np.floor(wanted + 0.5)
    np.testing.assert_array_equal(found[0], rounded)


@given(st.data(), SIZES, SIZES)
def test_a_mapping_moves_averages_and_drops(data: st.DataObject, height: int, width: int) -> None:
    sent, total = data.draw(files(height, width))
    channels = data.draw(st.integers(1, total))
    spare = data.draw(st.lists(st.integers(-1, channels - 1), min_size=total - channels, max_size=total - channels))
    mapping = data.draw(st.permutations([*range(channels), *spare]))
    found = ImageDecoder((channels, height, width), mapping).decode([sent])
    np.testing.assert_array_equal(found[0], np.floor(read_images(sent, channels, mapping) + 0.5))


@given(st.data(), st.integers(0, 3), st.integers(1, 8), SIZES, SIZES)
def test_what_we_write_is_read_by_us_and_by_pillow(
    data: st.DataObject, n: int, channels: int, height: int, width: int
) -> None:
    given_ = data.draw(pixels(n, channels, height, width))
    written = write_pngs(given_)
    np.testing.assert_array_equal(ImageDecoder((channels, height, width)).decode(written), given_)
    for image, sent in zip(given_, written, strict=True):
        assert sent.count(SIGNATURE) == -(-channels // 3)
        np.testing.assert_array_equal(read_images(sent, channels), image)
        np.testing.assert_array_equal(ImageDecoder((channels, height, width)).decode([unity_png(image)])[0], image)


def test_many_agents_are_read_in_threads_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_cores", lambda: 3)
    given_ = np.random.default_rng(0).integers(0, 256, (17, 3, 60, 50), np.uint8)
    sent = write_pngs(given_)
    assert len(images._parts(sent)) == 3
    np.testing.assert_array_equal(ImageDecoder((3, 60, 50)).decode(sent), given_)
    sent[13] = b"nothing"
    with pytest.raises(ImageError) as refused:
        ImageDecoder((3, 60, 50)).decode(sent)
    assert refused.value.row == 13


def test_an_interlaced_file() -> None:
    """Adam7 of 2 x 2: the corner, the pixel right of it, and the second line, in three passes."""
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    passes = [image[0, :1], image[0, 1:], image[1]]
    raw = b"".join(b"\0" + part.tobytes() for part in passes)
    np.testing.assert_array_equal(read_png(file(2, 2, raw, interlaced=1), 0, 2, 2)[0], image)


@pytest.mark.parametrize("mapping", [[0, 1, 3], [0, -1, -1], [-2, 0, 1], [0, 1, 2], [1, 1, 1], [-1, -1, -1]])
def test_a_mapping_that_does_not_fill_the_shape(mapping: list[int]) -> None:
    with pytest.raises(ImageError, match=r"a channel mapping \[.*\], which does not fill the 2 of its shape"):
        ImageDecoder((2, 4, 4), mapping)


def test_a_long_mapping_is_not_printed_whole() -> None:
    with pytest.raises(ImageError) as refused:
        ImageDecoder((2, 4, 4), [7] * 100_000)
    assert len(str(refused.value)) < 200


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def file(width: int, height: int, raw: bytes, *, bits: int = 8, colour: int = 2, interlaced: int = 0) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


GOOD = png(np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8))
RAW = bytes(4 * 13)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "bytes that are not a PNG file"),
        (b"\xff\xd8\xff\xe0 a JPEG", "bytes that are not a PNG file"),
        (GOOD[:-5], "a PNG file that is cut short"),
        (GOOD[:20], "a PNG file that is cut short"),
        (SIGNATURE, "a PNG file that is cut short"),
        (SIGNATURE + struct.pack(">I", 2**31) + b"IHDR", "a PNG file that is cut short"),
        (SIGNATURE + chunk(b"IDAT", b"") + chunk(b"IEND", b""), "a PNG file without a header"),
        (SIGNATURE + chunk(b"IHDR", b"short"), "a PNG file without a header"),
        (GOOD[:50] + bytes([GOOD[50] ^ 1]) + GOOD[51:], "a damaged PNG file"),
        (GOOD[:30] + bytes([GOOD[30] ^ 1]) + GOOD[31:], "a damaged PNG file"),  # of the header's checksum
        (file(4, 4, RAW[:-1]), "a damaged PNG file"),
        (file(4, 4, b"\x09" + RAW[1:]), "a damaged PNG file"),
        (SIGNATURE + GOOD[8:33] + chunk(b"IEND", b""), "a damaged PNG file"),
        (file(5, 4, RAW), "a PNG file of 5 x 4 pixels, but its shape is 4 x 4"),
        (file(4, 4, RAW, bits=16), "a PNG file of color type 2 with 16 bits, not 8-bit gray, RGB or RGBA"),
        (file(4, 4, RAW, colour=3), "a PNG file of color type 3 with 8 bits"),
        (file(4, 4, RAW, interlaced=2), "a PNG file of color type 2"),
    ],
)
def test_what_is_refused(sent: bytes, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        ImageDecoder((3, 4, 4)).decode([GOOD, sent])


@given(st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        found = ImageDecoder((3, 4, 4)).decode([bytes(damaged)])
    except ImageError:
        return
    np.testing.assert_array_equal(found, ImageDecoder((3, 4, 4)).decode([GOOD]))


def bomb(height: int, width: int) -> bytes:
    """Black, a thousandth of its size."""
    return file(width, height, bytes(height * (1 + 3 * width)))


@pytest.mark.parametrize(
    ("shape", "mapping", "sent"),
    [
        ((3, 4, 4), [], [bomb(3000, 3000)]),
        ((3, 4, 4), [], [bomb(4, 4) * 20_000] * 20),
        ((3, 4, 4), [0, 1, 2], [bomb(4, 4) * 20_000] * 20),
        ((3, 4, 4), [], [file(4, 4, RAW + bytes(2**25))]),
        ((3, 2**15, 2**14), [], [file(2**14, 2**15, b"")]),
        ((3, 1000, 1000), [], [bomb(1000, 1000)] * 100),
    ],
    ids=["another size", "many files", "and a mapping", "too much in one", "a large shape", "many agents"],
)
def test_little_that_says_it_is_much_costs_little(shape: Any, mapping: list[int], sent: list[bytes]) -> None:
    decoder, began = ImageDecoder(shape, mapping), time.process_time()
    tracemalloc.start()
    try:
        decoder.decode(sent)
    except ImageError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2**21
    assert time.process_time() - began < 5.0


def test_a_message_has_room_for_as_many_bytes_as_it_may_have_itself() -> None:
    with pytest.raises(ImageError, match=r"100 images of 3,000,000 bytes each, more than 268,435,456 bytes in one"):
        ImageDecoder((3, 1000, 1000)).decode([b""] * 100)
    with pytest.raises(ImageError, match=r"2 images of 300,000,000 bytes each"):
        ImageDecoder((1, 1000, 1000), [0] * 300).decode([b""] * 2)
