"""Callbacks: code of a user's own that is told what a run does, and may end it.

All are called in the run's own thread, one after the other, in the order in which they were given, while agents wait:
what takes long belongs into a thread of its own. What they are told are facts, frozen; a callback that raises is named,
is called no more, and ends the run: what was learned until then is saved and exported, and the exit code says that it
failed.

Where nobody asks for an event nothing is made for it. Learning may happen in another thread or process: its events are
told here once they have arrived, in order, a moment after they happened.
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
"""What a callback may be told."""


@dataclass(frozen=True, slots=True)
class TrainInfo:
    """A run begins or ends."""

    run_id: str
    folder: Path
    seed: int
    decisions: int
    """So far, runs that this one goes on from included."""
    report: RunReport | None = None
    """The central report, at the end."""


@dataclass(frozen=True, slots=True)
class EpisodeInfo:
    """An agent's episode begins or ends."""

    behavior: str
    """The learner that it is for."""
    pair: int
    """The environment that it plays in."""
    decisions: int
    """Of the learner, so far."""
    reward: float | None = None
    """Sum of the agent's own rewards, at the end."""
    length: int | None = None
    """Decisions of the episode, at the end."""


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Minibatches are learned from, by algorithms that tell of it: of small networks many in one go."""

    behavior: str
    minibatches: int
    """Gradient steps."""
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Losses by TensorBoard name, as far as they are known, at the end."""


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """An update of the weights begins or ends."""

    behavior: str
    version: int
    """Updates behind the weights."""
    decisions: int
    statistics: Mapping[str, float] = field(default_factory=dict)
    """Losses and the like by TensorBoard name, at the end."""
    seconds: float = 0.0
    """That it took, at the end."""
    error: str | None = None
    """Why it was undone (NaN), at the end."""


@dataclass(frozen=True, slots=True)
class EvaluationInfo:
    """A policy is scored, on the way or at the end of a run: by tasks that evaluate, and beside actors."""

    behavior: str
    version: int
    decisions: int
    scores: Mapping[str, float] = field(default_factory=dict)
    """By name, at the end."""


@dataclass(frozen=True, slots=True)
class SaveInfo:
    """A checkpoint is written."""

    behavior: str
    decisions: int
    path: Path | None = None
    """Its folder, at the end; None where it could not be written."""
    error: str | None = None
    """Why not, in a sentence."""


class Callback:
    """Override what you want to hear of."""

    stopped: str | None = None
    """What :meth:`stop` was told."""

    def stop(self, reason: str = "") -> None:
        """End the run as one that is done: saved, evaluated, exported, exit code 0.

        Takes effect with the event that is being told, or with the next that this callback hears of. Environments
        finish the exchange they are in.
        """
        self.stopped = reason

    def on_train_begin(self, info: TrainInfo) -> None:
        """Nothing has been started yet."""

    def on_train_end(self, info: TrainInfo) -> None:
        """Everything is saved; not called where nothing could be trained."""

    def on_episode_begin(self, info: EpisodeInfo) -> None:
        """An agent made the first decision of an episode; of actors in processes of their own only ends are told."""

    def on_episode_end(self, info: EpisodeInfo) -> None:
        """Its environment ended an episode; not called for those that were broken off."""

    def on_batch_begin(self, info: BatchInfo) -> None:
        """Within an update."""

    def on_batch_end(self, info: BatchInfo) -> None:
        """Within an update."""

    def on_update_begin(self, info: UpdateInfo) -> None:
        """Experience is handed to the algorithm."""

    def on_update_end(self, info: UpdateInfo) -> None:
        """Agents act with the new weights."""

    def on_evaluation_begin(self, info: EvaluationInfo) -> None:
        """A policy is about to be scored."""

    def on_evaluation_end(self, info: EvaluationInfo) -> None:
        """It was."""

    def on_save_begin(self, info: SaveInfo) -> None:
        """A checkpoint is about to be written."""

    def on_save_end(self, info: SaveInfo) -> None:
        """It is whole, or absent."""


class LambdaCallback(Callback):
    """A callback of functions: ``LambdaCallback(on_episode_end=lambda info: print(info.reward))``."""

    def __init__(self, **functions: Callable[[Any], object]) -> None:
        """``functions``: by the names of :class:`Callback`'s methods. Raises TypeError for another name."""
        for name, function in functions.items():
            if name not in _HOOKS:
                raise TypeError(f"'{name}' is nothing that a callback is told; known: {', '.join(_HOOKS)}")
            setattr(self, name, function)


_HOOKS: Final[tuple[Hook, ...]] = Hook.__args__  # type: ignore[attr-defined]


class Callbacks:
    """Tells a run's callbacks. All methods belong to the event loop, :meth:`soon` to any thread.

    Attributes:
        wanted: what anybody listens to, so that it is worth finding out what there is to tell.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback] = (),
        on_stop: Callable[[str], None] = lambda reason: None,
        on_error: Callable[[CallbackError], None] = lambda error: None,
    ) -> None:
        """``on_stop``: called once a callback asks for the end, with its reason; ``on_error``: once one has failed."""
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
        """The event loop that is running now is the run's."""
        self._loop = asyncio.get_running_loop()

    def tell(self, hook: Hook, info: object) -> None:
        """Call everybody who listens. Raises nothing: what fails is told to ``on_error``."""
        for callback in tuple(self._heard[hook]):
            try:
                getattr(callback, hook)(info)
            except Exception as error:
                for others in self._heard.values():
                    if callback in others:
                        others.remove(callback)
                self.wanted = {name for name, others in self._heard.items() if others}
                reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
                failed = CallbackError(f"the callback {type(callback).__name__} failed in {hook}: {reason}; mend it")
                failed.__cause__ = error
                self._on_error(failed)
            else:
                if callback.stopped is not None:
                    self._on_stop(callback.stopped or f"the callback {type(callback).__name__} asked for it")

    def soon(self, hook: Hook, info: object) -> None:
        """The same from another thread, once the event loop comes to it; at once in a run that has none."""
        if self._loop is None:
            self.tell(hook, info)
        elif self._heard[hook] and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.tell, hook, info)


NOBODY: Final = Callbacks()
"""Hears nothing."""


def _overrides(callback: Callback, hook: str) -> bool:
    return hook in vars(callback) or getattr(type(callback), hook) is not getattr(Callback, hook)


def named(names: Sequence[str]) -> Iterator[Callback]:
    """The callbacks that a settings file names. Raises SettingsError where one cannot be made."""
    for name in names:
        kind = plugins.load("callbacks", name)
        try:
            made = kind()
        except Exception as error:
            raise SettingsError(
                f"callbacks: '{name}' cannot be made: {type(error).__name__}: {error}; it is called without arguments"
            ) from error
        if not isinstance(made, Callback):
            raise SettingsError(f"callbacks: '{name}' makes no tau_trainer.Callback but {type(made).__name__}")
        yield made
