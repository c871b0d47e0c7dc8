"""Files that older ML-Agents wrote otherwise get one sentence, not one for every key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer import load_settings
from tau_trainer.errors import SettingsError

OLD = "{file} is a file for ML-Agents 0.16 or older; convert it with: tau-train upgrade {file}"
CURRICULUM = (
    "{file} is a curriculum file for ML-Agents 0.16 or older; convert it with: tau-train upgrade TRAINER-FILE {file}"
)
SAMPLERS = CURRICULUM.replace("curriculum", "sampler")
NOW = "today it stands under `environment_parameters:`, so convert it with: tau-train upgrade {file}"
JSON_CURRICULUM = '{"measure": "progress", "thresholds": [0.1], "min_lesson_length": 100, "parameters": {"h": [0, 4]}}'
FILES = {
    "default:\n  trainer: ppo\n  batch_size: 1024\nBall:\n  normalize: true\n": OLD,
    "default:\n  max_steps: 5e5\n": OLD,
    "Ball:\n  trainer: ppo\n  max_steps: 5e5\n": OLD,
    "Ball:\n  batch_size: 64\nOther:\n  max_steps: 7\n": OLD,
    "Wall:\n  measure: progress\n  thresholds: [0.1, 0.3]\n  parameters:\n    height: [0.0, 4.0, 6.0]\n": CURRICULUM,
    JSON_CURRICULUM: CURRICULUM,
    "behaviors: {A: {}}\ncurriculum:\n  A:\n    lessons: []\n": (
        f"{{file}}:2: curriculum is how ML-Agents 0.17 wrote it; {NOW}"
    ),
    "behaviors: {A: {}}\nparameter_randomization:\n  mass: {sampler-type: uniform}\n": (
        f"{{file}}:2: parameter_randomization is how ML-Agents 0.17 wrote it; {NOW}"
    ),
    "resampling-interval: 5000\nmass: {sampler-type: uniform}\n": SAMPLERS,
    "mass: {sampler-type: uniform}\n": SAMPLERS,
    "behaviors: {A: {}}\nenvironment_parameters:\n  h:\n    curriculum:\n      - Lesson0:\n          value: 0.0\n": (
        "{file}:3: environment_parameters.h has lessons in an old form (`- Lesson0:`), which ML-Agents refuses today "
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
    "text", ["behavior: {A: {}}", "behaviors: {A: {}}\nBall: {batch_size: 3}", "behaviors: {A: {batch_size: 3}}"]
)
def test_a_slip_in_a_file_of_today_is_none_of_these(text: str, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match="is no known key"):
        load_settings(file)
