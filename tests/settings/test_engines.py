"""Which builds are Unreal's, by what lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.settings.engines import plays_unreal


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
