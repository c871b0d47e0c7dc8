"""The help pages: every command and flag is there, with its default, and fits the terminal."""

from __future__ import annotations

import pytest

import tau_trainer
from tau_trainer.cli import main
from tau_trainer.cli.app import _HELP, build_app


def page(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(len(line) <= 80 for line in out.splitlines())
    return " ".join(out.replace("│", " ").split())


def test_the_first_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = page(["--help"], capsys)
    for command in ("parallel", "learn", "check", "upgrade", "evaluate", "export", "report", "hub", "headless", "data"):
        assert f" {command} " in text
    assert "Start with: tau-train parallel --pairs 4" in text
    assert text.index("parallel Train") < text.index("learn Train") < text.index("evaluate Evaluate")


def test_no_words_show_the_first_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert page([], capsys) == page(["--help"], capsys)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "parallel",
            "CONFIG --pairs --max-concurrent --policy --env --run-id --results-dir --seed --max-steps --resume --force "
            "--deterministic-collection --agents --credit --no-evaluate --quiet --json --debug --base-port --set",
        ),
        (
            "learn",
            "CONFIG --env --num-envs --num-areas --run-id --results-dir --seed --base-port --no-graphics "
            "--no-graphics-monitor --timeout-wait --force --resume --env-args --time-scale --width --height "
            "--quality-level --target-frame-rate --capture-frame-rate --deterministic --torch-device "
            "--max-lifetime-restarts --restarts-rate-limit-n --debug --execution --actors",
        ),
        ("check", "CONFIG --env --num-envs --run-id --set --lenient --json --no-graphics --env-args --torch-device"),
        (
            "init",
            "FOLDER --seconds --force --env --base-port --no-graphics --env-args --num-areas --quiet --json --debug",
        ),
        ("upgrade", "FILES --output -o --in-place --force --debug"),
        ("evaluate", "RUN --results-dir --json --debug"),
        ("export", "RUN --output --results-dir --debug"),
        ("tensorboard", "RUNS --host --port --results-dir --debug"),
        ("report", "RUNS --output --force --results-dir --debug"),
        ("demo", "info"),
        ("demo info", "PATHS --json --debug"),
        ("hub", "push pull"),
        ("hub push", "RUN REPO --public --message --dry-run --force --results-dir --debug"),
        ("hub pull", "REPO --run-id --revision --results-dir --debug"),
        ("check-env", "ENV NAME=VALUE --against --device --copies --steps --seed --tolerance --debug"),
        ("cluster", "up status down"),
        ("cluster status", "FILE --json --debug"),
        ("data", "embed audit concat targets"),
        ("data embed", "FILE --encoder"),
        ("data targets", "FILE --output --profile --force"),
    ],
)
def test_a_commands_page_names_every_flag(command: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = page([*command.split(), "--help"], capsys)
    for word in told.split():
        assert word in text


def test_a_commands_page_begins_as_the_list_says_and_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    for name in (name for name in build_app() if name != "headless" and not name.startswith("-")):
        assert _HELP[name].split("\n")[0] in page([name, "--help"], capsys), name
    whole = page(["learn", "--help"], capsys)
    assert "press Play when it asks you to." in whole
    assert page(["--help", "learn"], capsys) == whole


def test_no_page_breaks_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    app = build_app()
    for name in app:
        if name == "headless" or name.startswith("-"):  # whose page is argparse's
            continue
        assert main([name, "--help"]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert not line.startswith("│   -"), f"{name}: {line}"
            assert not line.split("  ")[0].endswith("-"), f"{name}: {line}"


def test_a_long_flag_stands_whole_with_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("learn", "parallel", "check", "sweep", "record", "match"):
        main([command, "--help"])
        assert "--restarts-rate-limit-period-s S  " in capsys.readouterr().out, command


@pytest.mark.parametrize(
    "default",
    ["[default: tau3]", "[default: 4]", "[default: 32]", "[default: 5005]", "[default: 60]", "[default: results]"],
)
def test_defaults_are_told(default: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert default in page(["parallel", "--help"], capsys)


def test_deprecated_flags_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = page(["learn", "--help"], capsys)
    assert "--tensorflow" not in text
    assert "--load" not in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert page(["--version"], capsys) == f"tau-train {tau_trainer.__version__}"
