"""docs/guides/hyperparameters.md: each key has a section, and its defaults are those of the settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.settings.schedules import ExponentialSettings
from tau_trainer.settings.trainers import PPOTrainerSettings, SACLNTrainerSettings, SACTrainerSettings, TrainerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "hyperparameters.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
SHARED = {
    "gamma": "0.99",
    "strength": "1.0",
    "hidden_units": "128",
    "num_layers": "2",
    "max_steps": "500,000",
    "summary_freq": "`auto`",
    "time_horizon": "64",
    "beta": "5e-3",
    "epsilon": "0.2",
    "lambd": "0.95",
    "num_epoch": "3",
    "save_replay_buffer": "false",
    "least_entcoef": "0.01",
}
"""Keys that have one default, as the page writes it."""
FALLS = ExponentialSettings(initial=1e-3, final=3e-4, rate=0.9998)
BY_TRAINER = {
    "learning_rate": ("Default 3e-4; for `sac_ln` it falls from 1e-3 to 3e-4.", 3e-4, 3e-4, FALLS),
    "batch_size": ("Default 1,024 for PPO, 128 for SAC.", 1024, 128, 128),
    "buffer_size": ("Default 10,240 for PPO,\n50,000 for SAC, 200,000 for `sac_ln`.", 10240, 50000, 200_000),
    "learning_rate_schedule": ("PPO's default is `linear`, SAC's is `constant`.", "linear", "constant", "constant"),
    "normalize": ("Default false; true for `sac_ln`.", False, False, True),
    "memory": ("Default: none.", None, None, None),
    "steps_per_update": ("Default 1 for `sac`, `auto` for `sac_ln`.", None, 1.0, "auto"),
    "tau": ("Default 0.005 for `sac`, 0.05 for `sac_ln`.", None, 0.005, 0.05),
    "buffer_init_steps": ("Default 0 for `sac`, 250 for `sac_ln`.", None, 0, 250),
    "terminal_share": ("Default 0 for\n`sac`, 0.15 for `sac_ln`.", None, 0.0, 0.15),
    "init_entcoef": ("Default 1.0 for `sac`; 0.1 for `sac_ln`", None, 1.0, 0.1),
}


def default(trainer: TrainerSettings, key: str) -> Any:
    places = (trainer, trainer.hyperparameters, trainer.network_settings, trainer.reward_signals["extrinsic"])
    return next((getattr(place, key) for place in places if hasattr(place, key)), None)


def read(text: str) -> Any:
    return {"false": False, "`auto`": "auto"}.get(text) if text[0] in "f`" else float(text.replace(",", ""))


@pytest.mark.parametrize("key", SHARED)
def test_a_default_is_that_of_the_settings(key: str) -> None:
    assert re.search(rf"Default {re.escape(SHARED[key])}(?![\d.]*\d)", SECTIONS[key]), SECTIONS[key]
    every = [default(trainer, key) for trainer in (PPOTrainerSettings(), SACTrainerSettings(), SACLNTrainerSettings())]
    assert {value for value in every if value is not None} == {read(SHARED[key])}


@pytest.mark.parametrize("key", BY_TRAINER)
def test_defaults_that_differ_are_those_of_the_settings(key: str) -> None:
    said, ppo, sac, sac_ln = BY_TRAINER[key]
    assert said in SECTIONS[key]
    trainers = PPOTrainerSettings(), SACTrainerSettings(), SACLNTrainerSettings()
    assert [default(trainer, key) for trainer in trainers] == [ppo, sac, sac_ln]


def test_every_section_has_its_default_checked_and_says_what_to_try_first() -> None:
    assert set(SECTIONS) == SHARED.keys() | BY_TRAINER.keys()
    assert [key for key, text in SECTIONS.items() if "- **Try first:**" not in text or "- **Usual" not in text] == [
        "save_replay_buffer"
    ]
