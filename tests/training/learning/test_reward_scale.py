from __future__ import annotations

from tau_trainer.metrics import MetricsHub
from tau_trainer.training.learning.progress import Progress
from tests.training.fakes import Memory


def test_a_signal_that_drowns_the_environments_own_is_told_once() -> None:
    with MetricsHub([memory := Memory()]) as hub:
        progress = Progress("Maze", hub, 1000, 100, ["extrinsic", "curiosity", "rnd"])
        for curiosity, rnd, extrinsic in ((900.0, 10.0, 0.0), (9.0, 9.9, 1.0), (30.0, 4.0, 2.0), (900.0, 1.0, 1.0)):
            sizes = {"Train/Curiosity Return Size": curiosity, "Train/Rnd Return Size": rnd}
            hub.add_all("Maze", sizes | {"Train/Extrinsic Return Size": extrinsic})
            progress.flush(training=True)
        hub.add_all("Maze", {"Train/Rnd Return Size": 1e6})  # no episode ended that earned anything of the other
        progress.flush(training=True)
    assert memory.warnings == [
        "the reward signal curiosity drowns the environment's own: 30 an episode compared with 2, in absolute numbers; "
        "lower its strength"
    ]
