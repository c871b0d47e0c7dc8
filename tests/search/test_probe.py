from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import TauError
from tau_trainer.remote.job import Job
from tau_trainer.remote.process import Message, Parent
from tau_trainer.search import probe
from tau_trainer.search.probe import ProbeEndedError, Prober
from tau_trainer.search.scaling import Probe, scaled
from tau_trainer.search.sizes import with_copies
from tests.search.copies import PPO, settings


def prober(how: str = "memory", sign: str | Path = os.devnull, **options: Any) -> Prober:
    # A large size gathers more than `max_steps` before its first update: probes measure beyond that end.
    chosen = settings(how=how, sign=str(sign), policy={**PPO, "max_steps": 64})
    return Prober(chosen, lambda size: with_copies(chosen, size), **{"seconds": 0.05} | options)


def test_the_search_measures_what_fits_and_survives_what_does_not() -> None:
    found = scaled(prober("killed"), 8, gain=1e-9, most=9)
    assert found.best == 8
    fits, killed = found.probes
    assert (fits.size, killed.size) == (8, 9)
    assert (fits.failure, killed.failure) == (None, "memory")
    assert fits.rate > 100.0
    assert fits.memory is not None
    assert fits.memory > 10**8, "bytes, torch among them"
    assert killed.text == "it was killed, probably because memory was short"


def test_a_probe_fails_before_the_system_is_out_of_memory() -> None:
    assert prober("limit")(9) == Probe(9, failure="memory", text="MemoryError: ")


def test_whatever_ends_a_probe_is_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashed(self: Job, on_progress: object) -> dict[str, Any]:
        raise ProbeEndedError("its process ended by SIGSEGV")

    monkeypatch.setattr(Job, "run", crashed)
    assert prober()(9) == Probe(9, failure="ended", text="its process ended by SIGSEGV")

    def refused(self: Job, on_progress: object) -> dict[str, Any]:
        raise TauError("it is of no use")

    monkeypatch.setattr(Job, "run", refused)
    assert prober()(9) == Probe(9, failure="error", text="it is of no use")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("memory", "MemoryError: none left"),
        ("torch", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("allocator", "DefaultCPUAllocator: can't allocate memory"),
        ("other", None),
    ],
)
def test_what_says_that_memory_is_full_is_told_of(how: str, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose own memory stays as it is."""
    monkeypatch.setattr(probe, "_be_careful", lambda device: None)
    chosen = settings(num_envs=9, how=how)
    asker = Asker({"settings": chosen.model_dump(mode="json"), "seconds": 0.05})
    with pytest.raises(TauError, match="of no use") if text is None else contextlib.nullcontext():
        probe.work(asker)
    assert list(asker.answer) == ([] if text is None else ["full"])
    assert (text or "") in asker.answer.get("full", "")
    assert "\n" not in asker.answer.get("full", "")


class Asker(Parent):
    """Whoever asks, in this process."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.answer: dict[str, Any] = {}

    def say(self, kind: str, metadata: Mapping[str, Any] = {}, arrays: object = None) -> None:
        self.answer |= metadata

    def hear(self) -> Message:
        threading.Event().wait()
        raise AssertionError

    def newest(self, _: object) -> Any:
        raise NotImplementedError

    def leave(self, code: int = 0) -> None:
        raise NotImplementedError


def test_a_probe_that_hangs_is_ended_in_time() -> None:
    assert prober("hangs", limit_s=0.5)(9) == Probe(9, failure="time", text="it was not finished after 0.5 s")


def test_it_can_be_stopped(tmp_path: Path) -> None:
    sign = tmp_path / "hangs"
    probing = prober("hangs", sign)

    def stop() -> None:
        while not sign.exists():
            time.sleep(0.02)
        probing.stop()

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    assert probing(9).failure == "ended"
    assert probing.stopped
    stopping.join()
