"""The same promises, whether an algorithm learns in a thread or in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Algorithm, Setup, make_algorithm
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, NonFiniteError
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tau_trainer.training.learning.handles import LearnerHandle, LocalLearner
from tau_trainer.training.learning.process import LearnerProcess, RemoteLearner
from tests.training.fakes import ppo_settings, vector_spec
from tests.training.learners import experience

NORMALIZED = {"hidden_units": 8, "num_layers": 2, "normalize": True}
BLOCKS = BehaviorSpec(
    "Agent?team=0",
    (
        ObservationSpec("camera", (1, 20, 20), dtype=np.uint8),
        ObservationSpec("goal", (2,), (), ObservationType.GOAL_SIGNAL),
        ObservationSpec("others", (3, 2), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)),
    ),
    ActionSpec(1, (2,)),
)
SETUPS = {
    "continuous": Setup(vector_spec(), ppo_settings(), seed=3),
    "mixed": Setup(vector_spec(actions=ActionSpec(1, (3, 2))), ppo_settings(network_settings=NORMALIZED), seed=3),
    "by component": Setup(vector_spec(actions=ActionSpec(0, (4, 2))), ppo_settings(), seed=3, reward_width=2),
    "every block": Setup(BLOCKS, ppo_settings(network_settings=NORMALIZED), seed=3),
}


class Side:
    """A handle with the instance that collects for it."""

    def __init__(self, setup: Setup, make: Callable[[Setup, Algorithm], LearnerHandle]) -> None:
        self.algorithm = make_algorithm(setup)
        self.handle = make(setup, self.algorithm)
        self.released = 0

    def work(self, seed: int, reward: float | None = None) -> Work:
        work = experience(self.algorithm, self.handle.policy(), seed, reward)

        def release() -> None:
            self.released += 1
            for values in work.data.values():
                if isinstance(values, np.ndarray):
                    values[...] = 1  # whoever has it now writes into it
            work.release()

        return replace(work, release=release)

    def learn(self, seed: int, publish: Callable[[Policy], None] | None = None, progress: float = 0.25) -> Any:
        return self.handle.submit(self.work(seed), progress, publish)


MakeSide = Callable[..., Side]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LearnerProcess]:
    process = LearnerProcess(tmp_path_factory.mktemp("run_logs") / "Learner-0.log")
    yield process
    process.close()


@pytest.fixture
def in_process(process: LearnerProcess, request: pytest.FixtureRequest) -> MakeSide:
    """Every learner has a name of its own: they all live in one process."""
    numbers = iter(range(100))

    def make(setup: Setup) -> Side:
        name = f"{request.node.name} {next(numbers)}"
        return Side(setup, lambda setup, algorithm: RemoteLearner(process, name, setup, algorithm))

    return make


@pytest.fixture(params=["thread", "process"])
def side_of(request: pytest.FixtureRequest) -> MakeSide:
    if request.param == "thread":
        return lambda setup: Side(setup, lambda _, algorithm: LocalLearner(algorithm))
    make: MakeSide = request.getfixturevalue("in_process")
    return make


def in_thread(setup: Setup) -> Side:
    return Side(setup, lambda _, algorithm: LocalLearner(algorithm))


def equal(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert (values.dtype, values.shape) == (other[name].dtype, other[name].shape)
        assert values.tobytes() == other[name].tobytes(), name


def timeless(stats: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in stats.items() if name != keys.TRAIN_SECONDS}


@pytest.mark.parametrize("name", SETUPS)
def test_a_process_learns_what_a_thread_learns_to_the_bit(in_process: MakeSide, name: str) -> None:
    here, there = in_thread(SETUPS[name]), in_process(SETUPS[name])
    equal(here.handle.policy().weights, there.handle.policy().weights)
    for seed in range(3):
        published: list[list[Policy]] = [[], []]
        stats = [side.learn(seed, seen.append) for side, seen in zip((here, there), published, strict=True)]
        assert timeless(stats[0]) == timeless(stats[1])
        assert len(published[0]) == len(published[1]) > 1
        for one, other in zip(*published, strict=True):
            equal(one.weights, other.weights)
            assert one.version == other.version == seed + 1, "of the update under way"
        policies = here.handle.policy(), there.handle.policy()
        equal(policies[0].weights, policies[1].weights)
        assert policies[0].version == policies[1].version == seed + 1
    states = here.handle.state(), there.handle.state()
    equal(states[0][0], states[1][0])
    assert states[0][1] == states[1][1]
    assert here.released == there.released == 3


def test_a_policy_acts_as_it_did_whatever_is_learned_later(side_of: MakeSide) -> None:
    side = side_of(SETUPS["continuous"])
    side.learn(0)
    before, obs = side.handle.policy(), (np.ones((2, 3), np.float32),)
    acted = before.act(obs, None, np.random.default_rng(0)).continuous
    side.learn(1)
    assert np.array_equal(before.act(obs, None, np.random.default_rng(0)).continuous, acted)
    after = side.handle.policy().act(obs, None, np.random.default_rng(0)).continuous
    assert not np.array_equal(after, acted)


def test_nothing_is_published_where_nobody_asks(side_of: MakeSide) -> None:
    """Taking turns, the order of minibatches and the statistics are still the same."""
    published: list[Policy] = []
    one, other = side_of(SETUPS["mixed"]), side_of(SETUPS["mixed"])
    assert timeless(one.learn(0)) == timeless(other.learn(0, published.append))
    equal(one.handle.policy().weights, other.handle.policy().weights)
    assert published
    assert not np.array_equal(published[0].weights["action.weight"], published[-1].weights["action.weight"])


def test_progress_reaches_the_schedules(side_of: MakeSide) -> None:
    side = side_of(SETUPS["continuous"])
    assert [side.learn(0, progress=done)[keys.LEARNING_RATE] for done in (0.0, 0.5)] == pytest.approx([3e-4, 1.5e-4])


@pytest.mark.parametrize("name", ["mixed", "every block"])
def test_a_state_that_is_loaded_goes_on_to_the_bit(side_of: MakeSide, name: str) -> None:
    one, other = side_of(SETUPS[name]), side_of(replace(SETUPS[name], seed=99))
    one.learn(0)
    arrays, metadata = one.handle.state()
    other.learn(7)
    other.handle.load({name: values.copy() for name, values in arrays.items()}, metadata, fresh=False)
    assert other.handle.policy().version == 1
    equal(one.handle.policy().weights, other.handle.policy().weights)
    assert timeless(one.learn(1)) == timeless(other.learn(1))
    equal(one.handle.state()[0], other.handle.state()[0])


def test_a_state_to_begin_from_leaves_counters_at_zero(side_of: MakeSide) -> None:
    side = side_of(SETUPS["continuous"])
    side.learn(0)
    side.handle.load(*side.handle.state(), fresh=True)
    assert side.handle.policy().version == 0
    assert side.handle.state()[1]["version"] == 0


def test_a_state_of_another_network_is_refused_and_nothing_is_changed(side_of: MakeSide) -> None:
    side, other = side_of(SETUPS["continuous"]), side_of(SETUPS["mixed"])
    before = side.handle.state()
    with pytest.raises(CheckpointError, match="use the settings that the run was started with"):
        side.handle.load(*other.handle.state(), fresh=False)
    after = side.handle.state()
    equal(before[0], after[0])
    assert before[1] == after[1]
    assert side.handle.policy().version == 0


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_leaves_everything_as_before(side_of: MakeSide, number: float) -> None:
    side, untouched = side_of(SETUPS["mixed"]), side_of(SETUPS["mixed"])
    side.learn(0)
    untouched.learn(0)
    before = side.handle.policy()
    with pytest.raises(NonFiniteError, match="reward 'extrinsic' is NaN or infinite in 32 of 48"):
        side.handle.submit(side.work(1, reward=number), 0.5, lambda policy: None)
    assert side.released == 2, "the rollout is given back all the same"
    assert side.handle.policy() is before
    states = side.handle.state(), untouched.handle.state()
    equal(states[0][0], states[1][0])
    assert states[0][1] == states[1][1]
    assert timeless(side.learn(2)) == timeless(untouched.learn(2)), "and it learns on as if nothing had been"
