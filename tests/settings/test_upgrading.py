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
    RunSettings,
)
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.upgrading import Upgraded, dumped, upgrade
from tests.settings.test_examples import TRAINABLE

PPO_016 = """
default:
    trainer: ppo
    batch_size: 1024
    beta: 5.0e-3
    hidden_units: 128
    max_steps: 5.0e5
    memory_size: 128
    sequence_length: 64
    use_recurrent: false
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.99}
Roller:
    normalize: true
    batch_size: 64
    max_steps: 5.0e4   # short
Corridor:
    use_recurrent: true
    sequence_length: 32
Maze:
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.995}
        curiosity: {strength: 0.02, gamma: 0.99, encoding_size: 256}
Mirror: Maze
"""
SAC_015 = """
default:
    trainer: sac
    train_interval: 1
    num_update: 1
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.99}
Crab:
    train_interval: 6
    num_update: 4
    summary_path: crab
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
    network_settings: {hidden_units: 32, memory: {memory_size: 64, sequence_length: 16}}
    reward_signals:
      rnd: {strength: 0.01, encoding_size: 16}
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
RANDOM = """
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
  gravity: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[7, 10], [15, 20]]}}
  scale: {sampler_type: gaussian, sampler_parameters: {mean: 2, st_dev: 0.3}}
  drag: {sampler_type: gaussian, sampler_parameters: {mean: 2, st_dev: 0.4}}
"""
LESSONS = """
  low:
    curriculum:
      - name: Lesson0
        value: 0.0
        completion_criteria: &first
          {behavior: Roller, measure: progress, threshold: 0.1, min_lesson_length: 100, signal_smoothing: true}
      - {name: Lesson1, value: 4.0, completion_criteria: {<<: *first, threshold: 0.3}}
      - {name: Lesson2, value: 6.0}
  walls:
    curriculum:
      - {name: Lesson0, value: 1, completion_criteria: {behavior: Maze, measure: reward, threshold: 2}}
      - {name: Lesson1, value: 5}
"""
FLAT = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 1024, beta: 5.0e-3}
  network_settings: {hidden_units: 128, memory: null}
  reward_signals: {extrinsic: {strength: 1.0, gamma: 0.99}}
  max_steps: 500000
behaviors:
  Roller: {hyperparameters: {batch_size: 64}, network_settings: {normalize: true}, max_steps: 50000}
  Corridor: {network_settings: {memory: {memory_size: 128, sequence_length: 32}}}
  Maze: &maze
    reward_signals:
      extrinsic: {strength: 1.0, gamma: 0.995}
      curiosity: {strength: 0.02, gamma: 0.99, network_settings: {hidden_units: 256}}
  Mirror: *maze
"""
TODAY: dict[str, tuple[tuple[str, ...], str]] = {
    "a flat file, whose behavior may be another's name": ((PPO_016,), FLAT),
    "curricula and samplers join the trainers' file": (
        (PPO_016, CURRICULA, SAMPLERS),
        f"{FLAT}environment_parameters:{LESSONS}{RANDOM}",
    ),
    "samplers join a file of today": (
        ("behaviors: {A: {}}\nenvironment_parameters: null\n", SAMPLERS),
        f"behaviors: {{A: {{}}}}\nenvironment_parameters:{RANDOM}",
    ),
    "sections of 0.17": (
        (RELEASE_017,),
        """
behaviors:
  Roller:
    trainer_type: ppo
    network_settings: {hidden_units: 32, memory: {memory_size: 64, sequence_length: 16}}
    reward_signals: {rnd: {strength: 0.01, network_settings: {hidden_units: 16}}}
env_settings: {env_path: Build, num_envs: 2}
environment_parameters:
  height:
    curriculum:
      - name: Lesson0
        value: 1
        completion_criteria: {behavior: Roller, measure: progress, threshold: 0.5, min_lesson_length: 7}
      - {name: Lesson1, value: 2}
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
""",
    ),
    "lessons that were keys": (
        (RELEASE_018,),
        """
behaviors: {Roller: {trainer_type: ppo}}
environment_parameters:
  height:
    curriculum:
      - name: Lesson0
        value: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [2, 3]]}}
        completion_criteria: {measure: reward, behavior: Roller, threshold: 0.1}
      - {name: Tall, value: 4.0}
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 2}}
""",
    ),
    "a default alone": (
        ("default: {trainer: ppo, max_steps: 5.0e5, num_layers: 1}",),
        "default_settings: {trainer_type: ppo, max_steps: 500000, network_settings: {num_layers: 1}}",
    ),
    "a recurrent default, which does not reach who was not": (
        ("default: {trainer: ppo, use_recurrent: true, memory_size: 64}\nA: {use_recurrent: false}\nB: {}",),
        """
default_settings: {trainer_type: ppo, network_settings: {memory: {memory_size: 64}}}
behaviors: {A: {network_settings: {memory: null}}, B: {}}
""",
    ),
    "reward signals that took the place of the default's, which would be merged today": (
        (
            "default: {trainer: ppo, batch_size: 64, reward_signals: {extrinsic: {gamma: 0.9, strength: 1}}}\n"
            "A: {reward_signals: {rnd: {strength: 1, gamma: 0.5}}}\nB: {max_steps: 7}\n",
        ),
        """
behaviors:
  A: {trainer_type: ppo, hyperparameters: {batch_size: 64}, reward_signals: {rnd: {strength: 1, gamma: 0.5}}}
  B:
    trainer_type: ppo
    hyperparameters: {batch_size: 64}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 1}}
    max_steps: 7
""",
    ),
    "trainers that differ from the default's": (
        ("default: {trainer: ppo, batch_size: 64, beta: 0.1}\nA: {trainer: sac}\nB: {max_steps: 7}\n",),
        """
behaviors:
  A: {trainer_type: sac, hyperparameters: {batch_size: 64}}
  B: {trainer_type: ppo, hyperparameters: {batch_size: 64, beta: 0.1}, max_steps: 7}
""",
    ),
}


def converted(*texts: str, names: tuple[str, ...] = ()) -> Upgraded:
    names = names or tuple(f"{'abc'[i]}.yaml" for i in range(len(texts)))
    return upgrade([parse_document(text, name) for text, name in zip(texts, names, strict=True)])


def loaded(upgraded: Upgraded) -> RunSettings:
    """What our loader makes of the file that is written."""
    return read(dumped(upgraded.data, "x"))


def read(text: str) -> RunSettings:
    return interpret(parse_document(text, "today.yaml"), {}, False, {})[0]


@pytest.mark.parametrize("name", TODAY)
def test_an_old_file_says_what_its_file_of_today_says(name: str) -> None:
    texts, today = TODAY[name]
    assert loaded(converted(*texts)).model_dump() == read(today).model_dump()


def test_what_is_otherwise_is_noted() -> None:
    flat = converted(PPO_016, CURRICULA, SAMPLERS)
    assert list(flat.data) == ["default_settings", "behaviors", "environment_parameters"]
    assert list(flat.data["behaviors"]["Roller"]) == ["hyperparameters", "network_settings", "max_steps"], "no default"
    steps, memory, resampling = flat.notes
    assert resampling.startswith("c.yaml:2: resampling-interval is left out")
    assert "multiply those of an older file by the number of agents" in steps
    assert memory.endswith("halve that of an older file (for sac: a quarter)")
    _, merged = converted(*TODAY["trainers that differ from the default's"][0]).notes
    assert merged.startswith("a.yaml: default is merged into every behavior"), "A never said beta"
    assert [note.split(": ")[1].split()[0] for note in converted(RELEASE_017).notes] == [
        "behaviors.Roller.framework",
        "behaviors.Roller.output_path",
        "parameter_randomization.resampling-interval",
    ]
    notes = converted(SAC_015).notes
    start = "a.yaml:9: Crab.train_interval became steps_per_update 1.5, which counts decisions of all agents; multiply"
    assert any(note.startswith(start) for note in notes)
    assert {
        "a.yaml:11: Crab.summary_path no longer has an effect and is left out",
        "a.yaml:13: Spider.beta is not supported by sac and is left out",
        "a.yaml:14: Spider.gamma no longer has an effect and is left out",
    } < set(notes)


def test_a_curriculum_in_json_is_that_of_the_behavior_it_is_called_after() -> None:
    upgraded = converted("Jumper: {trainer: ppo}", CURRICULUM_JSON, names=("a.yaml", "curricula/Jumper.json"))
    height = (loaded(upgraded).environment_parameters or {})["height"]
    assert isinstance(height, Curriculum)
    criteria = height.curriculum[0].completion_criteria
    assert criteria is not None
    assert (criteria.behavior, criteria.measure, criteria.threshold) == ("Jumper", "reward", 0.5)
    assert (criteria.min_lesson_length, criteria.signal_smoothing) == (10, False)


@pytest.mark.parametrize("name", TRAINABLE)
def test_a_file_of_today_is_left_alone(name: str) -> None:
    if "encoding_size" not in TRAINABLE[name]:
        assert not converted(TRAINABLE[name]).changed


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
