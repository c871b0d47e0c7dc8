"""The contract of a memory, and the work that it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Column, Rows
from tau_trainer.specs import BoolArray, FloatArray, IntArray, Json, Observations

if TYPE_CHECKING:
    from tau_trainer.memory.tensors import TensorRollout

Values = Mapping[str, NDArray[Any] | None]
"""An array [n, ...] for each column; None means the column's ``fill`` for all rows."""
WorkData = Mapping[str, Any]
"""Plain arrays and numbers by name, which can be sent to another process as they are."""


class StepFacts(NamedTuple):
    """Facts about ``n`` agents of one behavior in one environment, when they decide together or their episodes end."""

    rewards: Mapping[str, FloatArray]
    """float32 [n, R] for each stream that the engine or the AgentTrainer pays, since the agent's previous message.

    Includes the group's reward only if :attr:`group_reward` is None.
    """
    group_reward: FloatArray | None = None
    """float32 [n]: the reward of the agent's group since then, apart from the agent's own; None: no such reward."""
    group: IntArray | int = 0
    """int32 [n], see :data:`~tau_trainer.columns.GROUP`; a single number applies to all."""
    plays_on: BoolArray | None = None
    """bool [n], for ends: whether other agents of the group are still in an episode; None: none are."""
    moment: int = 0
    """See :data:`~tau_trainer.columns.MOMENT`; ends and decisions of one message have the same."""
    team: int = 0
    """See :data:`~tau_trainer.columns.TEAM`."""


@dataclass(frozen=True, slots=True, eq=False)
class Work(Json):
    """The experience of one update: a mapping of its data, and instructions for the algorithm."""

    data: WorkData
    """Must not be read after :attr:`release`."""
    release: Callable[[], None] = lambda: None
    """Ends the lease: gives the arrays back to the memory. Further calls do nothing."""
    source: int = 0
    """The collector of the data, if there are several."""
    gradient_steps: int | None = None
    """Number of steps to take now, in which case the data may be empty; None: the algorithm decides."""
    anew: bool = False
    """Whether all environments restarted before it."""
    tensors: TensorRollout | None = None
    """Experience of a batched environment, which comes without other data; may be overwritten after the update."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    @classmethod
    def of(cls, data: WorkData) -> Work:
        """``data`` as work, unless it is work already."""
        return data if isinstance(data, Work) else cls(data)

    def sent(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Metadata as JSON values, and arrays: see :meth:`received`."""
        numbers = {name: value for name, value in self.data.items() if isinstance(value, int)}
        arrays = {name: value for name, value in self.data.items() if isinstance(value, np.ndarray)}
        asked = {"source": self.source, "gradient_steps": self.gradient_steps, "anew": self.anew}
        return {"numbers": numbers, **asked}, arrays

    @classmethod
    def received(cls, metadata: Json, arrays: Mapping[str, NDArray[Any]]) -> Work:
        """The same work, in another process."""
        asked = {name: metadata[name] for name in ("source", "gradient_steps", "anew")}
        return cls({**arrays, **metadata["numbers"]}, **asked)


class Memory(Protocol):
    """Holds experience for the learner. Rows are the caller's numbers for its agents.

    A decision opens a record; the agent's next message closes it with the reward and the next observation.
    """

    columns: tuple[Column, ...]
    """Values of a decision in addition to its reward: observations, actions, and the algorithm's own columns."""

    lost: int
    """Number of decisions that were given up so far."""

    @property
    def open_rows(self) -> Rows:
        """Rows whose last decision still waits for its outcome, ascending."""

    def append(self, rows: Rows, facts: StepFacts, values: Values, version: int) -> None:
        """Record one decision of each row.

        Args:
            rows: integers [n], each at most once.
            facts: its rewards are for the action *before* this observation; ignored for a row without an open record.
            values: [n, *shape] for every column except :data:`~tau_trainer.columns.KNOWN`; None = the column's
            ``fill``.
            version: of the policy that acted.
        """

    def end(self, rows: Rows, facts: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        """Close the records of agents whose episode ended; rows without an open record are ignored.

        Args:
            rows: integers [m], each at most once.
            facts: with the last rewards, and whether the agents' groups continue.
            obs: the episode's last observation, [m, *shape] for each sensor.
            truncated: bool [m], True if a limit cut the episode: the rest is bootstrapped from ``obs``.
        """

    def abandon(self, rows: Rows) -> None:
        """Give up decisions whose outcome will never be known (the engine was lost)."""

    def clear(self) -> None:
        """Forget all experience that was not handed out."""
