"""From all sensors of an agent to the inputs of hidden layers, including the features of its goals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from tau_trainer.models.blocks import Encoder, ListEncoder, drawn_from, kind_of, make_encoder, make_list_encoder
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.specs import BehaviorSpec, ObservationSpec, ObservationType

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import NetworkSettings

Inputs = list[torch.Tensor]
"""Inputs of the layers, from :meth:`ActorCritic.prepare`.

Vectors, normalised and side by side [n, D], then every other sensor as it is (floats with the network's precision).
"""


class TowerFeatures(NamedTuple):
    """One tower's features of ``n`` observations."""

    features: torch.Tensor
    """[n, size]: vectors, then those of each image, then those of all lists of entities together."""
    goal: torch.Tensor
    """[n, goal_size]: the features that belong to goals.

    Vectors are the original inputs, which shows that no gradient flows back.
    """


class ObservationEncoder(torch.nn.Module):
    """The encoders of one tower, with their features side by side.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: of the network.

    Raises:
        SettingsError: networks do not support a sensor, or it does not suit the settings.
    """

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings) -> None:
        super().__init__()
        vectors, others = sensors_of(spec)
        kinds = [kind_of(spec.observations[i]) for i in others]
        self._images, self._lists = (
            [place for place, kind in enumerate(kinds) if kind == wanted] for wanted in ("image", "list")
        )
        images, lists = ([spec.observations[others[i]] for i in some] for some in (self._images, self._lists))
        self.size = 0
        """Number of features."""
        self._goals: list[slice] = []
        for i in vectors:
            self._add([spec.observations[i]], spec.observations[i].size)
        self.images = torch.nn.ModuleList()
        for sensor in images:
            encoder = make_encoder(sensor, settings)
            self.images.append(encoder)
            self._add([sensor], encoder.size)
        self.lists: ListEncoder | None = None
        if lists:
            self.lists = make_list_encoder(lists, self.size, settings)
            self._add(lists, self.lists.size)
        self.goal_size = sum(part.stop - part.start for part in self._goals)
        """Number of features that belong to goals."""

    def forward(self, inputs: Inputs) -> TowerFeatures:
        """The features."""
        vectors, *others = inputs
        x = vectors
        if self.images:
            # [n, size] each.
            seen = [encoder(others[place]) for place, encoder in zip(self._images, self.images, strict=True)]
            x = torch.cat([x, *seen], dim=1)
        if self.lists is not None:
            # Entities are encoded together with everything else.
            x = torch.cat([x, self.lists([others[place] for place in self._lists], x)], dim=1)
        known = vectors.shape[1]
        # For vector goals, the vectors themselves: these need no gradient.
        goals = [(vectors if part.stop <= known else x)[:, part] for part in self._goals]
        return TowerFeatures(x, torch.cat(goals, dim=1) if goals else x[:, :0])

    def write(self, graph: GraphWriter, vectors: str, others: Sequence[str]) -> str:
        """The features as nodes; ``vectors`` is an empty text if there are none."""
        parts = [vectors] if vectors else []
        for place, encoder in zip(self._images, self.images, strict=True):
            assert isinstance(encoder, Encoder)
            parts.append(encoder.write(graph, others[place]))
        if self.lists is None:
            return graph.concat(parts, "features")
        seen = graph.concat(parts, "seen") if parts else ""
        attended = self.lists.write(graph, [others[place] for place in self._lists], seen)
        return graph.concat([seen, attended] if seen else [attended], "features")

    def write_goal(self, graph: GraphWriter, features: str) -> str:
        """The goal as nodes."""
        return graph.concat([graph.columns(features, f"goal_{i}", part) for i, part in enumerate(self._goals)], "goal")

    def _add(self, sensors: Sequence[ObservationSpec], size: int) -> None:
        """Register ``size`` further features, of these sensors."""
        if any(sensor.observation_type is ObservationType.GOAL_SIGNAL for sensor in sensors):
            self._goals.append(slice(self.size, self.size + size))
        self.size += size


def sensors_of(spec: BehaviorSpec) -> tuple[list[int], list[int]]:
    """Indices of the visible sensors that are vectors, and of those that need an encoder; size 0 counts as neither.

    Raises SettingsError for sensors that networks do not support.
    """
    seen = [i for i, sensor in enumerate(spec.observations) if sensor.size and not sensor.hidden]
    vectors = [i for i in seen if kind_of(spec.observations[i]) == "vector"]
    return vectors, sorted(set(seen) - set(vectors))


def normalizer_of(spec: BehaviorSpec, *, normalize: bool) -> Normalizer | None:
    """The normaliser of all vectors, if there are any and if the settings ask for it."""
    vectors = sum(spec.observations[i].size for i in sensors_of(spec)[0])  # D
    return Normalizer(vectors) if normalize and vectors else None


def make_encoders(
    spec: BehaviorSpec, settings: NetworkSettings, towers: int, generator: torch.Generator
) -> tuple[torch.nn.ModuleList, int, int]:
    """The encoders of each tower, the number of features, and the number of them that make weights for a goal.

    There are no encoders if networks see only vectors and no goal makes weights.

    Raises:
        SettingsError: networks do not support a sensor, or it does not suit the settings.
    """
    vectors, others = sensors_of(spec)
    hyper = spec.has_goals and settings.goal_conditioning_type == "hyper"
    encoders = torch.nn.ModuleList()
    if not others and not hyper:
        return encoders, sum(spec.observations[i].size for i in vectors), 0
    with drawn_from(generator):
        for _ in range(towers):
            encoder = ObservationEncoder(spec, settings)
            encoders.append(encoder)
    return encoders, encoder.size, encoder.goal_size if hyper else 0
