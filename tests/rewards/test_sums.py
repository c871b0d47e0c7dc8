from __future__ import annotations

import numpy as np

from tau_trainer.memory import Rollout, RolloutMemory, StepFacts
from tau_trainer.rewards.sums import EpisodeSums


class Player:
    """Two agents whose every decision is worth 1 to the first stream and their row + 2 to the second."""

    def __init__(self) -> None:
        self.memory = RolloutMemory((), (), rewards={"extrinsic": 1}, capacity=9, horizon=5)
        self.sums = EpisodeSums(2)

    def decide(self, *rows: int, times: int = 1) -> None:
        for _ in range(times):
            self.memory.append(
                np.array(rows), StepFacts({"extrinsic": np.zeros((len(rows), 1), np.float32)}), {}, version=0
            )

    def end(self, row: int, *, truncated: bool = False) -> None:
        nothing = StepFacts({"extrinsic": np.zeros((1, 1), np.float32)})
        self.memory.end(np.array([row]), nothing, (), np.array([truncated]))

    def earned(self, source: int = 0) -> list[list[float]]:
        rollout = Rollout(self.memory.take().data)
        paid = np.stack([np.ones(len(rollout)), rollout.rows + 2.0], axis=1).astype(np.float32)
        sums: list[list[float]] = self.sums.add(rollout, paid, source).tolist()
        return sorted(sums)


def test_an_episode_earns_what_all_its_rollouts_did() -> None:
    player = Player()
    player.decide(0, 1, times=7)  # beyond the horizon: a trace that is cut is no episode's end
    assert player.earned() == []
    player.decide(0, 1, times=2)
    player.end(0)
    player.decide(0, 1, times=3)
    player.end(1, truncated=True)
    player.end(0)
    assert player.earned() == [[3.0, 6.0], [9.0, 18.0], [12.0, 36.0]]
    player.decide(0, 1)
    player.end(0)
    assert player.earned() == [[1.0, 2.0]], "nothing is left of the episodes before"


def test_what_was_lost_with_its_environment_counts_for_no_other_episode() -> None:
    player = Player()
    player.decide(0, 1, times=4)
    assert player.earned() == []
    player.memory.abandon(np.array([0]))
    player.decide(0, 1)
    player.end(0)
    player.end(1)
    assert player.earned() == [[1.0, 2.0], [5.0, 15.0]]
    player.decide(0, times=2)
    player.earned()
    player.memory.clear()  # as a checkpoint does
    player.decide(0)
    player.end(0)
    assert player.earned() == [[1.0, 2.0]]


def test_rows_are_of_whom_they_come_from() -> None:
    one, other = Player(), Player()
    other.sums = one.sums
    for player, source in ((one, 0), (other, 7)):
        player.decide(0, times=3)
        assert player.earned(source) == []
    one.decide(0)
    one.end(0)
    other.end(0)
    assert other.earned(7) == [[3.0, 6.0]]
    assert one.earned(0) == [[4.0, 8.0]]
    assert one.earned(0) == []
