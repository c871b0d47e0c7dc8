from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.headless.args import build_arguments, log_file, parse_args
from tau_trainer.headless.scenes import tau_rules
from tau_trainer.headless.scenes.faulty import FaultKind


def test_a_unity_builds_flags_in_the_order_ml_agents_gives_them() -> None:
    options = parse_args(
        ["-nographics", "-batchmode", "--mlagents-port", "5007", "-logFile", "logs/Player-2.log", "--scene", "balance"]
    )
    assert options.port == 5007
    assert options.log_file == Path("logs/Player-2.log")
    assert options.scene == "balance"
    assert options.unknown == ()


def test_an_unreal_builds_flags() -> None:
    given = "-mlAgentPort=5007 -unattended -nullrhi -stdout -FullStdOutLogOutput --dialect unreal"
    options = parse_args(given.split())
    assert (options.port, options.dialect, options.unknown) == (5007, "unreal", ())
    assert build_arguments(given.split()) == ["--dialect", "unreal"]


def test_unknown_arguments_are_kept_aside() -> None:
    options = parse_args(["-screen-width", "84", "--seed", "-3", "--quality=5", "--agent", "9", "-force-vulkan", "x"])
    assert options.seed == -3
    assert options.agents is None
    assert options.unknown == ("-screen-width", "84", "--quality=5", "--agent", "9", "-force-vulkan", "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agents", "0"], "--agents: '0' is not a whole number from 1 to 1000000"),
        (["--agents", "many"], "--agents.*'many'"),
        (["--mlagents-port", "70000"], "--mlagents-port: '70000' is not a whole number from 1 to 65535"),
        (["--mlagents-port"], "--mlagents-port: expected one argument"),
        (["-mlAgentPort=0"], "-mlAgentPort: '0' is not a whole number from 1 to 65535"),
        (["--step-ms", "-1"], "--step-ms: '-1' is not a number of at least 0"),
        (["--step-ms", "nan"], "--step-ms"),
        (["--scene", "chess"], "--scene.*chess.*balance"),
        (["--fault", "boredom"], "--fault"),
        (["--dialect", "cryengine"], "--dialect.*cryengine.*unity.*unreal.*godot"),
        (["--tau-profile", "tau5"], "--tau-profile"),
        (["--tau-reward", "sigmoid"], "--tau-reward"),
    ],
)
def test_a_wrong_value_of_a_known_flag_is_one_sentence(arguments: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        parse_args(arguments)
    assert "\n" not in str(caught.value)


def test_it_stands_for_unity_unless_another_engine_is_named() -> None:
    assert parse_args([]).dialect == "unity"
    assert parse_args(["--dialect", "godot"]).dialect == "godot"


def test_tau_flags_make_the_rules() -> None:
    rewards = ["--tau-reward", "binary", "--tau-columns", "2", "--tau-threshold", "0.3"]
    ends = ["--tau-reward-threshold", "-7", "--tau-faithful-terminal", "--max-decisions", "9"]
    options = parse_args(["--tau-agents", "5", *rewards, *ends, "--tau-split", "evaluation"])
    rules = tau_rules(options)
    assert options.agents == 5
    assert (rules.reward, rules.columns, rules.threshold, rules.reward_threshold) == ("binary", 2, 0.3, -7.0)
    assert (rules.faithful_terminal, rules.split, rules.max_decisions) == (True, "evaluation", 9)
    assert tau_rules(parse_args([])).max_decisions == 2500


def test_the_scene_faulty_crashes_and_any_scene_can_fail() -> None:
    assert parse_args([]).fault.kind is None
    fault = parse_args(["--scene", "faulty", "--fault-after", "3"]).fault
    assert (fault.kind, fault.after) == (FaultKind.CRASH, 3)
    assert parse_args(["--scene", "tau", "--fault", "stall"]).fault.kind is FaultKind.STALL


def test_the_log_file_is_found_beside_mistakes() -> None:
    assert log_file(["--agents", "x", "-logFile", "a.log"]) == Path("a.log")
    assert log_file(["-logfile", "a.log"]) == Path("a.log")
    assert log_file(["-logFile", "-"]) is None
    assert log_file(["-logFile"]) is None


def test_a_launcher_keeps_what_is_not_of_one_start() -> None:
    given = "--write-build d --scene tau --mlagents-port 5 --agents 3 -nographics -logFile x"
    assert build_arguments(given.split()) == ["--agents", "3"]
    kept = build_arguments(["--tau-data=own.json", "--report-file", "counts.jsonl"])
    assert kept == [f"--tau-data={Path('own.json').resolve()}", "--report-file", str(Path("counts.jsonl").resolve())]
