"""A user's own network where ours stand: acting, masks, exploration, checkpoints and export are as with those.

What acts is traced once it is exported, and only the layers and operations of a short list can be written to a model
file. Training asks for none of that.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from typing_extensions import override

from tau_trainer.errors import ExportError, SettingsError
from tau_trainer.exploration import make_exploration
from tau_trainer.models.action_head import ActionHead
from tau_trainer.models.actor_critic import CLOCK, ActorCritic, Answer
from tau_trainer.models.noisy import Noise
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.models.observation_encoder import Inputs, sensors_of

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings.exploration import ExplorationSettings
    from tau_trainer.specs import BehaviorSpec


class OwnNetwork(ActorCritic):
    """Asks a module of the user's what an actor says.

    Args:
        spec: the behavior with the sensors that the policy sees.
        module: from observations (see :func:`seen`) to outputs [n, c + M]: what continuous actions are before a tanh,
            then a number for each value of each branch.
        normalize: whether vectors are, before the module gets them.
        exploration: how the best action is disturbed; None: continuous actions are taken as they are, and branches
            drawn as from logits.
    """

    def __init__(
        self, spec: BehaviorSpec, module: torch.nn.Module, *, normalize: bool, exploration: ExplorationSettings | None
    ) -> None:
        torch.nn.Module.__init__(self)
        self.spec = spec
        self.towers = 1
        self.noisy = False
        self.module = module
        self._vectors, self._encoded = sensors_of(spec)
        vectors = sum(spec.observations[i].size for i in self._vectors)
        self.normalizer = Normalizer(vectors) if normalize and vectors else None
        self.encoders, self.memories = torch.nn.ModuleList(), torch.nn.ModuleList()
        size = spec.actions.continuous_size + spec.actions.mask_size
        self.action = ActionHead(size, spec.actions, torch.Generator(), deterministic=True)
        with torch.no_grad():  # it hands on what the module says
            self.action.weight.copy_(torch.eye(size))
        self.action.requires_grad_(False)
        self.exploration = None
        if exploration is not None:
            self.exploration = make_exploration(exploration, spec.actions)
            self.register_buffer(CLOCK, torch.from_numpy(self.exploration.clock()))

    @property
    @override
    def plain(self) -> bool:
        return False

    @override
    def forward(
        self,
        inputs: Inputs,
        state: torch.Tensor | None = None,
        begins: torch.Tensor | None = None,
        noise: Noise | None = None,
    ) -> Answer:
        outputs = self.outputs(inputs)
        nothing = outputs.new_zeros(len(outputs), 0)
        return Answer(outputs, nothing, nothing[:, None])

    @override
    def outputs(
        self,
        inputs: Inputs,
        state: torch.Tensor | None = None,
        begins: torch.Tensor | None = None,
        noise: Noise | None = None,
    ) -> torch.Tensor:
        outputs: torch.Tensor = self.module(seen(inputs))
        due = len(inputs[0]), self.action.weight.shape[1]
        if tuple(outputs.shape) != due:
            raise SettingsError(
                f"{type(self.module).__name__}.action answers {due[0]} observations of '{self.spec.short_name}' with "
                f"shape {list(outputs.shape)}; {list(due)} is due, a number for each continuous action and each value "
                "of each branch"
            )
        return outputs

    @override
    def write(self, graph: GraphWriter, observations: Sequence[str], state: str | None) -> str | None:
        x = graph.concat([observations[i] for i in self._vectors], "observation") if self._vectors else ""
        if self.normalizer is not None:
            x = self.normalizer.write(graph, x)
        self.action.write(graph, _Traced(graph, self.module).write([x, *(observations[i] for i in self._encoded)]))
        return None


def seen(inputs: Inputs) -> Any:
    """What a user's module sees: vectors side by side, float32 [n, D]; a list of them and of other sensors if any."""
    return inputs if len(inputs) > 1 else inputs[0]


_PLAIN: Final[dict[Any, str]] = {
    torch.nn.ReLU: "Relu",
    torch.nn.Tanh: "Tanh",
    torch.nn.Sigmoid: "Sigmoid",
    torch.nn.Softplus: "Softplus",
    torch.nn.Identity: "Identity",
    torch.nn.Dropout: "Identity",
    torch.relu: "Relu",
    torch.nn.functional.relu: "Relu",
    torch.tanh: "Tanh",
    torch.sigmoid: "Sigmoid",
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    operator.add: "Add",
    torch.add: "Add",
    operator.sub: "Sub",
    operator.mul: "Mul",
    operator.truediv: "Div",
    operator.neg: "Neg",
}
"""What is one node of ONNX."""
_SWISH: Final = (torch.nn.SiLU, torch.nn.functional.silu)


class _Traced:
    """Writes what a module does to its input, operation by operation."""

    def __init__(self, graph: GraphWriter, module: torch.nn.Module) -> None:
        self._graph = graph
        self._module = module
        self._layers = dict(module.named_modules())

    def write(self, inputs: list[str]) -> str:
        """From the names of the inputs to that of the output. Raises ExportError for what is not known."""
        try:
            traced = torch.fx.symbolic_trace(self._module)
        except Exception as error:  # control flow that depends on numbers, mostly
            raise self._refused(f"its action cannot be traced ({str(error).splitlines()[0]})") from error
        names: dict[torch.fx.Node, Any] = {}
        for node in traced.graph.nodes:
            if node.op == "output":
                return str(torch.fx.map_arg(node.args[0], lambda one: names[one]))
            names[node] = self._node(node, names, inputs)
        raise AssertionError("a graph ends with its output")

    def _node(self, node: torch.fx.Node, names: dict[torch.fx.Node, Any], inputs: list[str]) -> Any:
        if node.op == "placeholder":
            return inputs if len(inputs) > 1 else inputs[0]
        given: Any = torch.fx.map_arg(node.args, lambda one: names[one])
        output = f"own.{node.name}"
        layer: Any = self._layers.get(str(node.target)) if node.op == "call_module" else None
        kind: Any = type(layer) if layer is not None else node.target
        if kind is operator.getitem and isinstance(given[0], list):
            return given[0][given[1]]
        if isinstance(layer, torch.nn.Linear):
            bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
            weight, offset = (values.detach().cpu().numpy() for values in (layer.weight.T, bias))
            return self._graph.linear(weight, offset, given[0], output)
        if kind in _SWISH:
            return self._graph.swish(given[0], output)
        if kind in (torch.cat, torch.concat) and (*given, node.kwargs.get("dim"))[1] in (1, -1):
            return self._graph.concat(given[0], output)
        if kind in (torch.mean, "mean") and self._over_columns(node):
            return self._graph.add("ReduceMean", [given[0]], output, axes=[1], keepdims=1)
        if kind in _PLAIN and not (node.op != "call_module" and node.kwargs):
            numbers = (
                one if isinstance(one, str) else self._graph.scalar(f"{output}.{i}", float(one))
                for i, one in enumerate(given)
            )
            return self._graph.add(_PLAIN[kind], list(numbers), output)
        raise self._refused(f"it uses {getattr(kind, '__name__', kind)}, which is not known how to write")

    @staticmethod
    def _over_columns(node: torch.fx.Node) -> bool:
        """Whether this is ``mean(dim=1, keepdim=True)``."""
        told: dict[str, Any] = dict(zip(("input", "dim", "keepdim"), node.args, strict=False)) | dict(node.kwargs)
        return told.get("dim") in (1, -1) and told.get("keepdim") is True

    def _refused(self, why: str) -> ExportError:
        return ExportError(
            f"The policy of {type(self._module).__name__} cannot be written as a model file: {why}; build it of Linear "
            "layers, usual activations, sums and cat, or say `exports = False` in its class to train without a file"
        )
