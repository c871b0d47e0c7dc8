"""The losses of AWAC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.algorithms.offline.learners import HYBRID, everything, learner, train
from tests.bridge.demos import made_up


def test_awacs_losses_are_those_of_the_paper(tmp_path: Path) -> None:
    """With branches alone the expectations are exact, so no draw comes between."""
    spec = BehaviorSpec("Branches", HYBRID.observations, ActionSpec(0, (3, 2)))
    numbers = {"inverse_temperature": 2.0, "largest_weight": 1.5}
    recorded = made_up(spec, lengths=(20, 30, 15))
    one = learner("awac", tmp_path, recorded, numbers, held_out=0.0, reward_signals={"extrinsic": {"gamma": 0.9}})
    train(one, 30)
    batch = everything(one)
    outputs, outputs_after = one.network.outputs(batch.inputs), one.network.outputs(batch.following)
    logits = outputs.masked_fill(batch.forbidden, -1e8)

    def expected(qs: Any, inputs: Any, logits: Any) -> Any:
        probability = torch.cat([logits[:, :3].softmax(dim=1), logits[:, 3:].softmax(dim=1)], dim=1)
        nothing = torch.zeros(len(logits), 0)
        return (qs(qs.see(inputs), nothing)[:, :, 0] * probability).sum(dim=2).div(2).amin(dim=0)

    nothing = torch.zeros(len(logits), 0)
    places = torch.stack((batch.discrete[:, 0], 3 + batch.discrete[:, 1]), dim=1)
    all_q = one.module.q(one.module.q.see(batch.inputs), nothing)[:, :, 0]
    q = all_q.gather(2, places.expand(2, -1, -1)).mean(dim=2)
    backup = batch.rewards[:, 0] + 0.9 * batch.goes_on[:, 0] * expected(
        one.module.target, batch.following, outputs_after
    )
    weights = (2.0 * (q.amin(dim=0) - expected(one.module.q, batch.inputs, logits))).exp().clamp(max=1.5)
    policy = -(weights.detach() * one.log_prob_of(outputs, batch)).mean()
    _, told = one.losses(batch)
    torch.testing.assert_close(told[0], policy)
    torch.testing.assert_close(told[1], (q[0] - backup.detach()).square().mean())
