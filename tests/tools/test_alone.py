"""Which files have tests that measure time is seen in their text."""

from __future__ import annotations

from pathlib import Path

from tools._bootstrap.alone import MARK, alone_files


def test_files_with_the_marker_are_found_without_importing_them(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "deep"
    folder.mkdir(parents=True)
    (folder / "test_timed.py").write_text(f"@pytest.{MARK}\ndef test(: syntax error")
    (folder / "test_other.py").write_text("stand_alone = 'mark alone'")
    (folder / "helper.py").write_text(f"ALONE = pytest.{MARK}")
    assert alone_files(tmp_path) == [folder / "test_timed.py"]
