"""Sends the newest weights to the nodes: one object for each version; each node fetches one copy."""

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
"""Number of kept versions: the newest, and one that a node may still fetch."""


def controlled(method: Any, *arguments: Any) -> Any:
    """Call a host's method after earlier ones; returns the call's reference."""
    return method.options(concurrency_group="control").remote(*arguments)


class Broadcast:
    """The newest weights, for all running processes. Implements :class:`~tau_trainer.remote.process.Publisher`."""

    def __init__(self, layout: Layout, number: int, show: Callable[[Broadcast], None]) -> None:
        """``number``: its number in the place; ``show``: sends it to all processes."""
        self.reference = {"number": number, "layout": layout}
        self.opts = 0
        """Gradient steps so far."""
        self._show = show
        self._kinds = {name: np.dtype(kind) for name, kind, _ in layout}
        self._kept = deque[tuple[Any, str]](maxlen=_VERSIONS)

    @property
    def written(self) -> bool:
        """Whether weights were written."""
        return bool(self._kept)

    def write(self, weights: Arrays, version: int, opts: int) -> None:
        """Make these the newest weights; call from any thread."""
        self.opts = max(opts, self.opts)
        arrays = {name: np.ascontiguousarray(weights[name], kind) for name, kind in self._kinds.items()}
        shown = json.dumps({**self.reference, "version": version, "opts": opts})
        self._kept.append((ray.put(arrays), shown))
        self._show(self)

    def tell(self, opts: int) -> None:
        """Set the number of gradient steps; it is sent with the next call for messages."""
        self.opts = opts

    def send(self, host: Any) -> Any:
        """Let a host fetch the newest weights; returns the call's reference."""
        reference, shown = self._kept[-1]
        # In a list, Ray passes the references; otherwise it would fetch the arrays before queueing the call.
        return controlled(host.show, shown, [reference])
