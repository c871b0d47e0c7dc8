"""The workflows that run README's test command, by day and by night, and what CONTRIBUTING.md promises."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools._bootstrap.commands import COMMANDS

ROOT = Path(__file__).parents[2]
BOOTSTRAP = re.compile(r"python3? tools/bootstrap\.py ([\w-]+)")


def workflow(name: str = "tests") -> dict[Any, Any]:
    content = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_readmes_two_commands_run_on_three_systems_with_three_pythons() -> None:
    (job,) = workflow()["jobs"].values()
    matrix = job["strategy"]["matrix"]
    assert job["runs-on"] == "${{ matrix.system }}"
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert matrix["python"] == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert not any(name.endswith("latest") for name in matrix["system"])
    ran = BOOTSTRAP.findall("\n".join(step.get("run", "") for step in job["steps"]))
    assert set(ran) == set(BOOTSTRAP.findall((ROOT / "README.md").read_text("utf-8"))) - {"shell-help"}


def test_the_night_runs_all_tests_once() -> None:
    content = workflow("nightly")
    assert content[True].keys() == {"schedule", "workflow_dispatch"}  # YAML takes `on` for a truth value
    job = content["jobs"]["all"]
    assert job["runs-on"] == workflow()["jobs"]["gate"]["strategy"]["matrix"]["system"][0]
    assert job["timeout-minutes"] > workflow()["jobs"]["gate"]["timeout-minutes"]
    assert job["steps"][-1]["run"] == "python tools/bootstrap.py test --all"
    pages = content["jobs"]["pages"]
    assert pages["strategy"]["matrix"]["python"] == workflow()["jobs"]["gate"]["strategy"]["matrix"]["python"]
    assert pages["steps"][-1]["run"] == ".venv/bin/python -m tools.pages"


@pytest.mark.parametrize("name", ["tests", "nightly"])
def test_they_may_only_read_and_their_actions_are_pinned(name: str) -> None:
    content = workflow(name)
    assert content["permissions"] == {"contents": "read"}
    used = [step["uses"] for job in content["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", one) for one in used)


def test_contributing_is_short_and_names_what_there_is() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert len(text.splitlines()) <= 80
    assert set(BOOTSTRAP.findall(text)) == COMMANDS.keys() - {"train"}
    homes = ("", "docs", "tau_trainer")
    for name in re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text):
        found = itertools.chain.from_iterable((ROOT / home).glob(name.rstrip("/")) for home in homes)
        assert any(found), name
