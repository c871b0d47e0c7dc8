from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tau_trainer.metrics.snapshot import Usage
from tau_trainer.metrics.usage import UsageMeter, memory_used, peak_memory, usable_cores


class Clocks:
    """A clock, and a processor that is busy by ``cores``."""

    def __init__(self) -> None:
        self.now, self.cpu_ns = 100.0, 7_000_000_000

    def go(self, seconds: float, cores: float) -> None:
        self.now += seconds
        self.cpu_ns += round(1e9 * seconds * cores)


def test_busy_cores_are_those_of_recent_seconds() -> None:
    clocks = Clocks()
    meter = UsageMeter(lambda: clocks.now, lambda: clocks.cpu_ns)
    clocks.go(1.0, 0.5)
    assert meter.take().cpu_cores == pytest.approx(0.5, rel=0.1), "what the process did before does not count"
    for _ in range(400):
        clocks.go(0.25, 1.5)
        usage = meter.take()
    assert usage.cpu_cores == pytest.approx(1.5, rel=0.05)
    for _ in range(400):
        clocks.go(0.25, 0.0)
        usage = meter.take()
    assert usage.cpu_cores == pytest.approx(0.0, abs=0.01)
    assert usage == Usage(usage.cpu_cores, usable_cores(), usage.memory_bytes)


@pytest.mark.skipif(sys.platform == "win32", reason="the system does not report it")
def test_memory_is_that_of_this_process(tmp_path: Path) -> None:
    peak = peak_memory()
    assert peak is not None
    assert 10_000_000 < peak < 100_000_000_000
    statm = tmp_path / "statm"
    statm.write_text("900 300 20 1 0 50 0\n", "ascii")
    assert memory_used(statm) == 300 * os.sysconf("SC_PAGE_SIZE")
    statm.write_text("damaged", "ascii")
    for unreadable in (statm, tmp_path / "absent"):
        now = memory_used(unreadable)
        assert now is not None
        assert now >= peak, "the peak stands in"
