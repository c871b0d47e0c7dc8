"""The lock between two set-ups: one at a time, and free again when its holder is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools._bootstrap.locking import exclusive

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from tools._bootstrap.locking import exclusive
with exclusive(Path(sys.argv[1]), lambda seconds: None):
    print("held", flush=True)
    time.sleep(1000)
"""


def test_a_second_process_waits_until_it_gives_up_or_a_killed_holder_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    words = [sys.executable, "-c", HOLDER, str(lock)]
    holder = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    calls: list[float] = []

    def waiting(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 2:
            holder.kill()
            holder.wait()

    def give_up(_seconds: float) -> None:
        raise TimeoutError

    try:
        with pytest.raises(TimeoutError), exclusive(lock, give_up):
            pytest.fail("two processes hold the lock")
        with exclusive(lock, waiting, poll_seconds=0.01):
            assert len(calls) >= 2
            assert calls == sorted(calls)
    finally:
        holder.kill()
        holder.communicate()


def test_free_again_after_the_block_and_after_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    waited: list[float] = []
    with exclusive(lock, waited.append):
        pass
    with pytest.raises(ValueError, match="inside"), exclusive(lock, waited.append):
        raise ValueError("inside")
    with exclusive(lock, waited.append):
        assert lock.exists()
    assert waited == []
