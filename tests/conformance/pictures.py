"""A scene of images of every kind beside vectors, played as a build of its own: ``python pictures.py FLAGS``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tau_trainer.headless import client
from tau_trainer.headless.main import main
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    DimensionProperty,
    FloatArray,
    IndexArray,
    ObservationSpec,
)

SIZE = 20
"""Pixels; ML-Agents' smallest encoder takes no fewer."""
_IMAGE = tuple(DimensionProperty(flag) for flag in (1, 2, 2))


def _image(name: str, channels: int, dtype: Any = np.uint8) -> ObservationSpec:
    return ObservationSpec(name, (channels, SIZE, SIZE + channels), _IMAGE, dtype=dtype)


SPEC = BehaviorSpec(
    "Pictures?team=0",
    (
        ObservationSpec("ahead", (3,), (DimensionProperty.NONE,)),
        _image("camera", 3),
        _image("floats", 2, np.float32),
        _image("grey", 1),
        _image("grid", 5),
        ObservationSpec("middle", (2,), (DimensionProperty.NONE,)),
        _image("pair", 2),
        _image("stack", 6),
        ObservationSpec("whole", (4,), (DimensionProperty.NONE,)),
    ),
    ActionSpec(discrete_branches=(3,)),
)


class Pictures(LockstepScene):
    """Noise, with one bright third in the camera's image: which one, from the left, is the action that pays 1."""

    def __init__(self, agents: int, seed: int) -> None:
        super().__init__((SPEC,), agents, seed, max_decisions=5)
        self._rng = np.random.default_rng(seed)
        self._third = np.zeros(agents, np.int64)
        self._seen: tuple[Any, ...] = ()

    def begin(self, index: IndexArray) -> None:
        """Nothing is kept."""

    def advance(self, actions: Actions) -> tuple[FloatArray, BoolArray]:
        """Pay for the bright third."""
        return (actions.discrete[:, 0] == self._third).astype(np.float32), np.zeros(self.agents, np.bool_)

    def turn(self) -> None:
        """Other images."""
        rng, agents = self._rng, self.agents
        self._seen = tuple(
            rng.integers(0, 100, (agents, *sensor.shape), np.uint8)
            if sensor.dtype == np.uint8
            else rng.random((agents, *sensor.shape), np.float32)
            for sensor in SPEC.observations
        )
        self._third = rng.integers(0, 3, agents)
        camera = self._seen[1]
        thirds = np.arange(camera.shape[3]) * 3 // camera.shape[3]
        camera += (155 * (thirds == self._third[:, None])).astype(np.uint8)[:, None, None, :]

    def observe(self) -> tuple[Any, ...]:
        """What is to be seen now."""
        return self._seen or tuple(np.zeros((self.agents, *one.shape), one.dtype) for one in SPEC.observations)


def create(_: Any, parameters: EnvironmentParameters, *, seed: int = 0, areas: int = 1) -> Pictures:
    """Stands where the scenes' own does."""
    return Pictures(int(parameters.get("num_agents", 4)) * areas, seed)


if __name__ == "__main__":
    client.create_scene = create  # type: ignore[attr-defined, assignment]
    sys.exit(main())
