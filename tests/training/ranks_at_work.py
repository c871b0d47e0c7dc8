"""What ranks do in tests: called in processes of their own."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

from tau_trainer.algorithms.ranks import Ranks


def add(ranks: Ranks, device: torch.device, asked: dict[str, Any]) -> list[float]:
    """Add ranks up until rank 0 says that it is enough."""
    sums: list[float] = []
    while ranks.agree(len(sums) < int(asked["times"])):
        sums.append(float(ranks.add(torch.tensor([float(ranks.rank + 1)], device=device))))
    return sums


def die(ranks: Ranks, device: torch.device, asked: dict[str, Any]) -> None:
    """Be killed, or raise, or be silent, before anything is added up."""
    match asked["how"]:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise ValueError("it went wrong")
        case _:
            time.sleep(1000.0)
