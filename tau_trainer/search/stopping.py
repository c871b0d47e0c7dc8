"""Work that can be stopped, and the part of it that runs at the moment."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Stops(Protocol):
    """Anything that can be asked to end."""

    def stop(self) -> None:
        """End soon."""


PartT = TypeVar("PartT", bound=Stops)


class Stoppable:
    """Ends soon once it is stopped, together with the part of it that runs."""

    stopped = False
    """Whether it was asked to end."""
    _part: Stops | None = None

    def stop(self) -> None:
        """End soon, and keep the results so far. Call from any thread, also before it runs."""
        self.stopped = True
        if self._part is not None:
            self._part.stop()

    def running(self, part: PartT) -> PartT:
        """``part``, which from now on ends with this; at once, if this was stopped meanwhile."""
        self._part = part
        if self.stopped:
            part.stop()
        return part
