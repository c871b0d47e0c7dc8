"""Reference outputs of a network, computed in float64 as the true values and in float32 to measure rounding errors."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from tau_trainer.models import ActorCritic
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.distributions import MASKED_LOGIT, branch_bounds
from tau_trainer.models.heads import ACTION_LIMIT
from tau_trainer.specs import BoolArray, Float64Array, FloatArray, Observations

ROUNDING = 1e-5
"""Error that is always allowed, relative to a value (and to 1)."""

_UNLIKE = 16.0
"""onnxruntime adds in another order than torch: its rounding error can be this multiple of torch's."""


class Value(NamedTuple):
    """Values and the allowed error of float32 arithmetic, both float64 [n, size]."""

    value: Float64Array
    error: Float64Array


@dataclass(frozen=True)
class ReferenceOutput:
    """The network's outputs for ``n`` agents."""

    mu: Value
    """[n, continuous_size]: the Gaussian's mean before clipping or squashing."""
    branches: tuple[Value, ...]
    """Masked logits, [n, branch size] per branch; the levels of continuous actions come first."""
    state: Value
    """[n, M]: recurrent state of the actor."""
    squashed: bool = False
    """Whether actions are a tanh."""

    @property
    def continuous(self) -> Value:
        """[n, continuous_size]: deterministic actions, ``clip(mu, -3, 3) / 3`` or ``tanh(mu)``."""
        if self.squashed:
            return Value(np.tanh(self.mu.value), self.mu.error)  # the slope is at most 1
        clipped = np.clip(self.mu.value, -ACTION_LIMIT, ACTION_LIMIT)
        return Value(clipped / ACTION_LIMIT, self.mu.error / ACTION_LIMIT)


class Reference:
    """Evaluates copies of the network's module. The copies do not change when the network continues to train."""

    def __init__(self, network: ActorCritic) -> None:
        self._action = network.action
        self._exact = copy.deepcopy(network).cpu().double().eval()
        self._single = copy.deepcopy(network).cpu().float().eval()

    def __call__(
        self, obs: Observations, forbidden: BoolArray | None = None, state: FloatArray | None = None
    ) -> ReferenceOutput:
        """The outputs for ``n`` agents.

        Args:
            obs: [n, *shape] for every sensor that the policy sees.
            forbidden: bool [n, sum of branches], True = forbidden; None allows everything.
            state: float32 [n, M], recurrent state of the actor; None = the start of an episode.
        """
        exact, exact_state = _ask(self._exact, obs, state)
        single, single_state = _ask(self._single, obs, state)
        choices, outputs = self._action.choices, _value(exact, single)
        size, first = choices.continuous_size, self._action.logits
        branches = []
        free = choices.mask_size - self._action.actions.mask_size
        for begin, end in branch_bounds(choices.discrete_branches):
            logits = outputs.value[:, first + begin : first + end]
            if forbidden is not None and begin >= free:
                logits = np.where(forbidden[:, begin - free : end - free], MASKED_LOGIT, logits)
            branches.append(Value(logits, outputs.error[:, first + begin : first + end]))
        mu = Value(outputs.value[:, :size], outputs.error[:, :size])
        return ReferenceOutput(mu, tuple(branches), _value(exact_state, single_state), self._action.squashed)


@torch.no_grad()
def _ask(network: ActorCritic, obs: Observations, state: FloatArray | None) -> tuple[Float64Array, Float64Array]:
    """Outputs of the action head and the actor's new state [n, M]."""
    past = NO_PAST
    if state is not None:
        # All towers get the same state: only the actor's output is used.
        towers = network.state_columns[0].shape[0]
        past = Past(torch.from_numpy(state).to(network.action.weight.dtype)[:, None].expand(-1, towers, -1))
    answer = network(network.prepare(obs), past)
    return answer.outputs.double().numpy(), answer.state[:, 0].double().numpy()


def _value(exact: Float64Array, single: Float64Array) -> Value:
    rounding = np.abs(exact - single)
    largest = rounding.max(axis=0, keepdims=True, initial=0.0)
    return Value(exact, ROUNDING * (1.0 + np.abs(exact)) + _UNLIKE * np.broadcast_to(largest, exact.shape))
