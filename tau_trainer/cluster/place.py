"""Processes on the nodes of a Ray cluster: messages in calls of Ray actors, weights in its object store.

One call for messages is open at each process (:meth:`.Host.collect`); with its reply come status and log. What is
said goes to the same actor in another concurrency group, one call after the other, and so do weights: whoever hears a
message has the weights that were written before it. Whatever Ray raises means that the process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from tau_trainer.cluster.host import Host
from tau_trainer.cluster.process import RayProcess
from tau_trainer.cluster.weights import Broadcast
from tau_trainer.remote.process import STATUS, Layout, Process, Take, Target

if TYPE_CHECKING:
    from tau_trainer.cluster.connection import Connection

_CLOSE_S = 5.0
_GROUPS = {"collect": 1, "control": 1, "end": 1}


class RayPlace:
    """The nodes of a cluster. Fulfils :class:`~tau_trainer.remote.process.Place`.

    Attributes:
        connection: to the cluster.
        status: see there.
        weights: calls of :meth:`newest` at most.
        published: what those returned.
        processes: those that have not ended; belongs to the loop.
        actor: Ray's class of hosts.
    """

    def __init__(self, connection: Connection, seats: int = 0, weights: int = 0) -> None:
        """``connection``: lives longer than this."""
        self.connection, self.weights = connection, weights
        self.status = np.zeros((seats, STATUS), np.int64)
        self.published: list[Broadcast] = []
        self.processes = set[RayProcess]()
        self.actor: Any = ray.remote(concurrency_groups=_GROUPS, max_restarts=0, max_task_retries=0)(Host)
        self._tasks = set[asyncio.Task[None]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster messages", daemon=True)
        self._thread.start()

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process; see there. That no node has room for it is found later, and told as its end."""
        if target.seat is not None:
            self.status[target.seat] = 0
        return RayProcess(self, target, take)

    def newest(self, layout: Layout) -> Broadcast:
        """Make weights known; see there. Raises IndexError: too many."""
        if len(self.published) == self.weights:
            raise IndexError(self.weights)
        self.published.append(Broadcast(layout, len(self.published), self._show))
        return self.published[-1]

    def _show(self, broadcast: Broadcast) -> None:
        """Send what it has to all processes; from any thread."""

        def show() -> None:
            for process in self.processes:
                process.show(broadcast)

        self.call(show)

    def lose(self) -> None:
        """The cluster is lost: so is everything on it."""

        def lose() -> None:
            for process in tuple(self.processes):
                process.give_up()

        self.call(lose)

    def call(self, function: Callable[[], object]) -> None:
        """Call it in the loop, after what was to be called before; from any thread."""
        with contextlib.suppress(RuntimeError):  # it is closed, and so is everything else
            self._loop.call_soon_threadsafe(function)

    def task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done in the loop; call there."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Let go of what they share; further calls do nothing."""
        if self._loop.is_closed():
            return
        ended = threading.Event()
        self.call(lambda: self.task(self._end(ended)))
        ended.wait(_CLOSE_S)
        self.call(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self.published.clear()
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self, ended: threading.Event) -> None:
        """Give up whoever still runs, and wait for what was begun."""
        for process in tuple(self.processes):
            process.give_up()
        others = self._tasks - {asyncio.current_task()}
        await asyncio.wait(others, timeout=_CLOSE_S) if others else None
        ended.set()
