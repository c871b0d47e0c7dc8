"""Exit codes, one-sentence errors, and what `--help` does not import."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.errors import EngineExitedError, LaunchError
from tests.cli.conftest import FakeReport, Refused
from tests.waiting import HANG_S

HEAVY = ("torch", "numpy", "grpc", "google.protobuf", "pydantic", "yaml", "onnx", "matplotlib", "tensorboard")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tau_trainer.cli import main\n"
        "for words in ('--help', '--version', 'parallel --help', 'learn -h', ''):\n"
        "    assert main(words.split()) == 0\n"
        f"sys.exit(repr([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "[]\n")
    assert done.stdout.count("tau-train") >= 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["paralel"], 'Unknown command "paralel". Did you mean "parallel"?'),
        (["parallel", "--pair", "3"], "Unknown option: --pair. Did you mean --pairs?"),
        (
            ["parallel", "--policy", "shred"],
            'Invalid value "shred" for --policy. Choose from: "shared", "independent". Did you mean "shared"?',
        ),
        (["parallel", "--pairs"], "error: --pairs needs a value; see: tau-train parallel --help"),
        (["parallel", "a", "b"], "Unexpected argument: b; see: tau-train parallel --help"),
        (["evaluate"], "error: RUN is missing; see: tau-train evaluate --help"),
        (["data", "concat", "a.json"], "error: --output needs a value; see: tau-train data concat --help"),
        (["learn", "--seed", "1", "--seed", "2"], "error: --seed is given more than once; see: tau-train learn --help"),
        (
            ["tensorboard", "--port", "x"],
            "error: --port must be a whole number, not 'x'; see: tau-train tensorboard --help",
        ),
        (["init", "--seconds", "x"], "error: --seconds must be a number, not 'x'; see: tau-train init --help"),
        (["learn", "--quiet=x"], "error: --quiet must be true or false, not 'x'; see: tau-train learn --help"),
        (["xyzzy"], "find and others; see: tau-train --help"),
        (["data", "concatt"], 'Unknown command "concatt". Did you mean "concat"?'),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, refused: Refused
) -> None:
    assert refused(words).endswith(sentence)


def written(stream: io.TextIOWrapper) -> str:
    """What was written to a stream in memory."""
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(stream.encoding)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_name_that_the_output_cannot_encode_is_escaped(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pipe of Windows, whose encoding has 256 characters."""
    monkeypatch.chdir(tmp_path)
    Path("ö迷🎲.yaml").write_text("behaviors: {ö迷🎲: }\n", "utf-8")
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="cp1252") for _ in range(2)]
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    assert main(["check", "ö迷🎲.yaml", *flags]) == 2
    assert main(["learn", "ö無.yaml"]) == 2
    said, errors = (written(stream) for stream in streams)
    assert errors.startswith(r"error: ö\u7121.yaml: no such file; ")
    assert r"ö\u8ff7\ud83c\udfb2.yaml:1: " in said
    if flags:
        assert "ö迷🎲.yaml:1: " in json.loads(said)["problems"][0]


EXITED = [EngineExitedError(f"engine {number} exited") for number in range(2)]
REPORT = "; run again with --debug to see the traceback, and report it"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (LaunchError("no program found"), 2, "error: no program found"),
        (ExceptionGroup("a", [EXITED[0], ExceptionGroup("b", EXITED[1:])]), 2, "error: {}\nerror: {}".format(*EXITED)),
        (ZeroDivisionError("x\nby 0"), 1, f"error: internal error: ZeroDivisionError: x by 0{REPORT}"),
        (BrokenPipeError("engine"), 1, f"error: internal error: BrokenPipeError: engine{REPORT}"),
        (ExceptionGroup("a", [EXITED[0], KeyError("x")]), 1, "error: internal error: "),
    ],
)
def test_mistakes_are_a_sentence_each_and_defects_are_told_as_such(
    training: Any, error: Exception, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    training.error = error
    assert main(["parallel"]) == code
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert said.count("\n") == told.count("\n") + 1
    assert main(["parallel", "--debug"]) == code
    debugged = capsys.readouterr().err
    assert "Traceback" in debugged
    assert code == 1 or debugged.endswith(said)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("tasks", [KeyboardInterrupt()])])
def test_ctrl_c_before_training_leaves_quietly(
    training: Any, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    training.error = error
    assert main(["parallel"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_leaves_causes_no_noise() -> None:
    code = (
        "import os, sys, time\n"
        "from tau_trainer.cli import main\n"
        "from tau_trainer.cli import entry, messages\n"
        "def run(words):\n"
        "    for _ in range(10000): messages.show_json('x' * 100)\n"
        "entry._run = run\n"
        "sys.exit(main([]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(HANG_S) == 1
    assert err == b""


def test_errors_of_a_run_are_on_stderr_where_stdout_is_no_terminal(
    training: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training.report = FakeReport(1, ("Cannot write 'a.onnx' (No space left on device)",))
    assert main(["parallel"]) == 1
    assert main(["parallel", "--json"]) == 1
    said = "error: Cannot write 'a.onnx' (No space left on device)\n"
    assert capsys.readouterr().err == 2 * said
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["parallel"]) == 1
    assert capsys.readouterr().err == "", "the last panel shows them"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("words", ["check Basic", "--help"])
def test_a_full_disk_behind_stdout_is_a_sentence_on_stderr(words: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tau_trainer", *words.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: cannot write the output: No space left on device; free some space, or choose another place\n"
    )


def test_debug_after_env_args_is_the_engines(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    training.error = ZeroDivisionError()
    assert main(["parallel", "--env-args", "--debug"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert training.settings.env_settings.env_args == ("--debug",)
    assert main(["parallel", "--env-args"]) == 1
    assert training.settings.env_settings.env_args is None
