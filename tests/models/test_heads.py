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
from tau_trainer.models.heads import Acting, ActionHead
from tau_trainer.models.policy import Decision
from tau_trainer.specs import Actions, ActionSpec
from tests.models.graphs import run_graph


def made(actions: ActionSpec) -> ActionHead:
    generator = torch.Generator().manual_seed(0)
    head = ActionHead(5, actions, generator)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0.0, 1.0, generator=generator)
    return head


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
