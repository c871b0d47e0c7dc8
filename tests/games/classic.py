"""The games of classic control by name."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from tau_trainer.envs.batched import registry
from tau_trainer.games.classic_control import ClassicControl

OF_GYMNASIUM = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountain_car": "MountainCar-v0",
    "mountain_car_continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
}


EVERY = pytest.mark.parametrize("name", OF_GYMNASIUM)


def opened(name: str, num_envs: int = 1, **options: Any) -> ClassicControl:
    env = registry.make(name, num_envs, **options)
    assert isinstance(env, ClassicControl)
    return env


def motion(env: gymnasium.Env[Any, Any]) -> NDArray[np.float64]:
    plain: Any = env.unwrapped
    return np.array(plain.state, np.float64)
