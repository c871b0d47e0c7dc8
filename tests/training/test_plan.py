from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import LaunchError, SettingsError
from tau_trainer.settings import load_settings
from tau_trainer.tau.task import TauTask
from tau_trainer.training.plan import RunPlan, make_plan
from tests.bridge.conftest import free_port
from tests.training.fakes import Stage, launched, tau_settings


def plan_of(tmp_path: Path, command: Any = "parallel", **overrides: Any) -> RunPlan:
    return make_plan(command, tau_settings(tmp_path, **overrides), tmp_path / "run_logs")


def test_pairs_and_their_engines(stage: Stage, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, tau__pairs=3, tau__max_concurrent=2)
    assert (plan.pairs, plan.max_concurrent, plan.shared) == (3, 2, True)
    assert isinstance(plan.task, TauTask)
    engines = launched(stage, plan.source, 3)
    assert [engine.index for engine in engines] == [0, 1, 2]
    assert engines[0].launch.env_args == ("--tau-profile", "tau3", "--tau-agents", "4", "--tau-target-sensor")
    assert engines[0].launch.log_folder == plan.log_folder == tmp_path / "run_logs"
    assert plan_of(tmp_path, tau__pairs=2, tau__max_concurrent=9).max_concurrent == 2
    assert [plan_of(tmp_path, tau__pairs=pairs).quota() for pairs in (1, 2, 3)] == [400, 200, 134]


def test_the_users_data_and_arguments_reach_the_engine(stage: Stage, tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        tau__data=str(tmp_path / "my.json"),
        tau__evaluate=False,
        tau__reward__source="engine",
        tau__reward__credit="aggregate",
        env_settings__env_args=["--step-ms", "1"],
    )
    (engine,) = launched(stage, plan.source, 1)
    assert engine.launch.env_args[4:] == ("--tau-data", str((tmp_path / "my.json").resolve()), "--step-ms", "1")


def test_learn_takes_num_envs_and_says_nothing_of_tau(stage: Stage, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "learn", env_settings__env_path="headless:balance", env_settings__num_envs=3)
    assert (plan.pairs, plan.max_concurrent, plan.shared) == (3, 3, True)
    assert launched(stage, plan.source, 1)[0].launch.env_args == ()
    basic = make_plan("learn", load_settings(None, {"env_settings.env_path": "headless:basic"}), tmp_path)
    assert (basic.task, basic.warnings) == (None, ())


def test_parallel_needs_a_task() -> None:
    with pytest.raises(SettingsError, match=r"needs a section in the settings that names a task \(`tau`\)"):
        make_plan("parallel", load_settings(None), Path("logs"))


def test_the_editor_is_told_by_parameters_what_a_build_reads_on_its_command_line(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, env_settings__env_path="editor", tau__pairs=1, environment_parameters={"columns": 2})
    assert plan.parameters == {"profile": 1.0, "num_agents": 4.0, "target_sensor": 1.0, "columns": 2.0}
    engine = plan_of(
        tmp_path,
        env_settings__env_path="editor",
        tau__pairs=1,
        tau__reward__source="engine",
        tau__reward__credit="aggregate",
        environment_parameters={"num_agents": 7},
    )
    assert engine.parameters == {"profile": 1.0, "num_agents": 7.0, "target_sensor": 0.0}
    assert "profile" not in plan_of(tmp_path, tau__pairs=1).parameters


def test_engines_that_may_join_all_have_a_place(tmp_path: Path) -> None:
    given = {"env_settings__env_path": "attach:3", "env_settings__base_port": free_port(3)}
    plan = plan_of(tmp_path, **given)
    assert (plan.pairs, plan.max_concurrent) == (3, 3)
    assert plan.parameters["profile"] == 1.0, "nobody of ours starts them"
    with pytest.raises(SettingsError, match=r"max_concurrent is 2, .* let at most 2 connect: --env attach:2"):
        plan_of(tmp_path, **given, tau__max_concurrent=2)


def test_a_build_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no program found"):
        plan_of(tmp_path, env_settings__env_path=str(tmp_path / "nothing"))


def test_deterministic_runs_take_turns_and_seed_every_generation(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, collection__deterministic=True, collection__max_policy_age=3)
    assert plan.max_policy_age == 0
    told = [plan.fresh_seed(pair, generation)["seed"] for pair in range(3) for generation in range(3)]
    assert len(set(told)) == 9
    assert plan.fresh_seed(1, 2) == plan.fresh_seed(1, 2)
    free = plan_of(tmp_path, collection__max_policy_age=3)
    assert free.max_policy_age == 3
    assert free.fresh_seed(0, 0) == {}


def test_a_parameter_that_float32_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"environment_parameters\.gravity is beyond 3\.4e\+38"):
        plan_of(tmp_path, environment_parameters={"gravity": 1e40})


def test_a_slow_game_is_given_time_before_it_counts_as_stalled(tmp_path: Path) -> None:
    assert plan_of(tmp_path, env_settings__timeout_wait=7).stall_s >= 3 * 7
    assert plan_of(tmp_path, env_settings__timeout_wait=700).stall_s >= 3 * 700


@pytest.mark.parametrize(
    ("env", "environment"),
    [
        ("attach", "engines that connect"),
        ("headless:tau", "headless:tau"),
        ("gym:CartPole-v1", "gym:CartPole-v1"),
        ("editor", "the editor"),
    ],
)
def test_what_a_person_calls_it(tmp_path: Path, env: str, environment: str) -> None:
    settings = load_settings(None, {"env_settings.env_path": env, "env_settings.base_port": free_port(3)})
    plan = make_plan("learn", settings, tmp_path)
    assert (plan.environment, plan.subject) == (environment, environment)
    assert plan_of(tmp_path).subject == "data tau.json"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            ["--tau-pairs", "2"],
            "`--tau-pairs 2`, but this run starts the engine with `--tau-agents 4`.* set tau.agents",
        ),
        (["--step-ms", "1", "--agents=7"], "`--agents 7`, but this run starts the engine with `--tau-agents 4`"),
        (["--tau-agents", "5"], "`--tau-agents 5`"),
        (
            ["--tau-profile", "tau384"],
            "`--tau-profile tau384`, but this run starts the engine with `--tau-profile tau3`; .* tau.profile",
        ),
        (["--tau-pairs", "4", "--tau-profile=tau3", "--tau-split", "evaluation"], None),
    ],
)
def test_arguments_that_contradict_the_settings(tmp_path: Path, said: list[str], named: str | None) -> None:
    """A player refuses them at its start, where nobody looks, and the headless engine takes the last."""
    if named is None:
        plan_of(tmp_path, env_settings__env_args=said)
        return
    with pytest.raises(SettingsError, match=f"--env-args has {named}"):
        plan_of(tmp_path, env_settings__env_args=said)
