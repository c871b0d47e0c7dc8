"""Which builds are Unreal's, by what lies beside them, and which games Godot's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tau_trainer.settings.engines import EnvSettings, plays_unreal


def lay(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)


@pytest.mark.parametrize(
    ("beside", "given"),
    [
        (("Engine/Binaries", "Ball/Content/Paks"), "Ball.exe"),
        (("Engine/Binaries", "Ball/Content/Paks"), "Ball"),
        (("Engine/Binaries", "Ball/Content/Paks"), "Ball.sh"),
        (("Engine", "Ball/Content", "Ball/Binaries/Win64"), "Ball/Binaries/Win64/Ball-Win64-Shipping.exe"),
        (("Ball.app/Contents/UE/Engine", "Ball.app/Contents/UE/Ball/Content"), "Ball"),
        (("Ball.app/Contents/UE/Engine", "Ball.app/Contents/UE/Ball/Content"), "Ball.app/Contents/MacOS/Ball"),
    ],
)
def test_a_packaged_game(beside: tuple[str, ...], given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, *beside)
    assert plays_unreal(str(tmp_path / given))
    monkeypatch.chdir(tmp_path)
    assert plays_unreal(given)


@pytest.mark.parametrize(
    "beside",
    [
        (),
        ("Engine",),
        ("Ball/Content",),
        ("Ball_Data", "Engine", "Other/Content"),
    ],
)
def test_another_build(beside: tuple[str, ...], tmp_path: Path) -> None:
    lay(tmp_path, *beside)
    assert not plays_unreal(str(tmp_path / "Ball.exe"))


def test_the_name_decides() -> None:
    assert plays_unreal("unreal:anything")
    assert not plays_unreal("headless:balance")


@pytest.mark.parametrize(
    ("path", "kept", "place", "awaited", "engines"),
    [
        ("godot", "godot", None, True, 1),
        ("godot:", "godot", None, True, 1),
        ("godot:editor", "godot", None, True, 1),
        ("godot:Game", "godot:Game", "Game", False, 1),
        ("godot:attach:3", "godot:attach:3", "attach:3", True, 3),
        ("godot:headless:basic", "godot:headless:basic", "headless:basic", False, 1),
        ("godot.exe", "godot.exe", "godot.exe", False, 1),
    ],
)
def test_games_of_godot_are_named(path: str, kept: str, place: str | None, awaited: bool, engines: int) -> None:
    found = EnvSettings(env_path=path)
    assert (found.env_path, found.place, found.awaited, found.engines) == (kept, place, awaited, engines)
    assert found.godot is (path != "godot.exe")


@pytest.mark.parametrize(
    "path", ["godot:attach:none", "godot:headless:chess", "godot:unreal:Game", "godot:" * 3000 + "Game"]
)
def test_what_godot_cannot_play_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        EnvSettings(env_path=path)


def test_there_is_one_editor_of_godot() -> None:
    with pytest.raises(ValidationError, match="only one editor"):
        EnvSettings(env_path="godot", num_envs=2)
