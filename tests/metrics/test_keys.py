from __future__ import annotations

from pathlib import Path

from tau_trainer.metrics import keys
from tau_trainer.tau.task import TauTask

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def scalars() -> set[str]:
    constants = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)}
    task = TauTask.keys
    own = {task.reward, task.success, task.aggregated}
    return constants | own | {keys.episode_reward("extrinsic"), keys.value_estimate("extrinsic")}


def test_every_scalar_is_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in sorted(scalars()) if f"`{name}`" not in page] == []
