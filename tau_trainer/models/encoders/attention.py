"""The encoder of lists of entities: each is embedded together with the agent, and all attend to each other.

Residual self-attention as in ML-Agents (``attention.py``), after Baker et al. 2019 (arXiv 1909.07528): one layer of
attention over the entities of all lists, then their mean. Lists vary in length: rows of zeros are absent, get no
attention, and do not count in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.models.blocks import ListEncoder
from tau_trainer.models.graph import NORM_EPSILON
from tau_trainer.specs import ObservationSpec

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings

WIDTH = 128
"""Number of features of an entity, independent of ``hidden_units``."""
HEADS = 4
"""Number of heads of the attention."""
ABSENT = 1e-10
"""Rows with a smaller sum of squares count as zeros. ML-Agents' 0.01 loses entities that are only small or near."""
UNHEARD = -1e6
"""Added to the score of an absent entity."""
NOBODY = 1e-7
"""Added to the number of entities, so that the mean of none is 0."""


class EntityAttention(ListEncoder):
    """Attention over the entities of all lists.

    Args:
        sensors: the lists, [most, entity].
        seen: number of features of everything else, which each entity is embedded with; 0 = there are no others.
    """

    def __init__(self, sensors: Sequence[ObservationSpec], seen: int, _: NetworkSettings) -> None:
        super().__init__()
        self.size = WIDTH
        self.lengths = [sensor.shape[0] for sensor in sensors]
        self.own = torch.nn.Linear(seen, WIDTH) if seen else None
        beside = WIDTH if seen else 0
        self.embeddings = torch.nn.ModuleList(torch.nn.Linear(beside + sensor.shape[1], WIDTH) for sensor in sensors)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        begin_small(self, WIDTH)

    @override
    def forward(self, lists: Sequence[torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
        agent = None if self.own is None else torch.nn.functional.silu(self.own(seen))
        there = [entities.square().sum(dim=2) > ABSENT for entities in lists]
        lengths = [longest(rows) for rows in there]  # most lists are far from full: cut absent rows
        embedded = [
            self._embed(i, entities[:, :length], agent)
            for i, (entities, length) in enumerate(zip(lists, lengths, strict=True))
        ]
        # bool [n, entities of all lists].
        present = torch.cat([rows[:, :length] for rows, length in zip(there, lengths, strict=True)], dim=1)
        x = normed(torch.nn.functional.silu(torch.cat(embedded, dim=1)))
        apart = (*x.shape[:2], HEADS, -1)
        # [n, heads, entities, width / heads] each.
        query, key, value = (layer(x).view(apart).transpose(1, 2) for layer in (self.query, self.key, self.value))
        unheard = ((~present).to(x.dtype) * UNHEARD)[:, None, None]
        # Scores are divided by the root of the whole width, not of a head's, as in ML-Agents.
        heard = torch.nn.functional.scaled_dot_product_attention(query, key, value, unheard, scale=WIDTH**-0.5)
        return mean_of(normed(self.out(heard.transpose(1, 2).flatten(2)) + x), present)

    def _embed(self, index: int, entities: torch.Tensor, agent: torch.Tensor | None) -> torch.Tensor:
        """A layer over the agent's own features and those of each entity; the agent's part is computed once."""
        layer = self.embeddings[index]
        if agent is None:
            embedded: torch.Tensor = layer(entities)
            return embedded
        weight, bias = layer.weight, layer.bias
        assert isinstance(weight, torch.Tensor)
        assert isinstance(bias, torch.Tensor)
        beside = torch.addmm(bias, agent, weight[:, :WIDTH].T)
        return torch.nn.functional.linear(entities, weight[:, WIDTH:]) + beside[:, None]  # [n, length, 128]

    @override
    def write(self, graph: GraphWriter, lists: Sequence[str], seen: str) -> str:
        agent = "" if self.own is None else graph.swish(graph.dense(self.own, seen, "own.linear"), "own")
        embedded = [self._write_embedding(graph, i, entities, agent) for i, entities in enumerate(lists)]
        x = graph.concat(embedded, "entities.linear")
        x = graph.layer_norm(graph.swish(x, "entities.swish"), "entities", axis=2)
        present = graph.concat([self._write_present(graph, entities) for entities in lists], "present")
        query, key, value = (
            self._write_heads(graph, layer, x, f"attention.{name}")
            for name, layer in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        # An importer would merge two consecutive transpositions into one that Unity's runtime does not understand.
        key = graph.add("Mul", [key, graph.scalar("attention.scale", WIDTH**-0.5)], "attention.scaled")
        key = graph.add("Transpose", [key], "attention.keys", perm=[0, 1, 3, 2])
        match = graph.add("MatMul", [query, key], "attention.match")
        whole = graph.scalar("attention.one", 1.0)
        absent = graph.add("Sub", [whole, present], "absent")
        unheard = graph.add("Mul", [absent, graph.scalar("attention.unheard", UNHEARD)], "attention.penalty")
        unheard = graph.reshape(unheard, "attention.penalties", [-1, 1, 1, sum(self.lengths)])
        weights = graph.add("Softmax", [graph.add("Add", [match, unheard], "attention.logits")], "attention", axis=3)
        heard = graph.add("MatMul", [weights, value], "attention.heard")
        heard = graph.add("Transpose", [heard], "attention.back", perm=[0, 2, 1, 3])
        heard = graph.reshape(heard, "attention.joined", [-1, sum(self.lengths), WIDTH])
        heard = self._write_each(graph, self.out, heard, "attention.out")
        x = graph.layer_norm(graph.add("Add", [heard, x], "attention.residual"), "attention.features", axis=2)
        total = graph.total(graph.add("Mul", [x, present], "attention.present"), "attention.sum")
        count = graph.add("Add", [graph.total(present, "present.sum"), graph.scalar("nobody", NOBODY)], "present.count")
        return graph.reshape(graph.add("Div", [total, count], "attention.mean"), "attention.seen", [-1, WIDTH])

    def _write_embedding(self, graph: GraphWriter, index: int, entities: str, agent: str) -> str:
        layer = self.embeddings[index]
        assert isinstance(layer, torch.nn.Linear)
        if not agent:
            return self._write_each(graph, layer, entities, f"{entities}.linear")
        weight, bias = (values.detach().cpu().numpy() for values in (layer.weight.T, layer.bias))
        beside = graph.linear(weight[:WIDTH], bias, agent, f"{entities}.own")
        beside = graph.reshape(beside, f"{entities}.beside", [-1, 1, WIDTH])
        each = [entities, graph.constant(f"{entities}.weight", weight[WIDTH:])]
        return graph.add("Add", [graph.add("MatMul", each, f"{entities}.alone"), beside], f"{entities}.linear")

    @staticmethod
    def _write_each(graph: GraphWriter, layer: torch.nn.Linear, x: str, output: str) -> str:
        """A layer over every entity of [batch, entities, inputs]."""
        weight, bias = (values.detach().cpu().numpy() for values in (layer.weight.T, layer.bias))
        product = graph.add("MatMul", [x, graph.constant(f"{output}.weight", weight)], f"{output}.product")
        return graph.add("Add", [product, graph.constant(f"{output}.bias", bias)], output)

    def _write_heads(self, graph: GraphWriter, layer: torch.nn.Linear, x: str, output: str) -> str:
        """A layer's outputs by head: [batch, heads, entities, width / heads]."""
        answer = self._write_each(graph, layer, x, f"{output}.linear")
        answer = graph.reshape(answer, f"{output}.apart", [-1, sum(self.lengths), HEADS, WIDTH // HEADS])
        return graph.add("Transpose", [answer], output, perm=[0, 2, 1, 3])

    @staticmethod
    def _write_present(graph: GraphWriter, entities: str) -> str:
        """1 for each present entity, [batch, most, 1]."""
        from onnx import TensorProto  # only those who write a model file need the package

        square = graph.add("Mul", [entities, entities], f"{entities}.square")
        length = graph.total(square, f"{entities}.length", axis=2)
        there = graph.add("Less", [graph.scalar(f"{entities}.zero", ABSENT), length], f"{entities}.there")
        return graph.add("Cast", [there], f"{entities}.present", to=int(TensorProto.FLOAT))


def begin_small(module: torch.nn.Module, width: int) -> None:
    """Draw all weights from ``N(0, 0.125 / width)`` (Huang et al. 2020, T-Fixup); biases start at 0."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.weight, std=math.sqrt(0.125 / width))
            torch.nn.init.zeros_(layer.bias)


def normed(x: torch.Tensor) -> torch.Tensor:
    """Mean 0 and variance 1 over the last dimension, without scale and shift."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON)


def mean_of(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """The mean over entities [n, m, width] that are ``present`` (bool [n, m]): [n, width]."""
    counted = present.to(x.dtype)
    return torch.bmm(counted[:, None], x)[:, 0] / (counted.sum(dim=1, keepdim=True) + NOBODY)


def longest(there: torch.Tensor) -> int:
    """Number of rows of lists up to the last present one in any of them, at least 1; ``there`` is bool [n, most]."""
    rows = there.any(dim=0).nonzero()
    return int(rows[-1]) + 1 if len(rows) else 1
