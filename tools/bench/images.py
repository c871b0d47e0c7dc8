"""Images read from the wire, a second: one message of so many agents, each with an image and a vector.

    python tools/bench/images.py [--agents 1 16 64 --runs 5]

Columns: `zlib`, unpacking the files' data and nothing else; `Pillow`, each file to an array on one core, as
mlagents-envs begins; `ours`, the whole message to arrays; what an engine of ours needs to write it. Files are Pillow's,
whose lines are filtered as Unity's are; `scene` is shaded and noisy, `grid` has flat colours.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.bridge import agent_encoder
from tau_trainer.bridge.agent_encoder import AgentEncoder
from tau_trainer.bridge.agent_records import AgentDecoder
from tau_trainer.bridge.image_records import ImageSplitter
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, StepBatch, empty_terminals
from tools.bench import tables

SHAPES = ((3, 84, 84), (1, 64, 64))
SECONDS = 0.2

Pixels = NDArray[np.uint8]


def scene(shape: tuple[int, int, int], rng: np.random.Generator) -> Pixels:
    """Shades with a box in front of them, and a little noise."""
    channels, height, width = shape
    y, x = np.mgrid[:height, :width]
    shades = [128 + 100 * np.sin(x / 9 + k) + 20 * np.cos(y / 5) for k in range(channels)]
    image = np.array(shades).astype(np.uint8)
    image[:, 20:40, 10:30] = 200
    image += rng.integers(0, 4, shape, np.uint8)
    return image


def grid(shape: tuple[int, int, int], rng: np.random.Generator) -> Pixels:
    """A few boxes of one colour each on black."""
    image = np.zeros(shape, np.uint8)
    for y, x in rng.integers(0, shape[1] - 12, (6, 2)):
        image[:, y : y + 12, x : x + 12] = rng.integers(0, 255, (shape[0], 1, 1))
    return image


def main() -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--runs", type=int, default=5)
    tables.add_output(parser)
    arguments = parser.parse_args()
    results = [
        {"shape": shape, "picture": paint.__name__, "agents": agents, **measure(shape, paint, agents, arguments.runs)}
        for shape in SHAPES
        for paint in (scene, grid)
        for agents in arguments.agents
    ]
    text = table(results)
    print(text)
    tables.write(arguments, "images", text, {"images": results})
    return 0


def measure(shape: tuple[int, int, int], paint: Callable[..., Pixels], agents: int, runs: int) -> dict[str, Any]:
    """Images a second of every column, each run's, and bytes of an agent's message."""
    sensors = (
        ObservationSpec("camera", shape, tuple(map(DimensionProperty, (1, 2, 2))), dtype=np.uint8),
        ObservationSpec("vector", (20,), (DimensionProperty.NONE,)),
    )
    spec, rng, none = BehaviorSpec("Seer?team=0", sensors, ActionSpec(2)), np.random.default_rng(0), np.zeros(agents)
    obs = np.stack([paint(shape, rng) for _ in range(agents)]), np.ones((agents, 20), np.float32)
    floats, integers = none.astype(np.float32), none.astype(np.int32)
    ids = np.arange(agents, dtype=np.int32)
    batch = StepBatch(spec.name, ids, obs, floats, integers, floats, empty_terminals(sensors))
    encoder, decoder = AgentEncoder(spec), AgentDecoder(spec.name)
    own, agent_encoder.write_pngs = agent_encoder.write_pngs, as_pillow_writes  # type: ignore[attr-defined]
    payload = encoder.encode(batch)
    agent_encoder.write_pngs = own  # type: ignore[attr-defined]
    files = [images[0] for images in ImageSplitter().split(payload)[1]]
    packed = [file[file.index(b"IDAT") + 4 :] for file in files]
    work: dict[str, Callable[[], object]] = {
        "zlib": lambda: [zlib.decompressobj().decompress(data) for data in packed],
        "pillow": lambda: [np.asarray(Image.open(io.BytesIO(file))) for file in files],
        "ours": lambda: decoder.decode(payload, spec),
        "write": lambda: encoder.encode(batch),
    }
    rates = {name: [rate(one, agents) for _ in range(runs)] for name, one in work.items()}
    return {**rates, "bytes": len(payload) // agents}


def as_pillow_writes(images: Pixels) -> list[bytes]:
    """The files of [n, 1 or 3, H, W], with the filters that Pillow chooses."""
    files = []
    for image in images:
        stream = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(np.broadcast_to(image, (3, *image.shape[1:])).transpose(1, 2, 0))).save(
            stream, "png"
        )
        files.append(stream.getvalue())
    return files


def rate(work: Callable[[], object], images: int) -> float:
    """Images a second."""
    work()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        work()
        done += images
    return done / (time.perf_counter() - began)


PARTS = (
    "data unpacked alone (zlib), images/s",
    "read (Pillow)",
    "ours: found, checked, read, channels first, beside a vector of 20",
    "writing",
)


def table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown, medians."""
    rows = [
        [
            " x ".join(map(str, one["shape"])),
            one["picture"],
            str(one["agents"]),
            f"{one['bytes']:,}",
            *(tables.spread(one[name]) for name in ("zlib", "pillow", "ours", "write")),
        ]
        for one in results
    ]
    header = ["image", "picture", "agents", "bytes", *PARTS]
    return tables.markdown(header, rows)


if __name__ == "__main__":
    sys.exit(main())
