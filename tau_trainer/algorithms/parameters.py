"""A module's parameters in one flat vector, which makes an optimizer step, a copy or a rollback one operation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.adam import adam

from tau_trainer.columns import Arrays, prefixed
from tau_trainer.errors import CheckpointError
from tau_trainer.metrics import keys
from tau_trainer.models.actor_critic import CLOCK
from tau_trainer.models.encoders.visual import with_middles

if TYPE_CHECKING:
    from tau_trainer.settings import Hyperparameters

_ALIGNMENT = 16
"""Alignment in floats: every parameter starts on a 64-byte boundary of the vector. The gaps stay zero."""


_RANDOM = "random.generator"
_OPTIMIZER = "optimizer."
"""Prefix of the names of an optimizer's moments in a checkpoint."""
_KEPT = {
    "adam": ("exp_avg", "exp_avg_sq", "step"),
    "adamw": ("exp_avg", "exp_avg_sq", "step"),
    "nadam": ("exp_avg", "exp_avg_sq", "mu_product", "step"),
    "rmsprop": ("exp_avg_sq", "step"),
    "sgd": ("step",),
}
"""State that each optimizer resumes from, by the names of its fields."""


class OptimizerState(NamedTuple):
    """Flat vectors of an optimizer; TorchScript understands it."""

    parameters: torch.Tensor  # [S], or [P, S] for members; the next ones have the same shape
    gradient: torch.Tensor
    exp_avg: torch.Tensor  # running mean of gradients
    exp_avg_sq: torch.Tensor  # running mean of their squares
    scratch: torch.Tensor
    """Working memory."""
    mu_product: torch.Tensor
    """float64 [1]: product of NAdam's momenta so far."""
    step: torch.Tensor
    """int64 []: steps taken. Always on the CPU, because every step reads it."""
    kind: str
    """A value of ``hyperparameters.optimizer``."""
    weight_decay: float
    decayed: int
    """Length of the part of the vectors that has weight decay."""


def optimizer_step(optimizer: OptimizerState, learning_rate: float, step: int) -> None:
    """Take step number ``step`` (1 = the first) along the gradient.

    All numbers except the learning rate are the defaults of torch.optim, and so are the results. Weight decay is
    decoupled (Loshchilov and Hutter 2019) with every optimizer.

    - ``adam``, ``adamw``: Kingma and Ba (2015); the bias corrections are moved into the step size and epsilon (their
      section 2, last paragraph).
    - ``nadam``: Dozat (2016), Adam with Nesterov's momentum, which warms up.
    - ``rmsprop``: Hinton (2012), without momentum. ``sgd``: the gradient itself, without momentum.
    """
    gradient, scratch, mean, square = optimizer.gradient, optimizer.scratch, optimizer.exp_avg, optimizer.exp_avg_sq
    if optimizer.weight_decay > 0.0:
        decayed = optimizer.parameters.narrow(-1, 0, optimizer.decayed)  # a view; weights with decay come first
        decayed.mul_(1.0 - learning_rate * optimizer.weight_decay)
    if optimizer.kind == "sgd":
        optimizer.parameters.add_(gradient, alpha=-learning_rate)
        return
    if optimizer.kind == "rmsprop":
        square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)  # [S]: running mean of squares, alpha 0.99
        torch.sqrt(square, out=scratch)
        scratch.add_(1e-8)
        optimizer.parameters.addcdiv_(gradient, scratch, value=-learning_rate)
        return
    # m = 0.9 m + 0.1 g; v = 0.999 v + 0.001 g²; theta -= rate m / (sqrt(v) + epsilon')
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    correction = math.sqrt(1.0 - 0.999 ** float(step))  # for v, applied to the rate and epsilon instead
    torch.sqrt(square, out=scratch)
    scratch.add_(1e-8 * correction)
    rate = learning_rate * correction
    if optimizer.kind == "nadam":
        # Dozat's schedule: 0.9 * (1 - 0.5 * 0.96^(t / 250)).
        momentum = 0.9 * (1.0 - 0.5 * 0.96 ** (0.004 * float(step)))
        following = 0.9 * (1.0 - 0.5 * 0.96 ** (0.004 * float(step + 1)))
        product = float(optimizer.mu_product) * momentum  # of the momenta up to this step
        optimizer.mu_product.fill_(product)
        optimizer.parameters.addcdiv_(gradient, scratch, value=-rate * (1.0 - momentum) / (1.0 - product))
        optimizer.parameters.addcdiv_(mean, scratch, value=-rate * following / (1.0 - product * following))
    else:
        optimizer.parameters.addcdiv_(mean, scratch, value=-rate / (1.0 - 0.9 ** float(step)))


def clip_gradient(gradient: torch.Tensor, most: float) -> torch.Tensor:
    """Scale a gradient [S], or each of [P, S], down to the norm ``most`` (0: never); TorchScript understands it.

    Returns the norm before that, [] or [P].
    """
    norm: torch.Tensor = torch.linalg.vector_norm(gradient, dim=-1)
    if most > 0.0:
        gradient.mul_(torch.clamp(most / (norm + 1e-6), max=1.0).unsqueeze(-1))  # 1e-6 as in torch's clip_grad_norm_
    return norm


def optimizer_step_from_python(optimizer: OptimizerState, learning_rate: float, step: int, taken: torch.Tensor) -> None:
    """The same as :func:`optimizer_step`, but with torch's own Adam if that is the optimizer.

    Also for stacks of vectors.

    Args:
        optimizer: vectors [S], or [P, S] for many modules of the same shape.
        learning_rate: of this step.
        step: its number, 1 = the first.
        taken: float32 [], on the vectors' device, overwritten: torch's Adam takes the step number in this form.
    """
    if optimizer.kind not in ("adam", "adamw"):
        optimizer_step(optimizer, learning_rate, step)
        return
    if optimizer.weight_decay > 0.0:
        decayed = optimizer.parameters.narrow(-1, 0, optimizer.decayed)
        decayed.mul_(1.0 - learning_rate * optimizer.weight_decay)
    # One pass over the vectors instead of seven. The class torch.optim.Adam imports torch's compiler, which would make
    # every run start most of a second later.
    adam(
        [optimizer.parameters],
        [optimizer.gradient],
        [optimizer.exp_avg],
        [optimizer.exp_avg_sq],
        [],
        [taken.fill_(float(step - 1))],  # torch adds this step itself
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=learning_rate,
        weight_decay=0.0,
        eps=1e-8,
        maximize=False,
    )


class FlatParameters:
    """Moves the parameters of a module into one flat float32 vector, with room for their gradients and an optimizer.

    The module's parameters become views of :attr:`optimizer`'s ``parameters``, their ``grad`` views of its
    ``gradient``: a change of the vector changes the module.

    Args:
        module: its parameters named ``...weight`` are matrices, which have weight decay if they have gradients; they
            come first.
        device: device to move everything to.
        numbers: name the optimizer and its weight decay; None: Adam without weight decay.
        parts: prefixes of names to store together, in this order, so that a part can be trained alone; see
            :meth:`part`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device: torch.device,
        hyper: Hyperparameters | None = None,
        parts: Sequence[str] = ("",),
    ) -> None:
        self.module = module.to(device)
        named = dict(module.named_parameters())
        place = {
            name: (
                # Order: by parts; within a part, those without gradient last, and those without decay last.
                next(i for i, part in enumerate(parts) if name.startswith(part)),
                not parameter.requires_grad,
                not name.endswith("weight"),
            )
            for name, parameter in named.items()
        }
        self._shapes: dict[str, torch.Size] = {}
        self._offsets: dict[str, int] = {}
        self._untouched = [name for name, (_, *others) in place.items() if any(others)]
        self._parts = tuple(parts)
        size = 0
        for name in sorted(named, key=place.__getitem__):
            self._shapes[name], self._offsets[name] = named[name].shape, size
            size += -(-named[name].numel() // _ALIGNMENT) * _ALIGNMENT  # rounded up to the alignment
        parameters, gradient, mean, square, scratch = (torch.zeros(size, device=device) for _ in range(5))
        step = torch.zeros((), dtype=torch.int64, device="cpu")
        self._products = torch.ones(len(parts), dtype=torch.float64, device="cpu")  # read at every step
        self._layer_statistics = hyper is not None and hyper.layer_statistics
        kind, decay = ("adam", 0.0) if hyper is None else (hyper.optimizer, hyper.weight_decay)
        self.optimizer = OptimizerState(
            parameters, gradient, mean, square, scratch, self._products[:1], step, kind, decay, self._decayed("")
        )
        for name, view in self.views(parameters).items():
            view.copy_(named[name].data)  # a copy of the first weights
        self._bind()
        self._taken = torch.zeros((), device=device)
        """Number of steps, as torch's own Adam counts them."""

    def _bind(self) -> None:
        """Make the module's parameters views of the vectors."""
        values = self.views(self.optimizer.parameters)
        gradients = self.views(self.optimizer.gradient)
        for name, parameter in self.module.named_parameters():
            parameter.data, parameter.grad = values[name], gradients[name]

    def lie_in(self, **vectors: torch.Tensor) -> None:
        """Move the optimizer's fields of these names to these vectors. Existing views become invalid; get new ones."""
        for name, vector in vectors.items():
            vector.copy_(getattr(self.optimizer, name))
        self.optimizer = self.optimizer._replace(**vectors)  # type: ignore[arg-type]
        self._bind()

    def span(self, *prefixes: str) -> slice:
        """Range in the vector of the parts whose names have these prefixes; the parts must be adjacent."""
        names = [name for name in self._offsets if name.startswith(prefixes)]
        # The last one may share its place with an empty one.
        end = max(self._offsets[name] + -(-self._shapes[name].numel() // _ALIGNMENT) * _ALIGNMENT for name in names)
        return slice(min(self._offsets[name] for name in names), end)

    def part(self, prefix: str) -> OptimizerState:
        """The optimizer of one part: views, except for ``step``, which is shared."""
        span, number, whole = self.span(prefix), self._parts.index(prefix), self.optimizer
        parameters, gradient, mean, square, scratch, *_ = whole
        return whole._replace(
            parameters=parameters[span],
            gradient=gradient[span],
            exp_avg=mean[span],
            exp_avg_sq=square[span],
            scratch=scratch[span],
            mu_product=self._products[number : number + 1],
            decayed=self._decayed(prefix),
        )

    def _decayed(self, prefix: str) -> int:
        """See :attr:`OptimizerState.decayed`; weights with decay come first in every part."""
        span = self.span(prefix)
        begins = (self._offsets[name] for name in self._untouched if name.startswith(prefix))
        first: int = min(begins, default=span.stop)
        return first - int(span.start)

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Each parameter as a view of ``flat``, a vector or a stack of vectors: [..., *shape]."""
        return {
            name: flat.narrow(-1, offset, self._shapes[name].numel()).view(*flat.shape[:-1], *self._shapes[name])
            for name, offset in self._offsets.items()
        }

    @staticmethod
    def differentiate(loss: torch.Tensor) -> None:
        """Add the gradient of a loss []."""
        loss.backward()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def descend(self, learning_rate: float) -> None:
        """Take the optimizer's next step along the gradient."""
        self.optimizer.step.add_(1)
        optimizer_step_from_python(self.optimizer, learning_rate, int(self.optimizer.step), self._taken)

    def backup(self) -> list[torch.Tensor]:
        """A copy of all state."""
        return [tensor.clone() for tensor in self._tensors()]

    def restore(self, backup: list[torch.Tensor]) -> None:
        """Restore a :meth:`backup`."""
        for tensor, saved in zip(self._tensors(), backup, strict=True):
            tensor.copy_(saved)

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from (field for field in self.optimizer if isinstance(field, torch.Tensor))
        yield self._products
        yield from self.module.buffers()

    def finite(self) -> bool:
        """Whether every parameter is a finite number."""
        # A sum is much cheaper than a check of each number, which is only needed if the sum is not finite.
        flat = self.optimizer.parameters
        return math.isfinite(float(flat.sum())) or bool(torch.isfinite(flat).all())

    def layer_statistics(self) -> dict[str, torch.Tensor]:
        """Mean and deviation [] of every trained parameter and of its newest gradient, by TensorBoard name.

        Empty if ``layer_statistics`` is not set.
        """
        found: dict[str, torch.Tensor] = {}
        for name, parameter in self.module.named_parameters() if self._layer_statistics else ():
            if not parameter.requires_grad or not parameter.numel() or parameter.grad is None:
                continue
            for what, values in (("", parameter.detach()), ("Gradient ", parameter.grad)):
                found[keys.layer(name, f"{what}Mean")] = values.mean()
                found[keys.layer(name, f"{what}Std")] = values.std(correction=0)
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """All state for a resume: ``model.*``, buffers by their names, ``optimizer.*``."""
        return {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in self.stored().items()}

    def load(self, arrays: Arrays, *, moments: bool = True) -> None:
        """Restore :meth:`state`; nothing is changed unless everything fits.

        ``moments``: restore the optimizer too; otherwise it keeps its own state.

        Raises:
            CheckpointError: an array is missing, has another shape, or contains NaN or infinity.
        """
        targets = self.stored()
        if not moments:
            targets = {name: target for name, target in targets.items() if not name.startswith(_OPTIMIZER)}
        arrays = with_middles(targets, arrays)
        # Check all before writing any.
        sources = {name: fitting(arrays, name, tuple(target.shape)) for name, target in targets.items()}
        for name, target in targets.items():
            target.copy_(torch.from_numpy(np.array(sources[name])))  # a copy: torch wants to write

    def stored(self) -> dict[str, torch.Tensor]:
        """The tensors of :meth:`state`."""
        weights = {f"model.{name}": view for name, view in self.views(self.optimizer.parameters).items()}
        state = self.optimizer._asdict() | {"mu_product": self._products}
        moments = {_OPTIMIZER + name: state[name] for name in _KEPT[self.optimizer.kind]}
        return weights | moments | dict(self.module.named_buffers())


class Beside(ABC):
    """A part of an algorithm with state of its own, which changes together with the policy's own update."""

    prefix: str
    """Of the names of its arrays in a checkpoint."""
    learns: bool = False
    """Whether its tensors are learned, so that a fresh start keeps them too."""
    generator: torch.Generator | None = None

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """All its state except random numbers, to write to in place."""

    def backup(self) -> dict[str, torch.Tensor]:
        """A copy of all state."""
        copies = {name: values.clone() for name, values in self.tensors().items()}
        return copies if self.generator is None else {**copies, _RANDOM: self.generator.get_state()}

    def restore(self, backup: Mapping[str, torch.Tensor]) -> None:
        """Restore a :meth:`backup`."""
        if self.generator is not None:
            self.generator.set_state(backup[_RANDOM])
        for name, values in self.tensors().items():
            values.copy_(backup[name])

    def state(self) -> dict[str, NDArray[Any]]:
        """The full state for an exact resume."""
        return prefixed(self.prefix, {name: values.cpu().numpy() for name, values in self.backup().items()})

    def load(self, arrays: Arrays, *, fresh: bool) -> None:
        """Restore :meth:`state`; ``fresh``: only what is learned. If it raises CheckpointError, nothing is changed."""
        state = self.backup()
        wanted = [name for name in state if not fresh or (self.learns and name != _RANDOM)]
        arrays = with_middles([self.prefix + name for name in wanted], arrays)
        found = {name: fitting(arrays, self.prefix + name, tuple(state[name].shape)) for name in wanted}
        self.restore(state | {name: torch.from_numpy(np.array(values)) for name, values in found.items()})


def follower(target: torch.nn.Module, source: torch.nn.Module) -> Callable[[float], None]:
    """A function that moves a target network by ``tau`` towards its source (Lillicrap et al. 2016, algorithm 1).

    The running statistics of its layers move with its parameters: with other statistics its outputs would be different.
    """
    sources = dict(source.named_parameters()) | dict(source.named_buffers())
    targets = dict(target.named_parameters()) | dict(target.named_buffers())
    targets.pop(CLOCK, None)  # it is not used to explore
    followed = [sources[name] for name in targets]
    return lambda tau: torch._foreach_lerp_(list(targets.values()), followed, tau)


def fitting(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """One array of a checkpoint, checked.

    Raises:
        CheckpointError: it is missing, has another shape, or contains NaN or infinity.
    """
    if name not in arrays:
        raise CheckpointError(f"The checkpoint has no tensor '{name}'; it was written by another kind of trainer.")
    values = np.asarray(arrays[name])
    if values.shape != shape:
        raise CheckpointError(
            f"Tensor '{name}' of the checkpoint has shape {list(values.shape)}, but the settings ask for "
            f"{list(shape)}; use the network settings that the run was started with."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise CheckpointError(f"Tensor '{name}' of the checkpoint holds NaN or infinity; use an earlier checkpoint.")
    return values
