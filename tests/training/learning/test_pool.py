from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tau_trainer.algorithms import Algorithm, Setup, make_algorithm
from tau_trainer.bridge.package import RECORDED, ImageOrder
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import MetricsHub
from tau_trainer.rewards import EngineReward
from tau_trainer.settings import load_settings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.training.learning.door import Door
from tau_trainer.training.learning.learner import Shared
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.learning.process import RemoteLearner
from tau_trainer.training.plan import make_plan
from tests.training.fakes import Memory, sac_settings, tau_settings
from tests.waiting import HANG_S

SPEC = BehaviorSpec(
    "TauAgent?team=0", (ObservationSpec("prompt", (5,)), ObservationSpec("target", (3,))), ActionSpec(3)
)
ENGINE = {"tau__reward__source": "engine", "tau__reward__credit": "aggregate"}
Make = Callable[..., LearnerPool]


@pytest.fixture
def make(hub: MetricsHub, tmp_path: Path) -> Iterator[Make]:
    pools: list[LearnerPool] = []

    def make(watcher: Any = None, **overrides: Any) -> LearnerPool:
        plan = make_plan("parallel", tau_settings(tmp_path, **overrides), tmp_path / "run_logs")
        pools.append(LearnerPool(plan, Shared(hub), watcher))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_shared_pairs_feed_one_learner(make: Make) -> None:
    seen: list[str] = []
    pool = make(SimpleNamespace(appears=lambda learner: seen.append(learner.name), updated=None))
    agents = [pool.agent(pair, SPEC) for pair in range(2)]
    assert agents[0].learner is agents[1].learner
    assert list(pool.learners) == seen == ["TauAgent"]
    assert pool.of_pair(1) == [agents[0].learner]
    assert pool.learners["TauAgent"].progress.max_steps == 400
    assert pool.batcher.actors == {("TauAgent", 0): agents[0].learner.actor}
    assert agents[0].learner.actor.parties == 2


def test_who_only_plays_is_told_that_nothing_is_learned(make: Make) -> None:
    """So that it asks for no demonstrations, which may be gone by then."""
    assert make().learner(0, SPEC).setup.learns
    assert not make(checkpoint_settings__inference=True).learner(0, SPEC).setup.learns


def test_recordings_are_read_in_the_order_of_the_settings(make: Make) -> None:
    chosen = {"collection__image_order": "declared", "collection__flat_sensors": ["heat"]}
    assert make(**chosen).learner(0, SPEC).setup.images == ImageOrder(flat=("heat",))
    assert make().learner(0, SPEC).setup.images == RECORDED


def test_independent_pairs_have_their_own(make: Make) -> None:
    pool = make(tau__policy="independent", tau__pairs=12)
    learners = [pool.learner(pair, SPEC) for pair in range(12)]
    assert len({learner.actor.rng.random() for learner in learners}) == 12
    assert len({learner.policy.weights["body.0.weight"].tobytes() for learner in learners}) == 12
    assert list(pool.learners) == [f"TauAgent-pair{pair}" for pair in range(12)]
    assert pool.of_pair(1) == [learners[1]], "and not that of pair 11"
    assert learners[0].progress.max_steps == learners[0].setup.decisions == 34, "what exploration falls over, too"
    assert pool.executor._max_workers <= 12


@pytest.mark.parametrize("policy", ["independent", "shared"])
def test_a_behavior_may_not_be_called_as_the_policy_of_a_pair(make: Make, policy: str) -> None:
    """With independent policies `A-pair1` is what the second pair of `A` learns."""
    pool = make(tau__policy=policy, tau__pairs=2)
    door = Door(pool, {}, lambda learner, behavior: None, lambda learner: None)
    shown = [BehaviorSpec(name, (ObservationSpec("o", (2,)),), ActionSpec(1)) for name in ("A", "A-pair1")]
    said = door.conflict(0, shown)
    assert (said is None) == (policy == "shared")
    assert said is None or said.startswith("'A' and 'A-pair1' would share files")


def test_the_policy_does_not_see_the_target(make: Make) -> None:
    learner = make().learner(0, SPEC)
    assert [sensor.name for sensor in learner.spec.observations] == ["prompt"]
    assert learner.state()[1]["reward_components"] == 3


def test_a_learners_seed_follows_from_run_and_name(make: Make) -> None:
    learners = [make(env_settings__seed=seed).learner(0, SPEC) for seed in (1, 1, 2)]
    drawn = [(one.actor.rng.random(), one.policy.weights["body.0.weight"].tobytes()) for one in learners]
    assert drawn[0] == drawn[1]
    assert all(here != there for here, there in zip(drawn[0], drawn[2], strict=True))


def test_a_missing_target_sensor(make: Make) -> None:
    blind = BehaviorSpec(SPEC.name, SPEC.observations[:1], SPEC.actions)
    with pytest.raises(SettingsError, match=r"no sensor named 'target'.*source=engine"):
        make().agent(0, blind)


def test_rewards_follow_the_settings(make: Make) -> None:
    assert make().rewarder(SPEC).width == 3
    assert make(tau__reward__credit="aggregate").rewarder(SPEC).width == 1
    assert make(**ENGINE).rewarder(SPEC).width == 1


def test_without_a_task_the_engine_pays(hub: MetricsHub, tmp_path: Path) -> None:
    chosen = {"env_settings.env_path": "headless:basic", "env_settings.seed": 7}
    plan = make_plan("learn", load_settings(None, chosen), tmp_path)
    pool = LearnerPool(plan, Shared(hub))
    assert isinstance(pool.rewarder(SPEC), EngineReward)
    assert [sensor.name for sensor in pool.learner(0, SPEC).spec.observations] == ["prompt", "target"]
    pool.close()


def test_a_behavior_that_the_settings_do_not_name(make: Make, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'TauAgnt'.*did you mean 'TauAgent'"):
        make().agent(0, BehaviorSpec("TauAgnt?team=0", SPEC.observations, SPEC.actions))
    file = tmp_path / "walker.yaml"
    file.write_text("behaviors: {Walker: {trainer_type: ppo, max_steps: 10}}\n")
    with pytest.raises(SettingsError, match=r"'Crawler'.*'Walker'"):
        load_settings(file).of_behavior("Crawler")
    assert load_settings(None).of_behavior("Anything").max_steps == 500_000
    assert load_settings(file, {"default_settings.max_steps": 77}).of_behavior("Crawler").max_steps == 77


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (BehaviorSpec("TauAgent", (ObservationSpec("camera", (3, 12, 84)),), ActionSpec(2)), "'TauAgent'.*'camera'"),
        (BehaviorSpec("TauAgent", (ObservationSpec("vector", (3,)),), ActionSpec()), "'TauAgent' has no actions"),
        (BehaviorSpec("TauAgent", (), ActionSpec(2)), "'TauAgent' has no sensors, so there is nothing to decide by"),
    ],
)
def test_what_this_version_cannot_learn(make: Make, spec: BehaviorSpec, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        make(**ENGINE).agent(0, spec)


def test_learning_uses_one_thread_an_operation(make: Make) -> None:
    assert make().executor.submit(torch.get_num_threads).result(HANG_S) == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"collection__deterministic": True}, "the same seed must give the same run"),
        ({"collection__max_policy_age": 0}, "learning and acting take turns"),
        ({}, None),
        ({"steps": 4.0, "collection__deterministic": True}, None),
    ],
)
def test_where_no_time_is_filled_auto_says_which_number_it_is(
    hub: MetricsHub, memory: Memory, tmp_path: Path, given: dict[str, Any], why: str | None
) -> None:
    steps = given.pop("steps", "auto")
    settings = sac_settings(tmp_path, behaviors__TauAgent__hyperparameters__steps_per_update=steps, **given)
    pool = LearnerPool(make_plan("parallel", settings, tmp_path), Shared(hub))
    pool.learner(0, SPEC)
    hub.drain(5.0)
    told = [event.message for event in memory.events if event.kind == "steps"]
    text = f"'TauAgent': steps_per_update: auto means 8 here, because {why}"
    assert told == ([] if why is None else [text])
    pool.close()


# --- where is learned -------------------------------------------------------------------------------------------------


class FakeProcess:
    """A process that is never started."""

    abreast = 1

    def __init__(self, log: Path, threads: int) -> None:
        self.log, self.threads = log, threads
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[FakeProcess]:
    made: list[FakeProcess] = []

    def make(log: Path, *, threads: int) -> FakeProcess:
        made.append(FakeProcess(log, threads))
        return made[-1]

    monkeypatch.setattr("tau_trainer.training.learning.pool.LearnerProcess", make)
    return made


def hold_lock(monkeypatch: pytest.MonkeyPatch, holds: Iterator[bool]) -> None:
    """The next algorithms hold the interpreter's lock while they learn, or do not."""

    def made(setup: Setup) -> Algorithm:
        algorithm = make_algorithm(setup)
        algorithm.holds_lock = next(holds)
        return algorithm

    monkeypatch.setattr("tau_trainer.training.learning.pool.make_algorithm", made)


def where(pool: LearnerPool, *pairs: int) -> list[str]:
    """A letter for each pair's learner: thread or the number of its process."""
    handles = [pool.learner(pair, SPEC).handle for pair in pairs]
    places = [one._process if isinstance(one, RemoteLearner) else None for one in handles]
    return ["thread" if place is None else place.log.name for place in places]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("learner", "holds_lock", "turns", "place"),
    [
        ("auto", False, False, "thread"),
        ("auto", True, False, "Learner-0.log"),
        ("auto", True, True, "thread"),
        ("thread", True, False, "thread"),
        ("process", False, False, "Learner-0.log"),
        ("process", False, True, "Learner-0.log"),
    ],
)
def test_a_process_is_where_the_settings_ask_or_acting_would_be_held_up(
    make: Make,
    processes: list[FakeProcess],
    monkeypatch: pytest.MonkeyPatch,
    learner: str,
    holds_lock: bool,
    turns: bool,
    place: str,
) -> None:
    hold_lock(monkeypatch, itertools.repeat(holds_lock))
    assert where(make(collection__learner=learner, collection__deterministic=turns), 0, 1) == [place, place]
    assert len(processes) == (place != "thread")


def test_independent_learners_share_as_many_processes_as_there_are_cores_to_spare(
    make: Make, processes: list[FakeProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    pool = make(tau__policy="independent", tau__pairs=5, collection__learner="process")
    assert where(pool, 0, 1, 2, 3, 4) == [f"Learner-{i}.log" for i in (0, 1, 0, 1, 0)]
    assert [process.log.parent for process in processes] == [tmp_path / "run_logs"] * 2
    pool.close()
    assert [process.closed for process in processes] == [1, 1]


@pytest.mark.parametrize(
    ("cores", "policy", "threads"),
    [(1, "shared", 1), (2, "shared", 1), (6, "shared", 3), (32, "shared", 4), (6, "independent", 1)],
)
def test_a_process_may_use_half_of_the_cores(
    make: Make,
    processes: list[FakeProcess],
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    policy: str,
    threads: int,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    pool = make(tau__policy=policy, tau__pairs=2, collection__learner="process")
    where(pool, 0, 1)
    assert [process.threads for process in processes] == [threads] * len(processes)


def test_learners_in_threads_are_no_reason_to_miss_a_process(
    make: Make, processes: list[FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some algorithms hold the lock and some do not."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    hold_lock(monkeypatch, iter([False, False, True, False, True]))
    pool = make(tau__policy="independent", tau__pairs=5)
    assert where(pool, 0, 1, 2, 3, 4) == ["thread", "thread", "Learner-0.log", "thread", "Learner-1.log"]


def test_teams_share_a_learner_and_that_is_told_once(make: Make, hub: MetricsHub, memory: Memory) -> None:
    """As in ML-Agents, which warns of it too."""
    pool = make(**ENGINE)
    red, blue = (BehaviorSpec(f"TauAgent?team={team}", SPEC.observations, SPEC.actions) for team in (0, 1))
    first = pool.agent(0, red)
    pool.agent(1, red)
    hub.drain(5.0)
    assert memory.warnings == []
    for pair in (0, 1):
        assert pool.learner(pair, blue) is first.learner
    hub.drain(5.0)
    (sentence,) = memory.warnings
    assert sentence.startswith("'TauAgent' plays in several teams, and all of them share one learner and one policy")
