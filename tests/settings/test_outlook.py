"""What follows from settings: how often is learned, what mlagents-learn does otherwise, and what looks like a slip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tau_trainer.errors import SettingsError
from tau_trainer.settings import (
    DQNTrainerSettings,
    PPOTrainerSettings,
    SACTrainerSettings,
    TrainerSettings,
    dump_settings,
    load_settings,
)
from tau_trainer.settings.loading import read_settings
from tau_trainer.settings.outlook import Outlook, pace
from tau_trainer.settings.problems import Problems, key_path
from tests.settings.test_examples import TRAINABLE

PLAIN = "{A: {trainer_type: ppo, hyperparameters: {batch_size: 64, buffer_size: 1024}, max_steps: 4096}}"


def outlook(text: str, tmp_path: Path, overrides: dict[str, Any] | None = None) -> tuple[Outlook, Problems]:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    settings, read = read_settings(file, overrides or {}, False, {})
    return Outlook(settings, read), read


def test_updates_and_minibatches_of_ppo() -> None:
    numbers = {"batch_size": 64, "buffer_size": 12000, "num_epoch": 3}
    trainer = PPOTrainerSettings.model_validate({"hyperparameters": numbers, "max_steps": 500_000})
    # Half of the buffer is new: 93 whole minibatches of 64 are in it, and 500,000 decisions hold 83 such halves.
    assert pace(trainer) == {
        "updates": 83,
        "new_decisions_per_update": 6000,
        "minibatches_per_update": 279,
    }
    whole = PPOTrainerSettings.model_validate({"hyperparameters": {**numbers, "updates_per_buffer": 1}})
    assert pace(whole) == {"updates": 41, "new_decisions_per_update": 12000, "minibatches_per_update": 561}


@pytest.mark.parametrize("kind", [SACTrainerSettings, DQNTrainerSettings])
def test_updates_of_off_policy_trainers(kind: type[TrainerSettings]) -> None:
    numbers = {"steps_per_update": 10, "buffer_init_steps": 1000}
    trainer = kind.model_validate({"hyperparameters": numbers, "max_steps": 100_000})
    assert pace(trainer) == {"updates": 9900, "minibatches_per_update": 1}
    trainer = kind.model_validate({"hyperparameters": numbers | {"steps_per_update": "auto"}, "max_steps": 100_000})
    assert pace(trainer) == {"updates": 12375, "most_updates": 99_000, "minibatches_per_update": 1}


@pytest.mark.parametrize(
    ("settings", "place", "text"),
    [
        (PLAIN.replace("4096", "1024"), "behaviors.A.max_steps", "is 1,024, which ends before the first update"),
        (
            PLAIN.replace("64", "100"),
            "behaviors.A.hyperparameters.buffer_size",
            "is not a multiple of batch_size 100: each pass leaves out 24 decisions",
        ),
        (
            "{A: {trainer_type: ppo, hyperparameters: {batch_size: 64, buffer_size: 1024}, time_horizon: 1025}}",
            "behaviors.A.time_horizon",
            "is more than the 1,024 new decisions of an update",
        ),
        ("{A: {network_settings: {deterministic: on}}}", "behaviors.A.network_settings.deterministic", "is on during"),
        (
            "{A: {max_steps: 20000, self_play: {}}}",
            "behaviors.A.self_play.save_steps",
            "is 20,000 of 20,000 decisions: no agent plays an earlier policy except the first",
        ),
        (
            "{A: {reward_signals: {extrinsic: {strength: 0}}}}",
            "behaviors.A.reward_signals",
            "has only signals of strength 0",
        ),
        (
            "{A: {trainer_type: sac, behavioral_cloning: {demo_path: x}, reward_signals: {extrinsic: {strength: 0}}}}",
            "behaviors.A.behavioral_cloning",
            "uses all recordings in every update, and sac has an update every few decisions",
        ),
        (
            "{A: {trainer_type: ppo, hyperparameters: {learning_rate: 3}}}",
            "behaviors.A.hyperparameters.learning_rate",
            "is 3, far from the usual range (1e-05 to 0.001)",
        ),
        (
            "{A: {network_settings: {hidden_units: 3}}}",
            "behaviors.A.network_settings.hidden_units",
            "is 3, far from the usual range (32 to 512)",
        ),
    ],
)
def test_a_slip_is_warned_of(settings: str, place: str, text: str, tmp_path: Path) -> None:
    [(location, sentence)] = list(outlook(f"behaviors: {settings}", tmp_path)[0].warnings())
    assert key_path(location) == place
    assert sentence.startswith(text)


def test_no_warning_without_reason(tmp_path: Path) -> None:
    assert list(outlook(f"behaviors: {PLAIN}", tmp_path)[0].warnings()) == []
    beginning = PLAIN.replace("4096", "1025, time_horizon: 1024").replace("batch", "beta: 0.05, batch")
    assert list(outlook(f"behaviors: {beginning}", tmp_path)[0].warnings()) == []


@pytest.mark.parametrize("name", TRAINABLE)
def test_ml_agents_own_examples_have_no_slip_but_a_rest(name: str, tmp_path: Path) -> None:
    """But for one that is not there to learn: a heuristic's max_steps."""
    found = [(key_path(place), text) for place, text in outlook(TRAINABLE[name], tmp_path)[0].warnings()]
    slips = [place for place, text in found if not text.startswith("is not a multiple of batch_size")]
    assert slips == (["behaviors.Match3SimpleHeuristic.max_steps"] if "Match3" in name else [])


@pytest.mark.parametrize(
    ("rest", "place", "text"),
    [
        ("behaviors: {A: {threaded: true}}", "behaviors.A.threaded", "has no effect: learning always runs in parallel"),
        (
            "behaviors: {A: {trainer_type: sac, time_horizon: 1000}, B: {trainer_type: ppo, time_horizon: 1000}}",
            "behaviors.A.time_horizon",
            "has no effect: sac cuts no trajectories",
        ),
        (
            "behaviors: {A: {trainer_type: sac, hyperparameters: {reward_signal_steps_per_update: 10}}, B: "
            "{trainer_type: sac, reward_signals: {rnd: {}}, hyperparameters: {reward_signal_steps_per_update: 10}}}",
            "behaviors.A.hyperparameters.reward_signal_steps_per_update",
            "has no effect without a learned reward signal",
        ),
        (
            "default_settings: {even_checkpoints: true, checkpoint_interval: 5}",
            "default_settings.checkpoint_interval",
            "has no effect with even_checkpoints",
        ),
        (
            "behaviors: {A: {}}\nenvironment_parameters:\n  h: {curriculum: [{name: a, value: 1, completion_criteria: "
            "{behavior: A}}, {name: b, value: 2, completion_criteria: {behavior: A}}]}",
            "environment_parameters.h.curriculum[1].completion_criteria",
            "has no effect in the last lesson",
        ),
        (
            "behaviors: {A: {trial_count: 5}}",
            "behaviors.A.trial_count",
            "has no effect without criterion or save_best_only",
        ),
        (
            "behaviors: {A: {trainer_type: sac, save_param_only: true, hyperparameters: {save_replay_buffer: true}}}",
            "behaviors.A.hyperparameters.save_replay_buffer",
            "has no effect with save_param_only",
        ),
        ("checkpoint_settings: {train_model: true}", "checkpoint_settings.train_model", "has no effect"),
        (
            "behaviors: {A: {reward_signals: {rnd: {network_settings: {memory: {}}}}, network_settings: {memory: {}}}}",
            "behaviors.A.reward_signals.rnd.network_settings.memory",
            "has no effect: the signal's own network sees single steps",
        ),
        ("tau: {pairs: 3}\nenv_settings: {env_path: x}", "tau", "is for `tau-train parallel`"),
    ],
)
def test_a_key_without_effect_is_named_where_somebody_wrote_it(
    rest: str, place: str, text: str, tmp_path: Path
) -> None:
    [(location, sentence)] = list(outlook(rest, tmp_path)[0].without_effect())
    assert key_path(location) == place
    assert sentence.startswith(text)


@pytest.mark.parametrize(
    ("env", "place", "value", "text"),
    [
        (None, "env_settings.base_port", 6000, " with the editor, which always connects to port 5004"),
        (None, "env_settings.env_args", ["a"], " with the editor"),
        ("attach", "env_settings.env_args", ["a"], " with attach:MAX"),
        ("headless:tau", "engine_settings.time_scale", 3, " with the headless engine"),
        ("unreal:Game", "engine_settings.time_scale", 3, " with Unreal games, which receive no settings"),
        ("unreal:Game", "environment_parameters.gravity", 3, ": an Unreal game receives no parameters"),
        ("unreal:Game", "collection.image_order", "declared", " with Unreal games, which send no pictures"),
        ("godot:Game", "engine_settings.width", 100, " with Godot games, which receive no such setting"),
        ("godot", "engine_settings.time_scale", 3, " with Godot games, which receive no such setting"),
        ("godot", "collection.action_repeat", 3, " with games that you start, whose Sync node says it"),
        ("godot", "env_settings.base_port", 6000, " with the editor, which always connects to port 11008"),
        ("godot:Game", "environment_parameters.gravity", 3, ": a Godot game receives no parameters"),
        ("headless:tau", "collection.truncate_after", 3, " with games of other engines than Godot"),
        ("gym:CartPole-v1", "env_settings.base_port", 7000, " with Gymnasium"),
        ("gym:CartPole-v1", "collection.image_order", "declared", " with Gymnasium"),
    ],
)
def test_a_key_that_has_no_effect_on_this_game_is_named(
    env: str | None, place: str, value: Any, text: str, tmp_path: Path
) -> None:
    data: dict[str, dict[str, Any]] = {"env_settings": {"env_path": env} if env else {}}
    section, key = place.split(".")
    data.setdefault(section, {})[key] = value
    [(location, sentence)] = list(outlook(yaml.safe_dump(data), tmp_path)[0].without_effect())
    assert key_path(location) == place
    assert sentence.startswith(f"has no effect{text}")


def test_what_nobody_wrote_is_not_named(tmp_path: Path) -> None:
    silent = "behaviors: {A: {max_steps: 1000, threaded: false}}"
    assert list(outlook(silent, tmp_path)[0].without_effect()) == []
    build = "behaviors: {A: {}}\nenv_settings: {env_path: x, base_port: 6000}\nengine_settings: {no_graphics: true}"
    assert list(outlook(build, tmp_path)[0].without_effect()) == []


def test_differences_from_mlagents_learn(tmp_path: Path) -> None:
    text = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 2048}
  network_settings: {normalize: true}
behaviors:
  A: {}
environment_parameters:
  h:
    curriculum:
      - {name: a, value: 1, completion_criteria: {behavior: A}}
      - {name: b, value: 1, completion_criteria: {behavior: A, min_lesson_length: 1}}
      - {name: c, value: 1, completion_criteria: {behavior: A, measure: progress}}
      - {name: d, value: 2, completion_criteria: {behavior: A}}
"""
    told = list(outlook(text, tmp_path)[0].differences())
    assert [sentence.replace(";", ",").split(",")[0] for location, sentence in told if not location] == [
        "agents keep acting during an update",
        "learning uses the CPU",
        "a full buffer cuts trajectories",
    ]
    # Both behaviors have it from one line.
    assert {key_path(location) for location, _ in told if location} == {
        "default_settings.hyperparameters.buffer_size",
        "default_settings.network_settings.normalize",
        "environment_parameters.h.curriculum[0]",
    }
    assert "starts with 1,024 new decisions" in " ".join(sentence for _, sentence in told)


def test_a_replay_memory_normalises_before_it_is_learned_from_as_mlagents_learn_does(tmp_path: Path) -> None:
    normalised = "{network_settings: {normalize: true}, trainer_type: %s}"
    text = f"behaviors: {{A: {normalised % 'sac'}, B: {normalised % 'poca'}}}"
    told = [key_path(location) for location, _ in outlook(text, tmp_path)[0].differences() if location]
    assert told == ["behaviors.B.network_settings.normalize"]


@pytest.mark.parametrize(("other", "differ"), [("true", False), ("false", True)])
def test_mlagents_learn_stops_no_game_where_all_is_threaded(other: str, differ: bool, tmp_path: Path) -> None:
    text = f"behaviors: {{A: {{threaded: true}}, B: {{threaded: {other}}}}}"
    told = [sentence for _, sentence in outlook(text, tmp_path)[0].differences()]
    assert any(sentence.startswith("agents keep acting during an update") for sentence in told) is differ


def test_what_is_asked_to_be_alike_is_no_difference(tmp_path: Path) -> None:
    overrides = {
        "collection.max_policy_age": 0,
        "torch_settings.device": "cpu",
        "behaviors.*.hyperparameters.updates_per_buffer": 1,
    }
    text = "behaviors: {A: {trainer_type: ppo, hyperparameters: {batch_size: 64, buffer_size: 2048}}}"
    [(_, sentence)] = outlook(text, tmp_path, overrides)[0].differences()
    assert sentence.startswith("a full buffer cuts trajectories")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [50_000, 50_000, 10_000, 1]),
        ({"behaviors.*.summary_freq": "auto"}, [50_000, 50_000, 10_000, 1]),
        ({"behaviors.*.summary_freq": 10_000}, [10_000] * 4),
        ({"behaviors.*.summary_freq": "1e4"}, [10_000] * 4),
    ],
)
def test_summaries_of_short_runs_are_more_unless_somebody_says_how_many(
    given: dict[str, Any], expected: list[int], tmp_path: Path
) -> None:
    settings = load_settings(overrides={"behaviors.*.max_steps": 60_000, **given})
    written = tmp_path / "configuration.yaml"
    written.write_text(dump_settings(settings), encoding="utf-8")
    for read in (settings, load_settings(written)):
        trainer = read.of_behavior("any")
        assert [trainer.summary_every(steps) for steps in (0, 1_000_000, 200_000, 10)] == expected


@pytest.mark.parametrize("wrong", [0, "often", True, 0.5])
def test_a_wrong_summary_freq_is_told_in_one_sentence(wrong: object) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(overrides={"behaviors.*.summary_freq": wrong})
    assert "summary_freq" in str(caught.value)
    assert "\n" not in str(caught.value)
