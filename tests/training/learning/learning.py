"""Learners whose updates wait until they may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tau_trainer.algorithms import Publish
from tau_trainer.memory import WorkData
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.loop import UpdateLoop
from tests.waiting import HANG_S

Make = Callable[..., Learner]
MakeLoop = Callable[..., UpdateLoop]


class Gate:
    """Holds every update until it is opened."""

    def __init__(self, learner: Learner, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.open = threading.Event()
        self.updates = 0
        self.released = 0
        self.publishes: list[bool] = []
        update, take = learner.algorithm.update, learner.memory.take  # type: ignore[attr-defined]

        def gated(work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
            assert self.open.wait(HANG_S)
            self.updates += 1
            self.publishes.append(publish is not None)
            if error is not None:
                raise error
            return update(work, progress, publish)

        def counted() -> Any:
            work = take()

            def release() -> None:
                self.released += 1
                work.release()

            return type(work)(work.data, release)

        monkeypatch.setattr(learner.algorithm, "update", gated)
        monkeypatch.setattr(learner.memory, "take", counted)


def gated(
    make_one: MakeLoop, monkeypatch: pytest.MonkeyPatch, most: int = 1, error: Exception | None = None
) -> tuple[UpdateLoop, Learner, Gate]:
    """A loop whose updates are held, its learner, and the gate."""
    loop = make_one(most=most)
    return loop, loop.learner, Gate(loop.learner, monkeypatch, error)
