"""The acting side of a network: an immutable copy of its weights that turns observations into decisions."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.columns import Arrays, Column
from tau_trainer.errors import NonFiniteError
from tau_trainer.exploration import gumbel
from tau_trainer.models.actor_critic import ACTOR, CLOCK, MEMORY, ActorCritic, as_tensor
from tau_trainer.models.blocks import Past
from tau_trainer.models.distributions import LOG_SIGMA_RANGE, LOG_SQRT_2PI, MASKED_LOGIT
from tau_trainer.models.encoders.visual import with_middles
from tau_trainer.models.heads import ACTION_LIMIT
from tau_trainer.models.mlp import Noise
from tau_trainer.models.normalizer import OBSERVATION_CLIP
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, IntArray, Observations

NUMPY_LIMIT = 200_000
"""Largest product of batch rows and weights of one layer for numpy.

Below it, numpy's single-threaded products win, because a call costs less; above it, torch wins, and it obeys the
requested number of threads.
"""

_NOTHING: Arrays = {}


def to_env(continuous: FloatArray) -> FloatArray:
    """Continuous actions in the environment's form: ``clip(raw, -3, 3) / 3``, float32 [n, c]."""
    limited = np.maximum(continuous, np.float32(-ACTION_LIMIT))
    np.minimum(limited, np.float32(ACTION_LIMIT), out=limited)
    limited /= np.float32(ACTION_LIMIT)
    return limited


@dataclass(frozen=True, slots=True)
class Decision:
    """The decisions for ``n`` agents."""

    continuous: FloatArray
    """Raw sample for learning, float32 [n, c].

    The action itself if it is squashed; [n, 0] if continuous actions have levels.
    """
    discrete: IntArray
    """Index in each branch, int32 [n, b]; levels of continuous actions first."""
    version: int
    """Version of the policy that decided."""
    extras: Arrays
    """Further values for the algorithm's memory.

    ``log_prob`` [n, c + b] (unless actions are squashed or the network has an exploration), ``memory`` (state before),
    values, ...
    """
    state: Arrays
    """The policy's :attr:`Policy.state_columns`, to pass back at these agents' next decision."""
    leveled: int = 0
    """Number of branches, the first ones, that are continuous actions."""
    levels: int = 0
    """Values that each of these can take, evenly spread over [-1, 1]."""
    squashed: bool = False
    """Whether :attr:`continuous` is already in the environment's form: a sample's tanh."""

    def __len__(self) -> int:
        return len(self.continuous)

    def part(self, rows: slice) -> Decision:
        """The decisions of some of the agents."""
        extras = {name: values[rows] for name, values in self.extras.items()}
        state = {name: values[rows] for name, values in self.state.items()}
        return replace(self, continuous=self.continuous[rows], discrete=self.discrete[rows], extras=extras, state=state)

    def to_env(self) -> Actions:
        """The actions in the environment's form."""
        if self.squashed:
            return Actions(self.continuous, self.discrete)
        if not self.leveled:
            return Actions(to_env(self.continuous), self.discrete)
        values = self.discrete[:, : self.leveled] * (2.0 / (self.levels - 1)) - 1.0
        return Actions(values.astype(np.float32), np.ascontiguousarray(self.discrete[:, self.leveled :]))


class Policy(ABC):
    """An actor with fixed weights; safe to use in any thread.

    Attributes:
        spec: the behavior with the sensors that the policy sees, in the order of ``obs``.
        weights: all values that acting depends on, by name, read-only; can be sent to another process.
        version: number of updates behind these weights.
        state_columns: state to keep for each agent from decision to decision.
        explores: whether its non-deterministic action is its best action, disturbed.
    """

    spec: BehaviorSpec
    weights: Arrays
    version: int
    state_columns: tuple[Column, ...] = ()
    explores: bool = False

    @abstractmethod
    def act(
        self,
        obs: Observations,
        mask: BoolArray | None,
        rng: np.random.Generator,
        *,
        state: Arrays = _NOTHING,
        deterministic: bool = False,
    ) -> Decision:
        """Decide for ``n`` agents.

        Args:
            obs: one [n, *shape] for each sensor.
            mask: bool [n, sum of branches], True = forbidden; a branch that is forbidden as a whole counts as unmasked.
            rng: source of exploration; not used if ``deterministic``.
            state: [n, *shape] for each of :attr:`state_columns`; their ``fill`` at the start of an episode.
            deterministic: mean and most likely branch values instead of samples; needs no state of exploration.

        Raises:
            NonFiniteError: an observation or an output is not a finite number.
        """

    @abstractmethod
    def network(self) -> ActorCritic:
        """The network with these weights, for export or inspection."""


def make_policy(template: ActorCritic, weights: Arrays, version: int) -> Policy:
    """The policy of a network with ``weights``: its state dict as arrays that no one changes any more."""
    kind = MLPPolicy if template.plain else ModulePolicy
    return kind(template, weights, version)


class _ActorPolicy(Policy):
    """Samples from the outputs of an actor-critic network, or explores around the best action if the network does."""

    def __init__(self, template: ActorCritic, weights: Arrays, version: int) -> None:
        for values in weights.values():
            values.flags.writeable = False
        self.spec, self.weights, self.version = template.spec, weights, version
        self.state_columns = template.state_columns
        self._template = template
        self._exploration = template.exploration
        self.explores = self._exploration is not None
        if self._exploration is not None:
            self.state_columns += self._exploration.state_columns
            clock = weights[CLOCK]
            self._numbers = self._exploration.numbers(float(clock[0]), clock[1:])  # once per policy
        self._action = template.action
        self._size = self._action.choices.continuous_size
        self._bounds = self._action.bounds
        self._components = self._action.components
        if not self._action.squashed:
            log_sigma: FloatArray = weights["action.log_sigma"]
            self._sigma = np.exp(log_sigma)
            self._log_prob_peak = -log_sigma - np.float32(LOG_SQRT_2PI)  # [c]: log-density at the mean

    @override
    def network(self) -> ActorCritic:
        network = copy.deepcopy(self._template).cpu().requires_grad_(False).eval()
        weights = with_middles(network.state_dict(), self.weights)
        network.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
        return network

    @override
    def act(
        self,
        obs: Observations,
        mask: BoolArray | None,
        rng: np.random.Generator,
        *,
        state: Arrays = _NOTHING,
        deterministic: bool = False,
    ) -> Decision:
        outputs, after = self._forward(obs, state, None if deterministic else rng)
        # A normaliser's clip would hide an infinite observation, so both inputs and outputs are checked.
        if not (all(all_finite(values) for values in obs) and all_finite(outputs)):
            raise NonFiniteError(self._describe_non_finite(obs))
        rows, squashed, exploration = len(outputs), self._action.squashed, self._exploration
        source = None if deterministic or exploration is not None else rng
        log_prob = np.empty((rows, self._components), np.float32)  # filled column by column
        gaussians, logits = outputs[:, : self._action.logits], outputs[:, self._action.logits :]
        if squashed:
            continuous = self._sample_squashed(gaussians, source)
        else:
            continuous = self._sample_continuous(gaussians, log_prob, source)
        forbidden = self._action.forbidden(mask) if mask is not None and self._bounds else None
        if self._bounds and exploration is not None and not deterministic:
            discrete = exploration.decide(logits, forbidden, self._numbers, rng)  # int32 [n, b]
        else:
            discrete = np.empty((rows, len(self._bounds)), np.int32)
            if forbidden is not None:
                logits = np.where(forbidden, np.float32(MASKED_LOGIT), logits)
            self._sample_discrete(logits, discrete, log_prob, source)
        before = {name: state[name] for name in after}  # recurrent state before the decision: start of a sequence
        extras = before if squashed or exploration is not None else {"log_prob": log_prob, **before}
        if exploration is not None:
            kept: Arrays = {key.name: state[key.name] for key in exploration.state_columns if key.name in state}
            if self._size and not deterministic:
                continuous, kept = exploration.perturb(continuous, self._numbers, kept, rng)
                continuous = continuous.clip(-1.0, 1.0)  # noise may leave the range
            after = {**after, **kept}
        levels = self._action.leveled, self._action.levels or 0
        return Decision(continuous, discrete, self.version, extras, after, *levels, squashed)

    @abstractmethod
    def _forward(self, obs: Observations, state: Arrays, rng: np.random.Generator | None) -> tuple[FloatArray, Arrays]:
        """The outputs of the action head, logits unmasked, and the state after the decision.

        ``rng`` None: without noise.
        """

    def _sample_squashed(self, gaussians: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """Draw from Gaussians [n, 2c] (the mean without ``rng``) and squash: actions [n, c]; or from means [n, c]."""
        mean = gaussians[:, : self._size]  # [n, c]
        if rng is None or self._action.deterministic:
            return np.tanh(mean)
        sample: FloatArray = np.exp(gaussians[:, self._size :].clip(*LOG_SIGMA_RANGE))  # sigma
        sample *= rng.standard_normal(mean.shape, dtype=np.float32)
        sample += mean
        return np.tanh(sample, out=sample)

    def _sample_continuous(self, mean: FloatArray, log_prob: FloatArray, rng: np.random.Generator | None) -> FloatArray:
        """Draw from the Gaussians (the mean without ``rng``) and write the log-probabilities to their columns."""
        size = self._size
        if rng is None or size == 0:
            log_prob[:, :size] = self._log_prob_peak  # the action is the mean itself
            return np.ascontiguousarray(mean)
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        continuous = noise * self._sigma  # [n, c]
        continuous += mean
        # log N(x; mean, sigma) = -0.5 noise² - log sigma - 0.5 log 2 pi
        noise *= noise
        noise *= np.float32(-0.5)
        np.add(noise, self._log_prob_peak, out=log_prob[:, :size])
        return continuous

    def _sample_discrete(
        self, logits: FloatArray, discrete: IntArray, log_prob: FloatArray, rng: np.random.Generator | None
    ) -> None:
        """Choose in every branch by the Gumbel-max trick (the most likely without ``rng``).

        Write log-probabilities too.
        """
        rows = np.arange(len(logits))
        for branch, (begin, end) in enumerate(self._bounds):
            shifted = logits[:, begin:end] - logits[:, begin:end].max(axis=1, keepdims=True)  # no overflow
            scores = shifted if rng is None else shifted + gumbel(rng, shifted)
            choice = scores.argmax(axis=1)
            discrete[:, branch] = choice
            total = np.exp(shifted).sum(axis=1)  # [n]
            log_prob[:, self._size + branch] = shifted[rows, choice] - np.log(total)  # log softmax of the choice

    def _describe_non_finite(self, obs: Observations) -> str:
        for sensor, values in zip(self.spec.observations, obs, strict=True):
            rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            if len(rows):
                return (
                    f"Behavior '{self.spec.name}': observation '{sensor.name}' of agent row {rows[0]} is NaN or "
                    f"infinite ({len(rows)} of {len(values)} rows); make the engine send finite numbers."
                )
        return (
            f"Behavior '{self.spec.name}': the action outputs of policy version {self.version} are NaN or infinite; "
            "use an earlier checkpoint and lower the learning rate."
        )


class MLPPolicy(_ActorPolicy):
    """The fast path of plain networks: the actor's forward pass in numpy, a few microseconds for a dozen agents."""

    def __init__(self, template: ActorCritic, weights: Arrays, version: int) -> None:
        super().__init__(template, weights, version)
        layers = range(len(template.body))
        self._body = [(weights[f"body.{i}.weight"][ACTOR], weights[f"body.{i}.bias"][ACTOR, 0]) for i in layers]
        """Weight [in, H] and bias [H] of each hidden layer of the actor."""
        # swish(z) = h + h * tanh(h) with h = z / 2, and tanh is numpy's fastest way to compute it: halve the layers
        # once.
        half = np.float32(0.5)
        self._half_body = tuple((weight * half, bias * half) for weight, bias in self._body)
        self._head: tuple[FloatArray, FloatArray] = weights["action.weight"], weights["action.bias"]
        self._most_rows = NUMPY_LIMIT // max(1, *(weight.size for weight, _ in (*self._body, self._head)))
        self._scale: tuple[FloatArray, FloatArray] | None = None
        if template.normalizer is not None:
            std = np.sqrt(weights["normalizer.squares"] / weights["normalizer.count"])  # float64 until it is divided
            self._scale = weights["normalizer.mean"].astype(np.float32), np.float32(1.0) / std.astype(np.float32)

    @override
    def _forward(self, obs: Observations, state: Arrays, rng: np.random.Generator | None) -> tuple[FloatArray, Arrays]:
        return self.outputs(obs), _NOTHING

    def outputs(self, obs: Observations) -> FloatArray:
        """The outputs of the action head, logits unmasked: float32."""
        # Nothing to join if there is one sensor, which is a vector that it sees: others have no plain network.
        hidden = obs[0] if len(obs) == 1 else self._template.vectors(obs)
        # NaN and infinity pass without warnings here: they are checked at the end.
        with np.errstate(invalid="ignore", over="ignore"):
            if self._scale is not None:
                hidden = hidden - self._scale[0]
                hidden *= self._scale[1]
                np.maximum(hidden, np.float32(-OBSERVATION_CLIP), out=hidden)
                np.minimum(hidden, np.float32(OBSERVATION_CLIP), out=hidden)
            if len(hidden) > self._most_rows:  # beyond that torch is faster, and obeys its number of threads
                return self._large(hidden)
            for weight, bias in self._half_body:
                h = hidden @ weight
                h += bias
                hidden = np.tanh(h)
                hidden *= h
                hidden += h
            outputs: FloatArray = hidden @ self._head[0]  # [n, columns]
            outputs += self._head[1]
        return outputs

    @torch.inference_mode()
    def _large(self, vectors: FloatArray) -> FloatArray:
        """The same for many rows or large layers."""
        *body, (weight, bias) = self._tensors
        hidden = as_tensor(vectors)
        for layer_weight, layer_bias in body:
            hidden = torch.nn.functional.silu(torch.addmm(layer_bias, hidden, layer_weight), inplace=True)
        outputs: FloatArray = torch.addmm(bias, hidden, weight).numpy()
        return outputs

    @cached_property
    def _tensors(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Weight and bias of every layer, the head's last."""
        return [(as_tensor(weight), as_tensor(bias)) for weight, bias in (*self._body, self._head)]


class ModulePolicy(_ActorPolicy):
    """Acts through the network itself, on the CPU: any encoder, any memory."""

    def __init__(self, template: ActorCritic, weights: Arrays, version: int) -> None:
        super().__init__(template, weights, version)
        self._network = self.network()

    @override
    @torch.inference_mode()
    def _forward(self, obs: Observations, state: Arrays, rng: np.random.Generator | None) -> tuple[FloatArray, Arrays]:
        inputs = self._network.prepare(obs)
        noise = None if rng is None or not self._network.noisy else _normal(rng)
        if not self._template.state_columns:
            return self._network.outputs(inputs, noise=noise).numpy(), _NOTHING
        # Both towers: the critic's has a state of its own.
        answer = self._network(inputs, Past(as_tensor(state[MEMORY])), noise)
        return answer.outputs.numpy(), {MEMORY: answer.state.numpy()}


def _normal(rng: np.random.Generator) -> Noise:
    return lambda rows, size: torch.from_numpy(rng.standard_normal((rows, size), dtype=np.float32))


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no element is NaN or infinite."""
    if values.dtype.kind != "f":
        return True
    # A sum is much cheaper than a check of each number, which is only needed if the sum is not finite.
    with np.errstate(invalid="ignore", over="ignore"):
        return math.isfinite(values.sum()) or bool(np.isfinite(values).all())
