from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.metrics import MetricsHub
from tau_trainer.settings import load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.plan import make_plan
from tau_trainer.training.pool import LearnerPool, check_trainable, trainer_settings
from tests.training.fakes import tau_settings

SPEC = BehaviorSpec(
    "TauAgent?team=0", (ObservationSpec("prompt", (5,)), ObservationSpec("target", (3,))), ActionSpec(3)
)
Make = Callable[..., LearnerPool]


@pytest.fixture
def make(hub: MetricsHub, tmp_path: Path) -> Iterator[Make]:
    pools: list[LearnerPool] = []

    def make(on_new: Any = None, **overrides: Any) -> LearnerPool:
        plan = make_plan("parallel", tau_settings(tmp_path, **overrides), tmp_path)
        pools.append(LearnerPool(plan, hub, on_new=on_new))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_shared_pairs_feed_one_learner(make: Make) -> None:
    seen: list[str] = []
    pool = make(lambda learner: seen.append(learner.name))
    agents = [pool.agent(pair, SPEC) for pair in range(2)]
    assert agents[0].learner is agents[1].learner
    assert list(pool.learners) == seen == ["TauAgent"]
    assert pool.of_pair(1) == [agents[0].learner]
    assert agents[0].learner.max_steps == 400


def test_independent_pairs_have_their_own(make: Make) -> None:
    pool = make(tau__policy="independent", tau__pairs=12)
    learners = [pool.agent(pair, SPEC).learner for pair in range(12)]
    assert len({learner.options.seed for learner in learners}) == 12
    assert list(pool.learners) == [f"TauAgent-pair{pair}" for pair in range(12)]
    assert pool.of_pair(1) == [learners[1]], "and not that of pair 11"
    assert learners[0].max_steps == 34
    assert pool.executor._max_workers <= 12


def test_the_policy_does_not_see_the_target(make: Make) -> None:
    learner = make().agent(0, SPEC).learner
    assert [sensor.name for sensor in learner.spec.observations] == ["prompt"]
    assert learner.options.reward_components == 3


def test_a_learners_seed_follows_from_run_and_name(make: Make) -> None:
    seeds = [make(env_settings__seed=seed).agent(0, SPEC).learner.options.seed for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_engines_must_agree(make: Make) -> None:
    pool = make()
    pool.agent(0, SPEC)
    other = BehaviorSpec(SPEC.name, SPEC.observations, ActionSpec(4))
    with pytest.raises(SettingsError, match=r"'TauAgent' has other sensors or actions in engine 1"):
        pool.agent(1, other)


def test_a_missing_target_sensor(make: Make) -> None:
    blind = BehaviorSpec(SPEC.name, SPEC.observations[:1], SPEC.actions)
    with pytest.raises(SettingsError, match=r"no sensor named 'target'.*source=engine"):
        make().agent(0, blind)


def test_rewards_follow_the_settings(make: Make) -> None:
    assert make().reward(SPEC).components == 3
    assert make(tau__reward__credit="aggregate").reward(SPEC).components == 1
    engine = make(tau__reward__source="engine", tau__reward__credit="aggregate").reward(SPEC)
    assert (engine.source, engine.components) == ("engine", 1)
    assert make(tau__profile="tau384").formula == "binary"


def test_a_behavior_that_the_settings_do_not_name(tmp_path: Path) -> None:
    file = tmp_path / "walker.yaml"
    file.write_text("behaviors: {Walker: {trainer_type: ppo, max_steps: 10}}\n")
    walker = load_settings(file)
    with pytest.raises(SettingsError, match=r"'Walkr'.*did you mean 'Walker'"):
        trainer_settings(walker, "Walkr")
    with pytest.raises(SettingsError, match=r"'Crawler'.*'Walker'"):
        trainer_settings(walker, "Crawler")
    assert trainer_settings(load_settings(None), "Anything").max_steps == 500_000
    default = load_settings(file, {"default_settings.max_steps": 77})
    assert trainer_settings(default, "Crawler").max_steps == 77


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (BehaviorSpec("A", (ObservationSpec("camera", (3, 84, 84)),), ActionSpec(2)), "camera"),
        (BehaviorSpec("A", (ObservationSpec("vector", (3,)),), ActionSpec()), "no actions"),
    ],
)
def test_what_this_version_cannot_learn(spec: BehaviorSpec, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        check_trainable(spec)


def test_learning_uses_one_thread_an_operation(make: Make) -> None:
    assert make().executor.submit(torch.get_num_threads).result(10) == 1
