"""Engines that fail on purpose: any scene, with one fault at one moment.

They show that a trainer handles engines that crash, hang or send invalid data. The client calls the hooks of
:class:`Fault` at the moments that their names say.
"""

from __future__ import annotations

import enum
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from tau_trainer.specs import StepBatch

EXIT_CODE: Final = 70
"""Exit code of an engine that ends on purpose (``EX_SOFTWARE`` of sysexits.h)."""
WRONG_VERSION: Final = "2.0.0"
GARBAGE: Final = b"\xff" * 64
"""Bytes with which no protobuf message starts."""


class FaultKind(enum.StrEnum):
    """The kinds of faults."""

    CRASH = "crash"
    """The process exits without a message, with code 70."""
    STALL = "stall"
    """The process keeps running, but does not send its next message."""
    MALFORMED = "malformed"
    """Sends a message that is not valid in the protocol."""
    SLOW_START = "slow-start"
    """Connects only after ``seconds``."""
    NAN_OBSERVATION = "nan-observation"
    """One agent observes NaN once, in all its float sensors."""
    NAN_REWARD = "nan-reward"
    """One agent gets the reward NaN once."""
    WRONG_VERSION = "wrong-version"
    """Announces communicator API 2.0.0."""
    SILENT = "silent"
    """Connects, but never asks for a decision."""
    EXIT = "exit"
    """Exits before it connects, with code 70."""


@dataclass(slots=True)
class Fault:
    """One fault: its kind (None: no fault) and, for faults during play, the number of steps before it."""

    kind: FaultKind | None
    after: int = 10
    """Number of steps before the fault."""
    seconds: float = 5.0
    """Duration of a slow start, in seconds."""
    once: Path | None = None
    """If set, only the first engine that reaches the fault has it. The engine creates this file, and engines that find
    the file have no fault, so a restarted engine continues to play."""
    _steps: int = field(default=0, init=False)

    def before_connect(self) -> None:
        """Exit or sleep if that is the fault."""
        if self._due(FaultKind.EXIT, 0):
            os._exit(EXIT_CODE)
        if self._due(FaultKind.SLOW_START, 0):
            time.sleep(self.seconds)

    def version(self, right: str) -> str:
        """The communicator API to announce."""
        return WRONG_VERSION if self._due(FaultKind.WRONG_VERSION, 0) else right

    def silent(self) -> bool:
        """True if the engine must stop responding. Called after the handshake."""
        return self._due(FaultKind.SILENT, 0)

    def stalled(self) -> bool:
        """True if the engine must stop responding. Called before each message."""
        return self._due(FaultKind.STALL, self.after)

    def spoil(self, batch: StepBatch) -> StepBatch:
        """The batch to send, with NaN if that is the fault. Called for each step; a crash happens here."""
        if self._due(FaultKind.CRASH, self.after):
            os._exit(EXIT_CODE)
        spoiled = batch
        if self._steps == self.after and len(batch):
            if self._due(FaultKind.NAN_OBSERVATION, self.after):
                spoiled = replace(batch, obs=tuple(s if s.dtype == np.uint8 else _with_nan(s) for s in batch.obs))
            elif self._due(FaultKind.NAN_REWARD, self.after):
                spoiled = replace(batch, reward=_with_nan(batch.reward))
        self._steps += 1
        return spoiled

    def garble(self, message: bytes) -> bytes:
        """The bytes to send, invalid ones if that is the fault. Called for each step after :meth:`spoil`."""
        return GARBAGE if self._due(FaultKind.MALFORMED, self.after + 1) else message

    def _due(self, kind: FaultKind, after: int) -> bool:
        if self.kind is not kind or self._steps < after:
            return False
        if self.once is not None:
            if self.once.exists():
                return False
            self.once.touch()
            self.once = None  # this engine keeps its fault
        return True


def _with_nan(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    spoiled = values.copy()
    spoiled[0] = np.nan
    return spoiled
