"""Prioritized replay (Schaul et al. 2016), as in border: transitions with large errors are drawn more often.

A row's priority is ``(error + 1e-8)^alpha``; new rows get the largest priority so far. A row is drawn in proportion to
it and has the weight ``(N P)^-beta``, divided by the largest such weight. ``beta`` grows linearly with gradient steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Rows
from tau_trainer.specs import Float64Array, FloatArray, Json

_FANOUT = 16
"""Children of a node: few levels, each with a few vectorised operations for all requested rows."""
_LEAST = 1e-8
"""Added to errors, so that every row can be drawn again."""


class Tree:
    """Sums, or minima, of ``capacity`` changing numbers, and the place where a running sum reaches a value.

    Nodes depend only on the current numbers, so numbers that are restored give the same tree.
    """

    def __init__(self, capacity: int, *, minima: bool = False) -> None:
        self._minima = minima
        empty = np.inf if minima else 0.0
        sizes = [-(-capacity // _FANOUT)]  # nodes of each level
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // _FANOUT))
        self._levels = [np.full((size, _FANOUT), empty) for size in sizes]  # float64 [nodes, 16]
        """The numbers themselves, then the nodes over every 16 of the level before."""

    @property
    def numbers(self) -> Float64Array:
        """All of them, [capacity or a few more]."""
        return self._levels[0].reshape(-1)

    @property
    def root(self) -> float:
        """The sum, or the minimum, of all."""
        top = self._levels[-1]
        return float(top.min() if self._minima else top.sum())

    def set(self, places: Rows, values: Float64Array | float) -> None:
        """Change some; if a place is repeated, its last value counts."""
        self.numbers[places] = values
        for level, above in zip(self._levels, self._levels[1:], strict=False):
            places = places // _FANOUT  # nodes above the changes
            below = level[places]  # [n, 16]; a repeated node is computed twice, with the same result
            above.reshape(-1)[places] = below.min(axis=1) if self._minima else below.sum(axis=1)

    def find(self, values: Float64Array) -> Rows:
        """[n]: the first place up to which the numbers add up to at least each of ``values`` [n]."""
        places = np.zeros(len(values), np.intp)
        each = np.arange(len(values))
        rest = values.astype(np.float64)  # remainder of each value below the node
        for level in reversed(self._levels):
            sums = np.zeros((len(values), _FANOUT + 1))  # [n, 17]: sums before each child, and after the last
            np.cumsum(level[places], axis=1, out=sums[:, 1:])
            # Rounding may leave a small remainder after the last child.
            child = np.minimum((sums[:, 1:] < rest[:, None]).sum(axis=1), _FANOUT - 1)
            rest -= sums[each, child]
            places = places * _FANOUT + child
        return places


class Priorities:
    """The priorities of a ring's rows, by place. Keys and defaults are those of border's ``PerConfig``.

    Args:
        capacity: of the ring.
        alpha: influence of errors; 0: all rows have the same priority.
        beta_0: initial share of the correction for non-uniform draws.
        beta_final: the same after ``n_opts_final`` gradient steps.
        n_opts_final: number of gradient steps until then.
        normalize: divide weights by the largest of ``All`` rows or of a ``Batch``.
    """

    def __init__(
        self,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta_0: float = 0.4,
        beta_final: float = 1.0,
        n_opts_final: int = 500_000,
        normalize: str = "All",
    ) -> None:
        self._alpha, self._betas, self._until = alpha, (beta_0, beta_final), n_opts_final
        self._all = normalize == "All"
        self._sums, self._minima = Tree(capacity), Tree(capacity, minima=True)
        self._size = 0
        self._largest = 1.0  # for new rows, so that each is soon drawn once
        self._steps = 0
        self._journal: list[tuple[Rows, Float64Array]] = []
        """Changed places since rows were last added, with their old values."""
        self._before = 0, 1.0, 0

    @property
    def beta(self) -> float:
        """The current share of the correction."""
        first, last = self._betas
        return first + (last - first) * min(self._steps / self._until, 1.0)

    def append(self, places: Rows) -> None:
        """Report that rows were added in these places."""
        self.mark()
        self._set(places, np.full(len(places), self._largest))
        self._size = max(self._size, int(places.max(initial=-1)) + 1)

    def mark(self) -> None:
        """Let :meth:`undo` revert changes from now on."""
        self._journal, self._before = [], (self._size, self._largest, self._steps)

    def undo(self) -> None:
        """Revert all changes since the last :meth:`mark`, or since and including the last :meth:`append`."""
        self._size, self._largest, self._steps = self._before
        while self._journal:
            places, values = self._journal.pop()
            self._sums.set(places, values)
            # A row that did not exist has sum 0 and minimum infinity.
            self._minima.set(places, np.where(values > 0.0, values, np.inf))

    def draw(self, uniform: Float64Array) -> tuple[Rows, FloatArray]:
        """Places and weights, each [minibatches, rows] like ``uniform``: random numbers from 0 to 1."""
        # Rounding may point beyond the last row.
        places = np.minimum(self._sums.find(uniform.ravel() * self._sums.root), self._size - 1).reshape(uniform.shape)
        priorities = self._sums.numbers[places]  # [minibatches, rows]
        # The rarest row has the largest weight.
        least = self._minima.root if self._all else priorities.min(axis=1, keepdims=True)
        # (N P)^-beta / (N P_min)^-beta
        return places, ((priorities / least) ** -self.beta).astype(np.float32)

    def update(self, places: Rows, errors: NDArray[np.floating[Any]]) -> None:
        """Report a gradient step from rows in ``places`` [n], with their new ``errors`` [n] >= 0."""
        values = (errors.astype(np.float64) + _LEAST) ** self._alpha
        self._largest = max(self._largest, float(values.max(initial=0.0)))
        self._set(places, values)
        self._steps += 1

    def _set(self, places: Rows, values: Float64Array) -> None:
        self._journal.append((places, self._sums.numbers[places]))
        self._sums.set(places, values)
        self._minima.set(places, values)

    def state(self) -> tuple[Float64Array, dict[str, Any]]:
        """The priorities of all rows (a view), and facts as JSON values."""
        return self._sums.numbers[: self._size], {"largest": self._largest, "steps": self._steps}

    def load(self, priorities: Float64Array, metadata: Json) -> None:
        """Restore :meth:`state`. Raises ValueError if these are not priorities of this ring."""
        size = len(priorities)
        if priorities.ndim != 1 or size > len(self._sums.numbers) or not (priorities > 0.0).all():
            raise ValueError("the priorities of the replay memory cannot be read")
        self._set(np.arange(size), np.asarray(priorities, np.float64))
        self._size, self._largest, self._steps = size, float(metadata["largest"]), int(metadata["steps"])
        self._journal = []
