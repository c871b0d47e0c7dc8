"""A lock between processes, which the operating system releases when its holder ends, even by a crash."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(stream: IO[bytes]) -> None:
        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(stream: IO[bytes]) -> None:
        fcntl.flock(stream.fileno(), fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path, waiting: Callable[[float], None], poll_seconds: float = 0.2) -> Iterator[None]:
    """Holds the lock file `path` during the block; one process at a time.

    Args:
        path: the lock file; made if missing, never deleted (deleting it would let two holders in).
        waiting: called with the seconds waited so far, each time the lock is taken.
        poll_seconds: pause between two tries.
    """
    start = time.monotonic()
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as stream:
        while not _try_lock(stream):
            waiting(time.monotonic() - start)
            time.sleep(poll_seconds)
        try:
            yield
        finally:
            _unlock(stream)
