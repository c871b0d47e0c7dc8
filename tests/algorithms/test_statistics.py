from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.batch import EpochStatistics, Samples
from tau_trainer.algorithms.statistics import UpdateSummary, explained_variance, summarize_epoch


def test_explained_variance() -> None:
    returns = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(np.full((4, 1), 1.5), returns) == 0.0
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert explained_variance(returns, np.ones((4, 1))) == 0.0
    both = np.concatenate((returns, np.full((4, 1), 1.5)), axis=1)
    assert explained_variance(both, np.concatenate((returns, returns), axis=1)) == 0.5


def test_summary_of_known_ratios() -> None:
    ratio = torch.tensor([[1.0], [1.5], [0.5], [1.1]])
    advantage = torch.tensor([[1.0], [1.0], [-1.0], [2.0]])
    empty = torch.zeros(4, 0)
    samples = Samples([empty], empty, empty, empty.long(), empty.bool(), empty, advantage, torch.ones(4, 1), empty)
    statistics = EpochStatistics(ratio.log(), torch.zeros(4, 1), torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0]))
    summary = UpdateSummary.mean_of([summarize_epoch(samples, statistics, 0.2)], minibatches=2)
    assert summary.policy_loss == pytest.approx(-(1.0 + 1.2 - 0.8 + 2.2) / 4)
    assert summary.value_loss == 1.0
    assert summary.entropy == 2.0
    assert summary.clip_fraction == 0.5
    assert summary.gradient_norm == 3.0
    assert summary.kl == pytest.approx(float((ratio - 1 - ratio.log()).mean()))
