"""The ball and the platform."""

from __future__ import annotations

import numpy as np
import pytest

from tau_trainer.headless.scenes.balance import BalanceScene
from tests.headless.scenes.balancing import tilt
from tests.headless.scenes.playing import begin, step


def test_physics_match_a_ball_simulated_step_by_step() -> None:
    """The closed form over a decision against explicit steps of one rolling ball in three dimensions."""
    scene = BalanceScene(agents=1, seed=5)
    batch = begin(scene)
    tilts = scene._tilt[:, 0].copy()  # about x, about z
    position = batch.obs[0][0, 2:5].astype(np.float64)
    velocity = np.zeros(2)
    generator = np.random.default_rng(6)
    for _ in range(4):
        action = generator.uniform(-1.0, 1.0, 2)
        for _ in range(5):
            tilts += np.deg2rad(2.0) * action.astype(np.float32)[::-1]
            turn_x = np.array(
                [[1, 0, 0], [0, np.cos(tilts[0]), -np.sin(tilts[0])], [0, np.sin(tilts[0]), np.cos(tilts[0])]]
            )
            turn_z = np.array(
                [[np.cos(tilts[1]), -np.sin(tilts[1]), 0], [np.sin(tilts[1]), np.cos(tilts[1]), 0], [0, 0, 1]]
            )
            normal = turn_x @ turn_z @ np.array([0.0, 1.0, 0.0])
            gravity = np.array([0.0, -9.81, 0.0])
            along = 5.0 / 7.0 * (gravity - (gravity @ normal) * normal)
            velocity += 0.02 * along[[0, 2]]
            position[[0, 2]] += 0.02 * velocity
        position[1] = (3.0 - normal[0] * position[0] - normal[2] * position[2]) / normal[1]
        batch = step(scene, tilt(action[None]))
        seen = batch.obs[0][0]
        np.testing.assert_allclose(seen[2:5], position, atol=1e-5)
        np.testing.assert_allclose(seen[[5, 7]], velocity, atol=1e-5)
        np.testing.assert_allclose(seen[5:] @ normal, 0.0, atol=1e-5)  # the velocity lies in the plane


def test_positive_tilt_about_z_sends_the_ball_to_negative_x() -> None:
    scene = BalanceScene(agents=1, seed=0)
    begin(scene)
    scene._tilt[:] = scene._ball[:] = 0.0
    seen = step(scene, tilt(np.array([[1.0, 0.0]]))).obs[0][0]
    assert seen[0] == pytest.approx(np.sin(np.deg2rad(5.0)), abs=1e-6)
    assert seen[2] < 0.0
    assert seen[5] < 0.0
    assert abs(seen[4]) < 1e-9


def test_tilt_stops_at_a_quarter_of_the_quaternion() -> None:
    scene = BalanceScene(agents=1, seed=0, max_decisions=0)
    begin(scene)
    scene._tilt[:] = scene._ball[:] = 0.0
    for _ in range(4):
        step(scene, tilt(np.array([[5.0, 0.0]])))
    assert scene._tilt[1, 0] == pytest.approx(2.0 * np.arcsin(0.25))


def test_the_ball_is_lost_at_the_edge_of_the_platform() -> None:
    scene = BalanceScene(agents=2, seed=0)
    begin(scene)
    scene._tilt[:] = scene._velocity[:] = 0.0
    scene._ball[:] = [[2.49, 2.51], [0.0, 0.0]]
    batch = step(scene, tilt(np.zeros((2, 2))))
    assert batch.terminals.agent_ids.tolist() == [1]
    assert batch.terminals.obs[0][0, 2] == pytest.approx(2.51, abs=1e-5)
