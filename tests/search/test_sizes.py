"""Sizes of a run that belong together."""

from __future__ import annotations

from tau_trainer.search.sizes import batch_range, resized, with_batch, with_copies
from tau_trainer.settings.run import RunSettings
from tests.search.copies import PPO, settings


def test_sizes_keep_the_steps_between_updates() -> None:
    chosen = settings(num_envs=4)
    assert with_copies(chosen, 16) == {
        ("environment", "num_envs"): 16,
        ("behaviors", "all", "hyperparameters", "buffer_size"): 256,
    }
    again = resized(chosen, with_copies(chosen, 16))
    assert again.played.num_envs == 16
    assert again.behaviors["all"].hyperparameters.buffer_size == 256
    assert again.behaviors["all"].hyperparameters.batch_size == 16
    assert again.seed == chosen.seed


def test_a_buffer_that_nobody_set_follows_the_copies_by_itself() -> None:
    chosen = settings(policy={"trainer_type": "a2c"})
    assert with_copies(chosen, 200) == {("environment", "num_envs"): 200}
    assert batch_range(chosen) == (64, 512), "eight decisions of each of four, and at least so many"


def test_one_batch_stays_one_batch() -> None:
    chosen = settings(policy={"trainer_type": "a2c", "hyperparameters": {"buffer_size": 64}})
    sizes = with_copies(chosen, 8)
    assert sizes["behaviors", "all", "hyperparameters", "batch_size"] == 128
    assert batch_range(resized(chosen, sizes)) is None


def test_batches_grow_together_up_to_their_buffers() -> None:
    several = settings().model_dump(mode="json")
    several["behaviors"] = {
        "left": {"agents": ["left"], **PPO},
        "right": {"agents": ["right"], "trainer_type": "ppo", "hyperparameters": {"batch_size": 8, "buffer_size": 64}},
    }
    chosen = RunSettings.model_validate(several)
    assert batch_range(chosen) == (16, 128)
    sizes = {place[1]: size for place, size in with_batch(chosen, 128).items()}
    assert sizes == {"left": 64, "right": 64}
    sizes = {place[1]: size for place, size in with_batch(chosen, 32).items()}
    assert sizes == {"left": 32, "right": 16}
