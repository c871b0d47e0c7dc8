"""Keys of earlier versions: refused with the key of today in files, and read as what they said in stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import load_batched, load_settings

BATCHED = """environment: {name: cartpole}
policies:
  agent: {trainer_type: ppo, gamma: 0.5, criterion: 3.0}
max_steps: 5
summary_freq: 4
checkpoint_interval: 3
keep_checkpoints: 2
seed: 7
"""
ACTORS = """behaviors:
  A: {trainer_type: dqn}
async_trainer:
  actors: 3
  eps_min: 0.1
  eps_max: 0.4
  warmup_period: 50
  save_interval: 60
  flush_record_interval: 70
"""


def told(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    return error.value.problems


def test_each_key_of_an_earlier_batched_file_is_told_its_key_of_today(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    clock = [f"{key} is now default_settings.{key}" for key in ("max_steps", "summary_freq", "checkpoint_interval")]
    wanted = [
        "2: policies is now behaviors",
        "3: policies.agent.gamma is now behaviors.agent.reward_signals.extrinsic.gamma",
        *(f"{line}: {text}" for line, text in enumerate(clock, 4)),
        "7: keep_checkpoints is now default_settings.keep_checkpoints",
        "8: seed is now env_settings.seed",
    ]
    found = told(file, BATCHED)
    assert found == tuple(f"{file}:{text}; write that instead, or run: tau-train upgrade {file}" for text in wanted)


def test_each_key_of_actors_that_said_another_again_is_told_that(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    spread = "[{type: eps_greedy, eps: 0.1}, {type: eps_greedy, eps: 0.25}, {type: eps_greedy, eps: 0.4}]"
    wanted = [
        f"5: async_trainer.eps_min is now async_trainer.exploration; write exploration: {spread}",
        f"6: async_trainer.eps_max is now async_trainer.exploration; write exploration: {spread}",
        "7: async_trainer.warmup_period is now behaviors.*.hyperparameters.buffer_init_steps; write that instead",
        "8: async_trainer.save_interval is now behaviors.*.checkpoint_interval (counted in decisions); write "
        "that instead",
        "9: async_trainer.flush_record_interval is now behaviors.*.summary_freq (counted in decisions); write "
        "that instead",
    ]
    assert told(file, ACTORS) == tuple(f"{file}:{text}, or run: tau-train upgrade {file}" for text in wanted)


@pytest.mark.parametrize(
    ("key", "new"),
    [
        ("policies.*.gamma", "behaviors.*.reward_signals.extrinsic.gamma"),
        ("policies.agent.to_train", "behaviors.agent.to_train"),
        ("max_steps", "behaviors.*.max_steps"),
        ("seed", "env_settings.seed"),
        ("async_trainer.warmup_period", "behaviors.*.hyperparameters.buffer_init_steps"),
    ],
)
def test_overrides_are_told_theirs(key: str, new: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_batched("cartpole_batch", {key: 1})
    assert str(error.value) == f"override {key} is now {new}; write that instead"


def test_what_a_run_stored_is_read_as_what_it_said(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(BATCHED)
    settings = load_batched(file)
    policy = settings.behaviors["agent"]
    assert (policy.reward_signals["extrinsic"].gamma, policy.criterion, settings.seed) == (0.5, 3.0, 7)
    assert (policy.max_steps, policy.summary_freq, policy.checkpoint_interval, policy.keep_checkpoints) == (5, 4, 3, 2)


def test_what_a_run_of_actors_stored_is_read_as_what_it_said(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(ACTORS)
    settings = load_settings(file)
    actors = settings.async_trainer
    assert [actors.exploration_of(actor) for actor in range(3)] == [
        {"type": "eps_greedy", "eps": eps} for eps in (0.1, 0.25, 0.4)
    ]
    assert settings.behaviors["A"].hyperparameters.model_dump()["buffer_init_steps"] == 50


def test_what_a_run_stored_and_nobody_reads_any_more_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """But for what it had stored of itself: every run has that."""
    file = tmp_path / "configuration.yaml"
    file.write_text(f"{ACTORS}  record_agent_info_interval: 5000\n")
    load_settings(file)
    counted = "is left out; summary_freq and checkpoint_interval count decisions instead of gradient steps"
    assert sorted(caplog.messages) == [
        f"{file}:8: async_trainer.save_interval {counted}",
        f"{file}:9: async_trainer.flush_record_interval {counted}",
    ]
    file.write_text(ACTORS.replace("save_interval: 60", "save_interval: 50000").replace(": 70", ": 5000"))
    caplog.clear()
    load_settings(file)
    assert not caplog.messages


OLD = "{file} is a file for ML-Agents 0.16 or older; convert it with: tau-train upgrade {file}"
CURRICULUM = (
    "{file} is a curriculum file for ML-Agents 0.16 or older; convert it with: tau-train upgrade TRAINER-FILE {file}"
)
SAMPLERS = CURRICULUM.replace("curriculum", "sampler")
NOW = "replaced by `environment_parameters:`; convert it with: tau-train upgrade {file}"
JSON_CURRICULUM = '{"measure": "progress", "thresholds": [0.1], "min_lesson_length": 100, "parameters": {"h": [0, 4]}}'
FILES = {
    "default:\n  trainer: ppo\n  batch_size: 1024\nBall:\n  normalize: true\n": OLD,
    "default:\n  max_steps: 5e5\n": OLD,
    "Ball:\n  trainer: ppo\n  max_steps: 5e5\n": OLD,
    "Ball:\n  batch_size: 64\nOther:\n  max_steps: 7\n": OLD,
    "Wall:\n  measure: progress\n  thresholds: [0.1, 0.3]\n  parameters:\n    height: [0.0, 4.0, 6.0]\n": CURRICULUM,
    JSON_CURRICULUM: CURRICULUM,
    "behaviors: {A: {}}\ncurriculum:\n  A:\n    lessons: []\n": (
        f"{{file}}:2: curriculum is a section of ML-Agents 0.17, {NOW}"
    ),
    "behaviors: {A: {}}\nparameter_randomization:\n  mass: {sampler-type: uniform}\n": (
        f"{{file}}:2: parameter_randomization is a section of ML-Agents 0.17, {NOW}"
    ),
    "behaviors:\n  A: {trainer_type: sac}\n  B:\n    output_path: default\n": (
        "{file}:4: behaviors.B.output_path is a key of older ML-Agents and no longer has an effect; remove it"
    ),
    "resampling-interval: 5000\nmass: {sampler-type: uniform}\n": SAMPLERS,
    "mass: {sampler-type: uniform}\n": SAMPLERS,
    "behaviors: {A: {}}\nenvironment_parameters:\n  h:\n    curriculum:\n      - Lesson0:\n          value: 0.0\n": (
        "{file}:3: environment_parameters.h has lessons in an old format (`- Lesson0:`), which current "
        "ML-Agents rejects "
        "too; convert it with: tau-train upgrade {file}"
    ),
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: text.split("\n")[0][:20])
def test_one_sentence(text: str, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        load_settings(file)
    assert str(raised.value) == FILES[text].format(file=file)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "behavior: {A: {}}",
        "behaviors: {A: {}}\nBall: {batch_size: 3}",
        "behaviors: {A: {batch_size: 3}}",
        "behaviors: {A: {}}\nenv_settings: {output_path: x}",
    ],
)
def test_a_slip_in_a_file_of_today_is_none_of_these(text: str, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match="unknown key"):
        load_settings(file)
