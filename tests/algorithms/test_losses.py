from __future__ import annotations

import pytest
import torch

from tau_trainer.algorithms.losses import CLIPPED, Objective, policy_gradient, summarize_epoch
from tau_trainer.algorithms.minibatches import EpochStatistics, Samples


def test_summary_of_known_ratios() -> None:
    ratio = torch.tensor([[1.0], [1.5], [0.5], [1.1]])
    advantage = torch.tensor([[1.0], [1.0], [-1.0], [2.0]])
    empty = torch.zeros(4, 0)
    samples = Samples([empty], empty, empty, empty.long(), empty.bool(), empty, advantage, torch.ones(4, 1), empty)
    statistics = EpochStatistics(ratio.log(), torch.zeros(4, 1), torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0]))
    policy_loss, value_loss, entropy, kl, clip_fraction, norm = summarize_epoch(samples, statistics, 0.2).tolist()
    assert policy_loss == pytest.approx(-(1.0 + 1.2 - 0.8 + 2.2) / 4)
    assert value_loss == 1.0
    assert entropy == 2.0
    assert clip_fraction == 0.5
    assert norm == 3.0
    assert kl == pytest.approx(float((ratio - 1 - ratio.log()).mean()))


def test_members_sum_up_for_themselves() -> None:
    """Two minibatches with four rows of each of three members, against each member's own."""
    drawn, empty = torch.Generator().manual_seed(1), torch.zeros(0)
    log_prob, advantage, log_ratio = (torch.randn(2, 3, 4, 2, generator=drawn) for _ in range(3))
    returns, values = (torch.randn(2, 3, 4, 1, generator=drawn) for _ in range(2))
    entropy, norm = torch.rand(2, 3, generator=drawn), torch.rand(2, 3, generator=drawn)

    def summary(members: slice | int, objective: Objective) -> torch.Tensor:
        def rows(found: torch.Tensor) -> torch.Tensor:
            return found[:, members].reshape(-1, found.shape[-1])

        known = rows(log_prob), rows(advantage), rows(returns)
        samples = Samples([empty], empty, empty, empty, empty, known[0], known[1], known[2], empty)
        statistics = EpochStatistics(rows(log_ratio), rows(values), entropy[:, members], norm[:, members])
        return summarize_epoch(samples, statistics, 0.2, objective)

    for objective in (CLIPPED, Objective(policy_gradient, (0.3,))):
        together = summary(slice(None), objective)
        for member in range(3):
            torch.testing.assert_close(together[member], summary(member, objective))
