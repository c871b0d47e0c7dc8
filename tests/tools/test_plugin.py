"""The pytest plugin of `test` and `check`, in runs of its own over toy tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools._bootstrap import changed, commands, plugin

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "tools._bootstrap.plugin", "--import-mode=importlib", *arguments]


def variables() -> dict[str, str]:
    """Of a run that is its own: no other plugins, and none of what a worker of xdist leaves to its children."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return {**ours, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(command(*arguments), cwd=folder, env=variables(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A checkout with one test that passes."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_toy.py").write_text("def test_one(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n")
    return tmp_path


@pytest.mark.parametrize(("code", "told"), [(0, "linter: passed"), (3, "linter: failed with exit code 3")])
def test_what_ran_beside_is_told_before_pytests_last_line_and_its_failure_is_the_runs(
    toy: Path, code: int, told: str
) -> None:
    (toy / "linter.py").write_text(f"print('line 7 is bad')\nraise SystemExit({code})\n")
    returned, said = run(toy, "--beside=linter")
    assert returned == bool(code)
    assert said.index(told) < said.index("line 7 is bad") < said.index("1 passed in")
    assert "1 passed in" in said.splitlines()[-1]


SLEEPER = """
import pathlib, time

def test_long():
    try:
        pathlib.Path("started").touch()
        time.sleep(1000)
    finally:
        pathlib.Path("tidied").touch()
"""
BESIDE = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(1000)\n"


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_tests_with_their_tidying_and_what_runs_beside_them(
    toy: Path, number: signal.Signals, code: int
) -> None:
    (toy / "tests" / "test_toy.py").write_text(SLEEPER)
    (toy / "sleeper.py").write_text(BESIDE)
    process = subprocess.Popen(
        command("--beside=sleeper"),
        cwd=toy,
        env=variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not ((toy / "started").exists() and (toy / "pid").exists() and (toy / "pid").read_text()):
            assert process.poll() is None
        process.send_signal(number)
        said, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, said
    assert (toy / "tidied").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((toy / "pid").read_text()), 0)


class Cache(dict[str, Any]):
    set = dict.__setitem__


def config(cache: Cache, **options: Any) -> Any:
    given = {"markexpr": "", "keyword": "", "maxfail": 0, "lf": False, **options}
    return SimpleNamespace(
        cache=cache, option=SimpleNamespace(**given), args=["tests"], rootpath=ROOT, getoption=given.get, workerinput={}
    )


def item(nodeid: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: name in marks or None)


def test_workers_get_the_longest_files_first_by_what_they_took_or_by_their_markers() -> None:
    cache = Cache({plugin.SECONDS: {"test_known.py": 1.0}, plugin.SECONDS_SLOW: {"test_known.py": 4.0}})
    items = [
        item("test_quick.py::test_1"),
        item("test_known.py::test_1"),
        item("test_known.py::test_2"),
        item("test_slow.py::test_1", "slow"),
        item("test_patient.py::test_1", "timeout"),
    ]
    plugin.pytest_collection_modifyitems(config(cache), items)
    assert [one.nodeid for one in items] == [
        "test_slow.py::test_1",
        "test_known.py::test_1",
        "test_known.py::test_2",
        "test_patient.py::test_1",
        "test_quick.py::test_1",
    ]


HERE = "tests/tools/test_plugin.py"
OTHER = "tests/tools/test_commands.py"


def after(cache: Cache, status: int = 0, **options: Any) -> Cache:
    """What is known after a run of this file, 2.5 s, one of them slow."""
    seconds = plugin.Seconds(config(cache, **options))
    for keywords, duration in (({}, 1.0), ({"slow": 1}, 1.0), ({}, 0.5)):
        report: Any = SimpleNamespace(nodeid=f"{HERE}::test", keywords=keywords, duration=duration)
        seconds.pytest_runtest_logreport(report)
    seconds.pytest_sessionfinish(status)
    return cache


def test_the_seconds_of_files_are_kept_for_the_next_run() -> None:
    before = {OTHER: 7.0, HERE: 9.0, "tests/test_gone.py": 3.0}
    cache = after(Cache({plugin.SECONDS: dict(before), plugin.SECONDS_SLOW: dict(before)}))
    assert cache == {plugin.SECONDS: {OTHER: 7.0, HERE: 1.5}, plugin.SECONDS_SLOW: {OTHER: 7.0, HERE: 1.0}}
    for marks in commands.QUICK_MARKS:
        cache = after(Cache({plugin.SECONDS_SLOW: before}), 1, markexpr=marks)
        assert cache == {plugin.SECONDS: {HERE: 1.5}, plugin.SECONDS_SLOW: before}
    assert Path(changed.SECONDS) == Path(".pytest_cache", "v", plugin.SECONDS)


@pytest.mark.parametrize(
    ("status", "options"),
    [(2, {}), (0, {"keyword": "x"}), (1, {"maxfail": 1}), (0, {"lf": True}), (0, {"markexpr": "gpu"})],
)
def test_a_run_of_parts_of_files_teaches_no_seconds(status: int, options: dict[str, Any]) -> None:
    assert after(Cache(), status, **options) == {}
