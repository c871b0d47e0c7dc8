"""The ready-to-run files: found from anywhere, valid, and what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import Curriculum, dump_settings, find_config, load_batched, load_settings, shipped_names
from tau_trainer.settings.document import read_document


def test_what_is_shipped() -> None:
    files = {path.stem for path in (Path(__file__).parents[2] / "configs").glob("*.yaml")}
    assert files >= {"3DBall", "GridWorld", "CartPole", "tau3"}
    assert set(shipped_names()) == files


BATCHED = {name for name in shipped_names() if "environment" in read_document(find_config(name)).data}


@pytest.mark.parametrize("name", sorted(BATCHED))
def test_a_shipped_file_of_a_batched_environment_too(name: str, tmp_path: Path) -> None:
    settings = load_batched(name)
    copy = tmp_path / "configuration.yaml"
    copy.write_text(dump_settings(settings), encoding="utf-8")
    assert load_batched(copy) == settings
    assert load_settings(name) == settings
    with pytest.raises(
        SettingsError, match=f"{name}.yaml is for a batched environment; train it with: tau-train batch"
    ):
        load_settings(name, batched=False)


@pytest.mark.parametrize("name", sorted({*shipped_names()} - BATCHED))
def test_a_shipped_file_loads_and_survives_being_written(name: str, tmp_path: Path) -> None:
    settings = load_settings(find_config(name))
    copy = tmp_path / "configuration.yaml"
    copy.write_text(dump_settings(settings), encoding="utf-8")
    assert load_settings(copy) == settings


@pytest.mark.parametrize("name", ["tau3", "tau3.yaml", "configs/tau3.yaml"])
def test_a_shipped_file_is_found_from_any_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config(name).is_file()


def test_a_file_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tau3.yaml").write_text("behaviors: {}")
    assert find_config("tau3.yaml") == Path("tau3.yaml")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tau33", "did you mean tau3?"),
        ("3dbal.yaml", "did you mean 3DBall?"),
        ("mine/xyz.yaml", "check the path, or use a shipped one: 3DBall, 3DBallSAC, Basic,"),
    ],
)
def test_a_missing_file_is_told_with_the_nearest(name: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match="no such file") as error:
        find_config(name)
    assert sentence in str(error.value)


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a folder"):
        find_config(tmp_path)


def test_the_tau_files_train_their_profiles() -> None:
    for name in ("tau3", "tau384"):
        settings = load_settings(find_config(name))
        assert settings.tau is not None
        assert settings.tau.profile == name
        assert settings.env_settings.env_path == "headless:tau"
        assert settings.behaviors["TauAgent"].reward_signals["extrinsic"].gamma == 0.0


def test_mlagents_files_hold_mlagents_own_numbers() -> None:
    ball = load_settings(find_config("3DBall")).behaviors["3DBall"]
    assert (ball.hyperparameters.batch_size, ball.hyperparameters.buffer_size, ball.time_horizon) == (64, 12000, 1000)
    basic = load_settings(find_config("Basic")).behaviors["Basic"]
    assert (basic.hyperparameters.batch_size, basic.network_settings.hidden_units, basic.time_horizon) == (32, 20, 3)
    grid = load_settings(find_config("GridWorld")).behaviors["GridWorld"]
    assert (grid.hyperparameters.learning_rate, grid.reward_signals["extrinsic"].gamma) == (3e-4, 0.9)
    assert (grid.network_settings.num_layers, grid.network_settings.hidden_units) == (1, 128)
    food = load_settings(find_config("FoodCollector")).behaviors["GridFoodCollector"]
    assert (food.hyperparameters.batch_size, food.hyperparameters.buffer_size, food.time_horizon) == (1024, 10240, 64)


def test_lessons_are_mlagents_own() -> None:
    jump = load_settings(find_config("WallJump"))
    assert list(jump.behaviors) == ["BigWallJump", "SmallWallJump"]
    sort = load_settings(find_config("Sorter"))
    assert sort.behaviors["Sorter"].hyperparameters.buffer_size == 40960
    lessons = {}
    for settings in (jump, sort):
        for name, parameter in (settings.environment_parameters or {}).items():
            assert isinstance(parameter, Curriculum)
            criteria = [lesson.completion_criteria for lesson in parameter.curriculum]
            lessons[name] = [None if found is None else (found.behavior, found.threshold) for found in criteria]
    assert lessons["big_wall_height"] == [*(("BigWallJump", share) for share in (0.1, 0.3, 0.5)), None]
    assert lessons["small_wall_height"] == [*(("SmallWallJump", share) for share in (0.1, 0.3, 0.5)), None]
    shares = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    assert lessons["num_tiles"] == [*(("Sorter", share) for share in shares), None]
