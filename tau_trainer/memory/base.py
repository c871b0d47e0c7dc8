"""What every memory promises, and what it hands out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tau_trainer.columns import Column, Rows
from tau_trainer.specs import BoolArray, FloatArray, Observations

Values = Mapping[str, NDArray[Any] | None]
"""An array [n, ...] for each column; None where the column's ``fill`` stands for everybody."""
WorkData = Mapping[str, Any]
"""Plain arrays and numbers by name: they can be sent to another process as they are."""
Rewards = Mapping[str, FloatArray]
"""float32 [n, R] for each reward stream that the engine or the AgentTrainer pays."""


@dataclass(frozen=True, slots=True)
class Work:
    """The data of one update."""

    data: WorkData
    """Not to be read after :attr:`release`."""
    release: Callable[[], None] = lambda: None
    """The lease: gives the arrays back to the memory. Further calls do nothing."""


class Memory(Protocol):
    """Where experience waits for the learner. Rows are the caller's numbers for its agents.

    A decision opens a record; the agent's next message closes it with the reward and with what came after.
    """

    columns: tuple[Column, ...]
    """What a decision brings beside its reward: observations, actions, and what the algorithm declares."""

    @property
    def open_rows(self) -> Rows:
        """Rows whose last decision still waits for its outcome, ascending."""

    def append(self, rows: Rows, rewards: Rewards, values: Values, version: int) -> None:
        """Record one decision of each row [n]; ``rewards`` close the decision before, where there is one."""

    def end(self, rows: Rows, rewards: Rewards, obs: Observations, truncated: BoolArray) -> None:
        """Episodes of ``rows`` [m] ended: last rewards, last observations, and whether a limit cut them."""

    def abandon(self, rows: Rows) -> None:
        """The outcome of these rows' last decisions will never be known."""

    def clear(self) -> None:
        """Forget everything that was not handed out."""
