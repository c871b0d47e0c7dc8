"""The package of docs/guides/extending.md works; one of mlagents-learn is named as what it is."""

from __future__ import annotations

import csv
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tau_trainer.cli import main
from tau_trainer.errors import SettingsError
from tau_trainer.settings import load_settings
from tests.trainers import ran

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "extending.md"


def blocks() -> dict[str, str]:
    """The page's code by the name that stands behind the language."""
    return dict(re.findall(r"^```\w+ ([\w. ]+)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL))


def install(site: Path, entry_points: str, name: str = "throwaway") -> Path:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return site


def test_the_package_of_the_guide_trains_and_records(tmp_path: Path) -> None:
    code = blocks()
    groups = tomllib.loads(code["entry points"])["project"]["entry-points"]
    assert set(groups) == {"tau_trainer.trainers", "tau_trainer.recorders"}
    points = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in found.items())
        for group, found in groups.items()
    ]
    site = install(tmp_path / "site", "\n".join(points))
    for name in ("one_step.py", "means.py"):
        (site / name).write_text(code[name])
    behavior = {
        "trainer_type": "one_step",
        "hyperparameters": {"batch_size": 64, "buffer_size": 64},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "max_steps": 400,
        "summary_freq": 100,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"behaviors": {"Basic": behavior}}))
    words = "learn config.yaml --run-id run --seed 1 --env headless:basic"
    done = ran(tmp_path, *words.split(), sites=[site])
    assert done.returncode == 0, done.stderr
    run = tmp_path / "results" / "run"
    rows = list(csv.reader((run / "means.csv").read_text().splitlines()))
    names = {row[2] for row in rows}
    assert {"Environment/Cumulative Reward", "Losses/Policy Loss"} <= names
    assert rows[-1][:2] == ["Basic", "400"]
    assert (run / "Basic.onnx").is_file()
    assert "num_epoch: 1" in (run / "configuration.yaml").read_text()


def test_a_trainer_for_mlagents_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without importing it: it needs mlagents, which this Python cannot have."""
    point = "[mlagents.trainer_type]\na4c = mlagents_trainer_plugin.a4c.a4c_trainer:get_type_and_setting\n"
    monkeypatch.syspath_prepend(install(tmp_path / "site", point, "mlagents-trainer-plugin"))
    config = tmp_path / "config.yaml"
    config.write_text("behaviors:\n  Basic: {trainer_type: a4c}\n")
    with pytest.raises(SettingsError) as error:
        load_settings(config)
    sentence = (
        "behaviors.Basic.trainer_type is 'a4c', which the package mlagents-trainer-plugin provides for mlagents-learn: "
        "it uses classes of mlagents and cannot train here; docs/guides/extending.md shows what to change"
    )
    assert str(error.value) == f"{config}:2: {sentence}"
    assert main(["check", str(config), "--env", "headless:basic"]) == 2
    assert sentence in capsys.readouterr().out
    config.write_text("behaviors:\n  Basic: {trainer_type: a3c}\n")
    with pytest.raises(SettingsError, match="which is not a trainer type"):
        load_settings(config)
