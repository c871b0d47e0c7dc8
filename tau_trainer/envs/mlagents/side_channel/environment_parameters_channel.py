"""Numbers that the game reads by name (``Academy.EnvironmentParameters``)."""

from __future__ import annotations

from enum import IntEnum

from tau_trainer.bridge.side_channels import (
    ENVIRONMENT_PARAMETERS,
    Sampler,
    SamplerKind,
    environment_parameter_payload,
)
from tau_trainer.envs.mlagents.side_channel.side_channel import SendingChannel


class EnvironmentParametersChannel(SendingChannel):
    """Sends parameters, or samplers from which the game draws a new value each time it reads the parameter."""

    class EnvironmentDataTypes(IntEnum):
        """The type of the value after a name."""

        FLOAT = 0
        SAMPLER = 1

    class SamplerTypes(IntEnum):
        """Distributions of samplers."""

        UNIFORM = 0
        GAUSSIAN = 1
        MULTIRANGEUNIFORM = 2

    def __init__(self) -> None:
        super().__init__(ENVIRONMENT_PARAMETERS)

    def set_float_parameter(self, key: str, value: float) -> None:
        """Set a number."""
        self._send(environment_parameter_payload(key, value))

    def set_uniform_sampler_parameters(self, key: str, min_value: float, max_value: float, seed: int) -> None:
        """Set a uniform sampler from ``min_value`` to ``max_value``."""
        self._sampler(key, SamplerKind.UNIFORM, seed, min_value, max_value)

    def set_gaussian_sampler_parameters(self, key: str, mean: float, st_dev: float, seed: int) -> None:
        """Set a Gaussian sampler."""
        self._sampler(key, SamplerKind.GAUSSIAN, seed, mean, st_dev)

    def set_multirangeuniform_sampler_parameters(
        self, key: str, intervals: list[tuple[float, float]], seed: int
    ) -> None:
        """Set a sampler that draws uniformly from several ranges."""
        self._sampler(key, SamplerKind.MULTI_RANGE_UNIFORM, seed, *(end for pair in intervals for end in pair))

    def _sampler(self, key: str, kind: SamplerKind, seed: int, *values: float) -> None:
        self._send(environment_parameter_payload(key, Sampler(kind, seed, values)))
