"""The episodes of a ring's rows: finds any other row of the same episode, without a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Rows
from tau_trainer.specs import BoolArray

Strategy = Literal["future", "final", "episode"]
"""Which row of an episode to pick for one of its rows: itself or a later one, the last one, or any."""
_Write = Callable[[NDArray[Any], Rows, "Rows | int"], None]
"""Changes an array at some places."""


class EpisodeIndex:
    """The episodes in a ring of ``capacity`` rows, even if rows of different agents arrive mixed.

    Rows have *numbers* here, 0, 1, 2, ... in order of arrival; row ``i`` is in place ``i % capacity`` until row ``i +
    capacity`` overwrites it. The rows of an open episode are kept in a list. When it has ended, they get *slots*, also
    consecutive numbers, in order of time; an episode that lost decisions ends there.

    While a row is stored, fewer than ``2 * capacity`` slots are assigned after its own: to stored rows that had none
    yet, and to later rows. So a table of that length finds the row in every slot that matters.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._slot = np.zeros(capacity, np.intp)
        """By place: the row's slot; 0: its episode is open."""
        self._end = np.zeros(capacity, np.intp)
        """By place: the slot after the episode's last row."""
        self._in_slot = np.zeros(2 * capacity, np.intp)
        """By slot: the row."""
        self._begin = np.zeros(2 * capacity, np.intp)
        """By slot of last rows: the slot of the episode's first row that is still stored."""
        self.clear()

    def clear(self, count: int = 0) -> None:
        """Forget every row; the next one has the number ``count``."""
        self._slot[:] = 0
        self._slots = 1
        self._count = count
        self._open: tuple[Rows, Rows] = np.zeros(0, np.intp), np.zeros(0, np.intp)
        """Ascending numbers of the rows of open episodes, and the number of each one's first row."""

    def add(self, before: Rows, waiting: Rows) -> Callable[[], None]:
        """Add ``n`` rows, at most ``capacity``.

        Args:
            before: [n], the place of the row before each one in its episode; -1: none is stored.
            waiting: places of the last rows of open episodes. All other episodes have ended.

        Returns:
            A function that undoes the addition, until the next rows are added.
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
        before = np.where(before >= 0, self._number_of(before), -1)  # numbers of the previous rows, or -1
        episodes, old = numbers.copy(), (before >= 0) & (before < first)  # a row after an open row joins its episode
        episodes[old] = open_episodes[np.searchsorted(open_numbers, before[old])]
        # [n]: first row of each new row's episode.
        episodes = episodes[_heads(np.where(before >= first, before - first, np.arange(len(before))))]
        there = np.searchsorted(open_numbers, self._count - self._capacity)  # open rows overwritten now
        numbers = np.concatenate((open_numbers[there:], numbers))
        episodes = np.concatenate((open_episodes[there:], episodes))
        # An episode is open while its last row waits.
        goes_on = np.isin(episodes, episodes[np.searchsorted(numbers, self._number_of(waiting))])
        self._open = numbers[goes_on], episodes[goes_on]
        if not goes_on.all():
            order = np.argsort(episodes[~goes_on], kind="stable")  # by episode, then by time
            self._close(numbers[~goes_on][order], episodes[~goes_on][order], write)
        return undo

    def _overwrite(self, places: Rows, write: _Write) -> None:
        """Remove the rows in ``places``, ordered by age: in every episode, the oldest go first."""
        gone = places[self._slot[places] > 0]
        last = (self._end[gone] - 1) % len(self._begin)  # slot of each one's last row
        write(self._begin, last, self._slot[gone] + 1)  # if one is written twice, the later value counts
        write(self._slot, places, 0)

    def _close(self, numbers: Rows, episodes: Rows, write: _Write) -> None:
        """Assign slots to the rows of ended episodes, which follow one another without gaps."""
        slots = self._slots + np.arange(len(numbers))  # consecutive, in order of time
        self._slots += len(numbers)
        # Starts of the episodes among them, and the end.
        bounds = np.flatnonzero(np.concatenate(([True], episodes[1:] != episodes[:-1], [True])))
        ends = self._slots - len(numbers) + bounds[1:]
        write(self._slot, numbers % self._capacity, slots)
        write(self._end, numbers % self._capacity, np.repeat(ends, np.diff(bounds)))
        write(self._in_slot, slots % len(self._in_slot), numbers)
        write(self._begin, (ends - 1) % len(self._begin), slots[bounds[:-1]])

    def ended(self, places: Rows) -> BoolArray:
        """Bool [n]: whether the episode of the row in each place has ended, so that other rows can be picked."""
        ended: BoolArray = self._slot[places] > 0
        return ended

    def pick(self, places: Rows, strategy: Strategy, chance: NDArray[np.float64]) -> Rows:
        """Another place of the same episode for each of ``places`` [n], all in ended episodes.

        Uniform over the candidates.

        ``chance``: float64 [n] in [0, 1), decides which.
        """
        end = self._end[places]  # slot after the last row
        begin = self._slot[places]  # slot of the row itself
        if strategy != "future":
            begin = end - 1 if strategy == "final" else self._begin[(end - 1) % len(self._begin)]
        slots = begin + (chance * (end - begin)).astype(np.intp)  # uniform over the candidate slots
        return self._place(np.minimum(slots, end - 1))  # a chance of nearly 1 rounds up

    def _number_of(self, places: Rows) -> Rows:
        newest = self._count - 1
        numbers: Rows = newest - (newest - places) % self._capacity  # the newest number in the place
        return numbers

    def _place(self, slots: Rows) -> Rows:
        places: Rows = self._in_slot[slots % len(self._in_slot)] % self._capacity
        return places


def _heads(parents: Rows) -> Rows:
    """The first of each chain: ``parents[i] <= i``, and equal at a chain's head. Every pass doubles the stride."""
    while not np.array_equal(further := parents[parents], parents):
        parents = further
    return parents
