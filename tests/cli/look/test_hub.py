"""`tau-train hub`: what it says, and a whole run there and back."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tau_trainer.cli import main
from tests.cli.conftest import Refused
from tests.report.conftest import write_run
from tests.sharing.conftest import hub_of
from tests.sharing.fake_hub import TOKEN, Hub

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub where ``somebody`` is logged in, and an empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    with hub_of(monkeypatch, tmp_path) as running:
        yield running


def test_there_and_back(remote: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(Path("results", "first"))
    assert main(["hub", "push", "first", "somebody/run", "--public", "--message", "Better"]) == 0
    out, err = capsys.readouterr()
    assert out == f"pushed: {remote.address}/somebody/run (public)\n"
    assert not remote.repos["somebody/run"].private
    assert TOKEN not in out + err
    assert not [name for name, data in remote.repos["somebody/run"].files.items() if TOKEN.encode() in data]
    assert main(["hub", "pull", "somebody/run", "--run-id", "back"]) == 0
    commit = remote.repos["somebody/run"].commits[-1][0]
    out, err = capsys.readouterr()
    assert out == f"pulled: {Path('results', 'back')} (commit {commit})\n"
    assert TOKEN not in out + err
    assert main(["report", "back"]) == 0


def test_a_dry_run_asks_nobody(
    remote: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    write_run(Path("results", "first"))
    assert main(["hub", "push", "first", "somebody/run", "--dry-run", "dry"]) == 0
    assert "README.md" in capsys.readouterr().out
    assert Path("dry", "README.md").read_text("utf-8").startswith("---\nlibrary_name: ml-agents\n")
    assert remote.asked == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("hub push nothing somebody/run", "nothing: no run of this name in results"),
        ("hub push first run", "run: is not a repository of the Hub; use OWNER/NAME"),
        ("hub push first somebody/run --dry-run results", "--dry-run results: is not an empty folder"),
        ("hub pull somebody/nothing", "there is no repository somebody/nothing"),
        ("hub pull run", "run: is not a repository of the Hub; use OWNER/NAME"),
        ("hub pull somebody/first", "'results/first' already exists and is not overwritten"),
    ],
)
@pytest.mark.usefixtures("remote")
def test_bad_input_is_one_sentence(words: str, sentence: str, refused: Refused) -> None:
    write_run(Path("results", "first"))
    assert refused(words).startswith(f"error: {sentence}")


@pytest.mark.parametrize("words", ["hub push first somebody/run", "hub pull somebody/run"])
@pytest.mark.usefixtures("remote")
def test_without_the_extra(words: str, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    write_run(Path("results", "first"))
    assert "pip install 'tau-trainer[hub]'" in refused(words)


SMALL = [
    *("--agents", "4", "--seed", "3"),
    *("--set", "behaviors.*.hyperparameters.buffer_size=64", "--set", "behaviors.*.hyperparameters.batch_size=32"),
    *("--set", "behaviors.*.network_settings.hidden_units=8", "--quiet"),
]


@pytest.mark.slow
def test_a_pulled_run_is_a_run(remote: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parallel", "--pairs", "1", "--max-steps", "400", "--run-id", "mine", *SMALL]) == 0
    assert main(["hub", "push", "mine", "somebody/run"]) == 0
    assert "(private)" in capsys.readouterr().out
    shutil.rmtree("results")
    assert main(["hub", "pull", "somebody/run"]) == 0
    folder = Path("results", "run")
    assert main(["evaluate", "run"]) == 0
    assert main(["export", "run", "--output", "again.onnx"]) == 0
    assert Path("again.onnx").stat().st_size > 1000
    before = load_file(folder / "checkpoints" / "TauAgent-400" / "tensors.safetensors")
    assert main(["parallel", "--resume", "--run-id", "run", "--max-steps", "800", "--quiet"]) == 0
    after = load_file(folder / "checkpoints" / "TauAgent-800" / "tensors.safetensors")
    assert set(before) <= set(after)
    assert '"kind":"resumed"' in (folder / "log.jsonl").read_text("utf-8")
    assert main(["report", "run"]) == 0
    assert "error" not in capsys.readouterr().err
