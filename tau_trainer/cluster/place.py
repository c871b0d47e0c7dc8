"""Processes on the nodes of a Ray cluster: messages in calls of Ray actors, weights in its object store.

For each process, one call for messages is always open (:meth:`.Host.collect`); its reply includes status and log.
Messages to the process and weights are sent to the same actor in another concurrency group, one call after the other:
so a process that receives a message has all weights written before it. Any exception from Ray means that the process
has ended.
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
    from tau_trainer.cluster.connection import Cluster

_CLOSE_S = 5.0
_GROUPS = {"collect": 1, "control": 1, "end": 1}


class RayPlace:
    """The nodes of a cluster. Implements :class:`~tau_trainer.remote.process.Place`.

    Attributes:
        connection: the connection to the cluster.
        status: see ``Place``.
        weights: maximum calls of :meth:`newest`.
        published: results of those calls.
        processes: the running processes; used only in the loop.
        actor: Ray's actor class of hosts.
    """

    def __init__(self, connection: Cluster, slots: int = 0, weights: int = 0) -> None:
        """``connection``: must stay open longer than this object."""
        self.connection, self.weights = connection, weights
        self.status = np.zeros((slots, STATUS), np.int64)
        self.published: list[Broadcast] = []
        self.processes = set[RayProcess]()
        self.actor: Any = ray.remote(concurrency_groups=_GROUPS, max_restarts=0, max_task_retries=0)(Host)
        self._tasks = set[asyncio.Task[None]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster messages", daemon=True)
        self._thread.start()

    def launch(self, target: Target, take: Take | None = None) -> Process:
        """Start a process; see ``Place``. If no node has room for it, that is reported later as its end."""
        if target.slot is not None:
            self.status[target.slot] = 0
        return RayProcess(self, target, take)

    def newest(self, layout: Layout) -> Broadcast:
        """Register weights; see ``Place``. Raises IndexError if there are too many."""
        if len(self.published) == self.weights:
            raise IndexError(self.weights)
        self.published.append(Broadcast(layout, len(self.published), self._show))
        return self.published[-1]

    def _show(self, broadcast: Broadcast) -> None:
        """Send its weights to all processes; call from any thread."""

        def show() -> None:
            for process in self.processes:
                process.show(broadcast)

        self.call(show)

    def lose(self) -> None:
        """End all processes, because the cluster is lost."""

        def lose() -> None:
            for process in tuple(self.processes):
                process.give_up()

        self.call(lose)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, after earlier ones; call from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    def task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task in the loop; call only in the loop."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Release shared resources; further calls do nothing."""
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
        """Give up all running processes, and wait for unfinished tasks."""
        for process in tuple(self.processes):
            process.give_up()
        others = self._tasks - {asyncio.current_task()}
        await asyncio.wait(others, timeout=_CLOSE_S) if others else None
        ended.set()
