"""Files for `tau-train batch`: what they say, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer import settings as module
from tau_trainer.errors import SettingsError
from tau_trainer.settings import (
    OffPolicyHyperparameters,
    RunSettings,
    dump_settings,
    load_batched,
    load_settings,
    resolve_seed,
)

FILE = """environment: {name: tag_continuous, num_envs: 100, arguments: {num_runners: 5}}
behaviors:
  tagger:
    agents: [tagger]
    trainer_type: a2c
    hyperparameters: {learning_rate: [[0, 1e-3], [1e6, 1e-4]], entropy_coeff: [[0, 0.05], [5e5, 0.0]]}
  runner:
    agents: [runner]
    player: random
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tag.yaml"
    path.write_text(FILE)
    return path


def test_what_a_file_says(file: Path) -> None:
    settings = load_batched(file, {"environment.num_envs": "1e3", "behaviors.*.agents": ["a"], "env_settings.seed": 5})
    assert (settings.played.num_envs, settings.played.arguments) == (1000, {"num_runners": 5})
    assert {name: one.agents for name, one in settings.behaviors.items()} == {"tagger": ("a",), "runner": ("a",)}
    tagger, runner = settings.behaviors.values()
    assert (tagger.learns, runner.learns) == (True, False)
    assert tagger.reward_signals["extrinsic"].gamma == 0.98  # A2C's own
    assert settings.seed == 5
    assert settings.device == "cpu"


@pytest.mark.parametrize(("said", "read"), [("off", "off"), ("on", "on"), ("'off'", "off"), ("auto", "auto")])
def test_compile_is_a_word_though_yaml_reads_a_truth(file: Path, tmp_path: Path, said: str, read: str) -> None:
    file.write_text(f"{FILE}compile: {said}\n")
    settings = resolve_seed(load_batched(file))
    assert settings.compile == read
    copy = tmp_path / "configuration.yaml"
    copy.write_text(dump_settings(settings))
    assert load_batched(copy) == settings


def test_an_update_of_a2c_is_small_steps_unless_it_is_said_how_much_is_gathered(file: Path) -> None:
    numbers: Any = load_batched(file, {"behaviors.tagger.hyperparameters": {}}).behaviors["tagger"].hyperparameters
    assert (numbers.batch_size, numbers.buffer_size) == (64, None)
    assert [numbers.gathered(agents) for agents in (8, 64, 1024)] == [512, 512, 8192]
    given: Any = load_batched(file, {"behaviors.tagger.hyperparameters.buffer_size": 500}).behaviors["tagger"]
    assert given.hyperparameters.batch_size == given.hyperparameters.gathered(8) == 500


def test_behaviors_take_what_default_settings_say_and_players_what_is_no_network(file: Path, tmp_path: Path) -> None:
    file.write_text(
        f"""{FILE}
default_settings:
  trainer_type: ppo
  max_steps: 70
  hyperparameters: {{learning_rate_schedule: constant, beta: 0.1}}
  network_settings: {{hidden_units: 7}}
  reward_signals: {{extrinsic: {{gamma: 0.5, strength: 2}}}}
"""
    )
    settings = load_batched(file)
    tagger, runner = settings.behaviors.values()
    numbers: Any = tagger.hyperparameters
    assert (tagger.trainer_type, tagger.max_steps, tagger.network_settings.hidden_units) == ("a2c", 70, 7)
    assert (tagger.reward_signals["extrinsic"].gamma, tagger.reward_signals["extrinsic"].strength) == (0.5, 2.0)
    assert (numbers.learning_rate_schedule, numbers.vf_loss_coeff) == ("constant", 0.5)
    assert (runner.player, runner.max_steps) == ("random", 70)
    copy = tmp_path / "configuration.yaml"
    copy.write_text(dump_settings(settings))
    assert load_batched(copy) == settings


def test_a2c_has_a_gamma_of_its_own_unless_one_is_said(file: Path) -> None:
    def gamma(signal: dict[str, float]) -> float:
        return (
            load_batched(file, {"behaviors.tagger.reward_signals.extrinsic": signal})
            .behaviors["tagger"]
            .reward_signals["extrinsic"]
            .gamma
        )

    assert (gamma({}), gamma({"strength": 2.0}), gamma({"gamma": 0.9})) == (0.98, 0.98, 0.9)


MISTAKES: dict[str, list[tuple[str, str]]] = {
    "agents: [tagger]": [
        ("agent: [tagger]", "tag.yaml:4: behaviors.tagger.agent: unknown key; did you mean agents?"),
        ("to_train: false", "tag.yaml has no behavior that learns; give one to_train: true and no player"),
        ("time_horizon: 9", "tag.yaml:4: behaviors.tagger.time_horizon works only with engines; remove it"),
        (
            "reward_signals: {rnd: {}}",
            "behaviors.tagger.reward_signals has no extrinsic, which is required on tensors; add it, with strength: 0",
        ),
    ],
    "entropy_coeff": [("entropy_coef", "behaviors.tagger.hyperparameters.entropy_coef: unknown key; did you mean")],
    "a2c": [("a2d", "behaviors.tagger.trainer_type is 'a2d', which is not a trainer type; did you mean a2c?")],
    "player: random": [
        (
            "trainer_type: sac\n    hyperparameters: {n_step: 3}",
            "tag.yaml:10: behaviors.runner.hyperparameters.n_step is not supported on tensors; remove it",
        ),
        ("trainer_type: poca", "is poca, which learns from groups, but batched environments have none"),
        ("trainer_type: bc\n    demo_path: x", "is bc, which learns only from recordings; use another"),
        ("player: random\n    init_path: x", "behaviors.runner has a player, which has no network, and init_path"),
        ("to_train: maybe", "behaviors.runner.to_train must be true or false"),
        (
            "trainer_type: dqn\n    network_settings: {memory: {}}",
            "behaviors.runner.network_settings.memory is supported on tensors only with ppo and a2c; remove it",
        ),
        (
            "trainer_type: ppo\n    hyperparameters: {updates_per_buffer: 2}",
            "behaviors.runner.hyperparameters.updates_per_buffer works only with engines; remove it",
        ),
        (
            "trainer_type: ppo\n    hyperparameters: {shrink_at: 0.7}",
            "behaviors.runner.hyperparameters.shrink_at works only with engines; remove it",
        ),
        (
            "max_steps: 5",
            "tag.yaml:2: behaviors: play in the same copies, but tagger has max_steps 1000000 and runner has max_steps "
            "5; set it once, under default_settings",
        ),
    ],
    "num_envs: 100": [("num_envs: 0", "tag.yaml:1: environment.num_envs must be at least 1, not 0")],
    "num_envs": [("numenvs", "environment.numenvs: unknown key; did you mean num_envs?")],
    "[[0, 1e-3], [1e6, 1e-4]]": [("[[5, 1e-3], [5, 1e-4]]", "must be points [step, value] with increasing steps")],
    "behaviors:": [
        ("policy:", "tag.yaml: behaviors is missing; name the policies there, such as behaviors: {agent"),
        (
            "evaluation: {episodes: 0, interval: 9}\nbehaviors:",
            "evaluation has episodes 0 but interval 9; raise episodes, or set interval to 0 for no evaluation",
        ),
    ],
    "environment:": [
        ("environments:", "environment is missing, so this file is for tau-train learn; batch requires it"),
        ("debug: 1\ndebug: 2\nenvironment:", "tag.yaml:2: debug is defined twice; remove one of the two"),
        ("tau: {}\nenvironment:", "tag.yaml:1: tau is for engines, but the file has a batched"),
        (
            "env_settings: {num_envs: 4}\nenvironment:",
            "tag.yaml:1: env_settings has num_envs, which is for engines (set copies with environment.num_envs)",
        ),
    ],
    FILE.split("\n")[4] + "\n" + FILE.split("\n")[5]: [
        (
            "    trainer_type: dqn\n    reward_signals: {extrinsic: {}, rnd: {}}",
            "tag.yaml:6: behaviors.tagger.reward_signals.rnd works only with ppo, a2c, poca, mappo, sac and sac_ln",
        )
    ],
}


@pytest.mark.parametrize(("old", "new", "sentence"), [(old, *row) for old, rows in MISTAKES.items() for row in rows])
def test_mistakes_are_told_where_they_stand(file: Path, old: str, new: str, sentence: str) -> None:
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(SettingsError) as error:
        load_batched(file)
    assert sentence in str(error.value)


def test_a_cluster_has_the_ranks_but_the_first(file: Path) -> None:
    given = {"cluster.address": "local:2", "devices": 2}
    settings = load_batched(file, given)
    assert settings.cluster is not None
    assert settings.execution == "sync"
    again = file.with_name("again.yaml")
    again.write_text(dump_settings(settings))
    assert load_batched(again) == settings
    with pytest.raises(SettingsError, match=r"has a cluster \(--cluster\), .* but one device; add --devices"):
        load_batched(file, given | {"devices": 1})


def test_a_reward_that_asks_for_single_decisions_cannot_be_had_with_a_memory(file: Path) -> None:
    given: dict[str, Any] = {"behaviors.tagger.reward_signals": {"extrinsic": {}, "airl": {"demo_path": "x.demo"}}}
    load_batched(file, given)
    given["behaviors.tagger.network_settings.memory"] = {"memory_size": 16}
    with pytest.raises(SettingsError, match=r"tagger\.reward_signals does not support a policy with memory; remove it"):
        load_batched(file, given)


def test_a_memory_is_learned_in_one_process(file: Path) -> None:
    given = {"behaviors.tagger.network_settings.memory": {"memory_size": 16}, "devices": 2}
    with pytest.raises(
        SettingsError, match=r"tagger\.network_settings\.memory is learned .* in one process only; remove it"
    ):
        load_batched(file, given)
    memory = load_batched(file, given | {"devices": 1}).behaviors["tagger"].network_settings.memory
    assert memory is not None
    assert memory.memory_size == 16


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{environment: {name: cartpole}, behaviors: {}}", "behaviors is empty; name the policies there, such as"),
        ("{behaviors: {A: {agents: [a]}}}", "behaviors.A.agents is for a batched environment (`environment`), which"),
        ("{behaviors: {A: {player: random}}}", "behaviors.A.player is for a batched environment"),
        ("{behaviors: {A: {}}, evaluation: {}}", "evaluation is for a batched environment (`environment`), which the"),
        ("{behaviors: {A: {}}, compile: off}", "compile is for a batched environment"),
    ],
)
def test_what_only_one_of_the_two_ways_has(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(file)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("kind", "here", "usual"),
    [("dqn", (64.0, 1), (2.0, 1)), ("sac", (16.0, 1), (1.0, 1)), ("sac_ln", (16.0, 1), ("auto", 3))],
)
def test_defaults_on_tensors_are_not_written_values(kind: str, here: tuple[Any, int], usual: tuple[Any, int]) -> None:
    given = {"behaviors": {"A": {"trainer_type": kind}}}
    for file, steps, wanted in ((given | {"environment": {"name": "tag"}}, 1_000_000, here), (given, 500_000, usual)):
        agent = RunSettings.model_validate(file).behaviors["A"]
        hyper = OffPolicyHyperparameters.of(agent.hyperparameters)
        assert (agent.max_steps, (hyper.steps_per_update, hyper.n_step)) == (steps, wanted)
        assert agent.model_fields_set == {"trainer_type"}


def test_the_earlier_name_of_a_batched_runs_settings() -> None:
    with pytest.warns(DeprecationWarning, match="RunSettings with `environment`"):
        assert module.BatchedSettings is RunSettings
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
