from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, Normal, TanhTransform, TransformedDistribution

from tau_trainer.models.distributions import action_log_prob, effective_mask, evaluate_actions
from tau_trainer.models.heads import Acting, ActionHead
from tau_trainer.specs import ActionSpec

HYBRID = ActionSpec(2, (3, 2))


def _case() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(8, 7, generator=generator)
    log_sigma = torch.tensor([-0.5, 0.3])
    continuous = torch.randn(8, 2, generator=generator)
    discrete = torch.stack((torch.arange(8) % 3, torch.arange(8) % 2), dim=1)
    return outputs, log_sigma, continuous, discrete


def test_log_probabilities_and_entropy_equal_torch_distributions() -> None:
    outputs, log_sigma, continuous, discrete = _case()
    log_prob, entropy = evaluate_actions(HYBRID, outputs, log_sigma, continuous, discrete, None)
    normal: Any = Normal(outputs[:, :2], log_sigma.exp())
    branches: list[Any] = [Categorical(logits=outputs[:, 2:5]), Categorical(logits=outputs[:, 5:])]
    expected = [normal.log_prob(continuous)] + [
        branch.log_prob(discrete[:, index])[:, None] for index, branch in enumerate(branches)
    ]
    torch.testing.assert_close(log_prob, torch.cat(expected, dim=1))
    torch.testing.assert_close(entropy, normal.entropy().mean(dim=1) + sum(branch.entropy() for branch in branches))


def test_squashed_actions_have_the_density_of_the_gaussian_over_the_slope() -> None:
    """By torch's own transformed distribution; branches beside it as ever; the very end of the range is finite."""
    head = ActionHead(5, HYBRID, torch.Generator().manual_seed(0), acting=Acting(squashed=True))
    outputs, _, raw, discrete = _case()
    outputs = torch.cat((outputs[:, :2], 0.3 * outputs), dim=1)
    continuous = torch.tanh(0.7 * raw)
    gaussian: Any = Normal(outputs[:, :2], outputs[:, 2:4].exp())
    squashed: Any = TransformedDistribution(gaussian, [TanhTransform()])
    log_prob = action_log_prob(head, outputs, continuous, discrete, None)
    torch.testing.assert_close(log_prob[:, :2], squashed.log_prob(continuous), rtol=1e-4, atol=1e-4)
    first: Any = Categorical(logits=outputs[:, 4:7])
    torch.testing.assert_close(log_prob[:, 2], first.log_prob(discrete[:, 0]))
    ends = action_log_prob(head, outputs, torch.ones(8, 2), discrete, None)
    assert bool(torch.isfinite(ends).all())


def test_masked_actions_have_no_probability_and_no_gradient() -> None:
    outputs, log_sigma, continuous, discrete = _case()
    outputs.requires_grad_()
    mask = torch.zeros(8, 5, dtype=torch.bool)
    mask[:, 0] = True
    allowed = discrete.clone()
    allowed[:, 0] = 1
    log_prob, entropy = evaluate_actions(HYBRID, outputs, log_sigma, continuous, allowed, mask)
    torch.testing.assert_close(log_prob[:, 2], torch.log_softmax(outputs[:, 3:5], dim=1)[:, 0])
    (log_prob.sum() + entropy.sum()).backward()  # type: ignore[no-untyped-call]
    assert outputs.grad is not None
    assert not outputs.grad[:, 2].any()
    assert torch.isfinite(outputs.grad).all()


def test_branch_that_forbids_everything_is_freed() -> None:
    mask = np.array([[True, True, True, False, True], [False, True, True, True, True]])
    result = effective_mask(mask, (3, 2))
    assert result.tolist() == [[False, False, False, False, True], [False, True, True, False, False]]
    assert mask[0].all() == np.False_
    assert mask[0, :3].all(), "the caller's mask is not written to"


def test_ordinary_mask_is_returned_as_it_is() -> None:
    mask = np.array([[True, False, False, True]])
    assert effective_mask(mask, (2, 2)) is mask
