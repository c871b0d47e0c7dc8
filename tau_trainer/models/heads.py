"""Heads: the actor's outputs, Gaussians and logits of every discrete branch, and the critic's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.errors import NonFiniteError
from tau_trainer.models import tensor_names as names
from tau_trainer.models.distributions import LOG_SIGMA_RANGE, MASKED_LOGIT, branch_bounds, effective_mask
from tau_trainer.models.mlp import Head, Noise, kaiming_normal_
from tau_trainer.specs import Actions, ActionSpec, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import IQNHyperparameters
    from tau_trainer.settings.exploration import ExplorationSettings

MEAN_GAIN = 0.2
"""Factor on the layer of Gaussian means: first actions stay near zero (ML-Agents ``distributions.py``)."""
LOGITS_GAIN = 0.1
"""Factor on the layers of discrete branches: first choices are nearly uniform."""
ACTION_LIMIT = 3.0
"""Raw samples beyond this are clipped; the engine gets the rest divided by it, so [-1, 1] (ML-Agents)."""
MAX_LOG_SIGMA = 80.0
"""exp(80) is still far from the largest float32; beyond exp(88.7) the width would be infinite."""


@dataclass(frozen=True, slots=True)
class Acting:
    """How a network's outputs become actions. By default, continuous ones come from Gaussians, branches from logits."""

    squashed: bool = False
    """Whether continuous actions are squashed; see :class:`ActionHead`."""
    deterministic: bool = False
    """Whether they have no sigma; they are squashed, too."""
    exploration: ExplorationSettings | None = None
    """If set, the best action is disturbed in this way, instead of sampling from the outputs. None: sample."""
    noisy: bool = False
    """Whether the weights of hidden layers and heads are noisy; see :class:`NoisyPart`."""
    head: Callable[..., ActionHead] | None = None
    """Makes the head, with :class:`ActionHead`'s arguments; None: that class itself."""


SAMPLED = Acting()


class ActionHead(Head):
    """Outputs [n, c + M]: a mean for each continuous action, then logits of all branches.

    The Gaussians' log sigma [c] does not depend on the observation. If they are *squashed*, it does: outputs are [n, 2c
    + M], with a log sigma for each continuous action after the means, and the action is the sample's tanh. If they are
    *deterministic*, there is no sigma: outputs are [n, c + M], and the action is the mean's tanh.

    Args:
        inputs: number of input features.
        actions: sizes.
        levels: number of values of a continuous action, each with a logit; None = a Gaussian.
        acting: how the outputs become actions. With an exploration, logits are values, and a model file takes the best
            of them instead of a random one.
    """

    def __init__(
        self,
        inputs: int,
        actions: ActionSpec,
        generator: torch.Generator,
        levels: int | None = None,
        acting: Acting = SAMPLED,
    ) -> None:
        leveled = 0 if levels is None else actions.continuous_size
        branches = actions.discrete_branches if levels is None else (levels,) * leveled + actions.discrete_branches
        choices = ActionSpec(actions.continuous_size - leveled, branches)
        size = choices.continuous_size
        # Columns before the logits: means, and sigmas if squashed.
        logits = 2 * size if acting.squashed and not acting.deterministic else size
        super().__init__(inputs, logits + choices.mask_size, noisy=acting.noisy)
        self.greedy = acting.exploration is not None
        self.actions, self.levels = actions, levels
        self.choices = choices
        """The random choices: ``actions``; with ``levels``, first a branch for each continuous action."""
        self.components = actions.components
        self.bounds = branch_bounds(choices.discrete_branches)
        """First and last column of each branch of :attr:`choices` among the logits."""
        self.leveled = leveled
        """Number of the branches of :attr:`choices` that are continuous actions."""
        self.deterministic = acting.deterministic and size > 0
        self.squashed = (acting.squashed or acting.deterministic) and size > 0
        self.logits = logits
        """The column of the first logit."""
        if not self.squashed:
            self.log_sigma = torch.nn.Parameter(torch.zeros(size))  # sigma 1 at first
        with torch.no_grad():
            # Small weights for means and logits: first actions are near zero, first choices nearly uniform.
            kaiming_normal_(self.weight[:, : self.logits], generator, MEAN_GAIN)
            kaiming_normal_(self.weight[:, self.logits :], generator, LOGITS_GAIN)

    def forbidden(self, mask: BoolArray) -> BoolArray:
        """The mask [n, sum of branches] over all of :attr:`choices`, as acting and learning use it."""
        mask = effective_mask(mask, self.actions.discrete_branches)
        free = self.choices.mask_size - self.actions.mask_size
        # bool [n, free]: levels of continuous actions are never forbidden.
        return mask if not free else np.concatenate([np.zeros((len(mask), free), np.bool_), mask], axis=1)

    def forbids(self, mask: BoolArray | None, rows: int) -> BoolArray:
        """The same for ``rows`` decisions; a mask of None forbids nothing."""
        return np.zeros((rows, self.choices.mask_size), np.bool_) if mask is None else self.forbidden(mask)

    def remembered(self, actions: Actions) -> tuple[FloatArray, IntArray]:
        """Actions [n] of an environment in the form for learning: ``continuous`` and ``discrete`` of :attr:`choices`.

        The reverse of :meth:`Decision.to_env`; values outside [-1, 1] count as the nearest end.
        """
        continuous = actions.continuous.clip(-1.0, 1.0)
        if self.levels is not None:
            index = np.rint((continuous + 1.0) * (0.5 * (self.levels - 1))).astype(np.int32)  # the nearest level
            return continuous[:, :0], np.concatenate((index, actions.discrete), axis=1)
        return continuous if self.squashed else continuous * np.float32(ACTION_LIMIT), actions.discrete

    def write(self, graph: GraphWriter, x: str) -> None:
        """Everything from the features to the actions that Unity reads.

        Raises:
            NonFiniteError: a weight or a width is not a number that a model file can hold.
        """
        if self.actions.continuous_size and self.levels is not None:
            self._write_levels(graph, x, self.levels)
        elif self.actions.continuous_size:
            self._write_continuous(graph, x)
        if self.actions.discrete_size:
            self._write_discrete(graph, x)

    def _part(self, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        return self.weight[:, columns].detach().cpu().numpy(), self.bias[columns].detach().cpu().numpy()

    def _write_continuous(self, graph: GraphWriter, x: str) -> None:
        """``clip(mu + sigma * epsilon, -3, 3) / 3``, or ``tanh`` of the sum, and the same without noise."""
        size = self.choices.continuous_size
        mu = graph.linear(*self._part(slice(0, size)), x, "mu")
        sample = mu
        if not self.deterministic:
            epsilon = graph.add("RandomNormalLike", [mu], "epsilon_sample")
            sample = graph.add("Add", [mu, graph.add("Mul", [epsilon, self._sigma(graph, x)], "noise")], "sample")
        graph.output_constant(names.CONTINUOUS_SHAPE, [size])
        outputs = (sample, names.CONTINUOUS), (mu, names.DETERMINISTIC_CONTINUOUS)
        if self.squashed:
            for raw, output in outputs:
                graph.add("Tanh", [raw], output)
            return
        limit = graph.scalar("action_limit", ACTION_LIMIT)
        for raw, output in outputs:
            graph.add("Div", [graph.clip(raw, f"{raw}_clipped", -ACTION_LIMIT, ACTION_LIMIT), limit], output)

    def _sigma(self, graph: GraphWriter, x: str) -> str:
        """The Gaussians' widths, which depend on the features ``x`` only if they are squashed."""
        if self.squashed:
            part = self._part(slice(self.logits // 2, self.logits))
            clipped = graph.clip(graph.linear(*part, x, "log_sigma"), "log_sigma_clipped", *LOG_SIGMA_RANGE)
            return graph.add("Exp", [clipped], "sigma")
        log_sigma = self.log_sigma.detach().cpu().numpy()
        if (log_sigma > MAX_LOG_SIGMA).any():
            raise NonFiniteError(
                f"The policy's log_sigma reaches {log_sigma.max():.3g}, and a model file cannot hold its "
                "exponential; use an earlier checkpoint."
            )
        return graph.constant("sigma", np.exp(log_sigma)[None])

    def _write_discrete(self, graph: GraphWriter, x: str) -> None:
        """Per branch: masked logits, a draw from their softmax, and the most likely action.

        It uses LogSoftmax (supported by Barracuda and Sentis) where ML-Agents' files have Log(Softmax), which gives
        minus infinity for masked values.
        """
        branches = self.actions.discrete_branches
        first = self.logits + self.choices.mask_size - self.actions.mask_size
        allowed_all = graph.scalar("one", 1.0)
        masked = graph.scalar("masked_logit", -MASKED_LOGIT)
        samples: list[str] = []
        best: list[str] = []
        for i, (begin, end) in enumerate(branch_bounds(branches)):
            logits = graph.linear(*self._part(slice(first + begin, first + end)), x, f"branch_{i}.logits")
            whole = len(branches) == 1
            mask = (
                names.ACTION_MASKS
                if whole
                else graph.columns(names.ACTION_MASKS, f"branch_{i}.mask", slice(begin, end))
            )
            allowed = graph.add("Mul", [logits, mask], f"branch_{i}.allowed")
            forbidden = graph.add("Sub", [allowed_all, mask], f"branch_{i}.forbidden")
            penalty = graph.add("Mul", [forbidden, masked], f"branch_{i}.penalty")
            logits = graph.add("Sub", [allowed, penalty], f"branch_{i}.masked")
            self._write_choice(graph, logits, f"branch_{i}", samples, best)
        graph.concat(samples, names.DISCRETE)
        graph.output_constant(names.DISCRETE_SHAPE, [branches])
        graph.concat(best, names.DETERMINISTIC_DISCRETE)

    def _write_levels(self, graph: GraphWriter, x: str, levels: int) -> None:
        """Per continuous action: its levels' logits, then the value of a drawn level and of the most likely one."""
        from onnx import TensorProto

        count = self.actions.continuous_size
        step = graph.scalar("level_step", 2.0 / (levels - 1))
        zero_level = graph.scalar("level_zero", 1.0)
        samples: list[str] = []
        best: list[str] = []
        for i, (begin, end) in enumerate(branch_bounds((levels,) * count)):
            logits = graph.linear(*self._part(slice(begin, end)), x, f"levels_{i}.logits")
            self._write_choice(graph, logits, f"levels_{i}", samples, best)
        for chosen, name in ((samples, names.CONTINUOUS), (best, names.DETERMINISTIC_CONTINUOUS)):
            index = graph.concat(chosen, f"{name}.levels")
            real = graph.add("Cast", [index], f"{name}.real", to=int(TensorProto.FLOAT))
            graph.add("Sub", [graph.add("Mul", [real, step], f"{name}.from_zero"), zero_level], name)
        graph.output_constant(names.CONTINUOUS_SHAPE, [count])

    def _write_choice(self, graph: GraphWriter, logits: str, name: str, samples: list[str], best: list[str]) -> None:
        """A draw from a branch's softmax, and the most likely value, each int64 [n, 1].

        For action values, the best twice.
        """
        from onnx import TensorProto  # only those who write a model file need the package

        best.append(graph.add("ArgMax", [logits], f"{name}.best", axis=1, keepdims=1))
        if self.greedy:
            samples.append(best[-1])
            return
        log_probs = graph.add("LogSoftmax", [logits], f"{name}.log_probs", axis=1)
        draw = {"dtype": int(TensorProto.INT64), "sample_size": 1}
        samples.append(graph.add("Multinomial", [log_probs], f"{name}.sample", **draw))


class QuantileHead(ActionHead):
    """Values of actions as distributions with any quantile, and their means over fixed fractions.

    Dabney et al. 2018, equations 4 and 5: features, times an embedding of the fraction tau, then a hidden layer and the
    values. The paper draws the fractions of that mean; the midpoints of ``K`` equal parts give the same without noise,
    so a policy and its file are the same everywhere.

    Args:
        inputs: number of input features, ``H``.
        actions: see :class:`ActionHead`, as ``levels`` and ``acting``.
        numbers: ``E`` cosines of a fraction, ``K`` and ``cvar``, the worst share of a distribution that counts.
    """

    def __init__(
        self,
        inputs: int,
        actions: ActionSpec,
        generator: torch.Generator,
        levels: int | None = None,
        acting: Acting = SAMPLED,
        *,
        hyper: IQNHyperparameters,
    ) -> None:
        super().__init__(inputs, actions, generator, levels, acting)
        sizes, samples = (hyper.quantile_embedding_dim, inputs), hyper.num_quantile_samples
        self.embedding, self.hidden = (Head(size, inputs, noisy=False) for size in sizes)
        for layer in (self.embedding, self.hidden):
            kaiming_normal_(layer.weight, generator)
        self.fractions: torch.Tensor
        """[K]: fractions of the mean."""
        self.register_buffer("fractions", hyper.cvar * (torch.arange(samples) + 0.5) / samples, persistent=False)

    @override
    def forward(self, x: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        """[n, M] from features [n, H]: means over :attr:`fractions`."""
        # The last layer is linear, so the mean may be taken before it.
        return super().forward(self._seen(x, self.fractions[None]).mean(dim=1), noise)

    def quantiles(self, x: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        """Values [n, N, M] at fractions tau [n, N], from features [n, H]."""
        return self._seen(x, fractions) @ self.weight + self.bias

    def _seen(self, x: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        """Inputs of the last layer, [n, N, H]; fractions [n, N], or [1, N] for all rows alike."""
        merged = x[:, None] * self._embedded(fractions)
        return torch.nn.functional.silu(merged @ self.hidden.weight + self.hidden.bias)

    def _embedded(self, fractions: torch.Tensor) -> torch.Tensor:
        """[..., H]: ``relu(sum_i cos(pi i tau) w_i + b)``, i = 0 ... E - 1."""
        weight = self.embedding.weight
        multiples = torch.arange(len(weight), dtype=weight.dtype, device=weight.device)
        cosines = torch.cos(math.pi * multiples * fractions[..., None])  # [..., E]
        return torch.relu(cosines @ weight + self.embedding.bias)

    @override
    def write(self, graph: GraphWriter, x: str) -> None:
        with torch.no_grad():
            known = self._embedded(self.fractions)[None].cpu().numpy()  # [1, K, H]
        inputs, count = len(self.hidden.weight), len(self.fractions)
        rows = graph.reshape(x, "quantiles.rows", [-1, 1, inputs])
        merged = graph.add("Mul", [rows, graph.constant("quantiles.embedded", known)], "quantiles.merged")
        flat = graph.reshape(merged, "quantiles.flat", [-1, inputs])
        weight, bias = (values.detach().cpu().numpy() for values in (self.hidden.weight, self.hidden.bias))
        hidden = graph.swish(graph.linear(weight, bias, flat, "quantiles.linear"), "quantiles.hidden")
        every = graph.reshape(hidden, "quantiles.every", [-1, count, inputs])
        super().write(graph, graph.add("ReduceMean", [every], "quantiles.mean", axes=[1], keepdims=0))


class ValueHead(Head):
    """Linear values [n, R] of all streams side by side.

    They start at zero: random values would count as knowledge of the time beyond a horizon, and if rewards are small,
    they would mislead agents for good.

    Args:
        inputs: number of input features.
        streams: name of each reward stream and its width.
        noisy: whether weights are noisy; see :class:`NoisyPart`.
    """

    def __init__(self, inputs: int, streams: Mapping[str, int], *, noisy: bool = False) -> None:
        super().__init__(inputs, sum(streams.values()), noisy=noisy)
        self.streams = dict(streams)
