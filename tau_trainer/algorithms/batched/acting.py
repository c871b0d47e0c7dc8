"""From observations to a network's inputs, and from its outputs to actions, on the device.

Samples, log-probabilities, and the environment's form.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.algorithms.minibatches import sigma_of
from tau_trainer.envs.spaces import channels_last, image_shape, sensors
from tau_trainer.errors import SettingsError
from tau_trainer.models.distributions import LOG_SIGMA_RANGE, LOG_SQRT_2PI, MASKED_LOGIT
from tau_trainer.models.heads import ACTION_LIMIT, ActionHead
from tau_trainer.specs import ActionSpec, BehaviorSpec

ActionSpace = spaces.Discrete | spaces.MultiDiscrete | spaces.Box


class StackedHead(NamedTuple):
    """The parts of ``P`` networks' heads that :func:`draw` needs; rows are ordered network after network."""

    choices: ActionSpec
    log_sigma: torch.Tensor
    """float32 [P, c]."""
    squashed: bool = False  # they learn by PPO


class Drawn(NamedTuple):
    """Decisions of ``n`` agents."""

    continuous: torch.Tensor
    """float32 [n, c]: raw samples, or if they are squashed the actions themselves."""
    discrete: torch.Tensor
    """int64 [n, b]."""
    log_prob: torch.Tensor
    """float32 [n, c + b]; [n, b] if actions are squashed, [n, 0] if they are explored."""


def spec_of(name: str, observations: spaces.Box, actions: ActionSpace) -> BehaviorSpec:
    """A policy's spec: every observation is one image or one vector, by the rule of all environments' spaces.

    Raises SettingsError for actions that networks do not support.
    """
    where = f"policy '{name}'"
    match actions:
        case spaces.Discrete():
            taken = ActionSpec(0, (int(actions.n),))
            first = int(actions.start)
        case spaces.MultiDiscrete():
            taken = ActionSpec(0, tuple(int(size) for size in actions.nvec.ravel()))
            first = int(np.abs(actions.start).max())
        case spaces.Box():
            taken = ActionSpec(int(np.prod(actions.shape)), ())
            first = 0
            if actions.dtype.kind != "f":
                raise SettingsError(f"{where}: its actions {actions} are whole numbers; use Discrete or MultiDiscrete")
            if not actions.is_bounded():
                raise SettingsError(f"{where}: its actions {actions} have no bounds; give the Box a low and a high")
        case _:
            raise SettingsError(f"{where}: its actions {actions} are neither Discrete, MultiDiscrete nor a Box")
    if first:
        raise SettingsError(f"{where}: its actions {actions} start at {first}; let them start at 0")
    seen = tuple(sensors(observations))
    if not seen[0].size:
        raise SettingsError(f"{where}: its observations {observations} have size 0, so there is nothing to decide by")
    return BehaviorSpec(name, seen, taken)


def inputs_of(observations: torch.Tensor) -> list[torch.Tensor]:
    """Observations [n, *obs] as :meth:`ActorCritic.arrange` gives those of engines: vectors, then the images if any.

    Vectors are floats. Images are channels first, as views, and bytes stay bytes.
    """
    shape, pixels = tuple(observations.shape[1:]), observations.dtype == torch.uint8
    image = image_shape(shape, pixels=pixels)
    rows = observations if pixels or observations.is_floating_point() else observations.float()
    if image is None:
        return [rows.flatten(1).float() if pixels else rows.flatten(1)]
    rows = rows.movedim(-1, 1) if channels_last(shape) else rows.view(-1, *image)
    return [torch.zeros(len(rows), 0, device=rows.device), rows]


def draw(
    head: ActionHead | StackedHead, outputs: torch.Tensor, forbidden: torch.Tensor | None, noise: torch.Tensor | None
) -> Drawn:
    """Actions from a head's outputs [n, c + M], or [n, 2c + M] if they are squashed.

    Args:
        head: not deterministic; one, or those of a population's members.
        outputs: means, with log sigmas if they are squashed, then logits.
        forbidden: bool [n, M], or None.
        noise: float32 [n, c + b], from :func:`noise_of`; None: means and most likely values.
    """
    size = head.choices.continuous_size
    mean, logits = outputs[:, :size], outputs[:, 2 * size if head.squashed else size :]  # [n, c], [n, M]
    log_probs = []
    continuous = mean
    if head.squashed:
        sigma = outputs[:, size : 2 * size].clamp(*LOG_SIGMA_RANGE).exp()
        continuous = torch.tanh(mean if noise is None else torch.addcmul(mean, noise[:, :size], sigma))
    elif size:
        error = torch.zeros_like(mean) if noise is None else noise[:, :size]
        log_sigma = sigma_of(head.log_sigma, len(outputs))  # [c], or [n, c] for members
        continuous = mean + error * log_sigma.exp()  # not clipped: learning needs the sample itself
        log_probs.append(-0.5 * error * error - log_sigma - LOG_SQRT_2PI)
    if forbidden is not None:
        logits = logits.masked_fill(forbidden, MASKED_LOGIT)
    chosen = []
    begin, branch = 0, size
    for values, group in itertools.groupby(head.choices.discrete_branches):  # adjacent branches of one size at once
        count = len(list(group))
        end = begin + count * values
        log_prob = logits[:, begin:end].reshape(-1, count, values).log_softmax(dim=2)  # [n, count, values]
        if noise is None:
            value = log_prob.argmax(dim=2, keepdim=True)
        else:  # the first value whose cumulative probability exceeds a random share of the sum
            sums = log_prob.exp().cumsum(dim=2)  # not exactly 1 at the end, so use the last sum
            value = (sums <= noise[:, branch : branch + count, None] * sums[..., -1:]).sum(dim=2, keepdim=True)
        chosen.append(value.squeeze(2))
        log_probs.append(log_prob.gather(2, value).squeeze(2))  # [n, count]
        begin, branch = end, branch + count
    discrete = torch.cat(chosen, dim=1) if chosen else outputs.new_zeros(len(outputs), 0, dtype=torch.int64)
    log_prob = torch.cat(log_probs, dim=1) if log_probs else outputs.new_zeros(len(outputs), 0)
    return Drawn(continuous, discrete, log_prob)


def noise_of(head: ActionHead, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Random numbers for :func:`draw` and ``rows`` agents: standard normal, then uniform in [0, 1) for each branch."""
    size, device = head.choices.continuous_size, generator.device
    branches = len(head.choices.discrete_branches)
    parts = []
    if size:
        parts.append(torch.randn(rows, size, generator=generator, device=device))
    if branches:
        parts.append(torch.rand(rows, branches, generator=generator, device=device))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


class ToEnv:
    """Converts decisions to actions of one agent's action space."""

    def __init__(self, space: ActionSpace, head: ActionHead, device: torch.device) -> None:
        self._space, self._levels, self._squashed = space, head.levels, head.squashed
        if isinstance(space, spaces.Box):
            low, high = (torch.as_tensor(np.asarray(end, np.float32), device=device) for end in (space.low, space.high))
            self._middle, self._half = (low + high) / 2, (high - low) / 2  # of the Box, in its own units

    def __call__(self, drawn: Drawn, envs: int, agents: int) -> torch.Tensor:
        """int64 [E, A], int64 [E, A, b] or float32 [E, A, c] from decisions of ``E * A`` agents."""
        if isinstance(self._space, spaces.Discrete):
            return drawn.discrete.view(envs, agents)
        if isinstance(self._space, spaces.MultiDiscrete):
            return drawn.discrete.view(envs, agents, *self._space.nvec.shape)
        if self._levels is not None:
            share = drawn.discrete * (2.0 / (self._levels - 1)) - 1.0  # levels lie evenly over [-1, 1]
        elif self._squashed:
            share = drawn.continuous
        else:
            share = drawn.continuous.clamp(-ACTION_LIMIT, ACTION_LIMIT) / ACTION_LIMIT  # in [-1, 1], as for engines
        return self._middle + self._half * share.view(envs, agents, *self._space.shape)
