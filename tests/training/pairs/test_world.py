"""Where the pairs of a population play."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tau_trainer.memory import TensorRollout
from tau_trainer.training.pairs.world import Payment
from tests.training.fakes import Memory, train
from tests.training.pairs.populations import assert_same, newest, settings


def test_rewards_are_those_that_engines_would_be_paid(tmp_path: Path, memory: Memory) -> None:
    """By the environment's own formula, which is what the task's rewarder pays component by component."""
    paid: list[tuple[torch.Tensor, torch.Tensor]] = []
    pay = Payment.pay

    def seen(self: Payment, rollout: TensorRollout, targets: list[torch.Tensor]) -> Any:
        found = pay(self, rollout, targets)
        paid.append((found[0].mean(dim=3), rollout.rewards))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Payment, "pay", seen)
        train(settings(tmp_path, tau__evaluate=False), memory)
    for ours, theirs in paid:
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    last = next(one for one in memory.summaries if one.behavior == "TauAgent-pair0")
    wanted = torch.cat([one for one, _ in paid])[:16, :4].mean()
    assert last.statistics["Tau/Mean Reward"].mean == pytest.approx(float(wanted), abs=1e-5)


def test_windows_of_rewards_begin_anew_with_every_checkpoint(tmp_path: Path) -> None:
    """So a run that was killed goes on from its newest whole ones as if it had not been."""
    more: dict[str, Any] = {
        "tau__reward__predicate": "positive",
        "tau__reward__window": 5,
        "tau__reward__learn_from": "aggregate",
        "behaviors__TauAgent__checkpoint_interval": 128,
    }
    whole = train(settings(tmp_path, **more))
    before = [newest(whole, pair) for pair in range(2)]
    late = [*whole.folder.glob("checkpoints/*-800"), *whole.folder.glob("checkpoints/TauAgent-pair0-768")]
    assert len(late) == 3, "killed while it saved"
    for path in late:
        shutil.rmtree(path)
    resumed = train(settings(tmp_path, checkpoint_settings__resume=True, **more))
    for pair in range(2):
        assert_same(newest(resumed, pair), before[pair])
