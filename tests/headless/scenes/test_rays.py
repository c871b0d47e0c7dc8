from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.headless.scenes.rays import distances, fan, forward, ray_values

LOW, HIGH = np.array([[[-1.0, 3.0], [4.0, -1.0]]]), np.array([[[1.0, 5.0], [6.0, 1.0]]])
"""A box ahead and one to the right."""


def test_a_fan_goes_ahead_then_right_and_left_outwards() -> None:
    np.testing.assert_allclose(np.rad2deg(fan(3, 90.0)), [0, 30, -30, 60, -60, 90, -90])
    np.testing.assert_allclose(forward(np.array([0.0, np.pi / 2])), [[0, 1], [1, 0]], atol=1e-12)


def test_distances_of_exact_cases() -> None:
    heading = np.deg2rad([[0.0, 90.0, 180.0, 45.0]])
    found = distances(np.zeros((1, 2)), forward(heading), LOW, HIGH)[0]
    np.testing.assert_allclose(found[0], [3.0, np.inf])
    np.testing.assert_allclose(found[1], [np.inf, 4.0])
    assert np.isinf(found[2:]).all()
    inside = distances(np.array([[0.0, 4.0]]), forward(heading), LOW, HIGH)[0]
    np.testing.assert_allclose(inside[:, 0], 0.0)


@given(
    st.floats(-8, 8), st.floats(-8, 8), st.floats(-np.pi, np.pi), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.5, 4)
)
def test_distances_are_those_of_a_walk_along_the_ray(
    x: float, z: float, heading: float, low_x: float, low_z: float, size: float
) -> None:
    low = np.array([[[low_x, low_z]]])
    start, way = np.array([[x, z]]), forward(np.array([[heading]]))
    found = distances(start, way, low, low + size)[0, 0, 0]
    along = np.arange(0.0, 20.0, 0.005)
    points = start + along[:, None] * way[0]

    def reached(margin: float) -> float:
        """Where the walk is first inside a box that is larger by this all around."""
        inside = ((points >= low[0, 0] - margin) & (points <= low[0, 0] + size + margin)).all(axis=1)
        return float(along[inside.argmax()]) if inside.any() else np.inf

    assert reached(0.01) - 0.006 <= found <= reached(-0.01) + 0.006


def test_values_of_a_ray_are_kind_miss_and_share_of_the_length() -> None:
    distance = np.array([[[5.0, 2.0], [np.inf, 30.0], [np.inf, np.inf], [4.0, 10.0]]])
    values = ray_values(distance, np.array([[-1, 1]]), 2, 20.0).reshape(4, 4)
    np.testing.assert_allclose(values[0], [0, 1, 0, 0.1])  # the nearer one
    np.testing.assert_allclose(values[1], [0, 0, 1, 1])  # too far away
    np.testing.assert_allclose(values[2], [0, 0, 1, 1])
    np.testing.assert_allclose(values[3], [0, 0, 0, 0.2])  # a hit without a name
    assert values.dtype == np.float32
