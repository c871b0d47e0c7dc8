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


COMMANDS = {
    "hub": "push pull",
    "hub push": "RUN REPO --public --message --dry-run --force --results-dir --debug",
    "check-env": "ENV NAME=VALUE --against --device --copies --steps --seed --tolerance --debug",
    "cluster": "up status down",
    "data": "embed audit concat targets",
    "data targets": "FILE --output --profile --force",
    "demo": "info",
    "init": "FOLDER --seconds --force --env --base-port --no-graphics --env-args --num-areas --quiet --json --debug",
    "upgrade": "FILES --output -o --in-place --force --debug",
}


def test_every_page_begins_as_the_list_says_and_breaks_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in build_app() if name != "headless" and not name.startswith("-")]  # that is argparse's
    for name in {*names, *COMMANDS}:
        assert main([*name.split(), "--help"]) == 0
        out = capsys.readouterr().out
        for line in out.splitlines():
            assert len(line) <= 80
            assert not line.startswith("│   -"), f"{name}: {line}"
            assert not line.split("  ")[0].endswith("-"), f"{name}: {line}"
        text = " ".join(out.replace("│", " ").split())
        assert all(word in text for word in COMMANDS.get(name, "").split()), name
        assert name not in names or _HELP[name].split("\n")[0] in text, name
        if name in ("learn", "parallel", "check", "sweep", "record", "match"):
            assert "--restarts-rate-limit-period-s S  " in out, name


def test_the_page_of_learn(capsys: pytest.CaptureFixture[str]) -> None:
    whole = page(["learn", "--help"], capsys)
    assert "press Play when it asks you to." in whole
    assert "--tensorflow" not in whole, "deprecated flags are not shown"
    assert "--load" not in whole
    assert page(["--help", "learn"], capsys) == whole


def test_defaults_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = page(["parallel", "--help"], capsys)
    for default in ("tau3", "4", "32", "5005", "60", "results"):
        assert f"[default: {default}]" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert page(["--version"], capsys) == f"tau-train {tau_trainer.__version__}"
