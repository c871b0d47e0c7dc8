"""Who decided together; what follows from it is held to a plain reference in `tests/algorithms/test_poca.py`."""

from __future__ import annotations

import numpy as np

from tau_trainer.columns import GROUP, MOMENT, Column
from tau_trainer.memory import Groups, Rollout, RolloutMemory, StepFacts, together


def test_who_decided_together() -> None:
    """Numbers as they come: moments, in them groups, and after these who is alone."""
    moment = np.array([5, 5, 5, 5, 5, 6, 6, 9, 9, 9, 9, 9])
    group = np.array([7, 9, 7, 0, 0, 7, 7, 7, 9, 7, 0, 0], np.int32)
    assert together(moment, group).tolist() == [0, 1, 0, 2, 3, 4, 4, 5, 6, 5, 7, 8]
    assert together(moment[:0], group[:0]).tolist() == []


def test_who_leaves_between_two_decisions_is_credited_by_who_stays() -> None:
    """Nobody decides when it dies, and the group is paid and over before anybody decides again."""
    memory = RolloutMemory([Column("obs_0", (1,))], [MOMENT, GROUP], rewards={"extrinsic": 1}, capacity=8, horizon=9)
    rows, group = np.arange(3), np.array([4, 4, 4], np.int32)

    def known(count: int, moment: int, to_group: float, plays_on: bool = False) -> StepFacts:
        paid = np.full(count, to_group, np.float32)
        nothing = np.zeros((count, 1), np.float32)
        return StepFacts({"extrinsic": nothing}, paid, group[:count], np.full(count, plays_on), moment)

    def seen(*values: float) -> np.ndarray:
        return np.array(values, np.float32)[:, None]

    memory.append(rows, known(3, 1, 0.0), {"obs_0": seen(0, 1, 2)}, 0)
    memory.end(rows[:1], known(1, 2, 0.0, plays_on=True), (seen(10),), np.array([False]))
    memory.end(rows[1:], known(2, 3, 1.0), (seen(11, 12),), np.array([False, False]))
    rollout = Rollout(memory.take())
    groups = Groups(rollout)
    assert groups.heir.tolist() == [2, 1, 2]
    assert groups.after.tolist() == [groups.sets] * 3, "nothing came after"
    assert len(groups.joint) == groups.decisions == 3, "so what was seen last is not asked for"
    assert groups.summed(np.array([[1.0], [2.0], [4.0]])).tolist() == [[7.0]] * 3
