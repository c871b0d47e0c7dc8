"""The batched Tau task is the engine's scene, step by step, and pays what its AgentTrainer pays."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tau_trainer.envs.batched import registry
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.tau import TauRules, TauScene
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import Actions
from tau_trainer.tau.batched import _SPLITS, TauBatched
from tau_trainer.tau.dataset import SplitName
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES
from tau_trainer.tau.rewarder import RewardComputer
from tests.tau.answering import answers

COPIES = 24


class Told:
    """Stands in a scene for its random numbers: rows that were drawn elsewhere."""

    def __init__(self, env: TauBatched) -> None:
        self._env = env

    def uniform(self) -> NDArray[np.float64]:
        return (self._env.state["row"].numpy()[None] + 0.5) / len(self._env.rows)


def both(profile: str, **rules: Any) -> tuple[TauBatched, TauScene]:
    env = TauBatched(COPIES, profile=profile, seed=3, **rules)
    played = TauScene(
        dataset=env.dataset,
        profile=PROFILES[profile],
        agents=COPIES,
        rules=replace(TauRules(), **rules),
        target_sensor=True,
    )
    played.random = Told(env)  # type: ignore[assignment]
    return env, played


@pytest.mark.parametrize(
    ("profile", "rules"),
    [
        ("tau3", {}),
        ("tau3", {"max_decisions": 17}),
        ("tau3", {"max_decisions": 17, "faithful_terminal": True, "split": "evaluation"}),
        ("tau3", {"reward": "difference", "reward_threshold": -3.0, "columns": 2}),
        ("tau3", {"reward": "binary_strict", "reward_threshold": -2.0, "max_decisions": 0}),
        ("tau3", {"reward": "binary01", "threshold": 0.3, "max_decisions": 9}),
        ("tau384", {"max_decisions": 30}),
        ("tau384", {"reward": "incremental", "columns": 100, "max_decisions": 11}),
    ],
)
def test_a_step_is_the_scenes(profile: str, rules: dict[str, Any]) -> None:
    env, played = both(profile, **rules)
    generator = np.random.default_rng(0)
    observations = env.reset()
    (batch,) = played.reset(EnvironmentParameters())
    ended = 0
    for _ in range(120):
        target, prompt = batch.obs
        np.testing.assert_array_equal(observations[:, 0], prompt)
        np.testing.assert_array_equal(env.target(env.state)[:, 0], target)
        output = answers(env, generator)
        step = env.step(torch.tensor(output)[:, None])
        (batch,) = played.step({batch.behavior: Actions(output, np.zeros((COPIES, 0), np.int32))})
        reward, last = batch.reward.copy(), np.asarray(prompt).copy()
        over = batch.terminals.agent_ids
        reward[over] = batch.terminals.reward
        np.testing.assert_allclose(step.rewards[:, 0], reward, rtol=1e-6, atol=1e-7)
        assert step.over.nonzero()[:, 0].tolist() == over.tolist()
        assert step.truncated[over, 0].tolist() == batch.terminals.truncated.tolist()
        assert step.terminated[over, 0].tolist() == (~batch.terminals.truncated).tolist()
        np.testing.assert_array_equal(step.final_observations[over, 0], batch.terminals.obs[1])
        np.testing.assert_array_equal(step.final_observations[over, 0], last[over])
        observations = step.observations
        ended += len(over)
    assert (ended > 0) == (rules != {})


@pytest.mark.parametrize("formula", REWARDS)
@pytest.mark.parametrize(("profile", "columns"), [("tau3", None), ("tau3", 2), ("tau384", 300)])
def test_it_pays_as_an_agent_trainer_pays(formula: str, profile: str, columns: int | None) -> None:
    env = TauBatched(COPIES, profile=profile, reward=formula, columns=columns, threshold=0.2)
    settings = RewardSettings(source="trainer", credit="aggregate", columns=columns, threshold=0.2)
    trainer = RewardComputer(settings, formula, env.profile.action_size)
    env.reset()
    generator = np.random.default_rng(1)
    for _ in range(5):
        output = answers(env, generator)
        target = env.target(env.state)[:, 0].numpy()
        wanted = trainer.decided(np.arange(COPIES), Actions(output, np.zeros((COPIES, 0), np.int32)), (target,))
        assert wanted is not None
        step = env.step(torch.tensor(output)[:, None])
        np.testing.assert_allclose(step.rewards[:, 0], wanted.mean, rtol=1e-5, atol=1e-6)


def test_prompts_are_drawn_evenly_from_the_split() -> None:
    env = TauBatched(4000, split="validation")
    env.reset()
    rows = [env.state["row"].clone()]
    for _ in range(9):
        env.step(torch.zeros(4000, 1, 3))
        rows.append(env.state["row"].clone())
    counts = np.bincount(torch.cat(rows).numpy(), minlength=len(env.rows))
    assert len(counts) == len(env.dataset.validation)
    assert counts.min() > 0.75 * counts.mean()
    assert counts.max() < 1.25 * counts.mean()
    assert (rows[0] != rows[1]).float().mean() > 0.9, "the next prompt is another one"


def test_its_arguments_are_the_scenes_rules() -> None:
    parameters = inspect.signature(TauBatched.__init__).parameters
    for rule in fields(TauRules):
        assert parameters[rule.name].default == rule.default, rule.name
    assert get_args(SplitName) == _SPLITS


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"profile": "tau38"}, r"profile is 'tau38'; did you mean tau3"),
        ({"split": "trian"}, r"split is 'trian'; did you mean train\?"),
        ({"reward": "binry"}, r"reward is 'binry'; did you mean binary\?"),
        ({"columns": 4}, "columns is 4, but profile tau3 has the columns 1 to 3"),
        ({"columns": 0}, "columns is 0, but profile tau3 has the columns 1 to 3"),
        ({"threshold": 0.0}, "threshold is 0; give a number greater than 0"),
        ({"max_decisions": -1}, r"max_decisions is -1; give 0 \(no limit\) or more"),
        ({"threshold": "x"}, "tau: threshold is 'x'; it must be a number"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        registry.make("tau", 1, **arguments)


def test_on_places_less_than_half_a_level_is_right_whatever_the_threshold() -> None:
    assert TauBatched(1, profile="1x41", threshold=0.3).threshold == 0.025
    assert TauBatched(1, threshold=0.3).threshold == 0.3


def test_data_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json"):
        registry.make("tau", 1, data=str(tmp_path / "none.json"))
