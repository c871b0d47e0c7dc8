"""Pictures of games."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.games.classic_control import MOTION
from tests.games.classic import opened


def test_pictures_show_things_where_they_are() -> None:
    """A pole that leans to the right, a car at its flag, a pendulum that is upright."""

    def dark(name: str, motion: list[float]) -> NDArray[np.bool_]:
        picture = opened(name).frame({MOTION: np.array(motion)})
        assert picture.dtype == np.uint8
        assert picture.shape[::2] == (300, 3)
        assert 0.5 < (picture == 255).all(axis=2).mean() < 0.99
        return np.asarray(picture.min(axis=2) < 200)

    right, left = dark("cartpole", [0.0, 0, 0.5, 0]), dark("cartpole", [0.0, 0, -0.5, 0])
    half = right.shape[1] // 2
    assert right[:, half:].sum() > right[:, :half].sum()
    np.testing.assert_allclose(right[:, half:].sum(), left[:, :half].sum(), rtol=0.05)
    for car in ("mountain_car", "mountain_car_continuous"):
        assert dark(car, [0.5, 0])[:, -50:].sum() > dark(car, [-0.5, 0])[:, -50:].sum()
    up = dark("pendulum", [0.0, 0])
    assert up[:150].sum() > 3 * up[150:].sum()
    high, low = dark("acrobot", [np.pi, 0, 0, 0]), dark("acrobot", [0.0, 0, 0, 0])
    assert high[:140].sum() > low[:140].sum()
