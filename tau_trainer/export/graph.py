"""A policy's network as plain arrays: all that the ONNX writer has to know about it.

The description names no framework, so a model can be exported, checked and compared without torch. It covers the
networks of ``trainer_type: ppo`` on vector observations (ML-Agents' ``SimpleActor``): observations side by side,
an optional normaliser, fully connected layers with swish, a Gaussian head with one log-sigma per action and one
categorical head per discrete branch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tau_trainer.errors import ExportError, NonFiniteError
from tau_trainer.specs import ActionSpec, BehaviorSpec, FloatArray, ObservationSpec

NORMALIZED_LIMIT = 5.0
"""Normalised observations are clipped to this on both sides (ML-Agents ``Normalizer.forward``)."""

ACTION_LIMIT = 3.0
"""Continuous actions are clipped to this on both sides, then divided by it (ML-Agents ``ActionModel``)."""

MASKED_LOGIT = -1e8
"""What a forbidden action's logit becomes (ML-Agents ``MultiCategoricalDistribution._mask_branch``)."""

MAX_LOG_SIGMA = 80.0
"""exp(80) is still far from the largest float32; beyond exp(88.7) the width would be infinite."""


class Linear(NamedTuple):
    """One fully connected layer: ``y = x @ weight + bias``."""

    weight: FloatArray
    """float32 [inputs, outputs]."""
    bias: FloatArray
    """float32 [outputs]."""


class Normalization(NamedTuple):
    """Observation statistics: ``clip((x - mean) / std, -5, 5)``."""

    mean: FloatArray
    """float32 [inputs]."""
    std: FloatArray
    """float32 [inputs], greater than 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyGraph:
    """A feed-forward policy as arrays; checked when it is made.

    Raises:
        ExportError: shapes do not fit together.
        NonFiniteError: a weight is NaN or infinite; the text names the tensor.
    """

    observations: tuple[ObservationSpec, ...]
    """Every sensor that is an input of the exported model, in wire order."""
    actions: ActionSpec
    """What the policy decides."""
    body: Sequence[Linear]
    """Hidden layers, each followed by swish ``x * sigmoid(x)``; may be empty."""
    mu: Linear | None = None
    """Head of the Gaussian's mean, [hidden, continuous_size]; None without continuous actions."""
    log_sigma: FloatArray | None = None
    """float32 [continuous_size]: natural logarithm of the Gaussian's width; None without continuous actions."""
    branches: Sequence[Linear] = ()
    """One head of logits per discrete branch, [hidden, branch size]."""
    normalization: Normalization | None = None
    """Statistics over the concatenated visible observations; None = observations go in as they are."""
    visible: tuple[int, ...] | None = None
    """Indices into ``observations`` of the sensors the network sees, in the order of its columns; None = all."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "body", tuple(_linear(layer, f"body layer {i}") for i, layer in enumerate(self.body)))
        put(self, "mu", None if self.mu is None else _linear(self.mu, "mu head"))
        put(self, "branches", tuple(_linear(head, f"head of branch {i}") for i, head in enumerate(self.branches)))
        put(self, "log_sigma", None if self.log_sigma is None else _vector(self.log_sigma, "log_sigma"))
        put(self, "visible", tuple(range(len(self.observations))) if self.visible is None else tuple(self.visible))
        if self.normalization is not None:
            mean, std = self.normalization
            put(self, "normalization", Normalization(_vector(mean, "normaliser mean"), _vector(std, "normaliser std")))
        self._check_inputs()
        self._check_heads()

    @property
    def sensors(self) -> tuple[int, ...]:
        """Indices of the visible sensors."""
        return self.visible if self.visible is not None else tuple(range(len(self.observations)))

    @property
    def input_size(self) -> int:
        """Number of floats the network sees of one agent: all visible sensors side by side."""
        return sum(self.observations[i].size for i in self.sensors)

    @property
    def branch_slices(self) -> tuple[slice, ...]:
        """Where each branch lies in a flat action mask."""
        ends = np.cumsum((0, *self.actions.discrete_branches)).tolist()
        return tuple(slice(start, end) for start, end in itertools.pairwise(ends))

    def for_behavior(self, spec: BehaviorSpec) -> PolicyGraph:
        """The same network with an input for every sensor of ``spec``, hidden ones included.

        Unity feeds all sensors of an agent and warns about every one that the model does not take. Sensors are
        matched by name and shape, in order.

        Raises:
            ExportError: the policy sees a sensor that the behavior lacks, or acts differently.
        """
        if self.actions != spec.actions:
            raise ExportError(
                f"Cannot export '{spec.name}': the policy acts with {self.actions}, the behavior wants "
                f"{spec.actions}; export it with the behavior that it was trained on."
            )
        free = list(range(len(spec.observations)))
        columns: list[int] = []
        for index in self.sensors:
            wanted = self.observations[index]
            found = next((i for i in free if _same_sensor(spec.observations[i], wanted)), None)
            if found is None:
                raise ExportError(
                    f"Cannot export '{spec.name}': the policy sees a sensor '{wanted.name}' of shape {wanted.shape} "
                    "that the behavior does not have; export it with the behavior that it was trained on."
                )
            free.remove(found)
            columns.append(found)
        return replace(self, observations=spec.observations, visible=tuple(columns))

    def _check_inputs(self) -> None:
        if not self.sensors or any(not 0 <= i < len(self.observations) for i in self.sensors):
            raise ExportError(
                f"The policy sees sensors {self.sensors} of {len(self.observations)}; give it at least one that exists."
            )
        if self.normalization is None:
            return
        for name, array in zip(("mean", "std"), self.normalization, strict=True):
            if array.shape != (self.input_size,):
                raise ExportError(
                    f"The normaliser's {name} has shape {array.shape} where the sensors give {self.input_size} values; "
                    "use the normaliser that was trained with this policy."
                )
        if (self.normalization.std <= 0).any():
            raise ExportError("The normaliser's std is not positive everywhere; give constant sensors a std of 1.")

    def _check_heads(self) -> None:
        size = self.input_size
        for i, layer in enumerate(self.body):
            _check_layer(layer, f"body layer {i}", size, layer.weight.shape[1])
            size = layer.weight.shape[1]
        if (self.mu is None) != (self.actions.continuous_size == 0) or (self.mu is None) != (self.log_sigma is None):
            raise ExportError(
                f"Policies with {self.actions.continuous_size} continuous actions need "
                f"{'both' if self.actions.continuous_size else 'neither'} a mu head and a log_sigma."
            )
        if self.mu is not None and self.log_sigma is not None:
            _check_layer(self.mu, "mu head", size, self.actions.continuous_size)
            if self.log_sigma.shape != (self.actions.continuous_size,):
                raise ExportError(
                    f"log_sigma has shape {self.log_sigma.shape}; one value per continuous action is due."
                )
            if (self.log_sigma > MAX_LOG_SIGMA).any():
                raise NonFiniteError(
                    f"The policy's log_sigma reaches {self.log_sigma.max():.3g}, whose exponential is no number that a "
                    "model file can hold; go back to an earlier checkpoint."
                )
        if len(self.branches) != self.actions.discrete_size:
            raise ExportError(
                f"The policy has {len(self.branches)} discrete heads for {self.actions.discrete_size} branches; "
                "give one head per branch."
            )
        for i, (head, options) in enumerate(zip(self.branches, self.actions.discrete_branches, strict=True)):
            _check_layer(head, f"head of branch {i}", size, options)
        if self.actions.components == 0:
            raise ExportError("The policy has neither continuous nor discrete actions; there is nothing to export.")


def _same_sensor(one: ObservationSpec, other: ObservationSpec) -> bool:
    return one.name == other.name and one.shape == other.shape


def _linear(layer: Linear, name: str) -> Linear:
    weight, bias = layer
    array = _finite(np.array(weight, np.float32), f"{name} weight")
    if array.ndim != 2:
        raise ExportError(f"The weight of {name} has {array.ndim} dimensions; [inputs, outputs] is due.")
    return Linear(array, _vector(bias, f"{name} bias"))


def _vector(values: FloatArray, name: str) -> FloatArray:
    array = _finite(np.array(values, np.float32), name)
    if array.ndim != 1:
        raise ExportError(f"{name} has {array.ndim} dimensions; one is due.")
    return array


def _finite(array: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(array).all():
        raise NonFiniteError(
            f"The policy's {name} holds NaN or infinity and cannot be exported; go back to an earlier checkpoint."
        )
    array.flags.writeable = False
    return array


def _check_layer(layer: Linear, name: str, inputs: int, outputs: int) -> None:
    if layer.weight.shape != (inputs, outputs) or layer.bias.shape != (outputs,):
        raise ExportError(
            f"The {name} has weight {layer.weight.shape} and bias {layer.bias.shape} where {(inputs, outputs)} and "
            f"{(outputs,)} are due; layers must be stored as [inputs, outputs]."
        )
