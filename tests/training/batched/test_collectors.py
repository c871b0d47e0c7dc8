"""An environment of another package with a collector of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typing_extensions import override

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.settings import load_batched
from tau_trainer.settings.run import RunSettings
from tau_trainer.training.batched import ranks, train_batched
from tau_trainer.training.batched.run import CopiesCollector
from tau_trainer.training.stored import evaluate_copies

PLACES = {"batched": "tests.envs.batched.counting:Counting", "collectors": f"{__name__}:Own"}


class Own(CopiesCollector):
    """Learns alone, and scores a policy by the number of its agents."""

    @override
    @staticmethod
    def check(settings: RunSettings) -> None:
        if settings.devices > 1:
            raise SettingsError("counting learns alone")

    @override
    def scores(self, stopped: Callable[[], bool]) -> dict[str, dict[str, float]]:
        return {entry.name: {"Evaluation/Agents": float(len(entry.agents))} for entry in self.playing.learning}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSettings:
    def found(kind: plugins.Kind) -> dict[str, str]:
        return ({"counting": PLACES[kind]} if kind in PLACES else {}) | plugins._OWN[kind]

    monkeypatch.setattr(plugins, "_found", found)
    sizes = {"hyperparameters": {"buffer_size": 16, "batch_size": 8}, "network_settings": {"hidden_units": 8}}
    values: dict[str, Any] = {
        "environment": {"name": "counting", "num_envs": 2},
        "behaviors": {"both": {"trainer_type": "ppo", "max_steps": 32, **sizes}},
        "checkpoint_settings": {"results_dir": str(tmp_path / "results"), "run_id": "own"},
        "env_settings": {"seed": 3},
    }
    (tmp_path / "counting.yaml").write_text(yaml.safe_dump(values))
    return load_batched(tmp_path / "counting.yaml")


def test_a_package_brings_the_collector_of_its_environment(settings: RunSettings) -> None:
    report = train_batched(settings, "quiet")
    assert report.exit_code == 0
    assert (evaluate_copies(report.folder) or {}) == {"both": {"Evaluation/Agents": 2.0}}


def test_it_refuses_settings_before_other_ranks_start(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "gathered", lambda *_: pytest.fail("ranks were started"))
    with pytest.raises(SettingsError, match=r"^counting learns alone$"):
        train_batched(settings.model_copy(update={"devices": 2}), "quiet")


def test_what_is_no_collector_is_one_sentence(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "collectors", PLACES["batched"])
    with pytest.raises(SettingsError, match="the collector of 'counting' is no subclass of CopiesCollector; name a "):
        train_batched(settings, "quiet")
