"""Commands and running: what is called, in which order, and that exit codes and signals go through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANG_S
from tools._bootstrap import changed, commands, running
from tools._bootstrap.environment import Environment
from tools._bootstrap.progress import Progress, SetupError

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Records every program that a command would run; set-up is taken as done."""
    made: list[list[str]] = []
    monkeypatch.setattr(commands, "ensure", lambda environment: None)

    def replace(command: list[str], _folder: Path) -> int:
        made.append(command)
        return 0

    monkeypatch.setattr(running, "replace", replace)
    return made


def record_with(monkeypatch: pytest.MonkeyPatch, calls: list[list[str]], codes: dict[str, int]) -> None:
    def call(command: list[str], _folder: Path) -> int:
        calls.append(command)
        return codes.get(command[2], 0)

    monkeypatch.setattr(running, "call", call)


def test_train_is_the_main_job_with_four_pairs(calls: list[list[str]]) -> None:
    assert commands.main(["train", "--seed", "3"]) == 0
    assert Path(calls[0][0]).stem == "tau-train"
    assert calls[0][1:] == ["parallel", "--pairs", "4", "--seed", "3"]
    for chosen in (["--pairs", "2"], ["--pairs=2"]):
        assert commands.train_arguments(chosen) == ["parallel", *chosen]


OURS = ["pytest", "-p", "tools._bootstrap.plugin"]
LAST = ["--beside=mypy --strict"]
THREE = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one core, and no change that git knows of."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {1, 5, 6}, raising=False)
    monkeypatch.setattr(changed, "files", lambda _root: [])


def test_test_runs_every_gate_and_pytest_last(
    monkeypatch: pytest.MonkeyPatch, calls: list[list[str]], two_cores: None
) -> None:
    record_with(monkeypatch, calls, {})
    assert commands.main(["test", "-k", "codec"]) == 0
    assert [call[2:] for call in calls] == [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        [*OURS, *THREE, *LAST, "--durations=10", "--durations-min=1", "-k", "codec"],
    ]


@pytest.mark.parametrize(
    "own",
    [["-n", "3"], ["-n0"], ["--numprocesses=1"], ["--pdb"], ["--collect-only"], ["-p", "no:xdist"], ["-pno:xdist"]],
)
def test_arguments_may_ask_for_other_workers_or_for_none_and_one_core_makes_none(
    monkeypatch: pytest.MonkeyPatch, two_cores: None, own: list[str]
) -> None:
    assert commands._workers(["-q", *own]) == []
    assert commands._workers(["-q", "tests/new", "-k", "net"]) == THREE
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert commands._workers([]) == []


@pytest.mark.parametrize("chosen", [[], ["tests/bridge", "-x"]])
def test_check_runs_every_gate_with_few_tests(
    monkeypatch: pytest.MonkeyPatch, calls: list[list[str]], two_cores: None, chosen: list[str]
) -> None:
    record_with(monkeypatch, calls, {})
    assert commands.main(["check", *chosen]) == 0
    assert [call[2] for call in calls] == ["ruff", "ruff", "pytest"]
    few = ["not slow", *chosen] if chosen else [commands.QUICK_MARKS[1], *(f"tests/{name}" for name in commands.QUICK)]
    assert calls[-1][2:] == [*OURS, *THREE, *LAST, "-q", "-m", *few]
    assert all((ROOT / "tests" / name).exists() for name in commands.QUICK)


def test_check_runs_the_tests_nearest_to_a_change_and_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, calls: list[list[str]], two_cores: None, capsys: pytest.CaptureFixture[str]
) -> None:
    record_with(monkeypatch, calls, {"pytest": 5})
    monkeypatch.setattr(changed, "tests", lambda _root, _files, _budget: (["tests/tools/test_changed.py"], 37))
    assert commands.main(["check"]) == 0, "a change may concern slow tests only"
    assert calls[-1][-1] == "tests/tools/test_changed.py"
    assert (
        "omitted: 37 test files that depend on the change only indirectly; `test` runs them" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("codes", "expected"), [({"pytest": 5}, 5), ({"ruff": 2, "pytest": 1}, 2), ({"ruff": 1, "pytest": 143}, 143)]
)
def test_test_fails_if_any_gate_fails_but_runs_them_all(
    monkeypatch: pytest.MonkeyPatch, calls: list[list[str]], two_cores: None, codes: dict[str, int], expected: int
) -> None:
    record_with(monkeypatch, calls, codes)
    assert commands.main(["test"]) == expected
    assert calls[-1][2] == "pytest"
    assert len(calls) == 3


def test_a_gate_that_a_signal_ended_stops_the_rest(monkeypatch: pytest.MonkeyPatch, calls: list[list[str]]) -> None:
    record_with(monkeypatch, calls, {"ruff": 130})
    assert commands.main(["test"]) == 130
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["tests/nowhere", "tests/nowhere/test_it.py::test_it"])
def test_tests_that_are_not_there_are_told_before_anything_runs(
    calls: list[list[str]], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert commands.main(["check", "tests/tools", name]) == 2
    assert calls == []
    assert commands.main(["setup", "--fast"]) == 2
    captured = capsys.readouterr().err
    assert "takes no arguments" in captured
    told = f"bootstrap: {name.partition('::')[0]} does not exist: name an existing file or folder.\n"
    assert captured.startswith(told)


def test_setup_errors_and_ctrl_c_are_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[BaseException, int, str]] = [
        (SetupError("no network"), 2, "no network"),
        (PermissionError(13, "Permission denied", ".venv.lock"), 2, "'.venv.lock': check that the checkout"),
        (KeyboardInterrupt(), 130, "continues from here"),
    ]
    for error, code, said in cases:

        def fail(_environment: Environment, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(commands, "ensure", fail)
        assert commands.main(["setup"]) == code
        assert said in capsys.readouterr().err


@posix
@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 128 + 9)])
def test_exit_codes_go_through_and_a_signals_death_becomes_its_shell_code(end: str, code: int, tmp_path: Path) -> None:
    assert running.call([sys.executable, "-c", f"import os, sys; {end}"], tmp_path) == code


CHILD = """
import signal, sys, time
def on_interrupt(number, frame):
    open(sys.argv[1], "a").write("interrupted\\n")
    sys.exit(9)
signal.signal(signal.SIGINT, on_interrupt)
print("ready", flush=True)
time.sleep(1000)
"""
PARENT = """
import sys
from pathlib import Path
from tools._bootstrap import running
sys.exit(getattr(running, sys.argv[1])([sys.executable, "-c", sys.argv[2], sys.argv[3]], Path(".")))
"""


@posix
@pytest.mark.parametrize("way", ["call", "replace"])
def test_ctrl_c_reaches_the_child_once_and_its_exit_code_comes_back(tmp_path: Path, way: str) -> None:
    log = tmp_path / "log"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, way, CHILD, str(log)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.send_signal(signal.SIGINT)
        assert parent.wait(HANG_S) == 9
    finally:
        parent.kill()
        parent.communicate()
    assert log.read_text() == "interrupted\n"


def test_long_steps_give_signs_of_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(heartbeat_seconds=0.05)
    command = [sys.executable, "-c", "import time; time.sleep(0.3); print('done')"]
    progress.run("working", command, tmp_path / "log", dict(os.environ))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("] working")
    assert lines[1].endswith("] working, still running")
    assert "done" in (tmp_path / "log").read_text()
    progress = Progress(heartbeat_seconds=20)
    for seconds in (0.0, 0.2, 5.0, 21.0, 22.0):
        progress.waiting(seconds)
    assert len(capsys.readouterr().err.splitlines()) == 2, "of waiting for another set-up now and then"
