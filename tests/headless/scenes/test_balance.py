from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import balance
from tau_trainer.headless.scenes.balance import BalanceScene
from tau_trainer.specs import Actions, StepBatch
from tests.headless.scenes.balancing import tilt
from tests.headless.scenes.playing import assert_own, begin, step

if TYPE_CHECKING:
    from tests.headless.scenes.conftest import Play


def nothing(batch: StepBatch) -> Actions:
    return tilt(np.zeros((len(batch), 2)))


def controller(batch: StepBatch) -> Actions:
    """A linear controller by hand: lean against the ball's offset and speed."""
    rotation_z, rotation_x, x, _, z, v_x, _, v_z = batch.obs[0].T
    wanted_z, wanted_x = 0.1 * x + 0.1 * v_x, -(0.1 * z + 0.1 * v_z)
    return tilt(np.clip(10.0 * np.stack([wanted_z - rotation_z, wanted_x - rotation_x], axis=1), -1.0, 1.0))


def test_doing_nothing_and_doing_anything_lose_the_ball(play: Play) -> None:
    generator = np.random.default_rng(0)
    for act in (nothing, lambda batch: tilt(generator.uniform(-1.0, 1.0, (len(batch), 2)))):
        played = play(BalanceScene(seed=1), act, 600)
        assert 5.0 < np.mean(played.lengths) < 60.0
        assert np.mean(played.returns) < 5.0
        assert not any(played.truncated)


def test_a_linear_controller_keeps_the_ball_to_the_end(play: Play) -> None:
    played = play(BalanceScene(seed=2), controller, 2000)
    assert len(played.returns) == 24
    assert played.lengths == [1000] * 24
    assert all(played.truncated)
    np.testing.assert_allclose(played.returns, 100.0, atol=1e-3)


def test_rewards_are_a_tenth_and_minus_one(play: Play) -> None:
    played = play(BalanceScene(seed=3), nothing, 300)
    kept = np.concatenate([batch.reward for batch in played.batches[1:]])
    lost = np.concatenate([batch.terminals.reward for batch in played.batches])
    assert set(kept.tolist()) == {0.0, float(np.float32(0.1))}
    assert set(lost.tolist()) == {-1.0}
    np.testing.assert_allclose(played.returns, 0.1 * (np.array(played.lengths) - 1) - 1.0, atol=1e-5)


def test_episodes_begin_at_rest_within_the_starting_range(play: Play) -> None:
    batch = begin(BalanceScene(agents=2000, seed=4))
    rotation, offset = batch.obs[0][:, :2], batch.obs[0][:, [2, 4]]
    limit = np.sin(np.deg2rad(5.0))
    assert 0.98 * limit < np.abs(rotation).max() <= limit
    assert 1.48 < np.abs(offset).max() <= 1.5
    assert np.all(batch.obs[0][:, 5:] == 0.0)
    assert np.all(batch.reward == 0.0)
    assert np.abs(batch.obs[0].mean(axis=0)[[0, 1, 2, 4]]).max() < 0.06


def test_same_seed_same_episodes_and_a_reset_goes_on(play: Play) -> None:
    first, second = BalanceScene(seed=1), BalanceScene(seed=1)
    start = begin(first).obs[0]
    np.testing.assert_array_equal(start, begin(second).obs[0])
    assert not np.array_equal(start, begin(first).obs[0])
    first.seed(1)
    np.testing.assert_array_equal(start, begin(first).obs[0])


def test_parameters_of_3dball_are_drawn_for_each_episode() -> None:
    scene = BalanceScene(agents=500, seed=1)
    begin(scene, EnvironmentParameters({"gravity": Sampler(SamplerKind.UNIFORM, 1, (4.0, 14.0)), "scale": 2.0}))
    pull = scene._pull / balance.ROLLING
    assert len(set(pull.tolist())) == 500
    assert 4.0 <= pull.min() < 4.2
    assert 13.8 < pull.max() <= 14.0
    np.testing.assert_allclose(scene._contact.height, 3.5)


def test_tilt_speed_is_an_environment_parameter() -> None:
    scene = BalanceScene(agents=1, seed=1)
    begin(scene, EnvironmentParameters({"tilt_speed": 0.5}))
    scene._tilt[:] = scene._ball[:] = 0.0
    step(scene, tilt(np.array([[1.0, -1.0]])))
    np.testing.assert_allclose(scene._tilt[:, 0], np.deg2rad([-2.5, 2.5]))


def test_handed_out_arrays_never_change(play: Play) -> None:
    scene = BalanceScene(seed=1)
    batch = begin(scene)
    kept, copied = batch.obs[0], batch.obs[0].copy()
    for _ in range(30):
        batch = step(scene, nothing(batch))
    np.testing.assert_array_equal(kept, copied)
    with pytest.raises(ValueError, match="read-only"):
        batch.agent_ids[0] = 5


def test_agents_in_a_crowd_play_as_they_would_alone(play: Play) -> None:
    few, many = (play(BalanceScene(agents=n, seed=9), controller, 40).batches for n in (3, 8))
    assert_own(few, many)
