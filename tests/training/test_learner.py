from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.errors import NonFiniteError
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.settings import TrainerSettings
from tau_trainer.training.learner import Learner, LearnerOptions
from tests.training.fakes import Memory, vector_spec

SPEC = vector_spec()
SETTINGS = TrainerSettings.model_validate(
    {
        "hyperparameters": {"batch_size": 8, "buffer_size": 16, "num_epoch": 1},
        "network_settings": {"hidden_units": 8, "num_layers": 1},
        "max_steps": 1000,
        "summary_freq": 32,
        "checkpoint_interval": 64,
    }
)

Make = Callable[..., Learner]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def make(hub: MetricsHub, executor: ThreadPoolExecutor) -> Make:
    def make(most: int = 1, seed: int = 1, evaluator: Any = None, **options: Any) -> Learner:
        chosen = LearnerOptions(seed=seed, max_steps=1000, max_policy_age=most, **options)
        return Learner("Agent", SPEC, SETTINGS, chosen, hub, executor, evaluator)

    return make


async def collect(learner: Learner, rollouts: int = 1, reward: float = 1.0) -> None:
    """Fill the memory ``rollouts`` times with decisions of 16 agents, without waiting in between."""
    slots = np.arange(16)
    for _ in range(rollouts + 1):
        obs = (np.random.default_rng(3).normal(size=(16, 3)).astype(np.float32),)
        decision, version = await learner.batcher.decide(obs, None)
        rewards = np.full((16, 1), reward, np.float32)
        learner.memory.append(
            slots, rewards, obs, decision.continuous, decision.discrete, decision.log_prob, None, version
        )
        learner.count(16)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


class Gate:
    """Holds every update until it is opened."""

    def __init__(self, learner: Learner, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.open = threading.Event()
        self.updates = 0
        update = learner.ppo.update

        def gated(rollout: Any, progress: float, **how: Any) -> dict[str, float]:
            assert self.open.wait(20.0)
            self.updates += 1
            if error is not None:
                raise error
            return update(rollout, progress, **how)

        monkeypatch.setattr(learner.ppo, "update", gated)


def test_an_update_makes_the_next_version(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make(evaluator=lambda policy: {keys.HELD_OUT_ACCURACY: float(policy.version)})

    async def work() -> None:
        await collect(learner)
        await learner.admit()
        await learner.settle()

    run(work)
    assert (learner.updates, learner.policy.version, learner.batcher.policy.version) == (1, 1, 1)
    assert learner.idle
    assert learner.update_seconds > 0
    assert learner.evaluation == {keys.HELD_OUT_ACCURACY: 1.0}
    learner.flush()
    hub.drain(5.0)
    values = memory.summaries[-1].values
    assert values[keys.EXTRINSIC_REWARD] == pytest.approx(1.0)
    assert values[keys.HELD_OUT_ACCURACY] == 1.0
    assert values[keys.POLICY_AGE] == 0.0


def test_nothing_is_learned_before_the_memory_is_full(make: Make) -> None:
    learner = make()

    async def work() -> None:
        await collect(learner, 0)
        await learner.admit()

    run(work)
    assert learner.idle
    assert learner.updates == 0


def test_collection_goes_on_during_an_update_until_the_bound(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=1)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        await collect(learner)
        await asyncio.wait_for(learner.admit(), 5)
        assert not learner.idle, "an update runs, and nobody waited for it"
        await collect(learner)
        waiting = asyncio.create_task(learner.admit())
        await asyncio.sleep(0.05)
        assert not waiting.done(), "a second rollout may not pile up"
        gate.open.set()
        await asyncio.wait_for(waiting, 5)
        await learner.settle()

    run(work)
    assert gate.updates == 2
    assert learner.held_seconds > 0.03
    assert learner.policy_age == pytest.approx(1.0)


def test_a_bound_of_zero_takes_turns(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        await collect(learner)
        waiting = asyncio.create_task(learner.admit())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        gate.open.set()
        await waiting
        assert learner.idle
        assert learner.policy.version == 1

    run(work)


def test_one_nan_is_skipped_and_three_in_a_row_are_the_end(
    make: Make, monkeypatch: pytest.MonkeyPatch, memory: Memory, hub: MetricsHub
) -> None:
    learner = make(most=0)
    gate = Gate(learner, monkeypatch, NonFiniteError("behavior 'Agent': the loss is NaN"))
    gate.open.set()
    before = learner.policy

    async def work() -> None:
        for _ in range(2):
            await collect(learner)
            await learner.admit()
        await collect(learner)
        with pytest.raises(NonFiniteError, match="the loss is NaN"):
            await learner.admit()

    run(work)
    hub.drain(5.0)
    assert learner.policy is before
    assert learner.updates == 0
    assert len(memory.warnings) == 3


def test_a_real_nan_in_the_rewards_keeps_the_weights(make: Make) -> None:
    learner = make(most=0)
    tensors = {name: tensor.clone() for name, tensor in learner.state()[0].items()}

    async def work() -> None:
        await collect(learner, reward=float("nan"))
        await learner.admit()

    run(work)
    after = learner.state()[0]
    assert all(torch.equal(after[name], tensor) for name, tensor in tensors.items())
    assert learner.error is None


def test_a_defect_reaches_those_who_wait(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=0)
    Gate(learner, monkeypatch, RuntimeError("shapes differ")).open.set()

    async def work() -> None:
        await collect(learner)
        with pytest.raises(RuntimeError, match="shapes differ"):
            await learner.admit()
        await learner.settle()

    run(work)
    assert learner.idle


def test_hurry_gives_up_what_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(most=3)
    gate = Gate(learner, monkeypatch)

    async def work() -> None:
        for _ in range(3):
            await collect(learner)
            await learner.admit()
        await asyncio.sleep(0.02)
        learner.hurry()
        gate.open.set()
        await learner.settle()

    run(work)
    assert gate.updates == 1
    assert learner.idle


def test_after_update_is_awaited_before_the_next(make: Make) -> None:
    learner = make(most=2)
    versions: list[int] = []

    async def note(one: Learner) -> None:
        await asyncio.sleep(0.01)
        versions.append(one.policy.version)

    learner.after_update = note

    async def work() -> None:
        for _ in range(3):
            await collect(learner)
            await learner.admit()
        await learner.settle()

    run(work)
    assert versions == [1, 2, 3]


def test_a_summary_every_so_many_decisions(make: Make, memory: Memory, hub: MetricsHub) -> None:
    learner = make()
    for _ in range(10):
        learner.count(10)
    hub.drain(5.0)
    assert [summary.step for summary in memory.summaries] == [40, 70, 100]
    assert all(summary.training for summary in memory.summaries)


def test_done_after_max_steps(make: Make) -> None:
    learner = make()
    learner.count(999)
    almost = learner.done
    learner.count(1)
    assert (almost, learner.done) == (False, True)
    assert learner.max_steps == 1000


def test_slots_are_given_once(make: Make) -> None:
    learner = make()
    assert learner.new_slots(3).tolist() == [0, 1, 2]
    assert learner.new_slots(2).tolist() == [3, 4]


def test_a_restored_learner_goes_on_to_the_bit(make: Make) -> None:
    """Two updates against one, a checkpoint, and one more in another learner."""

    async def learn(learner: Learner) -> None:
        await collect(learner)
        await learner.admit()
        await learner.settle()
        learner.forget_open()

    async def work() -> None:
        one = make(most=0)
        await learn(one)
        tensors, values = one.state()
        kept = {name: tensor.clone() for name, tensor in tensors.items()}
        two = make(most=0, seed=99)
        two.restore(kept, values)
        assert (two.decisions, two.policy.version) == (one.decisions, 1)
        await learn(one)
        await learn(two)
        for name, tensor in one.state()[0].items():
            assert torch.equal(tensor, two.state()[0][name]), name
        assert one.rng.bit_generator.state == two.rng.bit_generator.state

    run(work)


def test_forget_open_leaves_nothing(make: Make) -> None:
    learner = make()
    run(lambda: collect(learner))
    learner.forget_open()
    assert learner.memory.completed == 0
    assert len(learner.memory.open_slots) == 0
    assert len(learner.memory) == 0
