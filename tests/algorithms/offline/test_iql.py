"""The losses of IQL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.algorithms.offline.learners import everything, hybrid, learner, train


def test_iqls_losses_are_those_of_the_paper(tmp_path: Path) -> None:
    """Equations 5 to 7, worked out transition by transition with loops."""
    numbers = {"expectile": 0.8, "inverse_temperature": 2.0, "largest_weight": 1.5}
    one = learner("iql", tmp_path, hybrid(), numbers, held_out=0.0, reward_signals={"extrinsic": {"gamma": 0.9}})
    train(one, 30)
    one.network.requires_grad_(False)
    one.module.requires_grad_(False)
    batch = everything(one)
    answer, after = one.network(batch.inputs), one.network.values(batch.following)
    target, q = (qs(qs.see(batch.inputs), batch.continuous / 3.0) for qs in (one.module.target, one.module.q))
    log_prob = one.log_prob_of(answer.outputs, batch)
    value = q1 = policy = 0.0
    for i in range(len(log_prob)):
        places = [int(batch.discrete[i, 0]), 3 + int(batch.discrete[i, 1])]
        advantage = float(target[:, i, 0, places].mean(dim=1).min() - answer.values[i, 0])
        value += (0.8 if advantage > 0 else 0.2) * advantage**2
        backup = float(batch.rewards[i, 0] + 0.9 * batch.goes_on[i, 0] * after[i, 0])
        q1 += (float(q[0, i, 0, places].mean()) - backup) ** 2
        policy -= min(np.exp(2.0 * advantage), 1.5) * float(log_prob[i])
    loss, told = one.losses(batch)
    count = len(log_prob)
    assert [float(number) for number in told[:3]] == pytest.approx(
        [policy / count, value / count, q1 / count], rel=1e-4
    )
    assert float(loss) == pytest.approx(float(sum(told)), rel=1e-5)
