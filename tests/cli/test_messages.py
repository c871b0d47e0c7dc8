"""What is written where: lines and JSON on stdout, errors and log records on stderr."""

from __future__ import annotations

import errno
import io
import json
import logging
import sys
from importlib import metadata

import pytest

from tau_trainer.cli.messages import set_up_logging, show_json, show_lines, show_status, tell


def test_lines_are_written_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["[bold]no markup[/bold] :smile:", "x" * 300]
    show_lines(lines)
    assert capsys.readouterr().out.splitlines() == lines


def test_what_is_being_done_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_status("reading a\x1b[2J\nb")
    assert capsys.readouterr() == ("", "reading a\\u001b[2J\\nb\n")


def test_json_of_a_hostile_text_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "a\x9b2J\u202e"})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"name": "a\x9b2J\u202e"}


def test_json_is_one_line_and_knows_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": "Würfel", "value": [1, None]})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"name": "Würfel", "value": [1, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        show_json(float("nan"))


@pytest.mark.parametrize(
    ("flags", "told"),
    [({}, ["warning: w", "error: e"]), ({"quiet": True}, ["error: e"])],
)
def test_log_records_go_to_stderr(flags: dict[str, bool], told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(**flags)
    log = logging.getLogger("tau_trainer.something")
    for level, text in ((logging.INFO, "i"), (logging.WARNING, "w"), (logging.ERROR, "e")):
        log.log(level, text)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == told


def test_debug_tells_who_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(debug=True)
    logging.getLogger("tau_trainer.something").debug("d")
    assert capsys.readouterr().err == "debug tau_trainer.something: d\n"


def test_log_records_go_to_the_stderr_of_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live table puts its own in place, so that what is written there scrolls by above it."""
    set_up_logging()
    shown = io.TextIOWrapper(written := io.BytesIO(), "utf-8")  # who flushes it once it is closed, fails
    monkeypatch.setattr(sys, "stderr", shown)
    logging.getLogger("tau_trainer.test").warning("w")
    assert written.getvalue() == b"warning: w\n"
    shown.close()
    monkeypatch.setattr(sys, "stderr", again := io.StringIO())
    logging.getLogger("tau_trainer.test").warning("x")
    assert again.getvalue() == "warning: x\n", "whatever has become of the one before"


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (
            RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes."
            ),
            ": one allocation of 8.0 GiB failed, and this machine has 7.0 GiB",
        ),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has"),
            ": one allocation of 2.5 GiB failed",
        ),
        (
            MemoryError("Unable to allocate 745. GiB for an array with shape (5,)"),
            ": one allocation of 745.0 GiB failed, and this machine has 7.0 GiB, so less than 1/106 of that fits",
        ),
        (MemoryError(), ""),
    ],
)
def test_memory_that_is_full_is_a_sentence(
    error: Exception, asked: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tau_trainer.files.memory_bytes", lambda: 7 * 2**30)
    assert tell(error, debug=False) == 2
    assert capsys.readouterr().err == (
        f"error: out of memory{asked}; use fewer copies or engines (--num-envs), or a smaller buffer_size "
        "(tau-train scale finds what fits here)\n"
    )


@pytest.mark.parametrize(("place", "named"), [((), "the output"), (("a/b.txt",), "a/b.txt")])
def test_a_full_disk_is_a_sentence(place: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", *place)
    assert tell(error, debug=False) == 2
    assert capsys.readouterr().err == (
        f"error: cannot write {named}: No space left on device; free some space, or choose another place\n"
    )


@pytest.mark.parametrize(
    "error",
    [metadata.PackageNotFoundError("torch"), ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")],
)
def test_a_missing_package_is_a_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(error, debug=False) == 2
    assert capsys.readouterr().err == (
        "error: the Python package torch is required but not installed; run `pip install tau-trainer` again "
        "to install missing packages\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'tau_trainer.x'", name="tau_trainer.x"),
        OSError(errno.EACCES, "Permission denied"),
        RuntimeError("sizes differ"),
    ],
)
def test_any_other_error_is_a_defect(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(error, debug=False) == 1
    assert "error: internal error" in capsys.readouterr().err
