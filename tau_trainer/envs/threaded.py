"""Environments that step in this process, each in its own thread, so that the event loop keeps running.

Switching to the thread and back takes about 0.2 ms. So an environment that never hangs takes quick steps directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import yaml

from tau_trainer.envs.contract import Parameters
from tau_trainer.envs.faults import check_batch, place_of
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError, EngineRefusedError, EnvironmentFaultError, SettingsError
from tau_trainer.specs import (
    Actions,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IntArray,
    Json,
    Observations,
    StepBatch,
    Terminals,
)

_KILL_S = 5.0
"""How many seconds to wait for a running step when its environment is ended."""
_QUICK_S = 1e-3
"""If the last step took fewer seconds, the next one does not need the thread."""

T = TypeVar("T")


class Closable(Protocol):
    """An environment that can be closed."""

    def close(self) -> Any:
        """End it."""


EnvT = TypeVar("EnvT", bound=Closable)


def named_arguments(texts: Iterable[str], function: str, flag: str = "--env-args ") -> dict[str, Any]:
    """The arguments of ``--env-args NAME=VALUE ...``, for ``function``. Raises SettingsError."""
    return dict(_argument(text, function, flag) for text in texts)


def _argument(text: str, function: str, flag: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    with contextlib.suppress(yaml.YAMLError, ValueError):
        if equals and name.isidentifier():
            return name, yaml.safe_load(value)
    raise SettingsError(f"{flag}{text}: must be NAME=VALUE, an argument of {function}")


def made(make: Callable[..., T], *given: Any, arguments: Json, whose: str, **more: Any) -> T:
    """The result of ``make`` with a user's ``arguments``. Raises SettingsError if ``whose`` does not accept them."""
    try:
        return make(*given, **more, **arguments)
    except TypeError as error:
        if not arguments:
            raise
        said = " ".join(f"{name}={value}" for name, value in arguments.items())
        reason = f"{error}; omit or correct the arguments that {whose} does not accept"
        raise SettingsError(f"--env-args {said}: {reason}") from error


Agents = tuple[IntArray, Observations, FloatArray, IntArray]
"""IDs int32 [n], observations, rewards float32 [n], and groups int32 [n]."""


def step_batch(behavior: str, asking: Agents, ended: Agents, truncated: BoolArray, mask: BoolArray | None) -> StepBatch:
    """A step of agents without group rewards; ``truncated`` is bool [n], for the agents whose episode ``ended``."""
    ids, obs, reward, groups = ended
    over = Terminals(ids, obs, reward, truncated, groups, np.zeros(len(ids), np.float32))
    ids, obs, reward, groups = asking
    return StepBatch(behavior, ids, obs, reward, groups, np.zeros(len(ids), np.float32), over, mask)


class _Thread(Executor):
    """Runs one task at a time. The program's end does not wait for it: a user's step may never return."""

    def __init__(self, name: str) -> None:
        self._work = queue.SimpleQueue[Callable[[], None] | None]()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run it after the tasks that are already queued."""
        future = Future[T]()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._work.put(work)
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """End after the tasks that are already queued."""
        self._work.put(None)


class ThreadedEnvironment(ABC, Generic[EnvT]):
    """Base class of :class:`~tau_trainer.envs.contract.Environment` implementations that step in a thread."""

    def __init__(
        self, index: int, make: Callable[[], EnvT], seed: int | None = None, budget: RestartBudget | None = None
    ) -> None:
        """``make`` is called at the start, and again if the environment fails; ``seed``: for its first episodes."""
        self.index = index
        self.exchanges = 0
        self.specs: dict[str, BehaviorSpec] = {}
        self._make = make
        self._seed = seed
        self._budget = budget or RestartBudget(0, 0, 1.0)
        self._parameters: Parameters = {}
        self._thread: _Thread | None = None
        self._env: EnvT | None = None
        self._step: asyncio.Future[list[StepBatch]] | None = None
        self._work: asyncio.Future[list[StepBatch]] | None = None
        """The thread's latest task."""
        self._given_at = 0.0
        self._began = False
        """Whether it was ever made and its first episodes started."""
        self._steps = 0
        """Number of steps since it was made."""
        self._took_s = _QUICK_S
        """Duration of the last step, in seconds."""
        self._notes: dict[str, bool] = {}
        """Notes for the user, and whether each was shown."""

    @abstractmethod
    def _opened(self, env: EnvT) -> None:
        """Called after it was made: put its behaviors into ``specs`` if they are already known."""

    @abstractmethod
    def _begin(self, seed: int | None) -> list[StepBatch]:
        """Start all episodes; returns the first step."""

    @abstractmethod
    def _advance(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """Take a step."""

    @property
    def restarts(self) -> int:
        """Number of times that it was made again."""
        return self._budget.restarts

    absent: str | None = None
    """Always None: it cannot be paused."""

    harmless = False
    """Whether each step surely ends and can run in any thread."""

    @property
    def waits_for(self) -> str | None:
        """What the trainer waits for; None while the environment waits for the trainer."""
        if self._env is None:
            return f"environment {self.index} to start"
        busy = self._step is not None and not self._step.done()
        return f"environment {self.index} to take a step" if busy else None

    @property
    def busy_s(self) -> float:
        """Seconds for which the thread's current task has been running; 0 if it is idle."""
        return 0.0 if self._work is None or self._work.done() else time.monotonic() - self._given_at

    async def start(self, parameters: Parameters) -> list[StepBatch]:
        """Make it; returns the first step. Raises SettingsError for unsupported spaces, and EngineError."""
        self._parameters, self._steps = parameters, 0
        self._thread = self._thread or _Thread(f"environment-{self.index}")
        batches = await self._in_thread(self._start)
        self._began = True
        self._tell_notes()
        return batches

    async def reset(self, parameters: Parameters) -> list[StepBatch]:
        """Restart all episodes."""
        self._parameters = parameters
        return await self._in_thread(self._first, None)

    def tell(self, parameters: Parameters) -> None:
        """Set new parameters; ignored here: override this in environments that have parameters."""

    def answer(self, actions: Mapping[str, Actions]) -> None:
        """Take a step: in the thread, or directly."""
        if not self.harmless or self._took_s >= _QUICK_S:
            self._step = self._in_thread(self._timed, actions)
            return
        self._step = asyncio.get_running_loop().create_future()
        try:
            self._step.set_result(self._guarded(self._timed, actions))
        except (EngineError, SettingsError) as error:
            self._step.set_exception(error)

    async def next(self) -> list[StepBatch]:
        """The results of the step. Raises EngineError."""
        assert self._step is not None
        batches = await self._step
        if self._took_s < _QUICK_S:
            await asyncio.sleep(0)  # this call did not wait, so give other tasks a turn
        self.exchanges += 1
        self._steps += 1
        self._tell_notes()
        return batches

    def _note(self, sentence: str) -> None:
        """Show the user a note, once for each run: all environments are alike."""
        self._notes.setdefault(sentence, self.index > 0)

    def _tell_notes(self) -> None:
        for sentence in [sentence for sentence, known in self._notes.items() if not known]:
            self._notes[sentence] = True
            self._budget.on_event(sentence)

    async def recover(self, error: EngineError) -> list[StepBatch]:
        """Make a new one, within the budget. Raises ``error`` if it never started, or if it was refused."""
        if not self._began or isinstance(error, EngineRefusedError):
            raise error
        self._budget.worked(self._steps)
        return await self._budget.revive(error, lambda: self.start(self._parameters))

    async def close(self) -> None:
        """End it."""
        await self.kill()

    async def kill(self) -> None:
        """End it; waits at most ``_KILL_S`` seconds for a running step."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        last: list[asyncio.Future[Any]] = [asyncio.get_running_loop().run_in_executor(thread, self._close)]
        if self._step is not None:
            last.append(self._step)
        _, late = await asyncio.wait(last, timeout=_KILL_S)
        for step in late:
            step.cancel()
        await asyncio.gather(*last, return_exceptions=True)  # the results of the last step are no longer needed
        thread.shutdown()

    def _in_thread(self, work: Callable[..., list[StepBatch]], *arguments: Any) -> asyncio.Future[list[StepBatch]]:
        assert self._thread is not None
        self._given_at = time.monotonic()
        self._work = asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work, *arguments)
        return self._work

    def _guarded(self, work: Callable[..., list[StepBatch]], *arguments: Any) -> list[StepBatch]:
        try:
            batches = work(*arguments)
            for batch in batches:
                check_batch(batch, self.specs[batch.behavior])
        except EnvironmentFaultError as error:
            raise EnvironmentFaultError(f"environment {self.index}: {error}") from error
        except (EngineError, SettingsError):
            raise
        except Exception as error:  # a user's environment can raise anything
            text = f"environment {self.index} failed: {type(error).__name__}: {error}{place_of(error)}"
            raise EngineError(text) from error
        return batches

    def _timed(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        begin = time.perf_counter()
        batches = self._advance(actions)
        self._took_s = time.perf_counter() - begin
        return batches

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            with contextlib.suppress(Exception):  # it is discarded, even if closing fails
                env.close()

    def _start(self) -> list[StepBatch]:
        self._close()  # the one that failed
        self._env = self._make()
        self._opened(self._env)
        return self._first(self._seed)

    def _first(self, seed: int | None) -> list[StepBatch]:
        """Start all episodes, with the seed of the parameters if they have one."""
        given = self._parameters.get("seed")
        return self._begin(int(given) if isinstance(given, float) else seed)

    @property
    def _playing(self) -> EnvT:
        if self._env is None:
            raise EngineError(f"environment {self.index} is closed")
        return self._env
