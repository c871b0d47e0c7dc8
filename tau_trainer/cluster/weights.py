"""The newest weights on their way to the nodes: one object a version, of which each node fetches one copy."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

from tau_trainer.columns import Arrays
from tau_trainer.remote.process import Layout

_VERSIONS = 2
"""That are kept: the newest, and one that somebody may be about to fetch."""


class Broadcast:
    """The newest weights, for every process that runs. Fulfils :class:`~tau_trainer.remote.process.Publisher`."""

    def __init__(self, layout: Layout, number: int, show: Callable[[Broadcast], None]) -> None:
        """``number``: of those that a place has; ``show``: has it sent to all processes."""
        self.reference = {"number": number, "layout": layout}
        self.opts = 0
        """Gradient steps so far."""
        self._show = show
        self._kinds = {name: np.dtype(kind) for name, kind, _ in layout}
        self._kept = deque[tuple[Any, str]](maxlen=_VERSIONS)

    @property
    def written(self) -> bool:
        """Whether there are any."""
        return bool(self._kept)

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest; from any thread."""
        self.opts = max(opts, self.opts)
        arrays = {name: np.ascontiguousarray(weights[name], kind) for name, kind in self._kinds.items()}
        shown = json.dumps({**self.reference, "version": version, "opts": opts})
        self._kept.append((ray.put(arrays), shown))
        self._show(self)

    def tell(self, opts: int) -> None:
        """So many gradient steps were taken; it goes along with the next call for messages."""
        self.opts = opts

    def send(self, host: Any) -> Any:
        """Have a host fetch the newest; returns the reference of that call."""
        reference, shown = self._kept[-1]
        # In a list Ray hands on where they lie; by themselves they would be fetched before the call is queued.
        return host.show.options(concurrency_group="control").remote(shown, [reference])
