"""The launching end of a process on a node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from tau_trainer.cluster.host import Reply, ordered
from tau_trainer.cluster.weights import Broadcast, controlled
from tau_trainer.columns import Arrays
from tau_trainer.errors import ClusterError
from tau_trainer.remote.process import NO_ARRAYS, NO_DATA, Message, Process, Take, Target

if TYPE_CHECKING:
    from tau_trainer.cluster.place import RayPlace

PLACE_S = 30.0
"""Maximum seconds until a node has room for a process and has started it."""
_AGAIN_S = 1.0
_CLOSE_S = 5.0
Call = Callable[[Any], Any]
"""Calls a host and returns the call's reference."""


class RayProcess(Process):
    """A process on a node, managed in its place's loop."""

    def __init__(self, place: RayPlace, target: Target, take: Take | None) -> None:
        super().__init__(target, take)
        self._place = place
        self._order = ordered(target, place.weights)
        self._outbox = deque[Broadcast | Call]()
        self._more = asyncio.Event()
        self._begun, self._over = threading.Event(), threading.Event()
        self._node, self._how, self._pid = "", "", 0
        self._given_up = "because it was given up"
        self._code: int | None = None
        self._host: Any = None
        self._task: asyncio.Task[None] | None = None
        self._printed = target.open_log()
        place.call(self._start)

    @property
    def node(self) -> str:
        """The node that it runs on."""
        return self._node

    @property
    def pid(self) -> int:
        """Its process ID there; waits until it has started. 0: it never started."""
        self._begun.wait()
        return self._pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._code if self._over.is_set() else None

    # -- in the loop

    def _start(self) -> None:
        self._place.processes.add(self)
        for broadcast in self._place.published:
            self.show(broadcast)
        self._task = self._place.task(self._live())

    async def _live(self) -> None:
        """Run the process from its start to its end, and report the end."""
        sending: asyncio.Task[None] | None = None
        how = ""
        try:
            refused = await self._begin()
            if refused is None:
                self._begun.set()
                sending = asyncio.create_task(self._send())
                how = await self._listen()
            else:
                how = f"before it started: {refused}"
        except RayError as error:
            how = _gone(error)
        except asyncio.CancelledError:
            how = self._given_up
        except Exception as error:  # for example a full disk: the waiting caller must be notified
            how = f"because its messages cannot be read ({type(error).__name__}: {error})"
        finally:
            if sending is not None:
                sending.cancel()
            self._end(how)
            if self._host is not None and not self._place.connection.lost:  # else it would wait forever
                await asyncio.to_thread(self._release)

    async def _begin(self) -> str | None:
        """Start it on a node; returns a sentence if that is not possible."""
        connection, loop = self._place.connection, asyncio.get_running_loop()
        until, begun = loop.time() + PLACE_S, None
        while begun is None and not connection.lost:
            try:
                async with asyncio.timeout_at(until):
                    begun = json.loads(await self._ordered())
            except TimeoutError:
                return await asyncio.to_thread(connection.full, PLACE_S)
            except RayError:  # if its node has died, Ray notices it only after some seconds
                if loop.time() + _AGAIN_S > until:
                    raise
                await asyncio.to_thread(self._release)
                await asyncio.sleep(_AGAIN_S)
        if begun is None:
            return "the cluster has ended"
        self._node = await asyncio.to_thread(connection.name, begun["node"])
        if "refused" in begun:
            return f"{self._node} {begun['refused']}"
        self._pid, self._log = begun["pid"], begun["log"]
        return None

    async def _ordered(self) -> str:
        """Find a node for it, and send its order there. Raises RayError."""
        asked = self._place.connection.options
        self._host = await asyncio.to_thread(lambda: self._place.actor.options(**asked).remote())
        begun: str = await _result(controlled(self._host.begin, self._order))
        return begun

    async def _listen(self) -> str:
        """Pass on its messages until it ends; returns how it ended."""
        ended = None
        while ended is None:
            began = time.perf_counter()
            opts = [broadcast.opts for broadcast in self._place.published]
            reply: Reply = await _result(self._host.collect.options(concurrency_group="collect").remote(opts))
            ended = self._hand_on(reply, time.perf_counter() - began)
            del reply  # objects stay in the store while they are referenced
        self._print(await _result(self._host.rest.options(concurrency_group="end").remote()))
        self._code = ended["code"]
        return str(ended["how"]).replace(self._log, str(self.target.log))

    def _hand_on(self, reply: Reply, seconds: float) -> dict[str, Any] | None:
        """Pass on a reply that took ``seconds``. Returns the facts about its end, once it has ended."""
        messages, status, printed, collecting = reply
        if self.target.slot is not None:
            self._place.status[self.target.slot] = status
        self._print(printed)
        for kind, text, arrays in messages:
            data: dict[str, Any] = json.loads(text)
            if kind == "ended":
                return data
            data["seconds_on_the_way"] += seconds - collecting
            self._take(Message(kind, data, {name: np.array(values) for name, values in arrays.items()}))
        return None

    async def _send(self) -> None:
        """Make the queued calls, one after the other."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._outbox:
                following = self._outbox.popleft()
                call = following.send if isinstance(following, Broadcast) else following
                try:
                    await _result(call(self._host))
                except RayTaskError as error:  # it runs, but would continue with old weights, for example
                    self._given_up = f"because a message could not be delivered ({error.cause or error})"
                    self.give_up()
                except RayError:  # its end is reported elsewhere
                    pass

    def show(self, broadcast: Broadcast) -> None:
        """Queue the newest weights; if they are queued already, the newest at that time will be sent."""
        if broadcast not in self._outbox and broadcast.written:
            self._queue(broadcast)

    def _queue(self, call: Broadcast | Call) -> None:
        self._outbox.append(call)
        self._more.set()

    def _print(self, printed: bytes) -> None:
        self._printed.write(printed)
        self._printed.flush()

    def _end(self, how: str) -> None:
        self._place.processes.discard(self)
        self._printed.close()
        self._how = how
        self._code = -9 if self._code is None else self._code
        self._over.set()
        self._begun.set()
        self._take(Message("ended", {"how": how}, {}))

    def _release(self) -> None:
        """Release its node's resources."""
        with contextlib.suppress(RayError, RuntimeError, ValueError):
            ray.kill(self._host)

    def give_up(self) -> None:
        """Stop waiting for it."""
        if self._task is not None:
            self._task.get_loop().call_soon(self._task.cancel)  # later: a new task would report no end

    def _kill(self) -> None:
        if self._begun.is_set() and not self._over.is_set():
            with contextlib.suppress(RayError):  # the cluster has already ended
                ending = self._host.kill.options(concurrency_group="end").remote()
                self._place.task(_done(ending))
        else:
            self.give_up()

    # -- from any thread

    def say(self, kind: str, data: Mapping[str, Any] = NO_DATA, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message. Raises ValueError for an array of objects."""
        sent = {name: np.array(values) for name, values in arrays.items()}
        text = json.dumps(dict(data))
        for name, values in sent.items():
            if values.dtype.hasobject:
                raise ValueError(f"cannot send {name}: it is an OBJECT array")
        self._place.call(lambda: self._queue(lambda host: controlled(host.say, kind, text, sent)))

    def checked(self, message: Message) -> Message:
        """See ``Process``. Raises ClusterError if the whole cluster is lost: no process can replace this one."""
        if message.kind == "ended" and self._place.connection.lost:
            raise ClusterError(self._place.connection.lost)
        return super().checked(message)

    def how(self) -> str:
        """How it ended."""
        return self._how if self._over.wait(_CLOSE_S) else "its connection but still runs"

    def stop(self) -> None:
        """Tell it that no more messages follow."""
        self._place.call(lambda: self._queue(lambda host: controlled(host.stop)))

    def end(self, patience_s: float = _CLOSE_S) -> None:
        """Call :meth:`stop` and wait for its end."""
        self.stop()
        if not self._over.wait(patience_s):
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._place.call(self._kill)
        if not self._over.wait(_CLOSE_S):
            self._place.call(self.give_up)
            self._over.wait(_CLOSE_S)


async def _result(reference: Any) -> Any:
    """The result of a call. Raises RayError."""
    return await asyncio.wrap_future(reference.future())


async def _done(reference: Any) -> None:
    with contextlib.suppress(RayError):
        await _result(reference)


def _gone(error: RayError) -> str:
    """How a process ended, for an error from Ray."""
    text = " ".join(str(error).split())
    if "node has died" in text:
        return "with its node"
    return f"with Ray's worker there, which can no longer be reached ({type(error).__name__})"
