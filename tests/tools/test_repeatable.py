"""What the hashes of repeatable runs are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tools.repeatable import RUNS, hash_of


def checkpoint(folder: Path, name: str, **arrays: float) -> None:
    (folder / name).mkdir(parents=True)
    values = {key: np.full(2, value, np.float32) for key, value in arrays.items()}
    save_file(values, folder / name / "tensors.safetensors")


def test_the_newest_checkpoint_of_every_policy_counts(tmp_path: Path) -> None:
    assert hash_of(tmp_path) == "nothing was saved"
    checkpoint(tmp_path, "A-900", weight=1.0)
    checkpoint(tmp_path, "A-1000", weight=2.0)
    first = hash_of(tmp_path)
    checkpoint(tmp_path, "A-20", weight=3.0)
    assert hash_of(tmp_path) == first
    checkpoint(tmp_path, "B-10", weight=1.0)
    second = hash_of(tmp_path)
    checkpoint(tmp_path, "B-11", weight=1.0, other=1.0)
    assert len({first, second, hash_of(tmp_path)}) == 3


def test_there_are_twelve() -> None:
    assert len(RUNS) == len(set(RUNS.values())) == 12
