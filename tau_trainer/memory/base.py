"""What every memory promises, and what it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Column, Rows
from tau_trainer.specs import BoolArray, FloatArray, IntArray, Observations

Values = Mapping[str, NDArray[Any] | None]
"""An array [n, ...] for each column; None where the column's ``fill`` stands for everybody."""
WorkData = Mapping[str, Any]
"""Plain arrays and numbers by name: they can be sent to another process as they are."""


class Known(NamedTuple):
    """What is known as ``n`` agents of one behavior in one environment decide together, or as their episodes end."""

    rewards: Mapping[str, FloatArray]
    """float32 [n, R] for each reward stream that the engine or the AgentTrainer pays, since the agent's message before.
    What its group got is in it only where :attr:`group_reward` is None."""
    group_reward: FloatArray | None = None
    """float32 [n]: what the agent's group got since then, apart from the agent's own; None: nothing."""
    group: IntArray | int = 0
    """int32 [n], see :data:`~tau_trainer.columns.GROUP`; a number: of all."""
    plays_on: BoolArray | None = None
    """bool [n], of ends: whether others of the agent's group are still in an episode; None: nowhere."""
    moment: int = 0
    """See :data:`~tau_trainer.columns.MOMENT`; ends and decisions of one message have the same."""
    team: int = 0
    """See :data:`~tau_trainer.columns.TEAM`."""


@dataclass(frozen=True, slots=True, eq=False)
class Work(Mapping[str, Any]):
    """What one update learns from: a mapping of its data, and what is asked of the algorithm."""

    data: WorkData
    """Not to be read after :attr:`release`."""
    release: Callable[[], None] = lambda: None
    """The lease: gives the arrays back to the memory. Further calls do nothing."""
    source: int = 0
    """Whose it is, where several collect."""
    gradient_steps: int | None = None
    """To take now, and then the data may hold no transition; None: as many as the algorithm finds due."""
    anew: bool = False
    """Whether all environments began anew before it."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    @classmethod
    def of(cls, data: WorkData) -> Work:
        """``data`` as work, if it is none yet."""
        return data if isinstance(data, Work) else cls(data)

    def sent(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts that JSON can hold, and arrays: see :meth:`received`."""
        numbers = {name: value for name, value in self.data.items() if isinstance(value, int)}
        arrays = {name: value for name, value in self.data.items() if isinstance(value, np.ndarray)}
        asked = {"source": self.source, "gradient_steps": self.gradient_steps, "anew": self.anew}
        return {"numbers": numbers, **asked}, arrays

    @classmethod
    def received(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Work:
        """The same work, in another process."""
        asked = {name: facts[name] for name in ("source", "gradient_steps", "anew")}
        return cls({**arrays, **facts["numbers"]}, **asked)


class Memory(Protocol):
    """Where experience waits for the learner. Rows are the caller's numbers for its agents.

    A decision opens a record; the agent's next message closes it with the reward and with what came after.
    """

    columns: tuple[Column, ...]
    """What a decision brings beside its reward: observations, actions, and what the algorithm declares."""

    lost: int
    """Decisions that were given up so far."""

    @property
    def open_rows(self) -> Rows:
        """Rows whose last decision still waits for its outcome, ascending."""

    def append(self, rows: Rows, known: Known, values: Values, version: int) -> None:
        """Record one decision of each row.

        Args:
            rows: integers [n], each at most once.
            known: its rewards are for the action *before* this observation; ignored for a row without an open record.
            values: [n, *shape] for every column but :data:`~tau_trainer.columns.KNOWN`; None = the column's ``fill``.
            version: of the policy that acted.
        """

    def end(self, rows: Rows, known: Known, obs: Observations, truncated: BoolArray) -> None:
        """Close the records of agents whose episode ended; rows without an open record are ignored.

        Args:
            rows: integers [m], each at most once.
            known: with the last rewards, and whether the groups of the agents play on.
            obs: the episode's last observation, [m, *shape] for each sensor.
            truncated: bool [m], True where a limit cut the episode: the rest is bootstrapped from ``obs``.
        """

    def abandon(self, rows: Rows) -> None:
        """Give up decisions whose outcome will never be known (the engine was lost)."""

    def clear(self) -> None:
        """Forget everything that was not handed out."""
