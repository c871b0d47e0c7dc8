"""What an actor hands on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tau_trainer.settings import AsyncTrainerSettings
from tau_trainer.training.actors.pusher import Pusher


@pytest.mark.parametrize(
    ("rollout", "mode", "expected"),
    [(100, "free", ["push", "wait", "sync"]), (0, "lock_step", ["push", "wait", "sync"]), (0, "free", ["push"])],
)
def test_an_actor_that_brings_a_part_of_a_rollout_waits_for_the_update(
    rollout: int, mode: str, expected: list[str]
) -> None:
    done: list[str] = []
    work = SimpleNamespace(sent=lambda: ({}, {}), release=lambda: None)
    trainer = SimpleNamespace(push=lambda data, arrays: done.append("push"), wait=lambda: done.append("wait"))
    pusher = SimpleNamespace(
        algorithm=SimpleNamespace(rollout_size=rollout, ready=lambda counters: work),
        actor=SimpleNamespace(policy=SimpleNamespace(version=0)),
        left=10,
        name="Count-v0",
        sync=lambda: done.append("sync"),
        _uncounted=1,
        _opts=0,
        _rollouts=rollout > 0,
        _async=SimpleNamespace(mode=mode),
        _trainer=trainer,
    )
    Pusher.push(cast(Pusher, pusher), 1)
    assert done == expected


@pytest.mark.parametrize(
    ("rollout", "mode", "least"), [(0, "free", 30), (100, "free", 30), (50, "free", 25), (99, "lock_step", 50)]
)
def test_an_actor_pushes_few_at_once_but_its_share_in_lock_step(rollout: int, mode: str, least: int) -> None:
    settings = AsyncTrainerSettings.model_validate({"actors": 2, "mode": mode, "n_buffer": 30})
    pusher = SimpleNamespace(algorithm=SimpleNamespace(rollout_size=rollout), _async=settings)
    assert Pusher._least.fget(pusher) == least  # type: ignore[attr-defined]
