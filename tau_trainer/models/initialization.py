"""Initial weights as ML-Agents draws them (``torch_entities/layers.py``, ``distributions.py``, ``decoders.py``)."""

from __future__ import annotations

import math

import torch

MEAN_GAIN = 0.2
"""Factor on the layer of Gaussian means: first actions stay near zero."""
LOGITS_GAIN = 0.1
"""Factor on the layers of discrete branches: first choices are nearly uniform."""


def kaiming_normal_(weight: torch.Tensor, generator: torch.Generator, gain: float = 1.0) -> None:
    """Fill ``weight`` [..., fan_in, out] with N(0, gain² / fan_in) (He et al. 2015 with linear gain)."""
    weight.normal_(0.0, gain / math.sqrt(weight.shape[-2]), generator=generator)


def xavier_uniform_(weight: torch.Tensor, generator: torch.Generator) -> None:
    """Fill ``weight`` [fan_in, fan_out] with U(-a, a), a² = 6 / (fan_in + fan_out) (Glorot and Bengio 2010)."""
    bound = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1]))
    weight.uniform_(-bound, bound, generator=generator)
