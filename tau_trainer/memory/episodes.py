"""Which rows of a ring are one episode: from any row to any other of its episode, without a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Rows
from tau_trainer.specs import BoolArray

Strategy = Literal["future", "final", "episode"]
"""Which row of an episode is picked for one of its rows: itself or any after it, the last one, or any."""
_Write = Callable[[NDArray[Any], Rows, "Rows | int"], None]
"""Changes an array at some places."""


class Episodes:
    """The episodes in a ring of ``capacity`` rows, whoever's rows arrive in between.

    Rows are known by their *numbers* here, 0, 1, 2, ... in order of arrival; row ``i`` lies in place ``i % capacity``
    until row ``i + capacity`` takes it. The rows of an episode that goes on are kept in a list. When it has ended they
    get *slots*, consecutive numbers too, in order of time; an episode of which decisions were lost ends there.

    While a row is there, fewer than ``2 * capacity`` slots are given away after its own: to rows that were there and
    had none yet, and to rows that came later. So a table of that length knows the row in every slot that matters.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._slot = np.zeros(capacity, np.intp)
        """By place: the row's slot; 0: its episode goes on."""
        self._end = np.zeros(capacity, np.intp)
        """By place: the slot behind the episode's last row."""
        self._in_slot = np.zeros(2 * capacity, np.intp)
        """By slot: the row."""
        self._begin = np.zeros(2 * capacity, np.intp)
        """By slot, of last rows: the slot of the episode's first row that is still there."""
        self.clear()

    def clear(self, count: int = 0) -> None:
        """Forget every row; the next one has the number ``count``."""
        self._slot[:] = 0
        self._slots = 1
        self._count = count
        self._open: tuple[Rows, Rows] = np.zeros(0, np.intp), np.zeros(0, np.intp)
        """Ascending numbers of the rows of episodes that go on, and the number of each one's first row."""

    def add(self, before: Rows, waiting: Rows) -> Callable[[], None]:
        """Add ``n`` rows, at most ``capacity``.

        Args:
            before: [n], the place of the row that each came after in its episode; -1: none that is there.
            waiting: places of the last rows of episodes that go on. All others have ended.

        Returns:
            What takes that back, until the next rows are added.
        """
        kept = self._open, self._slots, self._count
        changes: list[tuple[NDArray[Any], Rows, NDArray[Any]]] = []

        def write(array: NDArray[Any], places: Rows, values: Rows | int) -> None:
            changes.append((array, places, array[places]))
            array[places] = values

        def undo() -> None:
            for array, places, values in reversed(changes):
                array[places] = values
            self._open, self._slots, self._count = kept

        first, (open_numbers, open_episodes) = self._count, self._open
        numbers = first + np.arange(len(before))  # in order of arrival
        self._count += len(before)
        self._overwrite(numbers % self._capacity, write)
        before = np.where(before >= 0, self._number_of(before), -1)  # numbers of the rows before, or -1
        episodes, old = numbers.copy(), (before >= 0) & (before < first)  # who came after an open row joins its episode
        episodes[old] = open_episodes[np.searchsorted(open_numbers, before[old])]
        # [n]: first row of each new row's episode.
        episodes = episodes[_heads(np.where(before >= first, before - first, np.arange(len(before))))]
        there = np.searchsorted(open_numbers, self._count - self._capacity)  # open rows that are overwritten now
        numbers = np.concatenate((open_numbers[there:], numbers))
        episodes = np.concatenate((open_episodes[there:], episodes))
        # An episode goes on while its last row waits.
        goes_on = np.isin(episodes, episodes[np.searchsorted(numbers, self._number_of(waiting))])
        self._open = numbers[goes_on], episodes[goes_on]
        if not goes_on.all():
            order = np.argsort(episodes[~goes_on], kind="stable")  # by episodes, in each by time
            self._close(numbers[~goes_on][order], episodes[~goes_on][order], write)
        return undo

    def _overwrite(self, places: Rows, write: _Write) -> None:
        """The rows in ``places``, by age, go: in every episode the oldest do."""
        gone = places[self._slot[places] > 0]
        last = (self._end[gone] - 1) % len(self._begin)  # slot of each one's last row
        write(self._begin, last, self._slot[gone] + 1)  # where one is written twice, the later counts
        write(self._slot, places, 0)

    def _close(self, numbers: Rows, episodes: Rows, write: _Write) -> None:
        """Give slots to the rows of episodes that have ended, which lie end to end."""
        slots = self._slots + np.arange(len(numbers))  # consecutive, in order of time
        self._slots += len(numbers)
        # Where episodes begin among them, and the end.
        bounds = np.flatnonzero(np.concatenate(([True], episodes[1:] != episodes[:-1], [True])))
        ends = self._slots - len(numbers) + bounds[1:]
        write(self._slot, numbers % self._capacity, slots)
        write(self._end, numbers % self._capacity, np.repeat(ends, np.diff(bounds)))
        write(self._in_slot, slots % len(self._in_slot), numbers)
        write(self._begin, (ends - 1) % len(self._begin), slots[bounds[:-1]])

    def ended(self, places: Rows) -> BoolArray:
        """Bool [n]: whether the episode of the row in each of ``places`` is over, so that others can be found."""
        ended: BoolArray = self._slot[places] > 0
        return ended

    def pick(self, places: Rows, strategy: Strategy, chance: NDArray[np.float64]) -> Rows:
        """Another place of the same episode for each of ``places`` [n], all ended; even chances for all that may be.

        ``chance``: float64 [n] in [0, 1): which of them.
        """
        end = self._end[places]  # slot behind the last row
        begin = self._slot[places]  # slot of the row itself
        if strategy != "future":
            begin = end - 1 if strategy == "final" else self._begin[(end - 1) % len(self._begin)]
        slots = begin + (chance * (end - begin)).astype(np.intp)  # evenly among the slots that may be
        return self._place(np.minimum(slots, end - 1))  # a chance of nearly 1 rounds up

    def whole(self, places: Rows) -> tuple[Rows, BoolArray]:
        """What is there of the episodes of the rows in ``places`` [m], all ended; an episode as often as it is named.

        Returns:
            The places of these episodes, laid end to end, [n], and where one begins, bool [n].
        """
        end = self._end[places]
        begin = self._begin[(end - 1) % len(self._begin)]
        first = np.cumsum(end - begin) - (end - begin)  # where each begins, laid end to end
        begins = np.zeros(int((end - begin).sum()), np.bool_)
        begins[first] = True
        return self._place(np.arange(len(begins)) + np.repeat(begin - first, end - begin)), begins

    def _number_of(self, places: Rows) -> Rows:
        newest = self._count - 1
        numbers: Rows = newest - (newest - places) % self._capacity  # the newest number that lies in the place
        return numbers

    def _place(self, slots: Rows) -> Rows:
        places: Rows = self._in_slot[slots % len(self._in_slot)] % self._capacity
        return places


def _heads(parents: Rows) -> Rows:
    """The first of each chain: ``parents[i] <= i``, and equal at a chain's head. Every pass doubles the stride."""
    while not np.array_equal(further := parents[parents], parents):
        parents = further
    return parents
