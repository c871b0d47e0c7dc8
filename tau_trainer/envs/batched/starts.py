"""Pools of start states with probabilities (WarpDrive's reset pools, with a distribution)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tau_trainer.envs.batched.draws import Draws
from tau_trainer.errors import SettingsError

_STREAM = 2**20
"""Stream number of :class:`Draws` for choosing a start; authors' streams are below it."""
_BITS = 32
"""Bits of a random number: the smallest probability is 2^-32."""


class Pool:
    """``P`` start states. For each episode one is drawn on the device, from its copy's seed and its number.

    Args:
        states: tensors [P, ...] by name, on one device, as ``begin`` returns them for ``P`` copies.
        weights: [P], at least 0 and not all of them 0: relative probabilities; None: uniform. A state of weight 0 is
            never drawn; probabilities are rounded to multiples of 2^-32.

    Raises:
        SettingsError: there are no states, the tensors differ in length, or the weights are invalid.
    """

    def __init__(
        self, states: Mapping[str, torch.Tensor], weights: torch.Tensor | Sequence[float] | None = None
    ) -> None:
        sizes = {name: len(values) if values.dim() else 0 for name, values in states.items()}
        if len(set(sizes.values())) != 1 or not min(sizes.values()):
            said = ", ".join(f"{size} of '{name}'" for name, size in sizes.items()) or "none"
            raise SettingsError(f"a pool of starts has {said}; give at least one state, and as many of each tensor")
        self.states = dict(states)
        self.size = next(iter(sizes.values()))
        self._edges: torch.Tensor | None = None
        if weights is not None:
            # In float64 on the CPU, then whole numbers: so each device draws the same state.
            likely = torch.as_tensor(weights, dtype=torch.float64, device="cpu")
            if likely.shape != (self.size,) or not bool((torch.isfinite(likely) & (likely >= 0)).all() & likely.any()):
                raise SettingsError(
                    f"a pool of {self.size} starts has invalid weights of shape {list(likely.shape)}; give "
                    f"{self.size} finite numbers of at least 0, not all of them 0"
                )
            sums = (likely / likely.max()).cumsum(0)
            device = next(iter(self.states.values())).device
            self._edges = (sums / sums[-1] * 2**_BITS).round().to(torch.int64).to(device)  # [P], the last is 2^32

    def check(self, begun: Mapping[str, torch.Tensor]) -> None:
        """Raises SettingsError if the states do not have the form of ``begun``, the result of ``begin``."""
        found, wanted = (
            {name: (str(values.dtype).removeprefix("torch."), *values.shape[1:]) for name, values in state.items()}
            for state in (self.states, begun)
        )
        for name in found.keys() ^ wanted.keys():
            whose, other = ("pool", "begin") if name in found else ("begin", "pool")
            raise SettingsError(f"the pool of starts does not fit: {whose} gives '{name}', and {other} does not")
        for name, kind in found.items():
            if kind != wanted[name]:
                here, there = (f"{dtype} {list(shape)}" for dtype, *shape in (kind, wanted[name]))
                raise SettingsError(
                    f"the pool of starts does not fit: '{name}' is {here} in the pool, but {there} in begin"
                )

    def draw(self, draws: Draws) -> dict[str, torch.Tensor]:
        """A state for each copy of ``draws``, as tensors [E, ...]."""
        if self._edges is None:
            which = draws.integers(_STREAM, 0, self.size)
        else:
            drawn = (draws.bits(_STREAM) >> (64 - _BITS)) & ((1 << _BITS) - 1)
            which = torch.searchsorted(self._edges, drawn, right=True)  # the first edge above it
        return {name: values[which] for name, values in self.states.items()}
