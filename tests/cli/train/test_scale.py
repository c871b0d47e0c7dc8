from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import yaml

from tau_trainer.cli import main
from tau_trainer.cli.train.scale import ScaleFlags
from tau_trainer.search.probe import Prober
from tau_trainer.search.scaling import Probe
from tau_trainer.search.sizes import resized
from tests.cli.conftest import Refused
from tests.trainers import tau_train

FILE = """\
# what is tried
environment:
  name: tests.search.sized:Fragile   # beyond six copies there is no room
  num_envs: 2
  arguments: {limit_to: 6, how: torch}
behaviors:
  all:
    hyperparameters:
      batch_size: 16   # small
      buffer_size: 64
    trainer_type: ppo
    max_steps: 400
    summary_freq: 100
evaluation: {episodes: 0}
"""
QUICK = ("--first", "4", "--most", "8", "--gain", "1e-9", "--seconds", "0.05")


class Quick(Prober):
    """Tries nothing: six copies are the most, and more of anything is faster."""

    def __call__(self, size: int) -> Probe:
        copies = resized(self._settings, self._sizes(size)).played.num_envs
        if copies > 6:
            return Probe(size, failure="memory", text="OutOfMemoryError: CUDA out of memory")
        return Probe(size, 1000.0 * size, 2**30)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.search.probe.Prober", Quick)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "it.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.usefixtures("_quick")
def test_it_writes_a_copy_with_the_sizes_found(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", str(file), *QUICK]) == 0
    shown = capsys.readouterr()
    copy = file.with_name("it-scaled.yaml")
    text = copy.read_text()
    found = yaml.safe_load(text)
    assert found["environment"]["num_envs"] == 6
    numbers = found["behaviors"]["all"]["hyperparameters"]
    assert numbers == {"batch_size": 192, "buffer_size": 192}
    assert "# what is tried" in text
    assert "# beyond six copies there is no room" in text
    assert file.read_text() == FILE, "the file itself stays"
    assert "num_envs 8: OutOfMemoryError: CUDA out of memory" in shown.err
    assert "batch_size 32: 32,000 decisions/s, 2.00 times the best so far" in shown.err
    rows = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "no memory" in rows["8"]
    assert rows["6"].rstrip().endswith("chosen")
    assert len(re.findall("[█#]", rows["6"])) == 24
    assert len(re.findall("[█#]", rows["4"])) == 16
    assert "1.00" in rows["4"]
    assert "num_envs 6 with 6,000 decisions/s: 7 does not fit into memory." in shown.out
    assert f"written: {copy}, with its comments" in shown.out


@pytest.mark.usefixtures("_quick")
def test_as_json_it_says_everything_at_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = file.with_name("other.yaml")
    assert main(["scale", str(file), *QUICK, "-o", str(target), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = json.loads(shown.out)
    assert found["file"] == str(target)
    assert found["sizes"]["environment.num_envs"] == found["num_envs"]["best"]
    assert found["num_envs"]["probes"][1]["failure"] == "memory"
    assert target.exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-o", "it.yaml", "--force"], "this is the config, which is never overwritten"),
        (["-o", "there.yaml"], "already exists; choose another name, or add --force"),
        (["--most", "3"], "--most 3 is below --first 16"),
        (["--gain", "0"], "--gain 0: must be a number above 0"),
        (["--seconds", "nan"], "--seconds nan: must be a number above 0"),
        (["--limit", "inf"], "--limit inf: must be a number above 0"),
        (["--set", "environment.num=3"], "num_envs"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_tried(
    file: Path, words: list[str], text: str, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.chdir(file.parent)
    Path("there.yaml").write_text("mine")
    monkeypatch.setattr("tau_trainer.search.probe.Prober", None)
    assert text in refused(["scale", "it.yaml", *words])
    assert Path("there.yaml").read_text() == "mine"
    assert file.read_text() == FILE


def test_ctrl_c_keeps_what_was_found(file: Path) -> None:
    """With processes, one of which hangs."""
    text = FILE.replace("limit_to: 6, how: torch", "limit_to: 4, how: hangs").replace(
        "batch_size: 16", "batch_size: 64"
    )
    file.write_text(text)
    with tau_train(file.parent, "scale", str(file), *QUICK) as process:
        for line in process.stderr:
            if line.startswith("num_envs 8: trying"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "stopping; the results so far are kept" in err
    assert "num_envs 4 with" in out
    assert yaml.safe_load(file.with_name("it-scaled.yaml").read_text())["environment"]["num_envs"] == 4


@pytest.mark.usefixtures("_quick")
def test_a_run_can_find_its_sizes_first(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ScaleFlags(first=4, most=4, seconds=0.05)
    monkeypatch.setattr("tau_trainer.cli.train.scale.ScaleFlags", lambda: flags)
    words = ["--results-dir", str(file.parent / "results"), "--run-id", "it"]
    assert main(["batch", str(file), "--auto-scale", *words]) == 0
    assert "num_envs 4 with" in capsys.readouterr().out
    used = yaml.safe_load((file.parent / "results" / "it" / "configuration.yaml").read_text())
    assert used["environment"]["num_envs"] == 4
    assert used["behaviors"]["all"]["hyperparameters"]["buffer_size"] == 128
    assert main(["batch", str(file), "--auto-scale", "--resume", *words]) == 2
    assert "--auto-scale is for new runs" in capsys.readouterr().err
