"""Gymnasium's own classic control, stepped from a given state."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from numpy.typing import NDArray

from tau_trainer.envs.batched.contract import Played
from tau_trainer.games.classic_control import MOTION

_Arrays = dict[str, NDArray[Any]]


class _ByGymnasium:
    """Implements :class:`~tau_trainer.envs.batched.Twin`."""

    made: ClassVar[type[gymnasium.Env[Any, Any]]]
    limit: ClassVar[int]
    """The step limit in Gymnasium's registration."""

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = self.limit if limit is None else limit
        self._env: Any = self.made()

    def advance(self, state: _Arrays, actions: NDArray[Any]) -> Played:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        self._put(state)
        (action,) = actions
        _, reward, terminated, _, _ = self._env.step(action)
        late = np.array([state["step"] >= self._limit])
        return {MOTION: np.array(self._env.state)}, np.array([reward], np.float32), np.array([terminated]), late

    def observe(self, state: _Arrays) -> NDArray[Any]:
        """See :class:`~tau_trainer.envs.batched.Twin`."""
        self._put(state)
        return np.array([self._seen()], np.float32)

    def _put(self, state: _Arrays) -> None:
        self._env.state = np.array(state[MOTION], np.float64)

    def _seen(self) -> Any:
        return self._env.state


class CartPoleTwin(_ByGymnasium):
    """``CartPole-v1``."""

    made, limit = CartPoleEnv, 500

    def _put(self, state: _Arrays) -> None:
        super()._put(state)
        self._env.steps_beyond_terminated = None


class AcrobotTwin(_ByGymnasium):
    """``Acrobot-v1``."""

    made, limit = AcrobotEnv, 500

    def _seen(self) -> Any:
        return self._env._get_ob()


class MountainCarTwin(_ByGymnasium):
    """``MountainCar-v0``."""

    made, limit = MountainCarEnv, 200


class MountainCarContinuousTwin(_ByGymnasium):
    """``MountainCarContinuous-v0``."""

    made, limit = Continuous_MountainCarEnv, 999


class PendulumTwin(_ByGymnasium):
    """``Pendulum-v1``."""

    made, limit = PendulumEnv, 200

    def _seen(self) -> Any:
        return self._env._get_obs()
