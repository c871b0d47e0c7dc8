from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tau_trainer.envs import Environment
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.evaluation.matches import Contestant
from tau_trainer.export import export_onnx
from tau_trainer.metrics.games import Games
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.training.matching import match, stored_player
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        Stage.opened(patch)
        return train(on_soccer(tmp_path_factory.mktemp("original")), None, "learn").folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


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


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_run_and_its_model_act_alike(
    run: Path, stage: Stage, tmp_path: Path, deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    contestants: dict[str, Contestant] = {}

    async def team_matches(_: Environment, those: dict[str, Contestant], *__: object) -> dict[tuple[str, str], Games]:
        contestants.update(those)
        return {}

    monkeypatch.setattr("tau_trainer.training.matching.team_matches", team_matches)
    match(on_soccer(tmp_path), [run, run / "SoccerTwos.onnx"], 8, deterministic=deterministic)
    [policy] = stored_player(run).values()
    obs = tuple(np.full((4000, *sensor.shape), 0.3, sensor.dtype) for sensor in policy.spec.observations)
    players = [make(policy.spec) for make in contestants.values()]
    theirs, models = (player.decide(np.arange(4000), obs, None).to_env() for player in players)
    assert len(players) == 2
    for ours, its in ((theirs.continuous, models.continuous), (theirs.discrete, models.discrete)):
        np.testing.assert_allclose(ours.mean(axis=0), its.mean(axis=0), atol=1e-5 if deterministic else 0.1)
    drawn = [len(np.unique(np.concatenate((a.continuous, a.discrete), axis=1), axis=0)) for a in (theirs, models)]
    assert [count > 1 for count in drawn] == [not deterministic] * 2


def test_a_model_that_can_only_draw_is_refused_where_nobody_draws(run: Path, stage: Stage, tmp_path: Path) -> None:
    model = onnx.load(run / "SoccerTwos.onnx")
    kept = [output for output in model.graph.output if not output.name.startswith("deterministic_")]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, tmp_path / "old.onnx")
    assert match(on_soccer(tmp_path), ["random", tmp_path / "old.onnx"], 2)
    with pytest.raises(SettingsError, match=r"old\.onnx: this model can only draw its actions"):
        match(on_soccer(tmp_path), ["random", tmp_path / "old.onnx"], 2, deterministic=True)


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
