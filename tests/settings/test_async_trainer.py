"""``execution: async``: the numbers of actors, and what does not go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tau_trainer.errors import SettingsError
from tau_trainer.settings import AsyncTrainerSettings, ClusterSettings, RunSettings, dump_settings, load_settings
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
        ({"actors": 3, "exploration": [{"type": "greedy"}]}, "exploration has 1 entries, but there are 3 actors"),
        ({"samples_per_update": [2.0, 1.0]}, "must be \\[minimum, maximum\\]"),
        ({"max_policy_lag": 150}, "max_policy_lag 150 is below twice the sync_interval 100"),
        ({"mode": "lockstep"}, "lock_step"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        AsyncTrainerSettings.model_validate(keys)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"env_settings__env_path": None}, "actors start their own engines; name a build"),
        ({"env_settings__env_path": "attach:2"}, "actors start their own engines; name a build"),
        (
            {"env_settings__num_envs": 4, "async_trainer__actors": 2},
            r"env_settings.num_envs is 4, but async_trainer.actors \(--actors\) is 2; each actor has one engine",
        ),
        ({"collection__deterministic": True}, "lock_step to let actors and learning take turns"),
        ({"async_trainer__n_bufer": 1}, "did you mean n_buffer"),
    ],
)
def test_what_does_not_go_with_actors_is_refused(tmp_path: Path, overrides: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load(tmp_path, SAC, **overrides)


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


CLUSTER = SAC.replace("execution: async", "cluster: {address: 'local:3', resources: {cpu: 2, unity: 1}}")


def test_a_cluster_has_actors(tmp_path: Path) -> None:
    settings = load(tmp_path, CLUSTER)
    assert settings.execution == "async"
    assert settings.cluster is not None
    assert (settings.cluster.private, settings.cluster.resources) == (3, {"cpu": 2.0, "unity": 1.0})
    flags = load(tmp_path, SAC, cluster__address="head.example:6379", cluster__insecure=True).cluster
    assert flags is not None
    assert (flags.private, flags.resources, flags.insecure) == (0, {"cpu": 1.0}, True)
    path = tmp_path / "again.yaml"
    path.write_text(dump_settings(settings), "utf-8")
    assert load_settings(path) == settings
    with pytest.raises(SettingsError, match=r"is sync, which plays in this process, but cluster .* has actors"):
        load(tmp_path, CLUSTER, execution="sync")
    with pytest.raises(SettingsError, match=r"is for engines on other machines, but on a cluster each actor starts"):
        load(tmp_path, CLUSTER, collection__listen="0.0.0.0")


@pytest.mark.parametrize("address", ["local", "local:1", "local:64", "RAY_ADDRESS", "10.0.0.1:6379", "[::1]:6379"])
def test_addresses_of_clusters(address: str) -> None:
    assert ClusterSettings(address=address).private == {"local": 1, "local:1": 1, "local:64": 64}.get(address, 0)


@pytest.mark.parametrize(
    "address",
    ["auto", "local:", "local:0", "local:x", "localhost", "head:", ":6379", "head:70000", "ray://head:10001", ""],
)
def test_what_is_no_address_of_a_cluster(address: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cluster.address (must be local, local:N|must not be an empty|is empty)"):
        load(tmp_path, SAC, cluster__address=address)


@pytest.mark.parametrize("where", ["execution: async", "cluster: {address: 'local:3'}"])
@pytest.mark.parametrize(
    ("file", "flags", "actors"),
    [
        ("num_envs: 3", {}, 3),
        ("", {"env_settings__num_envs": 3}, 3),
        ("", {"env_settings__num_envs": "3"}, 3),
        ("num_envs: 3", {"env_settings__num_envs": 1}, 1),
        ("num_envs: 3", {"async_trainer__actors": 2, "async_trainer__samples_per_update": [0.5, 2]}, 2),
        ("num_envs: 1", {}, 4),
        ("num_envs: 2, actors: 2", {"env_settings__num_envs": 5}, 5),
        ("num_envs: 3", {"env_settings__num_envs": 5, "async_trainer__actors": 5}, 5),
    ],
)
def test_so_many_engines_are_so_many_actors(
    tmp_path: Path, where: str, file: str, flags: dict[str, Any], actors: int
) -> None:
    """As a user of mlagents-learn types it."""
    engines, _, own = file.partition(", ")
    text = SAC.replace("execution: async", where).replace('CartPole-v1"', f'CartPole-v1", {engines}')
    settings = load(tmp_path, text + (f"async_trainer: {{{own}}}\n" if own else ""), **flags)
    assert settings.async_trainer.actors == actors
    assert ("actors" in settings.async_trainer.model_fields_set) == (file != "num_envs: 1"), "else as many as have room"
    assert load(tmp_path, dump_settings(settings)) == settings
    assert make_plan("learn", settings, tmp_path).pairs == actors


def test_a_number_of_engines_that_is_wrong_is_told_once(tmp_path: Path) -> None:
    for engines in (0, 1001, "many"):
        with pytest.raises(SettingsError) as caught:
            load(tmp_path, SAC, env_settings__num_envs=engines)
        assert str(caught.value).count("must be") == 1
        assert "async_trainer" not in str(caught.value)
