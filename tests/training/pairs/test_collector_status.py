from __future__ import annotations

import asyncio
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from tau_trainer.metrics import MetricsHub, PairMetrics, PairState, TaskKeys, keys
from tau_trainer.training.agents import Tally
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.learning.scores import LastRewards
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.collector import PairsCollector
from tau_trainer.training.pairs.coordinator import RunCoordinator
from tau_trainer.training.pairs.pair import Pair
from tau_trainer.training.pairs.parallel import ParallelTrainer
from tau_trainer.training.pairs.speeds import Speeds
from tau_trainer.training.plan import RunPlan
from tests.training.fakes import Memory


def fake_learner(name: str, decisions: int = 0, accuracy: float | None = None, **more: Any) -> Any:
    scores = {} if accuracy is None else {keys.VALIDATION_ACCURACY: accuracy}
    numbers = {"updates": 0, "policy_age": 0.0, "update_seconds": 0.0, "max_steps": 1000, "steps_per_decision": None}
    bound = SimpleNamespace(held_seconds=more.pop("held_seconds", 0.0))
    progress = SimpleNamespace(**{"rewards": LastRewards(), **numbers, **more})
    judge = SimpleNamespace(scores=scores)
    given = {"name": name, "decisions": decisions, "progress": progress, "bound": bound, "tracker": judge}
    return SimpleNamespace(**given, opponents=None)


def actor_told(figure: str) -> Any:
    return SimpleNamespace(recorded=SimpleNamespace(lines=lambda: (figure,)))


def said(pair: int, **values: float) -> LastRewards:
    """Rewards of a learner after a summary in which one pair told of these keys, ``_`` for what no name may have."""
    names = {"own": keys.CUMULATIVE_REWARD, "group": keys.GROUP_CUMULATIVE_REWARD, "length": keys.EPISODE_LENGTH}
    hub, rewards = MetricsHub(), LastRewards()
    for name, value in values.items():
        hub.add("A", names.get(name, name), value, pair=pair)
    rewards.take(hub.flush("A", 1))
    return rewards


class FakePair:
    """A pair that feeds some learners."""

    def __init__(self, number: int, learners: list[Any], decisions: int = 0) -> None:
        self.id = number
        self.state = PairState.TRAINING
        self.absent: str | None = None
        self.tally = Tally(decisions, Counter({learner.name: 2 + place for place, learner in enumerate(learners)}))

    def metrics(self) -> PairMetrics:
        return PairMetrics(self.id, self.state, self.tally.decisions)


class Shown(PairsCollector):
    """Pairs and learners that nothing has started."""

    def __init__(self, pairs: list[FakePair], learners: list[Any], task: Any = None) -> None:
        self.parallel = cast(ParallelTrainer[Pair], SimpleNamespace(pairs=pairs))
        self.baselines, self.actors = None, None
        self_play = SimpleNamespace(table=lambda name: ())
        loops = {learner.name: learner for learner in learners}
        pool = SimpleNamespace(of_pair=lambda pair: learners, self_play=self_play, loops=loops)
        self.pool = cast(LearnerPool, pool)
        told = {"accuracies": {1: 0.25}, "lessons": Lessons({}), "learners": learners, "gone": 0}
        self.coordinator = cast(RunCoordinator, SimpleNamespace(**told))
        self.plan = cast(RunPlan, SimpleNamespace(task=task, shared=True))
        self._speeds = Speeds(self.steps, [pair.tally.decisions for pair in pairs])


def test_a_game_that_a_person_has_stopped_is_the_message() -> None:
    learner = fake_learner("A", 0)
    pairs = [FakePair(0, [learner]), FakePair(1, [learner])]
    run = Shown(pairs, [learner])
    assert run.status["message"] is None
    pairs[1].absent = "the Unity editor stopped the game"
    assert run.status["message"] == "the Unity editor stopped the game"


def test_what_each_behavior_says_of_its_actors_is_shown() -> None:
    run: Any = Shown([FakePair(0, [])], [])
    assert run.status["figures"] == ()
    run.actors = SimpleNamespace(trainers=[actor_told("9 samples/s"), actor_told("8")])
    assert run.status["figures"] == ("9 samples/s", "8")


def test_a_pair_that_is_not_training_has_no_speed_and_no_share_in_the_runs() -> None:
    learner = fake_learner("A", 100)
    pairs = [FakePair(i, [learner], 50) for i in range(2)]
    run = Shown(pairs, [learner])
    for pair in pairs:
        pair.tally.decisions += 10
    pairs[1].state = PairState.COMPLETED
    first, second = run.pairs
    assert second.decisions_per_second == 0.0 < first.decisions_per_second
    assert (first.validation_accuracy, second.validation_accuracy) == (None, 0.25)


def test_sums_and_the_worst_over_all_learners() -> None:
    learners = [
        fake_learner("A", accuracy=0.25, updates=2, policy_age=0.5, held_seconds=1.0, update_seconds=3.0),
        fake_learner("B", accuracy=0.75, updates=3, policy_age=1.5, held_seconds=2.0, update_seconds=4.0),
        fake_learner("C"),
    ]
    run = Shown([], learners)
    fields = run.status
    assert (fields["policy_version"], fields["policy_age"], fields["validation_accuracy"]) == (5, 1.5, 0.75)
    assert (fields["held_seconds"], fields["update_seconds"], run.max_steps) == (3.0, 7.0, 3000)
    assert Shown([], []).status["validation_accuracy"] is None


def test_a_behavior_is_told_of_by_the_pairs_that_play_it() -> None:
    learners = [
        fake_learner("A", 10, rewards=said(0, own=1.5)),
        fake_learner("B", 20, rewards=said(0, own=2, group=9, length=7)),
    ]
    pairs = [FakePair(0, learners), FakePair(1, learners[:1]), FakePair(2, learners)]
    first, second = Shown(pairs, learners).behaviors
    assert (first.name, first.step, first.max_steps, first.episodes) == ("A", 10, 1000, 6)
    assert (first.mean_reward, first.mean_group_reward, first.window, first.window_episodes) == (
        1.5, None, "summary", 1,
    )  # fmt: skip
    assert (second.name, second.episodes, second.mean_reward, second.mean_group_reward) == ("B", 6, 2.0, 9.0)
    assert (first.mean_length, second.mean_length) == (None, 7.0)


TASK = SimpleNamespace(columns=("success",), keys=TaskKeys("decided", "success", "aggregated"))


@pytest.mark.parametrize(("task", "expected"), [(None, ((), 4.0, None)), (TASK, (("success",), 0.5, 0.75))])
def test_rewards_are_those_of_decisions_where_a_task_counts_them(task: Any, expected: tuple[Any, ...]) -> None:
    learners = [
        fake_learner(name, rewards=said(0, own=own, decided=0.5, success=0.75)) for name, own in (("A", 3), ("B", 5))
    ]
    told = Shown([FakePair(0, learners), FakePair(1, learners)], learners, task)
    assert (told.status["columns"], told.pairs[0].mean_reward, told.pairs[0].success_rate) == expected
    assert (told.pairs[1].mean_reward, told.pairs[0].mean_group_reward) == (None, None)


def test_pairs_that_wait_for_their_turn_count_towards_the_end() -> None:
    """With a policy for each pair, those that have not begun have no learner yet."""
    learners = [fake_learner("A-pair0"), fake_learner("A-pair1")]
    run: Any = Shown([FakePair(number, learners[number : number + 1]) for number in range(5)], learners)
    run.pool = SimpleNamespace(of_pair=lambda pair: learners[pair : pair + 1])
    assert run.max_steps == 2000
    run.plan.shared = False
    assert run.max_steps == 5000
    run.coordinator.learners = []
    assert run.max_steps == 0


@pytest.mark.parametrize("actors", [None, SimpleNamespace()], ids=["here", "elsewhere"])
def test_why_nothing_was_learned_depends_on_where_agents_act(actors: Any) -> None:
    learner = fake_learner("A")
    learner.policy, learner.spec = SimpleNamespace(version=0), SimpleNamespace(short_name="A")
    learner.flush, learner.why_never = lambda: None, lambda here: "it was here" if here else "it was elsewhere"
    collector: Any = Shown([], [learner])
    collector.actors, collector.coordinator.scorer = actors, None
    collector.plan.deterministic, collector.plan.settings = False, SimpleNamespace(behaviors={})
    collector.coordinator.checkpointer = SimpleNamespace(unsaved=lambda learners, together: [])
    collector.coordinator.save = AsyncMock()
    with MetricsHub([memory := Memory()]) as hub:
        collector.run = SimpleNamespace(hub=hub, hurried=threading.Event())
        asyncio.run(collector._save_last())
    assert memory.warnings == [f"'A' was never updated: it was {'here' if actors is None else 'elsewhere'}"]
