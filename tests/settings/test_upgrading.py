"""Files of every old form of ML-Agents become files of today that have the same values."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.settings import (
    Curriculum,
    GaussianSampler,
    MemorySettings,
    MultiRangeUniformSampler,
    PPOHyperparameters,
    RunSettings,
    SACHyperparameters,
    UniformSampler,
)
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.signals import CuriositySettings, GAILSettings
from tau_trainer.settings.upgrading import Upgraded, dumped, upgrade
from tests.settings.test_examples import TRAINABLE

PPO_016 = """
default:
    trainer: ppo
    batch_size: 1024
    beta: 5.0e-3
    buffer_size: 10240
    epsilon: 0.2
    hidden_units: 128
    lambd: 0.95
    learning_rate: 3.0e-4
    learning_rate_schedule: linear
    max_steps: 5.0e5
    memory_size: 128
    normalize: false
    num_epoch: 3
    num_layers: 2
    time_horizon: 64
    sequence_length: 64
    summary_freq: 10000
    use_recurrent: false
    vis_encode_type: simple
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.99}
Roller:
    normalize: true
    batch_size: 64
    max_steps: 5.0e4   # short
Corridor:
    use_recurrent: true
    sequence_length: 32
    num_layers: 1
Maze:
    vis_encode_type: nature_cnn
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.995}
        curiosity: {strength: 0.02, gamma: 0.99, encoding_size: 256}
    pretraining: {demo_path: maze.demo, strength: 0.5, steps: 10000}
Doubles:
    self_play: {window: 10, play_against_current_self_ratio: 0.4, save_steps: 50000, swap_steps: 40000}
Mirror: Doubles
"""
SAC_015 = """
default:
    trainer: sac
    batch_size: 128
    buffer_size: 50000
    buffer_init_steps: 1000
    hidden_units: 64
    init_entcoef: 1.0
    learning_rate: 3.0e-4
    max_steps: 5.0e5
    num_update: 1
    train_interval: 1
    tau: 0.005
    use_recurrent: false
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.99}
Crab:
    train_interval: 6
    num_update: 4
    summary_path: crab
    reward_signals:
        reward_signal_num_update: 2
        extrinsic: {strength: 2.0, gamma: 0.99}
        gail: {strength: 0.02, gamma: 0.99, encoding_size: 32, demo_path: crab.demo}
Spider:
    beta: 0.1
    gamma: 0.9
"""
SAMPLERS = """
resampling-interval: 5000
mass: {sampler-type: "uniform", min_value: 0.5, max_value: 10}
gravity: {sampler-type: "multirange_uniform", intervals: [[7, 10], [15, 20]]}
scale: {sampler-type: "gaussian", mean: 2, st_dev: .3}
drag: {sampler-type: "gaussian", mean: 2, var: .4}
"""
CURRICULA = """
Roller:
  measure: progress
  thresholds: [0.1, 0.3]
  min_lesson_length: 100
  signal_smoothing: true
  parameters:
    low: [0.0, 4.0, 6.0]
    high: [4.0, 7.0, 8.0]
Maze:
  measure: reward
  thresholds: [2]
  parameters: {walls: [1, 5]}
"""
CURRICULUM_JSON = """{
    "measure": "reward", "thresholds": [0.5], "min_lesson_length": 10, "signal_smoothing": false,
    "parameters": {"height": [1.5, 4.0]}
}"""
RELEASE_017 = """
behaviors:
  Roller:
    trainer_type: ppo
    framework: pytorch
    hyperparameters: {batch_size: 64, buffer_size: 2048, learning_rate_schedule: constant}
    network_settings: {hidden_units: 32, memory: {memory_size: 64, sequence_length: 16}}
    reward_signals:
      extrinsic: {gamma: 0.9}
      rnd: {strength: 0.01, encoding_size: 16}
    max_steps: 1.0e6
    output_path: elsewhere
env_settings: {env_path: Build, num_envs: 2}
curriculum:
  Roller: {measure: progress, thresholds: [0.5], min_lesson_length: 7, parameters: {height: [1, 2]}}
parameter_randomization:
  resampling-interval: 5000
  mass: {sampler-type: uniform, min_value: 0.5, max_value: 10}
"""
RELEASE_018 = """
behaviors: {Roller: {trainer_type: ppo}}
environment_parameters:
  height:
    curriculum:
      - Lesson0:
          completion_criteria: {measure: reward, behavior: Roller, threshold: 0.1}
          value: {sampler_type: multirange_uniform, intervals: [[0, 1], [2, 3]]}
      - Tall: {value: 4.0}
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 2}}
"""


def converted(*texts: str, names: tuple[str, ...] = ()) -> Upgraded:
    names = names or tuple(f"{'abc'[i]}.yaml" for i in range(len(texts)))
    return upgrade([parse_document(text, name) for text, name in zip(texts, names, strict=True)])


def loaded(upgraded: Upgraded) -> RunSettings:
    """What our loader makes of the file that is written."""
    return interpret(parse_document(dumped(upgraded.data, "x"), "new.yaml"), {}, False, {})[0]


def test_a_flat_file_becomes_sections_over_default_settings() -> None:
    upgraded = converted(PPO_016)
    settings = loaded(upgraded)
    assert list(upgraded.data) == ["default_settings", "behaviors"]
    assert upgraded.data["behaviors"]["Roller"] == {
        "hyperparameters": {"batch_size": 64},
        "network_settings": {"normalize": True},
        "max_steps": 50000,
    }
    roller, corridor, maze, doubles = (settings.behaviors[name] for name in ("Roller", "Corridor", "Maze", "Doubles"))
    numbers = roller.hyperparameters
    assert isinstance(numbers, PPOHyperparameters)
    assert (numbers.batch_size, numbers.buffer_size, numbers.beta, numbers.lambd, numbers.num_epoch) == (
        64,
        10240,
        5e-3,
        0.95,
        3,
    )
    assert (roller.max_steps, roller.time_horizon, roller.summary_freq) == (50_000, 64, 10_000)
    assert roller.network_settings.memory is None
    assert corridor.network_settings.memory is not None
    assert corridor.network_settings.memory == MemorySettings(memory_size=128, sequence_length=32)
    assert (corridor.network_settings.num_layers, corridor.network_settings.hidden_units) == (1, 128)
    curiosity = maze.reward_signals["curiosity"]
    assert isinstance(curiosity, CuriositySettings)
    assert (curiosity.strength, curiosity.network_settings.hidden_units) == (0.02, 256)
    assert maze.reward_signals["extrinsic"].gamma == 0.995
    assert maze.behavioral_cloning is not None
    assert maze.behavioral_cloning.model_dump(include={"demo_path", "strength", "steps"}) == {
        "demo_path": "maze.demo",
        "strength": 0.5,
        "steps": 10000,
    }
    assert maze.network_settings.vis_encode_type == "nature_cnn"
    assert doubles.self_play is not None
    assert (doubles.self_play.play_against_latest_model_ratio, doubles.self_play.swap_steps) == (0.4, 40000)
    assert settings.behaviors["Mirror"] == doubles  # a behavior could be another's name
    assert settings.default_settings is not None
    assert settings.default_settings.network_settings.memory is None
    steps, memory = upgraded.notes  # nothing was left out
    assert "multiply those of an older file by the number of agents" in steps
    assert memory.endswith("halve that of an older file (for sac: a quarter)")


def test_a_recurrent_default_does_not_reach_who_was_not() -> None:
    text = (
        "default: {trainer: ppo, use_recurrent: true, memory_size: 64, sequence_length: 8}\nA: {use_recurrent: false}"
    )
    upgraded = converted(text + "\nB: {}\n")
    settings = loaded(upgraded)
    assert upgraded.data["behaviors"]["A"] == {"network_settings": {"memory": None}}
    assert settings.behaviors["A"].network_settings.memory is None
    assert settings.behaviors["B"].network_settings.memory is not None


def test_default_is_merged_where_default_settings_would_say_more() -> None:
    """A behavior's reward_signals took the place of the default's; today they would be merged."""
    text = "default: {trainer: ppo, batch_size: 64, reward_signals: {extrinsic: {gamma: 0.9, strength: 1}}}\n"
    upgraded = converted(text + "A: {reward_signals: {rnd: {strength: 1, gamma: 0.5}}}\nB: {max_steps: 7}\n")
    settings = loaded(upgraded)
    assert settings.default_settings is None
    assert list(settings.behaviors["A"].reward_signals) == ["rnd"]
    assert [behavior.hyperparameters.batch_size for behavior in settings.behaviors.values()] == [64, 64]
    assert any(note.startswith("a.yaml: default is merged into every behavior") for note in upgraded.notes)


def test_default_is_merged_where_trainers_differ() -> None:
    upgraded = converted("default: {trainer: ppo, batch_size: 64, beta: 0.1}\nA: {trainer: sac}\nB: {max_steps: 7}\n")
    settings = loaded(upgraded)
    assert "default_settings" not in upgraded.data  # mlagents-learn knows one trainer there
    assert [behavior.trainer_type for behavior in settings.behaviors.values()] == ["sac", "ppo"]
    assert not any("beta" in note for note in upgraded.notes)  # A never said it


def test_sac_updates_are_counted_in_decisions() -> None:
    upgraded = converted(SAC_015)
    crab, spider = loaded(upgraded).behaviors.values()
    numbers = crab.hyperparameters
    assert isinstance(numbers, SACHyperparameters)
    assert (numbers.steps_per_update, numbers.reward_signal_steps_per_update) == (1.5, 3.0)
    assert (numbers.buffer_init_steps, numbers.init_entcoef, numbers.tau) == (1000, 1.0, 0.005)
    gail = crab.reward_signals["gail"]
    assert isinstance(gail, GAILSettings)
    assert (gail.demo_path, gail.network_settings.hidden_units) == ("crab.demo", 32)
    assert isinstance(spider.hyperparameters, SACHyperparameters)
    assert spider.hyperparameters.steps_per_update == 1.0
    assert spider.reward_signals["extrinsic"].gamma == 0.99
    assert "a.yaml:20: Crab.summary_path no longer has an effect and is left out" in upgraded.notes
    start = "a.yaml:18: Crab.train_interval became steps_per_update 1.5, which counts decisions of all agents; multiply"
    assert any(note.startswith(start) for note in upgraded.notes)
    assert "a.yaml:26: Spider.beta is not supported by sac and is left out" in upgraded.notes
    assert "a.yaml:27: Spider.gamma no longer has an effect and is left out" in upgraded.notes


def test_the_number_of_reward_updates_of_016_was_one_of_decisions() -> None:
    text = "A: {trainer: sac, steps_per_update: 10, train_interval: 3, reward_signals: {reward_signal_num_update: 5}}"
    numbers = loaded(converted(text.replace("5}", "5, extrinsic: {}}"))).behaviors["A"].hyperparameters
    assert isinstance(numbers, SACHyperparameters)
    assert (numbers.steps_per_update, numbers.reward_signal_steps_per_update) == (10, 5)


def test_curricula_and_samplers_join_the_trainers_file() -> None:
    upgraded = converted(PPO_016, CURRICULA, SAMPLERS)
    assert list(upgraded.data) == ["default_settings", "behaviors", "environment_parameters"]
    parameters = loaded(upgraded).environment_parameters or {}
    assert list(parameters) == ["low", "high", "walls", "mass", "gravity", "scale", "drag"]
    high, walls = parameters["high"], parameters["walls"]
    assert isinstance(high, Curriculum)
    assert isinstance(walls, Curriculum)
    assert [(lesson.name, lesson.value) for lesson in high.curriculum] == [
        ("Lesson0", 4.0),
        ("Lesson1", 7.0),
        ("Lesson2", 8.0),
    ]
    criteria = [lesson.completion_criteria for lesson in high.curriculum]
    assert criteria[0] is not None
    assert criteria[1] is not None
    assert criteria[2] is None
    assert criteria[0].model_dump(exclude={"require_reset"}) == {
        "behavior": "Roller",
        "measure": "progress",
        "threshold": 0.1,
        "min_lesson_length": 100,
        "signal_smoothing": True,
    }
    assert criteria[1].threshold == 0.3
    assert walls.curriculum[0].completion_criteria is not None
    assert walls.curriculum[0].completion_criteria.behavior == "Maze"
    mass, gravity, scale, drag = (parameters[name] for name in ("mass", "gravity", "scale", "drag"))
    assert isinstance(mass, UniformSampler)
    assert (mass.sampler_parameters.min_value, mass.sampler_parameters.max_value) == (0.5, 10)
    assert isinstance(gravity, MultiRangeUniformSampler)
    assert gravity.sampler_parameters.intervals == ((7.0, 10.0), (15.0, 20.0))
    assert isinstance(scale, GaussianSampler)
    assert isinstance(drag, GaussianSampler)
    assert (scale.sampler_parameters.st_dev, drag.sampler_parameters.st_dev) == (0.3, 0.4)
    assert any(note.startswith("c.yaml:2: resampling-interval is left out") for note in upgraded.notes)


def test_a_curriculum_in_json_is_that_of_the_behavior_it_is_called_after() -> None:
    upgraded = converted("Jumper: {trainer: ppo}", CURRICULUM_JSON, names=("a.yaml", "curricula/Jumper.json"))
    height = (loaded(upgraded).environment_parameters or {})["height"]
    assert isinstance(height, Curriculum)
    criteria = height.curriculum[0].completion_criteria
    assert criteria is not None
    assert (criteria.behavior, criteria.measure, criteria.threshold) == ("Jumper", "reward", 0.5)
    assert (criteria.min_lesson_length, criteria.signal_smoothing) == (10, False)


def test_sections_of_017_move_under_environment_parameters() -> None:
    upgraded = converted(RELEASE_017)
    settings = loaded(upgraded)
    roller = settings.behaviors["Roller"]
    assert list(upgraded.data) == ["behaviors", "env_settings", "environment_parameters"]
    assert (roller.max_steps, roller.hyperparameters.learning_rate_schedule) == (1_000_000, "constant")
    assert roller.network_settings.memory is not None
    assert roller.reward_signals["rnd"].network_settings.hidden_units == 16
    assert (settings.env_settings.env_path, settings.env_settings.num_envs) == ("Build", 2)
    parameters = settings.environment_parameters or {}
    height, mass = parameters["height"], parameters["mass"]
    assert isinstance(height, Curriculum)
    assert isinstance(mass, UniformSampler)
    assert [note.split(": ")[1].split()[0] for note in upgraded.notes] == [
        "behaviors.Roller.framework",
        "behaviors.Roller.output_path",
        "parameter_randomization.resampling-interval",
    ]


def test_a_default_alone_is_default_settings() -> None:
    settings = loaded(converted("default: {trainer: ppo, max_steps: 5.0e5, num_layers: 1}"))
    assert settings.default_settings is not None
    assert (settings.default_settings.max_steps, settings.default_settings.network_settings.num_layers) == (500_000, 1)


def test_samplers_join_a_file_of_today() -> None:
    upgraded = converted("behaviors: {A: {}}\nenvironment_parameters: null\n", SAMPLERS)
    assert len(loaded(upgraded).environment_parameters or {}) == 4


def test_lessons_that_were_keys_get_names() -> None:
    parameters = loaded(converted(RELEASE_018)).environment_parameters or {}
    height, mass = parameters["height"], parameters["mass"]
    assert isinstance(height, Curriculum)
    assert [lesson.name for lesson in height.curriculum] == ["Lesson0", "Tall"]
    sampler = height.curriculum[0].value
    assert isinstance(sampler, MultiRangeUniformSampler)
    assert sampler.sampler_parameters.intervals == ((0.0, 1.0), (2.0, 3.0))
    assert isinstance(mass, UniformSampler)
    assert mass.sampler_parameters.max_value == 2


EXAMPLES: dict[str, Any] = TRAINABLE


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_of_today_is_left_alone(name: str) -> None:
    if "encoding_size" not in EXAMPLES[name]:
        assert not converted(EXAMPLES[name]).changed


def test_a_dump_of_today_is_left_alone() -> None:
    file = Path(__file__).parent / "data" / "configuration.yaml"
    assert not converted(file.read_text()).changed


@pytest.mark.parametrize("texts", [(PPO_016,), (SAC_015, SAMPLERS), (RELEASE_017,), (RELEASE_018,)])
def test_what_was_converted_is_of_today(texts: tuple[str, ...]) -> None:
    assert not converted(dumped(converted(*texts).data, "x")).changed


def test_unknown_keys_are_named_and_left_out() -> None:
    upgraded = converted("A: {trainer: ppo, max_step: 5, hidden_units: 16}\nA: {trainer: ppo, num_layer: 5}")
    assert loaded(upgraded).behaviors["A"].network_settings.hidden_units == 128
    assert "a.yaml:2: A is defined twice; the later one counts" in upgraded.notes
    assert "a.yaml: behaviors.A.num_layer: unknown key, ignored" in upgraded.notes


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (("A: {trainer: online_bc}",), "a.yaml:1: A.trainer is online_bc, which ML-Agents dropped in 0.11; record a"),
        (("A: {trainer: ppo, batch_size: many}",), "a.yaml: behaviors.A.hyperparameters.batch_size must be a whole"),
        (("A: {trainer: sac, train_interval: x}",), "a.yaml:1: A.train_interval must be a number above 0, not x"),
        (("A: {trainer: sac, num_update: 0}",), "a.yaml:1: A.num_update must be a number above 0, not 0"),
        (("A: {trainer: ppo}\nB: 3",), "a.yaml: behaviors.B must be a mapping of keys"),
        (("default: {trainer: ppo}\nB: 3",), "a.yaml: behaviors.B must be a mapping of keys"),
        (
            ("behaviors: {}\nparameter_randomization: [3]",),
            "a.yaml:2: parameter_randomization must be a mapping of keys",
        ),
        (("A: {trainer: ppo}", "A: {trainer: ppo}"), "b.yaml:1: A is in two of the files; remove it from one of them"),
        (
            ("A: {trainer: ppo}", "B: {measure: progress, thresholds: [0.1], parameters: {\n h: [1, 2, 3]}}"),
            "b.yaml:2: B.parameters.h must be 2 values, one more than there are thresholds",
        ),
        (("behaviors: {A: {}}\ncurriculum: {A: 3}",), "a.yaml:2: curriculum.A must be a curriculum"),
        (
            (CURRICULA, "resampling-interval: 1\nlow: {sampler-type: uniform}"),
            "b.yaml:2: low is a second definition of low, which can have only one",
        ),
        (
            ("resampling-interval: 1\nm: {sampler-type: dice}",),
            "a.yaml: environment_parameters.m has an unknown sampler",
        ),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(texts: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        converted(*texts)
    assert str(raised.value).startswith(sentence)
    assert str(raised.value).count("\n") == (0 if len(raised.value.problems) == 1 else 2)


def test_nothing_is_written_that_our_own_loader_refuses() -> None:
    with pytest.raises(SettingsError, match=r"the converted file:4: .*max_step: unknown key"):
        dumped({"behaviors": {"A": {"max_step": 1}}}, "x")


NAMES = """
default A B trainer trainer_type ppo sac batch_size use_recurrent memory_size reward_signals extrinsic behaviors
curriculum parameters thresholds environment_parameters sampler-type uniform train_interval num_update self_play value
reward_signal_num_update encoding_size gamma hyperparameters Lesson0
"""
WORDS = st.sampled_from(NAMES.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(WORDS, VALUES, min_size=1), min_size=1, max_size=2))
def test_anything_at_all_is_converted_or_refused(files: list[dict[str, Any]]) -> None:
    with contextlib.suppress(SettingsError):
        upgraded = converted(*map(yaml.safe_dump, files))
        if upgraded.changed:
            loaded(upgraded)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        converted("A: {trainer: online_bc}\nB: {trainer: imitation}")
    assert len(raised.value.problems) == 2


def test_a_file_of_an_earlier_version_of_this_package_gets_the_keys_of_today() -> None:
    text = """
environment: {name: cartpole}
policies: {agent: {trainer_type: ppo, gamma: 0.5}}
max_steps: 40
seed: 3
"""
    upgraded = upgrade([parse_document(text, "old.yaml")])
    assert (upgraded.changed, upgraded.notes) == (True, [])
    assert yaml.safe_load(dumped(upgraded.data, "x")) == {
        "environment": {"name": "cartpole"},
        "behaviors": {"agent": {"trainer_type": "ppo", "reward_signals": {"extrinsic": {"gamma": 0.5}}}},
        "default_settings": {"max_steps": 40},
        "env_settings": {"seed": 3},
    }


def test_what_actors_counted_in_gradient_steps_is_left_out_and_told() -> None:
    text = """behaviors: {A: {trainer_type: sac}}
async_trainer: {warmup_period: 9, save_interval: 7}
"""
    upgraded = upgrade([parse_document(text, "old.yaml")])
    assert upgraded.data["behaviors"]["A"]["hyperparameters"] == {"buffer_init_steps": 9}
    assert upgraded.data["async_trainer"] == {}
    [note] = upgraded.notes
    assert note.startswith("old.yaml:2: async_trainer.save_interval is left out; summary_freq and checkpoint_interval")
