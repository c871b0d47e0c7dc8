"""Every key that ML-Agents ever moved is converted to its place of today, or named."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tau_trainer.errors import SettingsError
from tau_trainer.settings import SACHyperparameters
from tau_trainer.settings.document import parse_document
from tau_trainer.settings.earlier import _FLAT, UPDATES
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.upgrading import upgrade
from tests.settings.test_upgrading import converted, loaded

OLD_KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "gamma": ("trainer: ppo, gamma: 0.97", {"reward_signals": {"extrinsic": {"gamma": 0.97}}}),
    "use_curiosity": (
        "trainer: ppo, gamma: 0.97, use_curiosity: true, curiosity_strength: 0.02, curiosity_enc_size: 256",
        {
            "reward_signals": {
                "extrinsic": {"gamma": 0.97},
                "curiosity": {"network_settings": {"hidden_units": 256}, "gamma": 0.97, "strength": 0.02},
            }
        },
    ),
    "no curiosity": (
        "trainer: ppo, gamma: 0.9, use_curiosity: false, curiosity_strength: 0.02, curiosity_enc_size: 256",
        {"reward_signals": {"extrinsic": {"gamma": 0.9}}},
    ),
    "curiosity alone": (
        "trainer: ppo, use_curiosity: true, curiosity_strength: 0.01",
        {"reward_signals": {"extrinsic": {}, "curiosity": {"strength": 0.01}}},
    ),
    "reward_signals of 0.9, beside which gamma was not read": (
        "trainer: ppo, gamma: 0.5, use_curiosity: true, reward_signals: {extrinsic: {gamma: 0.9, strength: 2}}",
        {"reward_signals": {"extrinsic": {"gamma": 0.9, "strength": 2}}},
    ),
    "use_recurrent": (
        "trainer: ppo, use_recurrent: true, memory_size: 32, sequence_length: 16",
        {"network_settings": {"memory": {"memory_size": 32, "sequence_length": 16}}},
    ),
    "no memory": (
        "trainer: ppo, use_recurrent: false, memory_size: 32, sequence_length: 16",
        {"network_settings": {"memory": None}},
    ),
    "updates of sac up to 0.15": (
        "trainer: sac, train_interval: 6, num_update: 2, reward_signals: {reward_signal_num_update: 3, extrinsic: {}}",
        {
            "hyperparameters": {"steps_per_update": 3.0, "reward_signal_steps_per_update": 2.0},
            "reward_signals": {"extrinsic": {}},
        },
    ),
    "updates of sac in 0.16": (
        "trainer: sac, steps_per_update: 5, reward_signals: {reward_signal_steps_per_update: 4, extrinsic: {}}",
        {
            "hyperparameters": {"steps_per_update": 5, "reward_signal_steps_per_update": 4},
            "reward_signals": {"extrinsic": {}},
        },
    ),
    "updates of sac and of rewards in 0.16": (
        "trainer: sac, steps_per_update: 10, train_interval: 3, "
        "reward_signals: {reward_signal_num_update: 5, extrinsic: {}}",
        {
            "hyperparameters": {"steps_per_update": 10, "reward_signal_steps_per_update": 5},
            "reward_signals": {"extrinsic": {}},
        },
    ),
    "updates of rewards alone": (
        "trainer: sac, reward_signals: {reward_signal_steps_per_update: 4, extrinsic: {}}",
        {"hyperparameters": {"reward_signal_steps_per_update": 4}, "reward_signals": {"extrinsic": {}}},
    ),
    "clocks": (
        "trainer: ppo, max_steps: 5.0e4, summary_freq: 7, time_horizon: 8",
        {"max_steps": 50000, "summary_freq": 7, "time_horizon": 8},
    ),
    "pretraining": (
        "trainer: ppo, pretraining: {demo_path: x.demo, strength: 0.5, steps: 3}",
        {"behavioral_cloning": {"demo_path": "x.demo", "strength": 0.5, "steps": 3}},
    ),
    "encoding_size": (
        "trainer: ppo, reward_signals: {curiosity: {strength: 0.1, gamma: 0.9, encoding_size: 64}}",
        {"reward_signals": {"curiosity": {"network_settings": {"hidden_units": 64}, "strength": 0.1, "gamma": 0.9}}},
    ),
    "self-play": (
        "trainer: ppo, self_play: {window: 3, play_against_current_self_ratio: 0.25}",
        {"self_play": {"window": 3, "play_against_latest_model_ratio": 0.25}},
    ),
    "conditioning_type": (
        "trainer: ppo, network_settings: {conditioning_type: none}, "
        "reward_signals: {rnd: {network_settings: {conditioning_type: none}}}",
        {
            "network_settings": {"goal_conditioning_type": "none"},
            "reward_signals": {"rnd": {"network_settings": {"goal_conditioning_type": "none"}}},
        },
    ),
    "offline_bc": (
        "trainer: offline_bc, demo_path: x.demo, batch_size: 16, learning_rate: 1e-4, hidden_units: 8, num_layers: 1, "
        "use_recurrent: true, memory_size: 8, sequence_length: 4, batches_per_epoch: 5, max_steps: 7, summary_freq: 1",
        {
            "trainer_type": "bc",
            "hyperparameters": {"batch_size": 16, "learning_rate": 1e-4},
            "network_settings": {
                "hidden_units": 8,
                "num_layers": 1,
                "memory": {"memory_size": 8, "sequence_length": 4},
            },
            "demo_path": "x.demo",
        },
    ),
}


@pytest.mark.parametrize("name", OLD_KEYS)
@pytest.mark.parametrize("form", ["A: {{{}}}", "behaviors: {{A: {{{}}}}}", "default: {{{}}}\nA: {{}}"])
def test_every_key_that_moved_is_where_it_is_today(name: str, form: str) -> None:
    text, wanted = OLD_KEYS[name]
    settings = loaded(converted(form.format(text)))
    today = {"trainer_type": "sac" if "trainer: sac" in text else "ppo"} | wanted
    known, _ = interpret(parse_document(yaml.safe_dump({"behaviors": {"A": today}}), "x.yaml"), {}, False, {})
    assert settings.behaviors["A"].model_dump() == known.behaviors["A"].model_dump()


ODD_VALUES = {
    "vis_encode_type": "match3",
    "learning_rate_schedule": "constant",
    "pretraining": {"demo_path": "x.demo"},
    "sequence_length": 76,
}


@pytest.mark.parametrize("key", sorted(_FLAT - {"trainer"}))
def test_no_old_key_is_lost_without_a_word(key: str) -> None:
    """A value that nothing else has is in the new file, or a note names the key."""
    kind = "sac" if key in SACHyperparameters.model_fields or key in UPDATES else "ppo"
    beside = {"trainer": kind, "batch_size": 77, "sequence_length": 4, "use_curiosity": True, "use_recurrent": True}
    value: float = True if key.startswith(("use_", "save_", "norm")) else 340
    value = 0.34 if key in ("gamma", "epsilon", "lambd", "tau") else value
    beside.pop(key, None)
    whole = {**beside, key: ODD_VALUES.get(key, value)}
    with_it, without = (converted(yaml.safe_dump({"A": entry})) for entry in (whole, beside))
    assert with_it.data != without.data or any(f"A.{key}" in note for note in with_it.notes)
    loaded(with_it)  # which refuses a key at a wrong place


OFFLINE = """
default: {trainer: offline_bc, batch_size: 64, max_steps: 5.0e4, batches_per_epoch: 10, demo_path: usual.demo}
Hall: {demo_path: hall.demo, num_epoch: 5, gamma: 0.9}
"""


def test_imitation_from_recordings_is_bc() -> None:
    upgraded = converted(OFFLINE + "Own: {}\n")
    assert {name: entry["demo_path"] for name, entry in upgraded.data["behaviors"].items()} == {
        "Hall": "hall.demo",
        "Own": "usual.demo",
    }
    assert all(entry["trainer_type"] == "bc" for entry in upgraded.data["behaviors"].values())
    named = [note.split(": ", 1)[1].split()[0] for note in upgraded.notes]
    assert named[:5] == ["default.max_steps", "default.batches_per_epoch", "Hall.num_epoch", "Hall.gamma", "max_steps"]
    assert converted(OFFLINE.split("Hall")[0]).data["default_settings"]["trainer_type"] == "bc"


def test_who_imitated_a_player_is_left_out_of_a_file_that_has_others() -> None:
    """As the file of every release from 0.3 to 0.5 has one."""
    upgraded = converted("default: {trainer: ppo, gamma: 0.9}\nA: {}\nStudent: {trainer: imitation, batch_size: 16}")
    assert list(upgraded.data["behaviors"]) == ["A"]
    assert any(
        note.startswith("a.yaml:3: Student.trainer is imitation, which ML-Agents dropped in 0.11;")
        and note.endswith("; this behavior is left out")
        for note in upgraded.notes
    )
    with pytest.raises(SettingsError, match=r"^a.yaml:1: default.trainer is online_bc, which ML-Agents dropped"):
        converted("default: {trainer: online_bc}")


def test_what_learn_would_refuse_of_a_converted_file_is_named() -> None:
    notes = converted(f"{OFFLINE}B: {{trainer: ppo}}").notes
    said = "a.yaml: behaviors.Hall.trainer_type: learns only from recordings, but B does not; put them into "
    assert f"{said}separate files" in notes


def test_a_dump_with_tags_of_pythons_is_left_as_it_is_but_for_framework() -> None:
    text = """
behaviors: !!python/object/apply:mlagents.trainers.settings.DefaultTrainerDict
  args:
  - !!python/name:mlagents.trainers.settings.TrainerSettings ''
  dictitems:
    A: {trainer_type: ppo, hyperparameters: {batch_size: 8, buffer_size: 64}, framework: tensorflow}
"""
    upgraded = converted(text)
    assert upgraded.notes == ["a.yaml:6: behaviors.A.framework no longer has an effect and is left out"]
    assert loaded(upgraded).behaviors["A"].hyperparameters.batch_size == 8


REFUSED = [
    "behaviors: {A: {trainer: ppo, use_recurrent: true, memory_size: 8, sequence_length: 4}}",
    "behaviors: {A: {pretraining: {demo_path: x}}}",
    "behaviors: {A: {trainer_type: ppo, gamma: 0.9, use_curiosity: true, curiosity_strength: 1}}",
    "behaviors: {A: {trainer_type: sac, train_interval: 2, num_update: 4}}",
    "behaviors: {A: {trainer_type: sac, reward_signals: {extrinsic: {}, reward_signal_steps_per_update: 2}}}",
    "behaviors: {A: {trainer_type: ppo, batch_size: 64, hidden_units: 8}}",
    "behaviors: {A: {trainer_type: ppo, network_settings: {conditioning_type: none}}}",
    "behaviors: {A: {self_play: {play_against_current_self_ratio: 0.5}}}",
    "default_settings: {trainer: ppo, num_layers: 3}",
    "A: {gamma: 0.9}",
    "A: {max_steps: 7}",
    "environment_parameters: {m: {sampler-type: uniform, min_value: 1, max_value: 2}}",
    "environment_parameters: {m: {sampler_type: gaussian, mean: 1}}",
    "environment_parameters: {m: {curriculum: [{name: a, value: {sampler-type: uniform, min_value: 0}}]}}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_as_an_old_form_names_upgrade_which_converts_it(text: str) -> None:
    document = parse_document(text, "a.yaml")
    with pytest.raises(SettingsError) as raised:
        interpret(document, {}, False, {})
    assert all("tau-train upgrade a.yaml" in sentence for sentence in raised.value.problems)
    loaded(upgrade([document]))


@pytest.mark.parametrize("text", ["trainer: ppo\ngamma: 0.9", "trainer_type: ppo\nhyperparameters: {batch_size: 8}"])
def test_a_behavior_without_a_name_is_refused_by_both(text: str) -> None:
    document = parse_document(text, "a.yaml")
    said = f"a.yaml:1: {text.split(':')[0]} is a behavior's key at the top of the file; move all of them below"
    for read in (lambda: interpret(document, {}, False, {}), lambda: upgrade([document])):
        with pytest.raises(SettingsError) as raised:
            read()
        assert str(raised.value).startswith(said)
