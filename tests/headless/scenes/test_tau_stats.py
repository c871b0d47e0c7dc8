"""Statistics of the scene tau."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.specs import Aggregation
from tests.headless.scenes.playing import begin, step
from tests.headless.scenes.taus import answer, scene, truth


def test_stats_come_every_thousand_rewards() -> None:
    played = scene(agents=10)
    batch = begin(played)
    for number in range(250):
        right = truth(played).copy()
        right[5:] = 0.0
        batch = step(played, answer(right[: len(batch)]))
        stats = {stat.key: stat for stat in played.stats()}
        assert bool(stats) == (number % 100 == 99)
        if stats:
            assert stats["Tau/Decisions"].value == (number // 100 + 1) * 1000
            assert stats["Tau/Decisions"].aggregation is Aggregation.MOST_RECENT
            assert stats["Tau/Pair 0/Mean Reward"].value == pytest.approx(1.0)
            assert stats["Tau/Pair 9/Mean Reward"].value < 0.7
            pairs = [stats[f"Tau/Pair {number}/Mean Reward"].value for number in range(10)]
            assert stats["Averaged Reward"].value == pytest.approx(np.mean(pairs))
            assert stats["Averaged Reward"].aggregation is Aggregation.AVERAGE
            assert 0.5 <= stats["Tau/Accuracy"].value < 0.6
            assert 0.5 < stats["Tau/Within Threshold"].value < 0.8
            assert 0.0 < stats["Tau/Mean Abs Error"].value < 0.5
