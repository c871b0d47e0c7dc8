"""Pictures of games."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.games.classic_control import MOTION
from tests.games.classic import opened


def test_pictures_show_things_where_they_are() -> None:
    """A pole that leans to the right, a car at its flag, a pendulum that is upright."""

    def dark(name: str, motion: list[float]) -> NDArray[np.bool_]:
        return np.asarray(opened(name).frame({MOTION: np.array(motion)}).min(axis=2) < 200)

    right, left = dark("cartpole", [0.0, 0, 0.5, 0]), dark("cartpole", [0.0, 0, -0.5, 0])
    half = right.shape[1] // 2
    assert right[:, half:].sum() > right[:, :half].sum()
    np.testing.assert_allclose(right[:, half:].sum(), left[:, :half].sum(), rtol=0.05)
    assert dark("mountain_car", [0.5, 0])[:, -50:].sum() > dark("mountain_car", [-0.5, 0])[:, -50:].sum()
    up = dark("pendulum", [0.0, 0])
    assert up[:150].sum() > 3 * up[150:].sum()
    high, low = dark("acrobot", [np.pi, 0, 0, 0]), dark("acrobot", [0.0, 0, 0, 0])
    assert high[:140].sum() > low[:140].sum()
