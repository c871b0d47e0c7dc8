"""Each fault, as a trainer meets it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.headless.scenes.balance import BalanceScene
from tau_trainer.headless.scenes.faulty import EXIT_CODE, Fault, FaultKind
from tests.headless.scenes.playing import begin

if TYPE_CHECKING:
    from pathlib import Path


class LeftError(Exception):
    """Stands for a process that is gone."""


def leave(code: int) -> None:
    raise LeftError(code)


def played_steps(fault: Fault, most: int = 20) -> int:
    """How many messages a fault lets pass before something is wrong with one."""
    batch = begin(BalanceScene(agents=3))
    for step in range(most):
        if fault.stalled() or fault.silent():
            return step
        spoiled = fault.spoil(batch)
        if not all(np.isfinite(part).all() for part in (*spoiled.obs, spoiled.reward)):
            return step
        if fault.garble(b"sound") != b"sound":
            return step
    return most


@pytest.mark.parametrize(
    "kind", [FaultKind.STALL, FaultKind.MALFORMED, FaultKind.NAN_OBSERVATION, FaultKind.NAN_REWARD]
)
@pytest.mark.parametrize("after", [0, 1, 7])
def test_faults_while_playing_come_after_so_many_steps(kind: FaultKind, after: int) -> None:
    assert played_steps(Fault(kind, after)) == after


def test_a_crash_comes_after_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os._exit", leave)
    fault = Fault(FaultKind.CRASH, 2)
    batch = begin(BalanceScene(agents=3))
    assert fault.spoil(fault.spoil(batch)) is batch
    with pytest.raises(LeftError, match=str(EXIT_CODE)):
        fault.spoil(batch)


def test_nan_is_put_into_a_copy_and_only_once() -> None:
    batch = begin(BalanceScene(agents=3))
    fault = Fault(FaultKind.NAN_OBSERVATION, 0)
    spoiled = fault.spoil(batch)
    assert np.isnan(spoiled.obs[0][0]).all()
    assert np.isfinite(spoiled.obs[0][1:]).all()
    assert np.isfinite(batch.obs[0]).all()
    assert fault.spoil(batch) is batch


def test_bytes_cannot_be_nan() -> None:
    batch = begin(BalanceScene(agents=3))
    image = np.ones((3, 1, 2, 2), np.uint8)
    spoiled = Fault(FaultKind.NAN_OBSERVATION, 0).spoil(replace(batch, obs=(image, *batch.obs)))
    assert spoiled.obs[0] is image
    assert np.isnan(spoiled.obs[1][0]).all()


def test_once_means_the_first_engine_only(tmp_path: Path) -> None:
    mark = tmp_path / "failed"
    assert played_steps(Fault(FaultKind.STALL, 3, once=mark)) == 3
    assert mark.exists()
    assert played_steps(Fault(FaultKind.STALL, 3, once=mark)) == 20
