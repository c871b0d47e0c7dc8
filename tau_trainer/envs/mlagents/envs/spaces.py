"""Conversion of agents' observations and actions to Gymnasium spaces, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.bridge.side_channels import ENVIRONMENT_PARAMETERS
from tau_trainer.envs.mlagents.base_env import ActionSpec, ActionTuple, BaseEnv, BehaviorSpec, ObservationSpec
from tau_trainer.envs.mlagents.side_channel.side_channel_manager import channels_of
from tau_trainer.errors import EngineError
from tau_trainer.specs import BoolArray, FloatArray

Seen = NDArray[Any] | tuple[NDArray[Any], ...]
"""Observations in the form of a space: an array, or several."""
_SEED_RANGE = 1 << 24
"""Seeds are sent as float32 parameters, which hold whole numbers exactly up to this value."""


class UnityGymException(EngineError, gymnasium.error.Error):  # noqa: N818 (their name)
    """A game that does not fit this kind of environment, or an invalid call."""


def sensor_space(sensor: ObservationSpec, *, uint8: bool = False) -> spaces.Box:
    """A sensor's space: images from 0 to 1, or with ``uint8`` from 0 to 255; other sensors are unbounded."""
    if len(sensor.shape) == 3:
        return spaces.Box(0, 255, sensor.shape, np.uint8) if uint8 else spaces.Box(0, 1, sensor.shape, np.float32)
    return spaces.Box(-np.inf, np.inf, sensor.shape, np.float32)


class ObsView:
    """An agent's sensors as one observation, with mlagents-envs' selection.

    All vectors are joined into one. With ``multiple`` the observation is a tuple: images, lists of entities, and the
    vector. Without, it is only the first of these.
    """

    def __init__(self, spec: BehaviorSpec, *, uint8: bool, multiple: bool) -> None:
        """Raises UnityGymException if agents have no observations."""
        ranks = [len(sensor.shape) for sensor in spec.observation_specs]
        self._vectors = [i for i, rank in enumerate(ranks) if rank == 1]
        images = [i for i, rank in enumerate(ranks) if rank == 3]
        self._others = images + [i for i, rank in enumerate(ranks) if rank == 2]
        self._uint8, self._multiple = uint8, multiple
        parts: list[spaces.Space[Any]] = [sensor_space(spec.observation_specs[i], uint8=uint8) for i in self._others]
        if self._vectors:
            size = sum(spec.observation_specs[i].shape[0] for i in self._vectors)
            parts.append(spaces.Box(-np.inf, np.inf, (size,), np.float32))
        if not parts:
            raise UnityGymException("the agents of this environment observe nothing; give them a sensor")
        self.hidden = 0 if multiple else len(parts) - 1
        """Number of parts that are left out."""
        self.space: spaces.Space[Any] = spaces.Tuple(parts) if multiple else parts[0]
        self.renders = bool(images) and spec.observation_specs[images[0]].shape[0] in (1, 3)
        """Whether the first image can be rendered."""

    def of(self, obs: Sequence[FloatArray]) -> Seen:
        """Observations of ``n`` agents: one array [n, ...] for each part."""
        parts = [self._image(obs[i]) for i in self._others[: None if self._multiple else 1]]
        if self._vectors and (self._multiple or not parts):
            parts.append(np.concatenate([obs[i] for i in self._vectors], axis=1))
        return tuple(parts) if self._multiple else parts[0]

    def _image(self, values: FloatArray) -> NDArray[Any]:
        return np.rint(values * 255).astype(np.uint8) if self._uint8 and values.ndim == 4 else values


class Choices:
    """An agent's actions as a space: a box from -1 to 1, discrete choices, or both in a tuple.

    ``flatten`` joins several branches into one number; the last branch changes fastest.
    """

    def __init__(self, spec: ActionSpec, *, flatten: bool = False) -> None:
        """Raises UnityGymException if agents have no actions."""
        self.spec = spec
        self._branches = spec.discrete_branches
        self._flat = flatten and len(self._branches) > 1
        continuous = spaces.Box(-1, 1, (spec.continuous_size,), np.float32)
        discrete: spaces.Space[Any] | None = None
        if len(self._branches) == 1 or self._flat:
            discrete = spaces.Discrete(math.prod(self._branches))
        elif self._branches:
            discrete = spaces.MultiDiscrete(list(self._branches))
        if discrete is None and not spec.continuous_size:
            raise UnityGymException("the agents of this environment decide nothing; give them actions")
        self.hybrid = discrete is not None and spec.continuous_size > 0
        self.space: spaces.Space[Any] = (
            spaces.Tuple((continuous, discrete)) if self.hybrid and discrete is not None else discrete or continuous
        )

    def to_tuple(self, actions: Any, n: int) -> ActionTuple:
        """Converts actions of ``n`` agents in the batched space's form. Raises UnityGymException."""
        continuous, discrete = actions if self.hybrid else (None, actions) if self._branches else (actions, None)
        chosen = self.spec.empty_action(n)
        try:
            if continuous is not None:
                chosen.continuous[:] = np.asarray(continuous, np.float32).reshape(n, -1)
            if discrete is not None:
                numbers = np.asarray(discrete)
                if self._flat:
                    numbers = np.stack(np.unravel_index(numbers.reshape(n), self._branches), axis=1)
                chosen.discrete[:] = numbers.reshape(n, -1)
        except ValueError as error:
            raise UnityGymException(f"actions do not fit {self.space}: {error}") from error
        return chosen

    def allowed(self, masks: Sequence[BoolArray] | None, n: int) -> Any:
        """Allowed actions of ``n`` agents, as ``space.sample`` needs them: int8, 1 = allowed (in ``masks``: forbidden).

        One array [n, size] for a ``Discrete``, a tuple of them for a ``MultiDiscrete``.
        """
        if masks is None:
            masks = [np.zeros((n, size), np.bool_) for size in self._branches]
        free = [(~mask).astype(np.int8) for mask in masks]
        if self._flat:
            return reduce(lambda all_, one: (all_[:, :, None] * one[:, None, :]).reshape(n, -1), free)
        return free[0] if len(free) == 1 else tuple(free)


def mask_row(allowed: Any, row: int) -> Any:
    """The allowed actions of one agent."""
    return tuple(mask[row] for mask in allowed) if isinstance(allowed, tuple) else allowed[row]


def tell_seed(env: BaseEnv, rng: np.random.Generator) -> None:
    """Send the next seed as the environment parameter ``seed``; a game that does not read it is unaffected."""
    channel = channels_of(env).get(ENVIRONMENT_PARAMETERS)
    if channel is not None:
        channel.set_float_parameter("seed", float(rng.integers(_SEED_RANGE)))


def begin(env: BaseEnv) -> None:
    """Reset the environment if it does not know its behaviors yet."""
    if not env.behavior_specs:
        env.reset()


def only_behavior(env: BaseEnv) -> tuple[str, BehaviorSpec]:
    """The only behavior of an environment. Raises UnityGymException if there are several."""
    begin(env)
    if len(env.behavior_specs) != 1:
        names = ", ".join(f"'{name}'" for name in env.behavior_specs)
        raise UnityGymException(f"Gymnasium has only one kind of agent, but here are {names}; use UnityParallelEnv")
    ((name, spec),) = env.behavior_specs.items()
    return name, spec
