"""The ring: the newest rows, in order, drawn evenly; nothing of what is not kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.columns import Column
from tau_trainer.memory.ring import Ring

COLUMNS = Column("number", (), np.int64), Column("vector", (3,)), Column("flag", (), np.bool_)


def ring_of(capacity: int, device: str = "cpu") -> Ring:
    return Ring(COLUMNS, capacity, torch.device(device))


def rows(numbers: list[int]) -> dict[str, torch.Tensor]:
    one = torch.tensor(numbers)
    return {"number": one, "vector": one[:, None].float().expand(-1, 3) + torch.arange(3) / 4, "flag": one % 2 == 0}


def on(device: str, columns: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values.to(device) for name, values in columns.items()}


def held(ring: Ring) -> list[int]:
    numbers: list[int] = ring.state()["number"].tolist()
    return numbers


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_holds_the_newest_rows_whatever_the_pieces(device: str) -> None:
    generator = np.random.default_rng(0)
    for capacity in (1, 5, 16):
        ring, wanted, count = ring_of(capacity, device), list[int](), 0
        for _ in range(60):
            n = int(generator.integers(1, 2 * capacity + 2))
            kept = generator.random(n) < 0.7
            numbers = list(range(count, count + n))
            count += n
            ring.append(on(device, rows(numbers)), torch.from_numpy(kept).to(device))
            wanted = [*wanted, *(one for one, keep in zip(numbers, kept, strict=True) if keep)][-capacity:]
            assert sorted(held(ring)) == wanted
            assert int(ring.size) == len(wanted)
            state = ring.state()
            assert (state["vector"] == state["number"][:, None] + np.arange(3) / 4).all()
            assert (state["flag"] == (state["number"] % 2 == 0)).all()


def test_draws_evenly_and_whole_rows() -> None:
    ring = ring_of(8)
    ring.append(rows(list(range(11))), torch.ones(11, dtype=torch.bool))
    drawn = ring.draw(40000, torch.Generator().manual_seed(1))
    assert (drawn["vector"] == drawn["number"][:, None] + torch.arange(3) / 4).all()
    counts = torch.bincount(drawn["number"], minlength=11)
    assert counts[:3].tolist() == [0, 0, 0]
    assert (counts[3:] - 5000).abs().max() < 5 * (5000 * 7 / 8) ** 0.5
    few = ring_of(8)
    few.append(rows([4, 5, 6]), torch.tensor([True, False, True]))
    assert set(few.draw(100, torch.Generator().manual_seed(1))["number"].tolist()) == {4, 6}


def test_goes_on_from_its_state() -> None:
    ring = ring_of(8)
    ring.append(rows(list(range(13))), torch.ones(13, dtype=torch.bool))
    other = ring_of(8)
    other.load(ring.state())
    for one in (ring, other):
        one.append(rows([50, 51]), torch.ones(2, dtype=torch.bool))
    drawn, again = (one.draw(30, torch.Generator().manual_seed(2)) for one in (ring, other))
    assert all((drawn[name] == again[name]).all() for name in drawn)
    assert held(ring) == held(other)
    assert sorted(held(ring)) == [7, 8, 9, 10, 11, 12, 50, 51]


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    ring = ring_of(8)
    ring.append(rows([1, 2, 3]), torch.ones(3, dtype=torch.bool))
    state = ring.state()
    bad: list[dict[str, np.ndarray]] = [
        {**state, "vector": state["vector"][:, :2]},
        {name: values for name, values in state.items() if name != "flag"},
        {**state, "number": state["number"][:2]},
        {**state, "written": np.array(-1)},
        {**state, "vector": state["vector"] * np.nan},
    ]
    for one in bad:
        with pytest.raises(ValueError, match="replay memory cannot be read"):
            ring.load(one)
    assert held(ring) == [1, 2, 3]


@pytest.mark.gpu
def test_neither_appending_nor_drawing_waits_for_the_device() -> None:
    ring, more = ring_of(8, "cuda"), on("cuda", rows([1, 2, 3]))
    generator = torch.Generator("cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        ring.append(more, more["flag"])
        ring.draw(4, generator)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert held(ring) == [2]
