"""A user's own network in place of ours: acting, masks, exploration, checkpoints and export work as usual.

To export it, its computation is recorded while it acts, and only layers and operations from a short list can be written
to a model file. Training has no such limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from tau_trainer.errors import ExportError, SettingsError, TauError
from tau_trainer.models.actor_critic import ActorCritic, NetworkOutput
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.heads import Acting, ActionHead
from tau_trainer.models.mlp import Noise
from tau_trainer.models.observation_encoder import Inputs

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings.exploration import ExplorationSettings
    from tau_trainer.specs import BehaviorSpec


class OwnNetwork(ActorCritic):
    """Uses a user's module for the actor's outputs.

    Args:
        spec: the behavior with the sensors that the policy sees.
        module: maps observations (see :func:`seen`) to outputs [n, c + M]: continuous actions before a tanh, then a
            number for each value of each branch.
        normalize: whether to normalise vectors before the module gets them.
        exploration: how the best action is disturbed; None: continuous actions are taken as they are, and branches
            are drawn with the outputs as logits.
    """

    def __init__(
        self, spec: BehaviorSpec, module: torch.nn.Module, *, normalize: bool, exploration: ExplorationSettings | None
    ) -> None:
        torch.nn.Module.__init__(self)
        self._see(spec, 1, normalize=normalize)
        self.module = module
        size = spec.actions.width
        self.action = ActionHead(size, spec.actions, torch.Generator(), acting=Acting(deterministic=True))
        with torch.no_grad():  # passes the module's outputs through
            self.action.weight.copy_(torch.eye(size))
        self.action.requires_grad_(False)
        self._explore(exploration)

    @property
    @override
    def plain(self) -> bool:
        return False

    @override
    def forward(self, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None) -> NetworkOutput:
        outputs = self.outputs(inputs)
        nothing = outputs.new_zeros(len(outputs), 0)  # no values and no memory
        return NetworkOutput(outputs, nothing, nothing[:, None])

    @override
    def outputs(self, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None) -> torch.Tensor:
        with named_failure(f"{type(self.module).__name__}.action"):
            outputs: torch.Tensor = self.module(seen(inputs))
        due = len(inputs[0]), self.action.weight.shape[1]
        if tuple(outputs.shape) != due:
            raise SettingsError(
                f"{type(self.module).__name__}.action answers {due[0]} observations of '{self.spec.short_name}' with "
                f"shape {list(outputs.shape)}, but must return {list(due)}: a number for each continuous action and "
                "each value of each branch"
            )
        return outputs

    @override
    def write(self, graph: GraphWriter, observations: Sequence[str], state: str | None) -> str | None:
        names = [self._write_vectors(graph, observations), *(observations[i] for i in self._encoded)]
        weight, sensors = self.action.weight, [self.spec.observations[i] for i in self._encoded]
        inputs = [
            torch.zeros(2, sum(self.spec.observations[i].size for i in self._vectors), dtype=weight.dtype),
            *(torch.zeros(2, *sensor.shape, dtype=weight.dtype) for sensor in sensors),
        ]
        with torch.no_grad(), _Writer(graph, self.module, dict(zip(names, inputs, strict=True))) as writer:
            outputs = self.outputs(inputs)
        name = writer.name(outputs)
        if name is None:
            raise ExportError(f"The policy of {type(self.module).__name__} does not depend on its observations.")
        self.action.write(graph, name)
        return None


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Turn any exception of a user's own code inside into a SettingsError that names it."""
    try:
        yield
    except TauError:
        raise
    except Exception as error:
        reason = ": ".join((type(error).__name__, *str(error).splitlines()[:1]))
        raise SettingsError(f"{what} failed: {reason}; fix it (--debug shows where)") from error


def seen(inputs: Inputs) -> Any:
    """Inputs of a user's module: vectors side by side, float32 [n, D]; with other sensors, a list of them all."""
    return inputs if len(inputs) > 1 else inputs[0]


_NODES: Final = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "neg": "Neg",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
}
"""Operations that are one node of ONNX, by torch's name."""
_SWAPPED: Final = {"__rsub__": "Sub", "__rdiv__": "Div"}
"""The same for a number and a tensor."""
_UNCHANGED: Final = ("dropout", "contiguous", "clone", "detach")
_FACTS: Final = ("__get__", "size", "dim", "__len__")
"""Queries of a tensor that do not depend on its values."""
_DEFAULTS: Final = {"inplace": False, "training": False, "alpha": 1, "beta": 1.0, "threshold": 20.0}
"""Arguments that must have these values, because a node has no others; harmless arguments are not checked."""


class _Writer(TorchFunctionMode):
    """Records operations on tensors inside it, in this thread only: other threads may act and learn meanwhile."""

    def __init__(self, graph: GraphWriter, module: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._graph = graph
        self._module = module
        self._kept = list(inputs.values())
        """All named tensors, kept so that no other tensor gets their place in memory."""
        self._names = {id(tensor): name for name, tensor in inputs.items()}

    def name(self, tensor: object) -> str | None:
        """The name of a tensor in the graph; None: it does not depend on the inputs."""
        return self._names.get(id(tensor))

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, kind = func(*args, **(kwargs or {})), str(getattr(func, "__name__", func))
        flat = [*args[0], *args[1:]] if args and isinstance(args[0], list | tuple) else [*args]
        if not any(self.name(value) for value in (*flat, *(kwargs or {}).values())) or kind in _FACTS:
            return result
        name = self._written(kind, args, kwargs or {}, f"own.{len(self._kept)}")
        self._kept.append(result)
        self._names[id(result)] = name
        return result

    def _written(self, kind: str, args: Any, options: Mapping[str, Any], output: str) -> str:
        """Write this operation into the graph; returns the name of its output."""
        graph = self._graph
        if kind == "linear" and self.name(args[0]):
            _, weight, bias = (*args, None)[:3]
            bias = torch.zeros(len(weight)) if bias is None else bias
            return graph.linear(_array(weight.T), _array(bias), self._of(args[0], output), output)
        if kind == "silu":
            return graph.swish(self._of(args[0], output), output)
        if kind == "cat" and (*args, options.get("dim", 0))[1] in (1, -1):
            return graph.concat([self._of(part, f"{output}.{i}") for i, part in enumerate(args[0])], output)
        known = dict(zip(("input", "dim", "keepdim"), args, strict=False)) | dict(options)
        if kind == "mean" and known.get("dim") in (1, -1) and known.get("keepdim") is True:
            return graph.add("ReduceMean", [self._of(args[0], output)], output, axes=[1], keepdims=1)
        if all(_DEFAULTS.get(name, value) == value for name, value in options.items()):
            if kind in _UNCHANGED:
                return self._of(args[0], output)
            given = [self._of(value, f"{output}.{i}") for i, value in enumerate(args)]
            if kind in _SWAPPED:
                return graph.add(_SWAPPED[kind], given[::-1], output)
            if kind == "softplus" and [*args[1:]] in ([], [1.0, 20.0]):
                return graph.add(_NODES[kind], given[:1], output)
            if kind in _NODES and kind != "softplus":
                return graph.add(_NODES[kind], given, output)
        raise ExportError(
            f"The policy of {type(self._module).__name__} cannot be written as a model file: its action uses "
            f"'{kind.strip('_')}' in a way that export does not support; build it of Linear layers, usual "
            "activations, sums and cat, or set `exports = False` in its class to train without a file"
        )

    def _of(self, value: Any, name: str) -> str:
        """The name of a value that depends on the inputs; other values become constants."""
        known = self.name(value)
        if known is not None:
            return known
        return self._graph.constant(f"{name}.constant", _array(torch.as_tensor(value, dtype=torch.float32)))


def _array(values: torch.Tensor) -> NDArray[Any]:
    return values.detach().cpu().numpy()
