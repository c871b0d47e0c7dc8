"""Experience that is learned from many times: the newest rows, drawn at random.

:class:`~tau_trainer.memory.rollout.RolloutMemory` collects and closes agents' experience, as for every algorithm. The
learning side moves the resulting transitions into this memory, so only transitions travel to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column, ColumnTable, Rows
from tau_trainer.memory.episodes import EpisodeIndex
from tau_trainer.memory.ring import rows_held
from tau_trainer.memory.trajectories import Rollout
from tau_trainer.specs import BoolArray

_AFTER = Column("after", (), np.intp)
"""Column with the place of the next observation: a place, or ``-1 - spare``; a row's own place if there is none."""
_NOBODY: Rows = np.zeros(0, np.intp)


class Links(NamedTuple):
    """Links between ``n`` rows that follow one another. Row numbers count from 0 among the ``n``; -1: none of them."""

    following: Rows
    """[n]: the row after each."""
    last: Arrays
    """[m, *shape] of each followed column: the next observations of rows without a following row."""
    bootstrapped: Rows
    """[m]: the rows before :attr:`last`."""
    resumed: Rows
    """[j]: the rows of decisions that were open when the previous rows were added."""
    waiting: Rows
    """[k]: the rows before the decisions that are open now."""
    carried: Rows
    """[k]: which of the ``j`` they are."""

    @classmethod
    def of(cls, rollout: Rollout, last: Arrays) -> Links:
        """The links of a rollout's transitions."""
        return cls(rollout.following, last, rollout.bootstrapped, rollout.resumed, *rollout.waiting)


class Replay:
    """A ring of rows: once it is full, every new row replaces the oldest.

    Rows have *places*, 0 to ``len - 1``, in no particular order of time. Columns have their declared types, so images
    stay bytes. Room that was never written takes no memory.

    The next observation of a row usually belongs to another row, later the next one of the same agent. So large columns
    are stored once, with the place of the next observation. Observations that belong to no row, or to none yet, are
    kept aside: the last one of an episode that a limit cut, and that of a decision that is still open.

    Args:
        columns: columns of a row.
        capacity: number of rows to keep.
        followed: further columns of which a row also has the next value, by the name of that.
        episodes: whether to track the rows of each episode.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        capacity: int,
        followed: Mapping[str, Column] = MappingProxyType({}),
        *,
        episodes: bool = False,
    ) -> None:
        self.columns = (*columns, *followed.values())
        self.followed = dict(followed)
        self.capacity = capacity
        self.episodes = EpisodeIndex(capacity) if episodes else None
        self.linked = episodes or bool(followed)
        """Whether it needs the links between rows."""
        self._table = ColumnTable((*self.columns, _AFTER), capacity)
        self._spares = ColumnTable(followed.values())
        self._size = 0
        self._next = 0
        self._used = 0
        """Largest number of values that were aside at the same time."""
        self._free: list[int] = []
        """Free places among these."""
        self._left: list[int] = []
        """Places that become free when the next rows arrive, because the last ones can then no longer be undone."""
        self._waiting: dict[int, Rows] = {}
        """By collector: places of the rows before its open decisions; -1: none."""
        self.newest = _NOBODY
        """Places of the rows that were added last."""

    def __len__(self) -> int:
        """Number of rows that it holds."""
        return self._size

    @property
    def row_bytes(self) -> int:
        """Bytes of a row returned by :meth:`take`."""
        values = [self._table[column.name] for column in (*self.columns, *self.followed.values())]
        return sum(column.itemsize * int(np.prod(column.shape[1:], dtype=np.int64)) for column in values)

    @property
    def spares(self) -> int:
        """Number of values of followed columns that are kept aside."""
        return self._used - len(self._free) - len(self._left)

    def append(self, values: Arrays, links: Links | None = None, source: int = 0) -> Callable[[], None]:
        """Add ``n`` rows, ``[n, *shape]`` for every column; if more than fit, only the last ones.

        ``links``: required if it is :attr:`linked`. ``source``: the collector of the rows, if there are several; its
        open decisions continue with its own next rows.

        Returns:
            A function that removes these rows again and restores the overwritten ones, until the next rows are added.
        """
        count = len(values[self.columns[0].name])
        kept = min(count, self.capacity)
        places = (self._next + np.arange(kept)) % self.capacity  # places wrap around: the oldest rows go first
        written = places[places < self._size]  # those that already hold a row
        self.newest = places
        # Copies, to restore them.
        before = self._size, self._next, {name: values.take(written, axis=0) for name, values in self._arrays().items()}
        relink = self._link(places, written, count, links, source) if links is not None else lambda: None
        for column in self.columns:
            self._table[column.name][places] = values[column.name][count - kept :]
        self._size = min(self._size + kept, self.capacity)
        self._next = (self._next + kept) % self.capacity

        def undo() -> None:
            self._size, self._next, overwritten = before
            relink()
            for name, rows in overwritten.items():
                self._table[name][written] = rows
            self.forget(source)

        return undo

    def forget(self, source: int = 0) -> None:
        """Do not link a collector's next rows to its last: decisions in between were lost."""
        self._waiting.pop(source, None)

    def forget_all(self) -> None:
        """The same for all collectors, because their environments restarted."""
        self._waiting = {}

    def _link(self, places: Rows, written: Rows, count: int, links: Links, source: int) -> Callable[[], None]:
        """Link new rows, and those that waited for them, to their next observations; returns a function that undoes it.

        Args:
            places: of the newest of the ``count`` rows.
            written: those of them that hold rows to overwrite.
            count: number of rows.
            links: of all of them.
            source: their collector.
        """
        after, first = self._table["after"], count - len(places)  # rows before `first` do not fit
        table = np.concatenate((np.full(first, -1, np.intp), places, [-1]))  # by row; the last entry means none
        self._free += self._left
        self._left = _spares_of(after[written])
        before = self._waiting
        # Overwritten rows no longer wait for their next observation.
        self._waiting = {other: np.where(np.isin(rows, written), -1, rows) for other, rows in before.items()}
        waiting = self._waiting.get(source, _NOBODY)
        # If the number of open decisions differs, decisions in between were lost, so nothing is linked to them.
        waiting = waiting if len(waiting) == len(links.resumed) else np.full(len(links.resumed), -1)
        now = table[links.resumed]  # places of decisions that were open at the previous call
        known = (waiting >= 0) & (now >= 0)  # both are stored
        resolved, unresolved = waiting[known], after[waiting[known]]
        self._left += _spares_of(unresolved)  # their values aside: the open decision's observation
        after[resolved] = now[known]
        ahead = table[links.following]
        after[places] = np.where(ahead >= 0, ahead, table[:-1])[first:]  # itself if there is no next observation
        here = links.bootstrapped >= first  # bool [m]
        spares = self._keep({name: values[here] for name, values in links.last.items()}, int(here.sum()))
        after[table[links.bootstrapped[here]]] = -1 - spares  # below 0: aside
        since = np.concatenate((waiting, [-1]))[links.carried]  # open in both: it has waited since earlier
        self._waiting[source] = np.where(links.waiting >= 0, table[links.waiting], since)
        separate: Callable[[], None] | None = None
        if self.episodes is not None:
            came_before = np.full(count + 1, -1, np.intp)  # one more for rows without a following row
            came_before[links.following] = table[:-1]
            came_before[links.resumed[known]] = resolved
            open_places = np.concatenate(list(self._waiting.values()))
            separate = self.episodes.add(came_before[first:-1], open_places[open_places >= 0])

        def undo() -> None:
            self._free += spares.tolist()
            self._left = []
            after[resolved] = unresolved
            self._waiting = before
            if separate is not None:
                separate()

        return undo

    def _keep(self, values: Arrays, count: int) -> Rows:
        """Put values [count, *shape] aside; returns their places."""
        lacking = max(0, count - len(self._free))  # new spare places
        self._spares.reserve(self._used + lacking)
        free = self._free + list(range(self._used, self._used + lacking))
        self._used += lacking
        cut = len(free) - count
        self._free, taken = free[:cut], np.array(free[cut:], np.intp)
        for column in self.followed.values():
            self._spares[column.name][taken] = values[column.name]
        return taken

    def recent(self, most: int) -> Rows:
        """Places of the newest rows, at most ``most``."""
        count = min(most, self._size)
        return (self._next - 1 - np.arange(count)) % max(self._size, 1)  # the newest first

    def where(self, name: str) -> Rows:
        """Places of the rows in which a bool column is true, [m], ascending."""
        return np.flatnonzero(self._table[name][: self._size])

    def take(self, places: Rows) -> dict[str, NDArray[Any]]:
        """Copies of the rows in ``places`` [n]: ``[n, *shape]`` per column, and the next values of followed ones."""
        rows = {column.name: self._table[column.name].take(places, axis=0) for column in self.columns}
        if not self.followed:
            return rows
        after = self._table["after"][places]
        aside = np.flatnonzero(after < 0)
        for name, column in self.followed.items():
            rows[name] = self._table[column.name].take(np.maximum(after, 0), axis=0)  # -1 - spare reads place 0 for now
            rows[name][aside] = self._spares[column.name][-1 - after[aside]]
        return rows

    def walk(self, starts: Rows, longest: int) -> tuple[Rows, BoolArray]:
        """Follow links from some places, up to ``longest`` rows each. The ring must be linked.

        Returns:
            The places of these sequences, end to end, [n], and their starts, bool [n].
        """
        places = self.follow(starts, longest)
        begins = np.zeros(places.shape, np.bool_)
        begins[:, 0] = True
        return places[places >= 0], begins[places >= 0]

    def follow(self, starts: Rows, longest: int) -> Rows:
        """The same side by side: places [n, longest], -1 after the end of a sequence."""
        after = self._table["after"]
        places = np.full((len(starts), longest), -1, np.intp)
        places[:, 0] = here = starts
        going = np.ones(len(starts), np.bool_)
        for step in range(1, longest):
            following = after[here]
            going &= (following >= 0) & (following != here)  # neither aside nor itself
            if not going.any():
                break
            here = np.where(going, following, here)  # ended sequences stay in place
            places[going, step] = here[going]
        return places

    def column(self, name: str, places: Rows) -> NDArray[Any]:
        """One column of the rows in ``places`` of any shape, copied."""
        values: NDArray[Any] = self._table[name][places]
        return values

    def _arrays(self) -> dict[str, NDArray[Any]]:
        columns = (*self.columns, _AFTER) if self.linked else self.columns
        return {column.name: self._table[column.name] for column in columns}

    def state(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Every column (views, except for the places of next observations), and the place of the next row."""
        arrays = {name: values[: self._size] for name, values in self._arrays().items()}
        if self.linked:
            after = arrays["after"].copy()
            aside = np.flatnonzero(after < 0)
            spares = {f"aside.{key.name}": self._spares[key.name][-1 - after[aside]] for key in self.followed.values()}
            after[aside] = -1 - np.arange(len(aside))  # so that the same rows give the same state
            arrays |= {"after": after, **spares}
        return arrays, self._next

    def load(self, arrays: Arrays, following: int) -> None:
        """Restore :meth:`state`: all places stay the same, so draws have the same meaning.

        Raises:
            ValueError: an array is missing, has another shape, or the ring had another capacity.
        """
        size = rows_held(arrays, {name: values.shape[1:] for name, values in self._arrays().items()})
        if size > self.capacity or not (following == size if size < self.capacity else 0 <= following < size):
            raise ValueError(f"the replay memory cannot be read: {size:,} rows do not fit {self.capacity:,}")
        spares = int(np.count_nonzero(arrays["after"] < 0)) if self.linked else 0
        asides = {f"aside.{column.name}": column.shape for column in self.followed.values()}
        kept = rows_held(arrays, asides) if asides else spares
        aside = {column.name: arrays[f"aside.{column.name}"] for column in self.followed.values()}
        if self.linked and (kept != spares or not _linked(arrays["after"], size, spares)):
            raise ValueError("the replay memory cannot be read: the observations after its rows are missing")
        self.clear()
        for name in self._arrays():
            self._table[name][:size] = arrays[name]
        self._keep(aside, spares)
        self._size, self._next = size, following
        if self.episodes is not None:
            oldest = following if size == self.capacity else 0
            places = (oldest + np.arange(size)) % self.capacity
            after = arrays["after"][places]
            followed = (after >= 0) & (after != places)
            came_before = np.full(size, -1, np.intp)
            # By age, in the order in which rows are added.
            came_before[(after[followed] - oldest) % self.capacity] = places[followed]
            self.episodes.clear(oldest)
            self.episodes.add(came_before, _NOBODY)

    def clear(self) -> None:
        """Forget every row."""
        self._size = self._next = self._used = 0
        self._free, self._left, self._waiting = [], [], {}
        if self.episodes is not None:
            self.episodes.clear()


def _spares_of(after: Rows) -> list[int]:
    spares: list[int] = (-1 - after[after < 0]).tolist()
    return spares


def _linked(after: NDArray[Any], size: int, aside: int) -> bool:
    """Whether every place and every value aside exists, the latter exactly once."""
    return bool((after < size).all()) and np.array_equal(np.sort(-1 - after[after < 0]), np.arange(aside))
