"""A run whose collector only counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from typing_extensions import override

from tau_trainer.metrics import BehaviorSnapshot, JsonLines, Recorder, RunReport
from tau_trainer.runs.callbacks import Callback
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.run import Run
from tau_trainer.runs.session import start
from tau_trainer.runs.store import PolicySnapshot
from tau_trainer.settings import RunSettings
from tests.training.fakes import Memory
from tests.waiting import HANG_S

Turn = Callable[["Counting", int], None]


def nothing(_counting: Counting, _step: int) -> None: ...


class Counting(Collector):
    """Counts to ten; ``turn`` is called after each step."""

    command = "learn"
    unit = "counts"
    subject = "numbers"
    max_steps = 10

    def __init__(self, run: Run, turn: Turn = nothing) -> None:
        self.run, self.count, self.turn, self.evaluated, self.interrupted = run, 0, turn, False, 0

    @property
    @override
    def steps(self) -> int:
        return self.count

    @property
    @override
    def done(self) -> bool:
        return self.count >= self.max_steps

    @property
    @override
    def learned(self) -> bool:
        return self.count > 0

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return (BehaviorSnapshot("A", self.count, self.max_steps, 0, None),)

    @override
    def advance(self) -> bool:
        if self.done or self.run.ending:
            return False
        self.count += 1
        self.turn(self, self.count)
        return True

    @override
    def interrupt(self) -> None:
        self.interrupted += 1

    @override
    def save(self) -> None:
        self.run.store.save([self.kept(name) for name in "AB"])

    def kept(self, name: str) -> PolicySnapshot:
        return PolicySnapshot(name, self.count, lambda: ({"count": np.array([self.count])}, {"name": name}), None, 1)

    @override
    def conclude(self) -> Conclusion:
        self.evaluated = not self.run.hurried.is_set()
        more, gone, bare = (self.run.folder.path / name for name in ("more", "gone", "bare"))
        more.write_text("more")
        bare.mkdir()
        return Conclusion([Export("A", self.export, self.count)], {"more": more, "gone": gone, "bare": bare})

    def export(self, path: Path) -> None:
        path.write_bytes(b"a model")


def counted(
    settings: RunSettings, turn: Turn = nothing, memory: Memory | None = None, *callbacks: Callback
) -> tuple[RunReport, Counting]:
    found: list[Counting] = []

    @contextmanager
    def begin(run: Run) -> Iterator[Collector]:
        found.append(Counting(run, turn))
        yield found[0]

    def recorders(folder: Path) -> list[Recorder]:
        return [JsonLines(folder / "log.jsonl"), memory or Memory()]

    session = start(settings, "kept: true\n", 3, begin, recorders=recorders, callbacks=callbacks)
    return session.wait(HANG_S), found[0]


def other(settings: RunSettings) -> RunSettings:
    """The same under another name."""
    chosen = settings.checkpoint_settings.model_copy(update={"run_id": "other"})
    return settings.model_copy(update={"checkpoint_settings": chosen})
