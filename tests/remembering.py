"""A recorder for tests of what is recorded."""

from __future__ import annotations

from tau_trainer.metrics import Event, Recorder, RunReport, RunSnapshot, Summary


class Memory(Recorder):
    """Keeps everything that the hub hands out."""

    def __init__(self) -> None:
        self.summaries: list[Summary] = []
        self.events: list[Event] = []
        self.snapshots: list[RunSnapshot] = []
        self.results: list[RunReport] = []
        self.closed = 0

    def on_summary(self, summary: Summary) -> None:
        self.summaries.append(summary)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_snapshot(self, snapshot: RunSnapshot) -> None:
        self.snapshots.append(snapshot)

    def on_result(self, result: RunReport) -> None:
        self.results.append(result)

    def close(self) -> None:
        self.closed += 1

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if event.kind == "warning" and event.message is not None]

    def states(self, pair: int) -> list[str]:
        told = [event for event in self.events if event.kind == "pair" and event.fields["pair"] == pair]
        return [event.fields["state"] for event in told]
