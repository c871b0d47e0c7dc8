"""Environments that do not bear every size: what probes are for. Sizes are their number of copies."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

from tests.envs.batched.counting import Counting


class Fragile(Counting):
    """``limit_to`` copies are the most; what happens beyond that is ``how``, once the file ``sign`` is made."""

    def __init__(
        self, num_envs: int, *, limit_to: int = 8, how: str = "memory", sign: str = os.devnull, **options: Any
    ) -> None:
        super().__init__(num_envs, **options)
        if num_envs > limit_to:
            Path(sign).touch()
            fail(how)


def fail(how: str) -> None:
    match how:
        case "memory":
            raise MemoryError("none left")
        case "torch":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore.")
        case "allocator":
            torch.empty(2**46)
        case "limit":
            kept = [bytes(2**28) for _ in range(2**12)]  # promised, and never touched: it costs nothing
            raise AssertionError(len(kept))
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            time.sleep(1000.0)
        case _:
            raise ValueError("it is of no use")
