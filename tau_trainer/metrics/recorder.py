"""The contract between the hub and whoever shows, writes or forwards numbers."""

from __future__ import annotations

from tau_trainer.metrics.snapshot import RunReport, RunSnapshot
from tau_trainer.metrics.summary import Event, Summary


class Recorder:
    """Receives everything the hub has, one call at a time, in order, from one thread. This one ignores all of it.

    An exception from any of these never stops a run: the hub tells the other recorders once and goes on.
    """

    keeps = False
    """Whether it writes files that are to last: where it cannot, the run has lost something."""

    def on_summary(self, summary: Summary) -> None:
        """Every ``summary_freq`` decisions of a behavior. None is ever left out."""

    def on_event(self, event: Event) -> None:
        """Something happened once. None is ever left out."""

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        """The run now. When they come faster than they are handled, only the newest is delivered."""

    def on_result(self, result: RunReport) -> None:
        """The run has ended. Comes last."""

    def close(self) -> None:
        """Write what is left and let go of files and of the terminal."""
