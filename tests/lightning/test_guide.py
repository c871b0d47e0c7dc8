"""The code for Lightning in docs/guides/batched-environments.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "batched-environments.md"


@pytest.mark.filterwarnings("ignore:`isinstance.treespec:FutureWarning")
@pytest.mark.filterwarnings("ignore:GPU available but not used")
def test_the_guides_code_trains_stops_early_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    [code] = (block for block in found if "from lightning" in block)
    exec(compile(code, str(GUIDE), "exec"), {})
    epoch, reward = capsys.readouterr().out.split()[-2:]
    assert int(epoch) < 39
    assert float(reward) >= 100.0
    assert (tmp_path / "checkpoints" / "last.ckpt").exists()
