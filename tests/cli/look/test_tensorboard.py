"""`tau-train tensorboard`: which folders are served, where, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tau_trainer.cli import main
from tau_trainer.cli.look.tensorboard import with_layout
from tau_trainer.metrics import keys
from tests.cli.conftest import Refused
from tests.waiting import HANG_S

pytestmark = pytest.mark.filterwarnings("ignore:html5lib's sanitizer is deprecated:DeprecationWarning")
"""Of a copy inside TensorBoard."""


def make_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").touch()


@pytest.fixture
def results(elsewhere: Path) -> Path:
    for name in ("first", "b", "a,b"):
        make_run(elsewhere / "results" / name)
    make_run(elsewhere / "other" / "first")
    return elsewhere


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """TensorBoard's flags instead of a server, and Ctrl-C at once."""
    from tensorboard import program

    flags: list[Any] = []

    def launch(board: program.TensorBoard) -> str:
        flags.append(board.flags)
        return "http://there/"

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program.TensorBoard, "launch", launch)
    monkeypatch.setattr("time.sleep", interrupted)
    return flags


def test_without_a_run_the_results_folder_is_served(
    results: Path, served: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tensorboard", "--port", "0", "--host", "[127.0.0.1]"]) == 0
    (flags,) = served
    assert (flags.logdir, flags.logdir_spec) == (str(results / "results"), "")
    assert (flags.host, flags.port) == ("127.0.0.1", 0)
    assert capsys.readouterr().out == "TensorBoard: http://there/\n"


def test_named_runs_are_served_under_names_of_their_own(results: Path, served: list[Any]) -> None:
    from tensorboard.backend.event_processing.data_ingester import _parse_event_files_spec

    assert main(["tensorboard", "--port", "0", "first", "b", "other/first"]) == 0
    below = results.relative_to(results.anchor).as_posix()
    assert _parse_event_files_spec(served[0].logdir_spec) == {
        str(results / "results" / "first"): f"{below}/results/first",
        str(results / "results" / "b"): f"{below}/results/b",
        str(results / "other" / "first"): f"{below}/other/first",
    }
    assert main(["tensorboard", "--port", "0", "first"]) == 0
    assert _parse_event_files_spec(served[1].logdir_spec) == {str(results / "results" / "first"): "first"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["second"], "second: no run of this name in results"),
        (["first", "first"], "names a run twice"),
        (["a,b"], "a comma or colon in its path; leave RUN out"),
        (["--results-dir", "empty"], "empty: no such folder; train a run first"),
        (["--port", "65536"], "--port 65536: must be between 0 and 65535"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--host", "192.0.2.1"], "give --host an address of this machine"),
    ],
)
@pytest.mark.usefixtures("results")
def test_bad_input_is_one_sentence(served: list[Any], words: list[str], said: str, refused: Refused) -> None:
    assert said in refused(["tensorboard", *words])
    assert not served


@pytest.mark.usefixtures("results")
def test_what_tensorboard_and_the_system_refuse_is_one_sentence(
    served: list[Any], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard import program

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(["tensorboard", "--host", "127.0.0.1", "--port", port])
    assert f"port {port} is taken by another program; choose another with --port" in said
    assert not served
    for error, sentence in (
        ("TensorBoardPortInUseError", "port (any) is taken"),
        ("TensorBoardServerException", "what it says; check --host and --port"),
    ):
        raised = getattr(program, error)("what it says")
        monkeypatch.setattr(program.TensorBoard, "launch", lambda _, raised=raised: raise_(raised))
        assert sentence in refused("tensorboard --port 0")


def raise_(error: Exception) -> None:
    raise error


def test_the_first_page_alone_leads_to_the_pins() -> None:
    told: list[Any] = []

    def app(environ: dict[str, Any], _: Any) -> list[bytes]:
        return [environ["PATH_INFO"].encode()]

    paged = with_layout(app)

    def start(*answer: Any) -> Any:
        told.append(answer)

    assert list(paged({"PATH_INFO": "/", "QUERY_STRING": "pinnedCards=[]"}, start)) == [b"/"]
    assert list(paged({"PATH_INFO": "/data/runs", "QUERY_STRING": ""}, start)) == [b"/data/runs"]
    assert told == []
    assert list(paged({"PATH_INFO": "/", "QUERY_STRING": ""}, start)) == []
    ((status, headers),) = told
    pins = json.loads(parse_qs(urlsplit(dict(headers)["Location"]).query)["pinnedCards"][0])
    assert status == "302 Found"
    assert {pin["plugin"] for pin in pins} == {"scalars"}
    tags = [pin["tag"] for pin in pins]
    assert (tags[0], tags[-1]) == (keys.CUMULATIVE_REWARD, keys.POLICY_AGE)
    assert {keys.EPISODE_LENGTH, keys.POLICY_LOSS, keys.VALUE_LOSS} < set(tags)
    assert len(tags) <= 10, "more pins than TensorBoard lets a user add"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_server_answers_until_ctrl_c(results: Path) -> None:
    words = [sys.executable, "-m", "tau_trainer", "tensorboard", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("TensorBoard: ").strip()
        with urllib.request.urlopen(address, timeout=HANG_S) as answer:
            assert "pinnedCards" in answer.url
            assert b"TensorBoard" in answer.read()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert said == "starting TensorBoard on results; Ctrl-C ends it\n"
