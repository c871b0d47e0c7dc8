"""Images are bytes from the memory to the device: only what is computed at once becomes floats."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tau_trainer.algorithms.base import Setup, TensorCopies
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.algorithms.batched.actors import actor_of
from tau_trainer.algorithms.off_policy import base as off_policy
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.collection.batched import BatchedCollector
from tau_trainer.errors import NonFiniteError
from tau_trainer.memory import Rollout, StepFacts, Work, WorkData
from tau_trainer.specs import ObservationSpec
from tests.algorithms import experience, replayed
from tests.algorithms.batched.test_on_policy import policy
from tests.algorithms.experience import HYBRID, acted, behavior, ppo
from tests.algorithms.replayed import sac
from tests.envs.batched.recalling import Pictures
from tests.networks import observations

pytestmark = pytest.mark.usefixtures("toys")

CAMERA = ObservationSpec("camera", (3, 20, 20), dtype=np.uint8)
PIXELS = 1200
ROWS = 600
SPEC = behavior(HYBRID, CAMERA)


class Watch(TorchDispatchMode):
    """Notes how many images there are at most in any tensor that an operation makes, of floats and of bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.floats = self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if not isinstance(one, torch.Tensor) or one.ndim < 2 or one.numel() != len(one) * PIXELS:
                continue
            if one.is_floating_point():
                self.floats = max(self.floats, len(one))
            else:
                self.bytes = max(self.bytes, len(one))
        return result


def work_of(learner: PPO | SAC, rows: int = ROWS) -> WorkData:
    """Random experience of twelve agents, one of whose episodes is cut; the newest decisions are open."""
    memory, rng, agents = learner.memory, np.random.default_rng(0), np.arange(12)
    rewards = {stream.name: np.zeros((12, 1), np.float32) for stream in learner.streams}
    for step in range(rows // 12 + 1):
        obs = observations(learner.spec, 12, step)
        decision = learner.snapshot().act(obs, None, rng)
        memory.append(agents, StepFacts(rewards), acted(obs, decision), learner.version)
    memory.end(
        agents[:1], StepFacts({name: one[:1] for name, one in rewards.items()}), observations(SPEC, 1), np.array([True])
    )
    return memory.take().data


def costs(learner: PPO | SAC, work: WorkData) -> tuple[Watch, int]:
    """What an update makes in torch, and bytes that numpy needs for it at most."""
    with Watch() as watch:
        torch.zeros(1).clone()  # a process's first operation that is watched loads modules
        tracemalloc.start()
        learner.update(work, 0.0, None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return watch, peak


def test_an_update_of_ppo_makes_floats_of_minibatches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau_trainer.algorithms.ppo._NUMBERS", 40 * (PIXELS + 7))
    learner = ppo(SPEC, experience.settings(batch_size=30, buffer_size=ROWS, updates_per_buffer=1))
    work = work_of(learner)
    assert work["obs_2"].dtype == work["final.obs_2"].dtype == np.uint8
    rollout = Rollout(work)
    assert rollout.observations[2].dtype == rollout.bootstrap_observations[2].dtype == np.uint8
    watch, peak = costs(learner, work)
    assert watch.floats == 40, "a piece of the forward pass"
    assert watch.bytes == len(rollout), "all of it, in an epoch's order"
    assert peak < ROWS * PIXELS  # of floats it would be four times that


def test_what_ppo_learns_from_twice_stays_bytes() -> None:
    learner = ppo(SPEC, experience.settings(batch_size=30, buffer_size=2 * ROWS, updates_per_buffer=2))
    for _ in range(2):
        peak = costs(learner, work_of(learner))[1]
    assert peak < 6 * ROWS * PIXELS  # a copy of a half, both together, and of these what is no open decision
    arrays, _ = learner.state()
    assert arrays["older.obs_2"].dtype == np.uint8


def test_an_update_of_sac_makes_floats_of_minibatches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(off_policy, "_BYTES_AT_ONCE", 4 * 20 * 2 * (PIXELS + 100))
    learner = sac(SPEC, replayed.settings(batch_size=20, buffer_size=1000, steps_per_update=10))
    watch, peak = costs(learner, work_of(learner))
    assert learner.steps == ROWS // 10
    assert watch.floats == 20, "a minibatch"
    assert watch.bytes == 4 * 20, "what is drawn together"
    assert peak < ROWS * PIXELS
    assert learner.replay.take(np.arange(3))["next_1"].dtype == np.uint8


def test_the_ring_keeps_each_image_once() -> None:
    learner = sac(SPEC, replayed.settings(batch_size=20, buffer_size=1000, buffer_init_steps=10_000))
    for _ in range(3):
        learner.update(work_of(learner), 0.0, None)
    table = learner.replay._table
    images = [column.name for column in table.columns if column.shape == CAMERA.shape]
    assert images == ["input_1"]
    assert table["input_1"].nbytes == 1000 * PIXELS
    assert learner.replay.spares <= 12 + 2


def test_after_an_update_that_failed_images_are_those_that_came() -> None:
    """Decisions that were open across it are not taken for those that were open across another."""
    learner = sac(SPEC, replayed.settings(buffer_init_steps=10_000))
    collector = replayed.Collector(learner)
    learner.update(collector.collect(), 0.0, None)
    spoiled = collector.collect()
    spoiled["reward.extrinsic"][5] = np.nan
    before = len(collector.closed())
    with pytest.raises(NonFiniteError):
        learner.update(spoiled, 0.0, None)
    lost = len(learner.replay)
    learner.update(collector.collect(), 0.0, None)
    assert lost < before < len(collector.closed())
    played = {one["obs"][2].tobytes(): one for one in collector.closed()}
    rows = learner.replay.take(np.arange(len(learner.replay)))
    for own, after, terminated in zip(rows["input_1"], rows["next_1"], rows["terminated"], strict=True):
        if not terminated:
            np.testing.assert_array_equal(after, played[own.tobytes()]["next"][2])


def test_a_ring_of_images_goes_on_from_a_checkpoint_to_the_bit() -> None:
    """Nothing is open at a checkpoint, so what waited for the next row keeps what it has."""
    options = replayed.settings(batch_size=8, buffer_size=100, steps_per_update=8, save_replay_buffer=True)
    first, second = sac(SPEC, options), sac(SPEC, options, seed=2)
    collector = replayed.Collector(first)
    for _ in range(3):
        first.update(collector.collect(), 0.0, None)
    arrays, metadata = first.state()
    assert len(arrays["replay.aside.input_1"]) == first.replay.spares > 0
    second.load({name: values.copy() for name, values in arrays.items()}, metadata, fresh=False)
    first.memory.clear()
    for _ in range(3):
        work = collector.collect()
        for learner in (first, second):
            learner.update(work, 0.5, None)
        (wanted, metadata), (found, told) = first.state(), second.state()
        assert metadata == told
        np.testing.assert_equal(wanted, found)


def learned(order: str) -> PPO:
    """From one rollout of copies that show their pictures with the axes in this order."""
    env = Pictures(8, order=order)
    options = policy("ppo", network={"vis_encode_type": "fully_connected"}, buffer_size=144, batch_size=32)
    spec = spec_of("p", env.observation_space, env.action_space)
    learner = PPO(Setup(spec, options, 1, copies=TensorCopies(8, 2)))
    actor = actor_of(learner, env.action_space)
    rollout = BatchedCollector(env, {"all": (actor, (0, 1))}).collect(9)["all"]
    assert rollout.observations.dtype == torch.uint8
    assert rollout.observations.shape == (9, 8, 2, *env.observation_space.shape)
    assert rollout.truncated.any()
    samples = learner.read(rollout).samples(learner.network)
    assert [(values.dtype, tuple(values.shape)) for values in samples.inputs] == [
        (torch.float32, (144, 0)),
        (torch.uint8, (144, *spec.observations[0].shape)),
    ]
    learner.update(Work({}, tensors=rollout), 0.0, None)
    return learner


def test_copies_on_tensors_keep_pictures_as_they_show_them_whatever_the_order_of_axes() -> None:
    one, other = learned("hwc"), learned("chw")
    fresh = PPO(Setup(one.spec, one.settings, 1, copies=TensorCopies(8, 2)))
    for (name, mine), theirs in zip(one.network.named_parameters(), other.network.parameters(), strict=True):
        assert torch.equal(mine, theirs), name
        assert not mine.numel() or not torch.equal(mine, fresh.network.get_parameter(name)), name
