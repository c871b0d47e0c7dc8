"""Faults found in a batched environment: sentences, grouped by the part of the contract."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import torch

Part = Literal["spaces", "tensors", "pure", "random", "asked", "masks", "left", "resets", "alone", "pictures"]
Tell = Callable[[Part, str, str], None]
"""Records a fault: its part of the contract, its subject (only the first sentence of each is kept), the sentence."""
TORCH = str(Path(torch.__file__).parent)
OURS = [str(Path(__file__).with_name(name)) for name in ("draws.py", "findings.py", "watching.py")]
"""This package's files between an author's functions and torch."""
TITLES: dict[Part, str] = {
    "spaces": "agents and spaces",
    "tensors": "tensors have their shapes and types, and finite numbers",
    "pure": "nothing is changed in place, or remembered outside of the state",
    "random": "random numbers come from draws",
    "masks": "masks allow something",
    "left": "agents that left earn nothing and change nothing",
    "resets": "resets touch only their copies",
    "alone": "a copy among many plays as it does alone",
    "asked": "no step waits for the device, and constants are on it",
    "pictures": "pictures",
}


@dataclass(slots=True)
class Findings:
    """Results of a check."""

    faults: dict[Part, dict[str, str]] = field(default_factory=lambda: {part: {} for part in get_args(Part)})
    """Sentences by part and by subject."""
    looked: set[Part] = field(default_factory=set)
    """Parts that were checked completely."""
    about: str = ""
    """Short description of the environment."""
    episodes: int = 0
    """Number of episodes that ended during the check."""

    @property
    def whole(self) -> bool:
        """Whether everything could be checked."""
        return "alone" in self.looked

    @property
    def repeatable(self) -> bool:
        """Whether repeating a step gives the same result, so that steps can be compared."""
        return not (self.faults["pure"] or self.faults["random"])

    @property
    def sentences(self) -> list[str]:
        """All sentences."""
        return [sentence for part in TITLES for sentence in self.faults[part].values()]

    def tell(self, part: Part, key: str, sentence: str) -> None:
        """Record a fault; only the first one for each subject is kept."""
        self.faults[part].setdefault(key, sentence)


class Refused(Exception):  # noqa: N818 - no mistake of ours
    """The environment cannot continue; the reason has been recorded."""


@contextmanager
def reporting(what: str, tell: Tell, part: Part = "tensors", when: str = "") -> Iterator[None]:
    """Records any exception that ``what`` raises, and raises Refused instead."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        reason = " ".join((": ".join((type(error).__name__, str(error).split("\n")[0]))).split())
        places = [
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if not (frame.filename.startswith(TORCH) or frame.filename in OURS)
        ]
        tell(part, f"{what} raises", f"{what} raises {reason.rstrip('.')} ({places[-1]}){when}")
        raise Refused from error
