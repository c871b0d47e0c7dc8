from __future__ import annotations

import pytest

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.training.learning.progress import Progress
from tests.training.fakes import Memory


@pytest.mark.parametrize(("gathers", "mean"), [(False, 2.5), (True, 3.0)])
def test_gathered_statistics_are_means_over_gradient_steps(*, gathers: bool, mean: float) -> None:
    """Actors bring updates of different numbers of steps, so one of two steps counts twice."""
    with MetricsHub([memory := Memory()]) as hub:
        progress = Progress("Agent", hub, 1000, 100)
        if gathers:
            progress.gather()
        for loss, steps in ((1.0, 1.0), (4.0, 2.0)):
            progress.took(0.001, {"Losses/Some": loss, keys.MINIBATCHES: steps})
        progress.flush(training=True)
    assert memory.summaries[0].values["Losses/Some"] == mean
    assert progress.opts == 3
