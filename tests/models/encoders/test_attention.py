from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tau_trainer.models.blocks import drawn_from
from tau_trainer.models.encoders.attention import EntityAttention
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ObservationSpec

SHAPES = (5, 4), (3, 6)


def made(seen: int, shapes: Sequence[tuple[int, ...]] = SHAPES, *, large: bool = True) -> EntityAttention:
    """``large``: initial weights are tiny, so that mistakes would hide in the rounding."""
    generator = torch.Generator().manual_seed(0)
    sensors = [ObservationSpec(f"list {i}", shape) for i, shape in enumerate(shapes)]
    with drawn_from(generator):
        attention = EntityAttention(sensors, seen, NetworkSettings(hidden_units=7))
    if large:
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.normal_(0.0, 0.15, generator=generator)
    assert attention.size == 128
    return attention


def lists(counts: Sequence[Sequence[int]], shapes: Sequence[tuple[int, ...]] = SHAPES) -> list[torch.Tensor]:
    """Entities of every agent, the first ``counts[agent][i]`` of list ``i``."""
    rng = np.random.default_rng(0)
    made = [torch.from_numpy(rng.normal(size=(len(counts), *shape)).astype(np.float32)) for shape in shapes]
    for agent, numbers in enumerate(counts):
        for entities, number in zip(made, numbers, strict=True):
            entities[agent, number:] = 0.0
    return made


def expected(attention: EntityAttention, entities: Sequence[torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
    """One agent after the other, and only over the entities that are there: no masks."""
    p = {name: value.detach().double() for name, value in attention.named_parameters()}
    answers = []
    for agent in range(len(entities[0])):
        rows = []
        for i, one in enumerate(entities):
            x = one[agent].double()
            x = x[x.abs().sum(dim=1) > 0]
            if attention.own is not None:
                own = swish(seen[agent].double() @ p["own.weight"].T + p["own.bias"])
                x = torch.cat([own.expand(len(x), -1), x], dim=1)
            rows.append(swish(x @ p[f"embeddings.{i}.weight"].T + p[f"embeddings.{i}.bias"]))
        x = torch.cat(rows)
        if not len(x):
            answers.append(torch.zeros(128, dtype=torch.float64))
            continue
        x = normed(x)
        query, key, value = (x @ p[f"{name}.weight"].T + p[f"{name}.bias"] for name in ("query", "key", "value"))
        heads = []
        for head in range(4):
            part = slice(32 * head, 32 * head + 32)
            weights = torch.softmax(query[:, part] @ key[:, part].T / math.sqrt(128), dim=1)
            heads.append(weights @ value[:, part])
        x = normed(torch.cat(heads, dim=1) @ p["out.weight"].T + p["out.bias"] + x)
        answers.append(x.mean(dim=0))
    return torch.stack(answers).float()


def swish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


def normed(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(dim=1, keepdim=True)) / torch.sqrt(x.var(dim=1, correction=0, keepdim=True) + 1e-5)


COUNTS = [(0, 0), (1, 0), (0, 2), (5, 3), (2, 1)]


@pytest.mark.parametrize("seen", [0, 9])
@pytest.mark.parametrize("shapes", [SHAPES, SHAPES[:1]])
def test_it_is_residual_self_attention_over_what_is_there(seen: int, shapes: Sequence[tuple[int, ...]]) -> None:
    attention, counts = made(seen, shapes), [numbers[: len(shapes)] for numbers in COUNTS]
    entities, others = lists(counts, shapes), torch.randn(len(counts), seen)
    features = attention(entities, others)
    torch.testing.assert_close(features, expected(attention, entities, others), rtol=1e-4, atol=1e-4)
    assert not features[0].any(), "nobody is there"
    exact = copy.deepcopy(attention).double()([one.double() for one in entities], others.double())
    torch.testing.assert_close(exact.float(), features, rtol=1e-4, atol=1e-4)


def test_order_and_gaps_do_not_matter() -> None:
    attention, (entities,) = made(4, SHAPES[:1]), lists([(3,)], SHAPES[:1])
    others = torch.randn(1, 4)
    moved = entities[:, [3, 1, 4, 2, 0]]
    torch.testing.assert_close(attention([moved], others), attention([entities], others))


@pytest.mark.parametrize(("counts", "worked_out"), [([(2, 1), (3, 0)], 4), ([(0, 0)], 2), ([(5, 3)], 8)])
def test_no_work_is_done_for_rows_that_nobody_fills(counts: Sequence[Sequence[int]], worked_out: int) -> None:
    attention, seen = made(4), []
    attention.query.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    attention(lists(counts), torch.randn(len(counts), 4))
    assert seen == [worked_out]


def test_a_small_entity_is_there() -> None:
    """ML-Agents takes an entity whose squares sum to less than 0.01 for absent."""
    attention, nobody = made(4, SHAPES[:1]), torch.zeros(1, 5, 4)
    small = nobody.clone()
    small[0, 0, 1] = 1e-3
    assert attention([small], torch.ones(1, 4)).any()
    assert not attention([nobody], torch.ones(1, 4)).any()


def test_gradients_reach_every_parameter_and_no_entity_that_is_not_there() -> None:
    attention, entities = made(9), lists([(2, 1), (5, 3)])
    for one in entities:
        one.requires_grad_()
    attention(entities, torch.randn(2, 9)).pow(3).sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None
        # the softmax does not notice what is added to all keys alike
        assert parameter.grad.abs().max() > (0 if name == "key.bias" else 1e-6), name
    gradient = entities[0].grad
    assert gradient is not None
    assert gradient[0, :2].any()
    assert not gradient[0, 2:].any()


def test_initial_weights_are_ml_agents() -> None:
    attention = made(300, large=False)
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(math.sqrt(0.125 / 128), rel=0.05), name
    assert attention.embeddings[1].weight.shape == (128, 128 + 6)
