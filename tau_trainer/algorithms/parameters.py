"""A module's parameters inside one flat vector: what makes an optimizer step, a copy or a rollback one operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError

_ALIGNMENT = 16
"""Floats; every parameter begins on a 64-byte boundary of the vector. The gaps stay zero."""


class AdamState(NamedTuple):
    """Flat vectors of Adam."""

    parameters: torch.Tensor
    gradient: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor
    scratch: torch.Tensor
    """Working memory."""
    step: torch.Tensor
    """int64 []: steps taken."""


def adam_step(optimizer: AdamState, learning_rate: float, step: int) -> None:
    """Take Adam's step number ``step`` (1 = the first) along the gradient.

    As Kingma and Ba (2015) with betas 0.9 and 0.999 and epsilon 1e-8, on flat vectors; its bias corrections are moved
    into the step size and epsilon (section 2, last paragraph). TorchScript understands it.
    """
    gradient, scratch = optimizer.gradient, optimizer.scratch
    # m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g²; theta -= rate m / (sqrt(v) + epsilon')
    optimizer.exp_avg.lerp_(gradient, 0.1)
    optimizer.exp_avg_sq.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    correction = math.sqrt(1.0 - 0.999 ** float(step))
    torch.sqrt(optimizer.exp_avg_sq, out=scratch)
    scratch.add_(1e-8 * correction)
    rate = learning_rate * correction / (1.0 - 0.9 ** float(step))
    optimizer.parameters.addcdiv_(optimizer.exp_avg, scratch, value=-rate)


class FlatParameters:
    """Moves the parameters of a module into one flat float32 vector, with room for their gradients and for Adam.

    The module's parameters become views of :attr:`adam`'s ``parameters``, their ``grad`` views of its ``gradient``:
    whoever changes the vector changes the module.

    Args:
        module: its parameters named ``...weight`` are matrices, which weight decay touches; they come first.
        device: where everything is moved to.
        parts: what names begin with that lie together, in this order, so that a part can be learned alone; see
            :meth:`part`.
    """

    def __init__(self, module: torch.nn.Module, device: torch.device, parts: Sequence[str] = ("",)) -> None:
        self.module = module.to(device)
        named = dict(module.named_parameters())
        matrices = [name for name in named if name.endswith("weight")]
        order = [*matrices, *(name for name in named if name not in matrices)]
        place = {name: next(i for i, part in enumerate(parts) if name.startswith(part)) for name in named}
        self._shapes: dict[str, torch.Size] = {}
        self._offsets: dict[str, int] = {}
        self.decayed = 0
        """Length of the part of the vector that weight decay touches."""
        size = 0
        for name in sorted(order, key=place.__getitem__):
            self._shapes[name], self._offsets[name] = named[name].shape, size
            size += -(-named[name].numel() // _ALIGNMENT) * _ALIGNMENT
            self.decayed = size if name in matrices else self.decayed
        parameters, gradient, mean, square, scratch = (torch.zeros(size, device=device) for _ in range(5))
        step = torch.zeros((), dtype=torch.int64, device=device)
        self.adam = AdamState(parameters, gradient, mean, square, scratch, step)
        values, gradients = self.views(self.adam.parameters), self.views(self.adam.gradient)
        for name, parameter in named.items():
            values[name].copy_(parameter.data)
            parameter.data, parameter.grad = values[name], gradients[name]

    def span(self, *prefixes: str) -> slice:
        """Where in the vector the parts lie that names with these prefixes are in, one behind the other."""
        names = [name for name in self._offsets if name.startswith(prefixes)]
        last = max(names, key=self._offsets.__getitem__)
        end = self._offsets[last] + -(-self._shapes[last].numel() // _ALIGNMENT) * _ALIGNMENT
        return slice(min(self._offsets[name] for name in names), end)

    def part(self, prefix: str) -> AdamState:
        """Adam's vectors for one part alone: views, but for ``step``, which is shared."""
        span = self.span(prefix)
        return AdamState(*(one[span] if one.ndim else one for one in self.adam))

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Each parameter as a view of ``flat``."""
        return {
            name: flat.narrow(0, offset, self._shapes[name].numel()).view(self._shapes[name])
            for name, offset in self._offsets.items()
        }

    def backup(self) -> list[torch.Tensor]:
        """A copy of everything, to go back to."""
        return [tensor.clone() for tensor in (*self.adam, *self.module.buffers())]

    def restore(self, backup: list[torch.Tensor]) -> None:
        """Go back to a :meth:`backup`."""
        for tensor, saved in zip((*self.adam, *self.module.buffers()), backup, strict=True):
            tensor.copy_(saved)

    def finite(self) -> bool:
        """Whether every parameter is a finite number."""
        # A sum costs a fraction of looking at each number; only where it is not finite itself is that worth it.
        flat = self.adam.parameters
        return math.isfinite(float(flat.sum())) or bool(torch.isfinite(flat).all())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that is needed to go on: ``model.*``, buffers by their names, ``optimizer.*``."""
        return {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in self._stored().items()}

    def load(self, arrays: Arrays) -> None:
        """Read what :meth:`state` wrote; nothing is changed unless everything fits.

        Raises:
            CheckpointError: an array is missing, has another shape, or holds NaN or infinity.
        """
        targets = self._stored()
        sources = {name: fitting(arrays, name, tuple(target.shape)) for name, target in targets.items()}
        for name, target in targets.items():
            target.copy_(torch.from_numpy(np.array(sources[name])))

    def _stored(self) -> dict[str, torch.Tensor]:
        own = {f"model.{name}": view for name, view in self.views(self.adam.parameters).items()}
        moments = {f"optimizer.{name}": getattr(self.adam, name) for name in ("exp_avg", "exp_avg_sq", "step")}
        return own | moments | dict(self.module.named_buffers())


def fitting(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """One array of a checkpoint, checked.

    Raises:
        CheckpointError: it is missing, has another shape, or holds NaN or infinity.
    """
    if name not in arrays:
        raise CheckpointError(f"The checkpoint has no tensor '{name}'; it was written by another kind of trainer.")
    values = np.asarray(arrays[name])
    if values.shape != shape:
        raise CheckpointError(
            f"Tensor '{name}' of the checkpoint has shape {list(values.shape)}, the settings ask for {list(shape)}; "
            "use the network settings that the run was started with."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise CheckpointError(f"Tensor '{name}' of the checkpoint holds NaN or infinity; use an earlier checkpoint.")
    return values
