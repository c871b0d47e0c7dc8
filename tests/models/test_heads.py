from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto

from tau_trainer.errors import NonFiniteError
from tau_trainer.models import tensor_names as names
from tau_trainer.models.graph import GraphWriter
from tau_trainer.models.heads import Acting, ActionHead, QuantileHead, ValueHead
from tau_trainer.models.policy import Decision
from tau_trainer.settings import IQNHyperparameters
from tau_trainer.specs import Actions, ActionSpec
from tests.models.graphs import run_graph


def made(actions: ActionSpec) -> ActionHead:
    generator = torch.Generator().manual_seed(0)
    head = ActionHead(5, actions, generator)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0.0, 1.0, generator=generator)
    return head


def test_means_then_logits() -> None:
    head, x = made(ActionSpec(2, (3, 4))), torch.randn(6, 5)
    torch.testing.assert_close(head(x), x @ head.weight + head.bias)
    assert head(x).shape == (6, 2 + 7)
    assert head.log_sigma.shape == (2,)


def test_levels_are_branches_before_the_others() -> None:
    head = ActionHead(5, ActionSpec(2, (3,)), torch.Generator().manual_seed(0), levels=4)
    assert (head.choices, head.leveled) == (ActionSpec(0, (4, 4, 3)), 2)
    assert head(torch.randn(6, 5)).shape == (6, 11)
    assert head.log_sigma.shape == (0,)
    mask = np.array([[True, False, False], [True, True, True]])
    assert head.forbidden(mask).tolist() == [[False] * 8 + [True, False, False], [False] * 11]


@pytest.mark.parametrize(
    "options", [{}, {"levels": 5}, {"acting": Acting(squashed=True)}], ids=["raw", "levels", "squashed"]
)
def test_what_the_environment_got_is_remembered_as_what_was_decided(options: dict[str, Any]) -> None:
    """The reverse of what a decision sends; what lies beyond the ends counts as the end."""
    head = ActionHead(5, ActionSpec(2, (3,)), torch.Generator().manual_seed(0), **options)
    sent = Actions(np.array([[-1.0, 0.5], [0.0, 1.0]], np.float32), np.array([[2], [0]], np.int32))
    continuous, discrete = head.remembered(sent)
    levels = head.leveled, head.levels or 0
    again = Decision(continuous, discrete, 0, {}, {}, *levels, head.squashed).to_env()
    np.testing.assert_allclose(again.continuous, sent.continuous)
    np.testing.assert_array_equal(again.discrete, sent.discrete)
    beyond, _ = head.remembered(Actions(2.0 * sent.continuous, sent.discrete))
    ends, _ = head.remembered(Actions((2.0 * sent.continuous).clip(-1, 1), sent.discrete))
    np.testing.assert_array_equal(beyond, ends)


def test_initial_weights_have_ml_agents_spread() -> None:
    head = ActionHead(300, ActionSpec(200, (200,)), torch.Generator().manual_seed(1))
    assert head.weight[:, :200].std().item() == pytest.approx(0.2 / math.sqrt(300), rel=0.02)
    assert head.weight[:, 200:].std().item() == pytest.approx(0.1 / math.sqrt(300), rel=0.02)
    assert not head.bias.any()
    assert not head.log_sigma.any()


def test_the_graphs_means_are_clipped_and_scaled() -> None:
    head, x = made(ActionSpec(2, (3,))), 2 * torch.randn(20, 5)

    def write(graph: GraphWriter) -> list[str]:
        head.write(graph, "x")
        return [names.CONTINUOUS, names.DETERMINISTIC_CONTINUOUS, names.CONTINUOUS_SHAPE, names.DISCRETE_SHAPE]

    feed = {"x": x.numpy(), names.ACTION_MASKS: np.ones((20, 3), np.float32)}
    sampled, means, size, branches = run_graph(write, feed)
    expected = (head(x)[:, :2].clamp(-3, 3) / 3).detach().numpy()
    np.testing.assert_allclose(means, expected, atol=1e-6)
    assert (np.abs(expected) == 1).any(), "the limit must be reached"
    assert np.abs(sampled).max() == 1
    assert not np.array_equal(sampled, means)
    assert (size.tolist(), branches.tolist()) == ([2], [[3]])


@pytest.mark.parametrize("branches", [(4,), (3, 1, 4)])
def test_the_graphs_choices_obey_the_mask(branches: tuple[int, ...]) -> None:
    actions, rng = ActionSpec(2, branches), np.random.default_rng(0)
    head, x = made(actions), torch.randn(200, 5)
    allowed = rng.random((200, actions.mask_size)) < 0.5
    bounds = np.cumsum((0, *branches))
    allowed[:, bounds[:-1]] = True

    def write(graph: GraphWriter) -> list[str]:
        head.write(graph, "x")
        return [names.DISCRETE, names.DETERMINISTIC_DISCRETE]

    feed = {"x": x.numpy(), names.ACTION_MASKS: allowed.astype(np.float32)}
    sampled, best = run_graph(write, feed, kind=TensorProto.INT64)
    logits = np.where(allowed, head(x)[:, 2:].detach().numpy(), -np.inf)
    for branch, (begin, end) in enumerate(itertools.pairwise(bounds)):
        assert best[:, branch].tolist() == logits[:, begin:end].argmax(axis=1).tolist()
        assert allowed[np.arange(200), begin + sampled[:, branch]].all()
    assert not np.array_equal(sampled, best)


def test_an_infinite_width_is_refused() -> None:
    head = made(ActionSpec(1))
    with torch.no_grad():
        head.log_sigma.fill_(100.0)
    with pytest.raises(NonFiniteError, match="log_sigma reaches 100"):
        head.write(GraphWriter(), "x")
    with torch.no_grad():
        head.log_sigma.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="policy's sigma"):
        head.write(GraphWriter(), "x")


def test_streams_stand_side_by_side() -> None:
    head = ValueHead(30, {"extrinsic": 3, "curiosity": 1})
    with torch.no_grad():
        head.bias.copy_(torch.arange(4.0))
        head.weight.normal_(generator=torch.Generator().manual_seed(0))
    x = torch.randn(6, 30)
    torch.testing.assert_close(head(x), x @ head.weight + torch.arange(4.0))
    assert head.streams == {"extrinsic": 3, "curiosity": 1}


def test_nothing_is_known_at_first() -> None:
    assert not ValueHead(5, {"extrinsic": 2})(torch.randn(3, 5)).any()


def quantile_head(cvar: float = 1.0) -> QuantileHead:
    generator = torch.Generator().manual_seed(2)
    numbers = IQNHyperparameters(quantile_embedding_dim=8, num_quantile_samples=4, cvar=cvar)
    made = QuantileHead(5, ActionSpec(0, (3, 2)), generator, hyper=numbers)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return made


@pytest.mark.parametrize(("cvar", "wanted"), [(1.0, [0.125, 0.375, 0.625, 0.875]), (0.2, [0.025, 0.075, 0.125, 0.175])])
def test_values_are_means_over_the_midpoints_of_what_counts(cvar: float, wanted: list[float]) -> None:
    made, x = quantile_head(cvar), torch.randn(6, 5)
    np.testing.assert_allclose(made.fractions, wanted, rtol=1e-6)
    with torch.no_grad():
        every = made.quantiles(x, torch.tensor(wanted).expand(6, 4))  # [6, 4, 5]
        np.testing.assert_allclose(made(x), every.mean(dim=1), rtol=1e-4, atol=1e-5)
    assert every.std(dim=1).min() > 1e-3


def test_each_row_is_asked_at_its_own_fractions() -> None:
    made, x = quantile_head(), torch.randn(1, 5).expand(2, 5)
    with torch.no_grad():
        found = made.quantiles(x, torch.tensor([[0.1, 0.6], [0.6, 0.1]]))
    np.testing.assert_allclose(found[0], found[1].flip(0), rtol=1e-5)
    assert not torch.allclose(found[0, 0], found[0, 1])


def test_exact_copies_and_checkpoints_need_no_fractions() -> None:
    assert "fractions" not in quantile_head().state_dict()
