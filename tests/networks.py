"""Networks for tests: random ones of any shape, and toy blocks that stand where plug-ins stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from typing_extensions import override

from tau_trainer import plugins
from tau_trainer.models import ActorCritic, Encoder, ListEncoder, Policy, Recurrent, make_policy
from tau_trainer.models.graph import GraphWriter
from tau_trainer.models.heads import Acting
from tau_trainer.settings import MemorySettings, NetworkSettings
from tau_trainer.settings.exploration import ExplorationSettings
from tau_trainer.specs import BehaviorSpec, DimensionProperty, ObservationSpec

IMAGE = ObservationSpec("camera", (2, 4, 3), dtype=np.uint8)
LIST = ObservationSpec("others", (3, 4), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE))


class ToyImage(Encoder):
    """One layer over all pixels."""

    def __init__(self, sensor: ObservationSpec, _: NetworkSettings) -> None:
        super().__init__()
        self.size = 5
        self.layer = torch.nn.Linear(sensor.size, self.size)

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.layer(x.flatten(1).to(self.layer.weight.dtype) / 255))

    @override
    def write(self, graph: GraphWriter, x: str) -> str:
        flat = graph.reshape(x, f"{x}.flat", [-1, self.layer.in_features])
        return graph.add("Sigmoid", [graph.dense(self.layer, flat, f"{x}.layer")], f"{x}.features")


class ToyLists(ListEncoder):
    """One layer for every entity of a list, and their sum; everything else is left alone."""

    def __init__(self, sensors: Sequence[ObservationSpec], seen: int, _: NetworkSettings) -> None:
        super().__init__()
        self.each = 3
        self.size = self.each * len(sensors)
        self.shapes = [sensor.shape for sensor in sensors]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(sensor.shape[1], self.each) for sensor in sensors)

    @override
    def forward(self, lists: Sequence[torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
        answers = [torch.sigmoid(layer(x)).sum(dim=1) for layer, x in zip(self.layers, lists, strict=True)]
        return torch.cat(answers, dim=1)

    @override
    def write(self, graph: GraphWriter, lists: Sequence[str], seen: str) -> str:
        parts = []
        for x, layer, (length, inputs) in zip(lists, self.layers, self.shapes, strict=True):
            assert isinstance(layer, torch.nn.Linear)
            flat = graph.reshape(x, f"{x}.flat", [-1, inputs])
            each = graph.add("Sigmoid", [graph.dense(layer, flat, f"{x}.layer")], f"{x}.each")
            listed = graph.reshape(each, f"{x}.listed", [-1, length, self.each])
            parts.append(graph.reshape(graph.total(listed, f"{x}.sum"), f"{x}.features", [-1, self.each]))
        return graph.concat(parts, "lists.features")


class ToyMemory(Recurrent):
    """Elman's network: the new state is a layer over input and state, and is what comes out."""

    def __init__(self, inputs: int, settings: MemorySettings) -> None:
        super().__init__()
        self.size = self.state_size = settings.memory_size
        self.seen = torch.nn.Linear(inputs, self.size)
        self.kept = torch.nn.Linear(self.size, self.size)

    @override
    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = torch.tanh(self.seen(x) + self.kept(state))
        return new, new

    @override
    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        parts = [graph.dense(self.seen, x, "memory.seen"), graph.dense(self.kept, state, "memory.kept")]
        new = graph.add("Tanh", [graph.add("Add", parts, "memory.sum")], "memory.new")
        return new, new


class CountingMemory(Recurrent):
    """Counts the decisions of an episode; what comes out is the count."""

    def __init__(self, inputs: int, settings: MemorySettings) -> None:
        super().__init__()
        self.size = self.state_size = settings.memory_size

    @override
    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return state, state + 1

    @override
    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        raise NotImplementedError


def plug_in(patch: pytest.MonkeyPatch, memory: type[Recurrent] = ToyMemory) -> None:
    """Puts the toys in the places of ours."""
    toys: dict[plugins.Kind, dict[str, type]] = {
        "encoders": {"visual:simple": ToyImage, "lists": ToyLists},
        "memories": {"lstm": memory},
    }
    places = {
        kind: plugins._OWN[kind] | {name: f"{__name__}:{toy.__name__}" for name, toy in own.items()}
        for kind, own in toys.items()
    }
    patch.setattr(plugins, "_OWN", plugins._OWN | places)


def unplug(patch: pytest.MonkeyPatch) -> None:
    """Takes away all encoders and memories, our own too."""
    patch.setattr(plugins, "_OWN", {**plugins._OWN, "encoders": {}, "memories": {}})
    patch.setattr(plugins, "_found", lambda kind: plugins._OWN[kind])


def make_network(
    spec: BehaviorSpec,
    *,
    streams: Mapping[str, int] | None = None,
    shared_critic: bool = False,
    squashed: bool = False,
    deterministic: bool = False,
    exploration: ExplorationSettings | None = None,
    seed: int = 0,
    **settings: Any,
) -> ActorCritic:
    """Random throughout, biases, widths and statistics too, so that whatever is left out somewhere shows."""
    generator = torch.Generator().manual_seed(seed)
    network = ActorCritic(
        spec,
        NetworkSettings().model_copy(update={"hidden_units": 16, "normalize": True, **settings}),
        streams or {"extrinsic": 1},
        shared_critic=shared_critic,
        acting=Acting(squashed, deterministic, exploration),
        generator=generator,
    )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if not name.endswith("weight"):
                parameter.normal_(0.0, 0.3, generator=generator)
        network.action.weight.mul_(5.0)
        if network.normalizer is not None:
            rows = torch.randn(50, len(network.normalizer.mean), generator=generator)
            network.normalizer.merge((3.0 * rows + 0.5).numpy())
        network.value.weight.normal_(0.0, 0.3, generator=generator)
    return network


def policy_of(network: ActorCritic, version: int = 3) -> Policy:
    """The policy of a network's weights of now."""
    weights = {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}
    return make_policy(network, weights, version)


def observations(spec: BehaviorSpec, rows: int, seed: int = 0, scale: float = 3.0) -> tuple[Any, ...]:
    """Whole numbers for sensors of bytes, Gaussian ones for all others."""
    rng = np.random.default_rng(seed)
    return tuple(
        rng.integers(0, 256, (rows, *sensor.shape), np.uint8)
        if sensor.dtype == np.uint8
        else (scale * rng.standard_normal((rows, *sensor.shape))).astype(np.float32)
        for sensor in spec.observations
    )
