"""``execution: async``: the numbers of actors, and what does not go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tau_trainer.errors import SettingsError
from tau_trainer.settings import AsyncTrainerSettings, RunSettings, dump_settings, load_settings
from tau_trainer.training.plan import make_plan

SAC = """
behaviors: {A: {trainer_type: sac}}
env_settings: {env_path: "gym:CartPole-v1"}
execution: async
"""


def load(folder: Path, text: str, **overrides: Any) -> RunSettings:
    path = folder / "a.yaml"
    path.write_text(text, "utf-8")
    return load_settings(path, {key.replace("__", "."): value for key, value in overrides.items()})


def test_defaults_are_those_of_border_0_0_8_where_it_has_the_key() -> None:
    actors = AsyncTrainerSettings()
    assert (actors.n_buffer, actors.sync_interval, actors.eval_interval) == (100, 100, 5000)
    assert actors.max_opts is None, "border: 10"


def test_each_actor_has_its_own_exploration_or_all_the_behaviors() -> None:
    own = AsyncTrainerSettings(actors=2, exploration=({"type": "greedy"}, {"type": "boltzmann", "tau": 2.0}))
    assert [own.exploration_of(actor) for actor in range(2)] == [{"type": "greedy"}, {"type": "boltzmann", "tau": 2.0}]
    assert AsyncTrainerSettings().exploration_of(0) is None


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"actors": 3, "exploration": [{"type": "greedy"}]}, "exploration has 1 entries and there are 3 actors"),
        ({"samples_per_update": [2.0, 1.0]}, "must be \\[least, most\\]"),
        ({"max_policy_lag": 150}, "max_policy_lag 150 is below twice the sync_interval 100"),
        ({"mode": "lockstep"}, "lock_step"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        AsyncTrainerSettings.model_validate(keys)


@pytest.mark.parametrize(
    ("text", "overrides", "sentence"),
    [
        (SAC, {"env_settings__env_path": None}, "actors start their engines; name a build"),
        (SAC, {"env_settings__env_path": "attach:2"}, "actors start their engines; name a build"),
        (SAC, {"env_settings__num_envs": 4}, "env_settings.num_envs .*async_trainer.actors"),
        (SAC, {"collection__deterministic": True}, "lock_step lets actors and learning take turns"),
        (SAC, {"async_trainer__n_bufer": 1}, "did you mean n_buffer"),
    ],
)
def test_what_does_not_go_with_actors_is_refused_in_a_sentence(
    tmp_path: Path, text: str, overrides: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load(tmp_path, text, **overrides)


def test_the_same_file_runs_in_one_process_too(tmp_path: Path) -> None:
    settings = load(tmp_path, SAC, execution="sync", async_trainer__actors=3)
    assert make_plan("learn", settings, tmp_path).pairs == 1
    assert not make_plan("learn", settings, tmp_path).asynchronous


def test_a_run_has_as_many_pairs_as_actors_and_parallel_has_none(tmp_path: Path) -> None:
    settings = load(tmp_path, SAC, async_trainer__actors=3)
    plan = make_plan("learn", settings, tmp_path)
    assert (plan.pairs, plan.max_concurrent, plan.asynchronous, plan.shared) == (3, 3, True, True)
    with pytest.raises(SettingsError, match="use `tau-train learn`"):
        make_plan("parallel", settings, tmp_path)
    played = settings.model_copy(
        update={"checkpoint_settings": settings.checkpoint_settings.model_copy(update={"inference": True})}
    )
    assert not make_plan("learn", played, tmp_path).asynchronous, "a saved run is played in this process"


def test_they_survive_being_written_and_read_again(tmp_path: Path) -> None:
    settings = load(tmp_path, SAC, async_trainer__samples_per_update=[0.5, 2], async_trainer__actors=2)
    assert load(tmp_path, dump_settings(settings)) == settings
