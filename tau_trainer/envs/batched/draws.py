"""Random numbers that belong to a copy of an environment, not to a generator.

A number is a hash of its copy's seed, of the episode and step in which it is drawn, and of its index; there is no other
state. So a copy draws the same numbers alone, among thousands, in another order, and on another device; an episode can
be played again; and a reset of some copies leaves the others' numbers as they are. The hash is the finaliser of
SplitMix64 (Steele, Lea and Flood 2014, figure 16), a permutation of 64-bit numbers.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch

_GAMMA = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number: 2^64 over the golden ratio
_FACTORS = -4658895280553007687, -7723592293110705685  # 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31
_UNSIGNED = [(np.uint64(shift), np.uint64(factor % 2**64)) for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True)]
_LAST = np.uint64(_SHIFTS[2])
_FLOAT_BITS = 24
"""Random bits of a float32 in [0, 1), so that values are evenly spaced."""


def mixed(values: torch.Tensor) -> torch.Tensor:
    """Every 64-bit number (int64, any shape) through SplitMix64's finaliser."""
    if values.device.type == "cpu" and not torch.compiler.is_compiling():
        return _mixed_by_numpy(values)
    for shift, factor in zip(_SHIFTS, (*_FACTORS, 1), strict=True):
        logical = (values >> shift) & ((1 << (64 - shift)) - 1)  # torch's shift of signed numbers keeps the sign
        values = (values ^ logical) * factor
    return values


def _mixed_by_numpy(values: torch.Tensor) -> torch.Tensor:
    """The same with numpy, whose calls cost less: four times as fast for the few copies that reset in a step."""
    words = values.numpy().view(np.uint64)
    for shift, factor in _UNSIGNED:
        words = (words ^ (words >> shift)) * factor
    return torch.from_numpy((words ^ (words >> _LAST)).view(np.int64))


def seeds_of(seed: int, count: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """A seed for each of ``count`` copies, int64 [count]; those of two runs with different seeds differ."""
    base = mixed(torch.tensor([seed], dtype=torch.int64, device=device))
    return mixed(base + _GAMMA * torch.arange(1, count + 1, dtype=torch.int64, device=device))


class Draws:
    """The random numbers of ``E`` copies, each at its current episode and step.

    Args:
        seed: int64 [E].
        episode: int64 [E].
        step: int64 [E].
    """

    def __init__(self, seed: torch.Tensor, episode: torch.Tensor, step: torch.Tensor) -> None:
        self._moment = seed, episode, step

    @cached_property
    def _key(self) -> torch.Tensor:
        """Key of the current step, int64 [E]; computed on first use, because many games draw nothing during play."""
        seed, episode, step = self._moment
        return mixed(mixed(seed + _GAMMA * (episode + 1)) + _GAMMA * (step + 1))

    def bits(self, stream: int, *shape: int) -> torch.Tensor:
        """int64 [E, *shape], every bit as likely 0 as 1. Draws with different ``stream`` numbers are independent."""
        count = math.prod(shape)
        places = _GAMMA * torch.arange(1, count + 1, dtype=torch.int64, device=self._key.device)
        key = mixed(self._key + ((_GAMMA * (stream + 1) + 2**63) % 2**64 - 2**63))  # as a signed number of 64 bits
        return mixed(key[:, None] + places).view(-1, *shape)

    def uniform(self, stream: int, *shape: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        """float32 [E, *shape], uniform in [low, high)."""
        whole = (self.bits(stream, *shape) >> (64 - _FLOAT_BITS)) & ((1 << _FLOAT_BITS) - 1)
        return whole.to(torch.float32) * (2.0**-_FLOAT_BITS * (high - low)) + low

    def integers(self, stream: int, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 [E, *shape], uniform in low ... high - 1, up to 2^-32 if the range is not a power of 2."""
        whole = (self.bits(stream, *shape) >> 32) & ((1 << 32) - 1)
        return ((whole * (high - low)) >> 32) + low

    def normal(self, stream: int, *shape: int) -> torch.Tensor:
        """float32 [E, *shape], standard normal (Box and Muller 1958)."""
        pair = self.uniform(stream, 2, *shape)
        radius = torch.sqrt(-2.0 * torch.log1p(-pair[:, 0]))  # 1 - u is never 0, u may be
        return radius * torch.cos((2.0 * math.pi) * pair[:, 1])
