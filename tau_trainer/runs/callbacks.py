"""Callbacks: a user's code that receives the events of a run and may end it.

All callbacks are called in the run's thread, one at a time, in the order in which they were given, while agents wait:
do slow work in another thread. Events are frozen data. If a callback raises, it is reported and no longer called, and
the run ends: everything learned until then is saved and exported, and the exit code shows the failure.

Events without a listener are not created. Learning may run in another thread or process; its events are delivered here
in order, shortly after they happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tau_trainer import plugins
from tau_trainer.errors import CallbackError, SettingsError
from tau_trainer.metrics import RunReport

Hook = Literal[
    "on_train_begin",
    "on_train_end",
    "on_episode_begin",
    "on_episode_end",
    "on_batch_begin",
    "on_batch_end",
    "on_update_begin",
    "on_update_end",
    "on_evaluation_begin",
    "on_evaluation_end",
    "on_save_begin",
    "on_save_end",
]
"""Events of a callback."""


@dataclass(frozen=True, slots=True)
class TrainInfo:
    """A run starts or ends."""

    run_id: str
    folder: Path
    seed: int
    decisions: int
    """Decisions so far, including those before the run was resumed."""
    report: RunReport | None = None
    """The run's report, at the end."""


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """An agent's episode starts or ends."""

    behavior: str
    """Name of the learner."""
    pair: int
    """Index of the environment."""
    decisions: int
    """Decisions of the learner so far."""
    reward: float | None = None
    """Sum of the agent's own rewards, at the end."""
    length: int | None = None
    """Decisions of the episode, at the end."""


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Minibatches are learned from, by algorithms that report it; for small networks, many at once."""

    behavior: str
    minibatches: int
    """Gradient steps."""
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Losses by TensorBoard name, if known, at the end."""


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """An update of the weights starts or ends."""

    behavior: str
    version: int
    """Number of updates of the weights so far."""
    decisions: int
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Losses and other statistics by TensorBoard name, at the end."""
    seconds: float = 0.0
    """Duration of the update in seconds, at the end."""
    error: str | None = None
    """Why the update was undone (NaN), at the end."""


@dataclass(frozen=True, slots=True)
class EvaluationInfo:
    """A policy is scored, during or at the end of a run, by tasks that evaluate and by runs with actors."""

    behavior: str
    version: int
    decisions: int
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores by name, at the end."""


@dataclass(frozen=True, slots=True)
class SaveInfo:
    """A checkpoint is written."""

    behavior: str
    decisions: int
    path: Path | None = None
    """The checkpoint's folder, at the end; None if it could not be written."""
    error: str | None = None
    """Why it could not be written, in a sentence."""


class Callback:
    """Base class of callbacks; override the methods of the events that you need."""

    stopped: str | None = None
    """The reason that was passed to :meth:`stop`."""

    def stop(self, reason: str = "") -> None:
        """End the run as completed: saved, evaluated, exported, exit code 0.

        Takes effect with the current event, or with the next event of this callback. Environments finish their current
        exchange.
        """
        self.stopped = reason

    def on_train_begin(self, info: TrainInfo) -> None:
        """Called before anything has started."""

    def on_train_end(self, info: TrainInfo) -> None:
        """Called once everything is saved; not called if nothing could be trained."""

    def on_episode_begin(self, info: EpisodeInfo) -> None:
        """Called at the first decision of an agent's episode; not called for actors in separate processes."""

    def on_episode_end(self, info: EpisodeInfo) -> None:
        """Called when the environment has ended an episode; not called for interrupted episodes."""

    def on_batch_begin(self, info: BatchInfo) -> None:
        """Called within an update, before minibatches."""

    def on_batch_end(self, info: BatchInfo) -> None:
        """Called within an update, after minibatches."""

    def on_update_begin(self, info: UpdateInfo) -> None:
        """Called when experience is passed to the algorithm."""

    def on_update_end(self, info: UpdateInfo) -> None:
        """Called once agents act with the new weights."""

    def on_evaluation_begin(self, info: EvaluationInfo) -> None:
        """Called before a policy is scored."""

    def on_evaluation_end(self, info: EvaluationInfo) -> None:
        """Called after a policy was scored."""

    def on_save_begin(self, info: SaveInfo) -> None:
        """Called before a checkpoint is written."""

    def on_save_end(self, info: SaveInfo) -> None:
        """Called once the checkpoint is complete, or could not be written."""


class LambdaCallback(Callback):
    """A callback made of functions: ``LambdaCallback(on_episode_end=lambda info: print(info.reward))``."""

    def __init__(self, **functions: Callable[[Any], object]) -> None:
        """``functions``: by the names of :class:`Callback`'s methods. Raises TypeError for an unknown name."""
        for name, function in functions.items():
            if name not in _HOOKS:
                raise TypeError(f"'{name}' is not an event of callbacks; known: {', '.join(_HOOKS)}")
            setattr(self, name, function)


_HOOKS: Final[tuple[Hook, ...]] = Hook.__args__  # type: ignore[attr-defined]


class Callbacks:
    """Calls a run's callbacks. Call all methods in the event loop, except :meth:`soon`, which works in any thread.

    Attributes:
        wanted: events with a listener; create data only for these.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback] = (),
        on_stop: Callable[[str], None] = lambda reason: None,
        on_error: Callable[[CallbackError], None] = lambda error: None,
    ) -> None:
        """``on_stop``: called with the reason when a callback stops the run; ``on_error``: called if one fails."""
        self._heard: dict[str, list[Callback]] = {
            hook: [callback for callback in callbacks if _overrides(callback, hook)] for hook in _HOOKS
        }
        self.wanted: set[str] = {hook for hook, heard in self._heard.items() if heard}
        self._on_stop = on_stop
        self._on_error = on_error
        self._loop: asyncio.AbstractEventLoop | None = None
        for callback in callbacks:
            callback.stopped = None

    def begin(self) -> None:
        """Use the running event loop as the run's."""
        self._loop = asyncio.get_running_loop()

    def tell(self, hook: Hook, info: object) -> None:
        """Call every listener of the event. Raises nothing: errors are passed to ``on_error``."""
        for callback in tuple(self._heard[hook]):
            try:
                getattr(callback, hook)(info)
            except Exception as error:
                for others in self._heard.values():
                    if callback in others:
                        others.remove(callback)
                self.wanted = {name for name, others in self._heard.items() if others}
                reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
                failed = CallbackError(f"the callback {type(callback).__name__} failed in {hook}: {reason}; fix it")
                failed.__cause__ = error
                self._on_error(failed)
            else:
                if callback.stopped is not None:
                    self._on_stop(callback.stopped or f"the callback {type(callback).__name__} stopped it")

    def soon(self, hook: Hook, info: object) -> None:
        """:meth:`tell` from another thread, when the event loop is free; at once in a run without an event loop."""
        if self._loop is None:
            self.tell(hook, info)
        elif self._heard[hook] and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.tell, hook, info)

    def on_batch(self, behavior: str) -> Callable[[int, Mapping[str, float] | None], None] | None:
        """Reports a behavior's minibatches, see :data:`.algorithms.OnBatch`; None: no callback asks for them."""

        def said(minibatches: int, statistics: Mapping[str, float] | None) -> None:
            if statistics is None:
                self.soon("on_batch_begin", BatchInfo(behavior, minibatches))
            else:
                self.soon("on_batch_end", BatchInfo(behavior, minibatches, statistics))

        return said if {"on_batch_begin", "on_batch_end"} & self.wanted else None


NOBODY: Final = Callbacks()
"""No callbacks."""


def _overrides(callback: Callback, hook: str) -> bool:
    return hook in vars(callback) or getattr(type(callback), hook) is not getattr(Callback, hook)


def named(names: Sequence[str]) -> Iterator[Callback]:
    """The callbacks that a settings file names. Raises SettingsError if one cannot be created."""
    for name in names:
        kind = plugins.load("callbacks", name)
        try:
            made = kind()
        except Exception as error:
            raise SettingsError(
                f"callbacks: '{name}' cannot be created: {type(error).__name__}: {error}; it gets no arguments"
            ) from error
        if not isinstance(made, Callback):
            raise SettingsError(f"callbacks: '{name}' must create a tau_trainer.Callback, not {type(made).__name__}")
        yield made
