"""Every mistake is one sentence: file, line, key, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import load_settings
from tau_trainer.settings.document import Document
from tau_trainer.settings.problems import Problems

CASES = {
    "unknown top-level key": ("engine_setings: {}", "engine_setings: unknown key; did you mean engine_settings?"),
    "save_freq (Note.RL)": (
        "behaviors: {A: {save_freq: 1}}",
        "behaviors.A.save_freq: unknown key; use checkpoint_interval, counted in decisions",
    ),
    "save_interval (border)": (
        "default_settings: {save_interval: 50000}",
        "default_settings.save_interval: unknown key; use checkpoint_interval, counted in decisions",
    ),
    "max_save_files (Note.RL)": (
        "behaviors: {A: {max_save_files: 3}}",
        "behaviors.A.max_save_files: unknown key; use keep_checkpoints, where 0 keeps all",
    ),
    "flat hyperparameter": (
        "behaviors: {A: {batch_size: 4}}",
        "behaviors.A.batch_size: unknown key here; did you mean hyperparameters.batch_size? tau-train upgrade ",
    ),
    "unknown image encoder": (
        "behaviors: {A: {network_settings: {vis_encode_type: resnett}}}",
        "behaviors.A.network_settings.vis_encode_type has an unknown image encoder, resnett; did you mean resnet?",
    ),
    "unknown exploration": (
        "behaviors: {A: {trainer_type: dqn, hyperparameters: {exploration: {type: eps_gredy}}}}",
        "behaviors.A.hyperparameters.exploration has an unknown type eps_gredy; did you mean eps_greedy?",
    ),
    "exploration without a type": (
        "behaviors: {A: {trainer_type: dqn, hyperparameters: {exploration: {eps: 0.1}}}}",
        "behaviors.A.hyperparameters.exploration has no type; known: softmax, eps_greedy, adaptive_eps_greedy, greedy, "
        "boltzmann, max_boltzmann, boltzmann_gumbel, gumbel_softmax",
    ),
    "two ways to draw": (
        "behaviors: {A: {trainer_type: sac, hyperparameters: {prioritized: {}, terminal_share: 0.1}}}",
        "behaviors.A.hyperparameters: terminal_share has no effect with prioritized, which draws by errors; remove one",
    ),
    "ends for maddpg": (
        "behaviors: {A: {trainer_type: maddpg, hyperparameters: {terminal_share: 0.1}}}",
        "behaviors.A.hyperparameters: terminal_share is not supported by maddpg, which samples moments of whole groups",
    ),
    "hardly anything but ends": (
        "behaviors: {A: {trainer_type: sac, hyperparameters: {terminal_share: 0.6}}}",
        "behaviors.A.hyperparameters.terminal_share must be at most 0.5, not 0.6",
    ),
    "unknown signal": (
        "behaviors: {A: {reward_signals: {curiousity: {}}}}",
        "behaviors.A.reward_signals.curiousity: unknown key; did you mean curiosity?",
    ),
    "unknown key far from all": (
        "torch_settings: {xyz: 1}",
        "torch_settings.xyz: unknown key; known here: device",
    ),
    "unknown trainer type": (
        "behaviors: {A: {trainer_type: poo}}",
        "behaviors.A.trainer_type is 'poo', which is not a trainer type; did you mean ppo?",
    ),
    "unknown choice": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {learning_rate_schedule: Linear}}}",
        "behaviors.A.hyperparameters.learning_rate_schedule must be constant or linear, not 'Linear'; "
        "did you mean linear?",
    ),
    "a seed too large": ("env_settings: {seed: 1e20}", "env_settings.seed must be at most 2147483647, not 1e20"),
    "a number without points": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {learning_rate: [1, 2]}}}",
        "behaviors.A.hyperparameters.learning_rate must be a number, or points [step, value] such as "
        "[[0, 3e-4], [1e6, 1e-5]], or a mapping with a mode",
    ),
    "a point of three": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {beta: [[0, 1, 2]]}}}",
        "behaviors.A.hyperparameters.beta must be a number, or points [step, value] such as",
    ),
    "a negative strength": (
        "behaviors: {A: {reward_signals: {extrinsic: {}, curiosity: {strength: -1}}}}",
        "behaviors.A.reward_signals.curiosity.strength must be at least 0, not -1",
    ),
    "a negative strength of imitation": (
        "behaviors: {A: {behavioral_cloning: {demo_path: x, strength: -0.5}}}",
        "behaviors.A.behavioral_cloning.strength must be at least 0, not -0.5",
    ),
    "not above": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {epsilon: 0}}}",
        "behaviors.A.hyperparameters.epsilon must be above 0, not 0",
    ),
    "empty section": (
        "env_settings:",
        "env_settings is empty; give it a value ({} for a section's defaults) or remove it",
    ),
    "list for behaviors": ("behaviors: [A]", "behaviors must be a mapping of keys"),
    "missing key": (
        "behaviors: {A: {reward_signals: {extrinsic: {}, gail: {}}}}",
        "behaviors.A.reward_signals.gail.demo_path is missing and has no default; add it",
    ),
    "hyperparameters without trainer_type": (
        "behaviors: {A: {hyperparameters: {}}}",
        "behaviors.A.trainer_type is missing, but hyperparameters are given; add `trainer_type: ppo`",
    ),
    "no signal": (
        "behaviors: {A: {reward_signals: {}}}",
        "behaviors.A.reward_signals is empty, so there is nothing to learn from; add `extrinsic: {}`",
    ),
    "recordings that are not named": (
        "behaviors: {A: {trainer_type: iql}}",
        "behaviors.A.demo_path is missing and has no default; add it",
    ),
    "all episodes held out": (
        "behaviors: {A: {trainer_type: bc, demo_path: x, held_out: 1.0}}",
        "behaviors.A.held_out",
    ),
    "unknown memory": (
        "behaviors: {A: {network_settings: {memory: {type: lstn}}}}",
        "behaviors.A.network_settings.memory.type has an unknown memory, lstn; did you mean lstm?",
    ),
    "odd memory": (
        "behaviors: {A: {network_settings: {memory: {memory_size: 5}}}}",
        "behaviors.A.network_settings.memory.memory_size must be even: half is hidden state, half is cell state, not 5",
    ),
    "sequence longer than batch": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {batch_size: 32}, network_settings: {memory: {}}}}",
        "behaviors.A: network_settings.memory.sequence_length 64 is larger than hyperparameters.batch_size 32; "
        "make it at most the batch size",
    ),
    "batch larger than buffer": (
        "behaviors: {A: {trainer_type: ppo, hyperparameters: {batch_size: 64, buffer_size: 32}}}",
        "behaviors.A.hyperparameters: batch_size 64 is larger than buffer_size 32, so no minibatch would ever be full; "
        "lower batch_size or raise buffer_size",
    ),
    "even_checkpoints without a count": (
        "behaviors: {A: {even_checkpoints: true, keep_checkpoints: 0}}",
        "behaviors.A: even_checkpoints divides max_steps by keep_checkpoints, which must be at least 1",
    ),
    "engines that join are counted": (
        "env_settings: {env_path: 'attach:none'}",
        "env_settings.env_path: attach:MAX needs a number of engines from 1 to 1,000, not 'none'",
    ),
    "engines that join are counted once": (
        "env_settings: {env_path: 'attach:3', num_envs: 2}",
        "env_settings: num_envs is 2, but attach:3 sets the number of engines; leave num_envs out",
    ),
    "an Unreal build without its path": (
        "env_settings: {env_path: 'unreal:'}",
        "env_settings.env_path: unreal:PATH needs the path of a build",
    ),
    "a scene without its name": (
        "env_settings: {env_path: 'headless:'}",
        "env_settings.env_path: headless:SCENE needs the name of a scene; it has tau, balance, ",
    ),
    "run id that is empty": (
        "checkpoint_settings: {run_id: ''}",
        "checkpoint_settings.run_id is empty; give it a value",
    ),
    "run id outside the results": (
        "checkpoint_settings: {run_id: ../x}",
        'checkpoint_settings.run_id must be a plain folder name: no absolute path, no "..", '
        "none of < > : \" | ? *, not '../x'",
    ),
    "sampler without type": (
        "environment_parameters: {m: {min_value: 1}}",
        "environment_parameters.m is neither a number nor a sampler nor a curriculum; "
        "a sampler needs the key sampler_type",
    ),
    "unknown sampler": (
        "environment_parameters: {m: {sampler_type: unifrm, sampler_parameters: {}}}",
        "environment_parameters.m has an unknown sampler_type unifrm; did you mean uniform?",
    ),
    "sampler without parameters": (
        "environment_parameters: {m: {sampler_type: uniform}}",
        "environment_parameters.m.sampler_parameters is missing and has no default; add it",
    ),
    "range upside down": (
        "environment_parameters: {m: {sampler_type: uniform, sampler_parameters: {min_value: 3}}}",
        "environment_parameters.m.sampler_parameters: 3.0 is larger than 1.0; write the smaller number first",
    ),
    "interval that is no pair": (
        "environment_parameters: {m: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[1]]}}}",
        "environment_parameters.m.sampler_parameters.intervals[0][1] is missing and has no default; add it",
    ),
    "lesson without criteria": (
        "environment_parameters: {m: {curriculum: [{name: a, value: 1}, {name: b, value: 2}]}}",
        "environment_parameters.m.curriculum: lesson a has no completion_criteria, "
        "which every lesson but the last needs",
    ),
    "progress beyond 1": (
        "environment_parameters: {m: {curriculum: [{name: a, value: 1, completion_criteria: "
        "{behavior: A, measure: progress, threshold: 2}}, {name: b, value: 2}]}}",
        "environment_parameters.m.curriculum[0].completion_criteria: threshold is 2.0, but progress runs from 0 to 1",
    ),
    "half a certificate": (
        "collection: {listen: '::', tls_cert: c.pem}",
        "collection: tls_cert and tls_key (--tls-cert, --tls-key) need each other; give both or neither",
    ),
    "a certificate for nobody": (
        "collection: {tls_cert: c.pem, tls_key: k.pem}",
        "collection: tls_cert and tls_key (--tls-cert, --tls-key) are for engines on other machines; add listen",
    ),
    "a transport to choose, which only ever meant how": (
        "collection: {transports: own}",
        "collection.transports: unknown key; known here: deterministic, max_policy_age, learner, listen, tls_cert",
    ),
    "key twice": ("debug: true\ndebug: false", "debug is defined twice; remove one of the two"),
    "formula without components": (
        "tau: {reward: {formula: binary01}}",
        "tau.reward: formula binary01 judges all components together, so it has no credit for each; "
        "use credit aggregate",
    ),
    "aggregate of nothing": (
        "tau: {reward: {learn_from: aggregate}}",
        "tau.reward: learn_from aggregate needs a predicate that defines success; "
        "choose positive, threshold, outcome or distance",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), CASES.values(), ids=CASES.keys())
def test_a_mistake_is_told_with_its_place_and_remedy(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    message = str(error.value)
    assert sentence in message
    assert all(str(path) in line for line in message.splitlines() if "problems" not in line)
    assert error.value.exit_code == 2


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("behaviors:\n  A:\n    max_step: 1\n  B:\n    time_horizon: -1\ntau:\n  pairs: none\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    lines = str(error.value).splitlines()
    assert lines[0] == "3 problems in the settings:"
    assert [line.strip().removeprefix(f"{path}:").split(":")[0] for line in lines[1:]] == ["3", "5", "7"]


def test_which_keys_there_are_is_listed_once(tmp_path: Path) -> None:
    text = "behaviors: {A: {trainer_type: dqn, hyperparameters: {zzzz: 1, yyyy: 2, batchsize: 3}}}"
    (tmp_path / "other.yaml").write_text(text, "utf-8")
    with pytest.raises(SettingsError) as error:
        load_settings(tmp_path / "other.yaml")
    _, first, second, near = str(error.value).splitlines()
    assert ".zzzz: unknown key; known here: batch_size, " in first
    assert second.endswith(".yyyy: unknown key, too")
    assert near.endswith("did you mean batch_size?")
    problems = Problems(Document("twice.yaml", {}))
    for _ in range(2):
        problems.add(("zzzz",), "unknown key; known here: a, b")
    assert problems.sentences == ["twice.yaml: zzzz: unknown key; known here: a, b"]


def test_what_is_right_in_a_file_with_mistakes_and_cannot_be_trained_is_told_with_them(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("""
behaviors:
  A: {trainer_type: td3, behavioral_cloning: {demo_path: x.demo}}
  B: {max_step: 5}
environment_parameters:
  h: {curriculum: [{name: a, value: 1, completion_criteria: {behavior: B}}, {name: b, value: 2}]}
  i: {curriculum: [{name: a, value: 1, completion_criteria: {behavior: C}}, {name: b, value: 2}]}
engine_settings: {widht: 84}
""")
    with pytest.raises(SettingsError) as raised:
        load_settings(file)
    told = [sentence.split(": ", 1)[1].split()[0].rstrip(":") for sentence in raised.value.problems]
    assert told == [
        "behaviors.B.max_step",
        "engine_settings.widht",
        "behaviors.A.behavioral_cloning",
        "environment_parameters.i.curriculum[0].completion_criteria.behavior",
    ]
    assert str(raised.value).splitlines()[1:] == [f"  {sentence}" for sentence in raised.value.problems]
