"""The shipped file of the polyhedra game, made small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tau_trainer.games.polyhedra import hironaka
from tau_trainer.settings.document import find_config


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """The shipped file, made small."""
    read: dict[str, Any] = yaml.safe_load(find_config("hironaka").read_text("utf-8"))
    read["environment"]["num_envs"] = 8
    read["environment"]["arguments"] |= {"max_num_points": 5, "step_threshold": 20}
    for policy in read["behaviors"].values():
        policy["hyperparameters"] = {
            **policy["hyperparameters"],
            "batch_size": 16,
            "buffer_size": 500,
            "buffer_init_steps": 32,
        }
        policy["network_settings"]["net_arch"] = [8]
    read["default_settings"] |= {"max_steps": 1600, "summary_freq": 400, "checkpoint_interval": 800}
    read["env_settings"] = {"seed": 3}
    read["evaluation"] = {"interval": 800, "episodes": 20, "max_episode_steps": 10}
    read["checkpoint_settings"] = {"results_dir": str(tmp_path / "results")}
    return read


@pytest.fixture
def unmeasured(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rho of few and short games, and no picture of it: nobody looks at them."""
    values["evaluation"] |= {"episodes": 2, "max_episode_steps": 4}
    monkeypatch.setattr(hironaka, "picture", lambda *_: b"")
