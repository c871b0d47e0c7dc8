"""What is found wrong with a batched environment: sentences, and where they belong."""

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
"""Takes note of a fault: where it belongs, what it is about (of which the first sentence counts), the sentence."""
TORCH = str(Path(torch.__file__).parent)
OURS = [str(Path(__file__).with_name(name)) for name in ("draws.py", "findings.py", "watching.py")]
"""Files of ours that stand between an author's functions and torch."""
TITLES: dict[Part, str] = {
    "spaces": "agents and spaces",
    "tensors": "tensors have their shapes and types, and finite numbers",
    "pure": "nothing is changed in place, or remembered outside of the state",
    "random": "random numbers come from draws",
    "masks": "masks allow something",
    "left": "agents that left earn nothing and change nothing",
    "resets": "resets touch only their copies",
    "alone": "a copy among many plays as it does alone",
    "asked": "no device is waited for, and constants are on it",
    "pictures": "pictures",
}


@dataclass(slots=True)
class Findings:
    """What a check found."""

    faults: dict[Part, dict[str, str]] = field(default_factory=lambda: {part: {} for part in get_args(Part)})
    """Sentences by part, and by what they are about."""
    looked: set[Part] = field(default_factory=set)
    """Parts that were looked at to the end."""
    about: str = ""
    """The environment in a few words."""
    episodes: int = 0
    """That ended while it was played."""

    @property
    def whole(self) -> bool:
        """Whether everything could be looked at."""
        return "alone" in self.looked

    @property
    def repeatable(self) -> bool:
        """Whether the same step is the same when it is taken again, so that steps can be compared."""
        return not (self.faults["pure"] or self.faults["random"])

    @property
    def sentences(self) -> list[str]:
        """All of them."""
        return [sentence for part in TITLES for sentence in self.faults[part].values()]

    def tell(self, part: Part, key: str, sentence: str) -> None:
        """Take note of a fault; of several about the same the first counts."""
        self.faults[part].setdefault(key, sentence)


class Refused(Exception):  # noqa: N818 - no mistake of ours
    """The environment cannot be played on; why has been told."""


@contextmanager
def told(what: str, tell: Tell, part: Part = "tensors", when: str = "") -> Iterator[None]:
    """Tells of whatever ``what`` raises, which then is Refused."""
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
