from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.export import export_onnx
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.matching import match
from tests.networks import make_network, policy_of
from tests.training.fakes import Stage, train, vector_spec

STRONG = "tau_trainer.headless.scenes.soccer:strong"


def on_soccer(results: Path, **more: Any) -> RunSettings:
    given = {
        "checkpoint_settings.results_dir": str(results),
        "checkpoint_settings.run_id": "run",
        "env_settings.env_path": "headless:soccer",
        "env_settings.env_args": ["--max-decisions", "20", "--agents", "16"],
        "env_settings.seed": 1,
        "behaviors.SoccerTwos.trainer_type": "ppo",
        "behaviors.SoccerTwos.max_steps": 600,
        "behaviors.SoccerTwos.checkpoint_interval": 300,
        "behaviors.SoccerTwos.hyperparameters.batch_size": 50,
        "behaviors.SoccerTwos.hyperparameters.buffer_size": 200,
    }
    return load_settings("SoccerTwos", given | {key.replace("__", "."): value for key, value in more.items()})


@pytest.fixture
def run(stage: Stage, tmp_path: Path) -> Path:
    return train(on_soccer(tmp_path), None, "learn").folder


def test_runs_checkpoints_and_models_play_each_other(run: Path, stage: Stage, tmp_path: Path) -> None:
    checkpoints = sorted(path for path in (run / "checkpoints").iterdir() if path.is_dir())
    contestants: list[str | Path] = [run, checkpoints[0], run / "SoccerTwos.onnx", "random", STRONG]
    found = match(on_soccer(tmp_path), contestants, 8)
    assert len(found) == 10
    assert {name for pair in found for name in pair} == {
        "run",
        checkpoints[0].name,
        "SoccerTwos.onnx",
        "random",
        STRONG,
    }
    assert all(games.played >= 8 for games in found.values())
    again = match(on_soccer(tmp_path), contestants, 8)
    assert again == found, "the same seed, the same games"


def test_names_that_are_alike_are_told_in_full(run: Path, stage: Stage, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "run"
    shutil.copytree(run, other)
    assert list(match(on_soccer(tmp_path), [run, other], 2)) == [(str(run), str(other))]


@pytest.mark.parametrize(
    ("player", "error", "said"),
    [
        (Path("gone.onnx"), SettingsError, "there is no such model"),
        ("nowhere:nothing", SettingsError, "player nowhere:nothing"),
    ],
)
def test_who_cannot_play_is_told(
    stage: Stage, tmp_path: Path, player: Path | str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        match(on_soccer(tmp_path), ["random", player], 2)


def test_a_model_of_another_behavior_is_told(stage: Stage, tmp_path: Path) -> None:
    other = vector_spec(5)
    path = export_onnx(policy_of(make_network(other), 0), other, tmp_path / "other.onnx")
    with pytest.raises(SettingsError, match=r"other\.onnx is not for behavior 'SoccerTwos'"):
        match(on_soccer(tmp_path), ["random", path], 2)


def test_a_damaged_checkpoint_is_told(run: Path, stage: Stage, tmp_path: Path) -> None:
    checkpoint = next(path for path in (run / "checkpoints").iterdir() if path.is_dir())
    (checkpoint / "tensors.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError):
        match(on_soccer(tmp_path), ["random", checkpoint], 2)
