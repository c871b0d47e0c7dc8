"""Advice on slow games: the rule, the file that follows it, and what a run says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tau_trainer.errors import SettingsError
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.settings.document import configs_folder, read_document
from tau_trainer.settings.upgrading import dumped
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tau_trainer.training.advice import (
    LEAST_STEPS,
    SLOW,
    USUAL,
    advised_trainer,
    hint,
    read_advised,
    reasons_for_ppo,
    replaceable,
    rewritten,
    steps_a_decision,
)

ROOMS = st.floats(0.0, 1e6)
IMAGE = ObservationSpec("image", (3, 8, 8))


def test_the_least_is_enough() -> None:
    assert [advised_trainer(room) for room in (0.0, 0.124, 0.125, 0.126, 1e6)] == [USUAL, USUAL, SLOW, SLOW, SLOW]
    assert advised_trainer(1e6, {"agents have a goal signal"}) == USUAL


@pytest.mark.parametrize("signal", ["curiosity", "rnd"])
def test_reasons_for_ppo_are_a_goal_signal_and_rewards_that_must_be_searched_for(signal: str) -> None:
    variable = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
    others = ObservationSpec("list", (5, 2), variable), ObservationSpec("v", (4,))
    goal = ObservationSpec("goal", (2,), observation_type=ObservationType.GOAL_SIGNAL)
    sensors = (IMAGE, *others), (*others, goal)
    plain, goals = (BehaviorSpec("B", each, ActionSpec(2, (3,))) for each in sensors)
    changes: dict[str, Any] = {"default_settings.network_settings.memory": {}}
    trainer = load_settings(None, changes).of_behavior("B")
    searching = load_settings(None, {f"default_settings.reward_signals.{signal}": {}}).of_behavior("B")
    assert reasons_for_ppo(plain, trainer) == frozenset()
    assert reasons_for_ppo(goals, trainer) == {"agents have a goal signal"}
    hindsight = {"trainer_type": "sac", "hyperparameters": {"hindsight": {"achieved": "v", "goal": "goal"}}}
    learns_from_goals = load_settings(None, {"default_settings": hindsight}).of_behavior("B")
    assert reasons_for_ppo(goals, learns_from_goals) == frozenset()
    assert reasons_for_ppo(plain, searching) == {f"rewards are so rare that agents need {signal}"}


PPO = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 640, num_epoch: 3}
  network_settings: {normalize: true, hidden_units: 64}
behaviors:
  Walker:
    time_horizon: 1000
    init_path: some/checkpoint
    reward_signals: {extrinsic: {gamma: 0.95}, curiosity: {strength: 0.1}}
    max_steps: 70000
  Runner:
    trainer_type: sac
    hyperparameters: {batch_size: 32, save_replay_buffer: true, tau: 0.01}
    network_settings: {memory: {memory_size: 64, sequence_length: 16}}
    summary_freq: 5000
engine_settings: {time_scale: 5}
environment_parameters:
  wind:
    curriculum:
    - {name: calm, completion_criteria: {measure: progress, behavior: Walker, threshold: 0.5}, value: 0}
    - {name: storm, value: 1}
"""


def read(text: str, tmp_path: Any) -> tuple[dict[str, Any], RunSettings]:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    return read_document(file).data, load_settings(file)


@pytest.mark.parametrize("trainer", [SLOW, "ppo"])
def test_everything_but_the_algorithm_is_kept(trainer: str, tmp_path: Any) -> None:
    data, before = read(PPO, tmp_path)
    new = rewritten(data, before, trainer, {"env_settings.num_envs": 3, "env_settings.env_path": "game"})
    (tmp_path / "new.yaml").write_text(dumped(new, "Made."))
    after = load_settings(tmp_path / "new.yaml")
    assert after == read_advised(new, "new.yaml")
    assert {each.trainer_type for each in after.behaviors.values()} == {trainer}
    assert (after.env_settings.num_envs, after.env_settings.env_path) == (3, "game")
    assert after.engine_settings == before.engine_settings
    assert after.environment_parameters == before.environment_parameters
    for name, old in before.behaviors.items():
        changed = {"trainer_type", "hyperparameters", "init_path"} if old.trainer_type != trainer else set()
        new_one = after.behaviors[name]
        assert new_one.model_dump(exclude=changed) == old.model_dump(exclude=changed)
        if changed:
            assert new_one.init_path is None, "weights of the old algorithm are no beginning"
            usual = before if trainer == "ppo" else load_settings(None, {"default_settings.trainer_type": trainer})
            numbers = usual.of_behavior("Another").hyperparameters
            kept = {"save_replay_buffer": name == "Runner" and trainer == SLOW}
            assert new_one.hyperparameters == numbers.model_copy(update=kept)
    assert read(PPO, tmp_path)[0] == data, "nothing of what was read has changed"


def test_hyperparameters_that_say_what_is_wanted_are_kept(tmp_path: Any) -> None:
    wanted = "trainer_type: sac, hyperparameters: {batch_size: 32, save_replay_buffer: true, buffer_size: 99}"
    data, before = read(f"behaviors: {{Walker: {{{wanted}}}}}", tmp_path)
    new = rewritten(data, before, "dqn", {})["behaviors"]["Walker"]
    assert new == {"trainer_type": "dqn", "hyperparameters": {"save_replay_buffer": True}}
    assert rewritten(data, before, "ppo", {})["behaviors"]["Walker"] == {"trainer_type": "ppo"}


def test_what_stays_keeps_its_numbers(tmp_path: Any) -> None:
    data, settings = read(PPO, tmp_path)
    assert rewritten(data, settings, None, {}) == data
    kept = rewritten(data, settings, "sac", {})["behaviors"]["Runner"]
    inherited = {"buffer_size": 640, **data["behaviors"]["Runner"]["hyperparameters"]}
    assert {name: kept["hyperparameters"][name] for name in inherited} == inherited


@pytest.mark.parametrize("name", ["3DBall", "3DBallSAC", "GridWorld", "Hallway", "Pyramids", "WallJump", "SoccerTwos"])
def test_shipped_files_can_change(name: str) -> None:
    settings, data = load_settings(name), read_document(configs_folder() / f"{name}.yaml").data
    if not replaceable(settings):
        assert name == "SoccerTwos", "whose groups are paid together"
        return
    for trainer in {SLOW, USUAL}:
        after = read_advised(rewritten(data, settings, trainer, {}), name)
        assert {each.trainer_type for each in after.behaviors.values()} == {trainer}
        assert [each.max_steps for each in after.behaviors.values()] == [
            each.max_steps for each in settings.behaviors.values()
        ]


def test_what_learn_would_refuse_is_refused(tmp_path: Any) -> None:
    data, settings = read(PPO, tmp_path)
    with pytest.raises(SettingsError, match=r"file: execution is async"):
        read_advised(rewritten(data, settings, SLOW, {"execution": "async"}), "file")


def test_gradient_steps_of_a_decision() -> None:
    ppo = load_settings("3DBall").of_behavior("3DBall")
    assert steps_a_decision(ppo) == pytest.approx(3 / 64, rel=0.05)
    sac = load_settings("3DBallSAC").of_behavior("3DBall")
    assert steps_a_decision(sac) == pytest.approx(1 / sac.hyperparameters.steps_per_update, rel=0.05)  # type: ignore[attr-defined]
    slow = load_settings(None, {"behaviors.B.trainer_type": SLOW}).of_behavior("B")
    assert steps_a_decision(slow) == pytest.approx(LEAST_STEPS, rel=0.05)


def ball(**changes: Any) -> RunSettings:
    return load_settings("3DBall", {key.replace("__", "."): value for key, value in changes.items()})


def test_a_run_that_waits_for_its_game_says_so() -> None:
    said = hint(0.92, ball(env_settings__env_path="game"))
    assert said == (
        "The game takes 92% of the time: --num-envs 4 plays 4 at once if the machine has room for them, and "
        f"trainer_type: {SLOW} learns while the game plays; `tau-train advise` measures what it brings."
    )
    assert "a build (--env GAME) can play 4 at once" in str(hint(0.92, ball()))
    groups = load_settings("DungeonEscape", {"env_settings.env_path": "game"})
    assert "trainer_type" not in str(hint(0.92, groups))


@pytest.mark.parametrize(
    ("share", "changes"),
    [
        (0.6, {"env_settings__env_path": "game"}),
        (0.92, {"env_settings__env_path": "game", "env_settings__num_envs": 2}),
        (0.92, {"env_settings__env_path": "attach:1"}),
    ],
)
def test_nothing_is_said_where_nothing_would_be_twice_as_fast(share: float, changes: dict[str, Any]) -> None:
    assert hint(share, ball(**changes)) is None
    used = load_settings(None, {"default_settings.trainer_type": SLOW, "env_settings.env_path": "game"})
    assert hint(0.92, used) is None, "who uses it is told nothing"
