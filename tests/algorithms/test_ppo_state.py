from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Counters
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.readers import Reader
from tau_trainer.errors import CheckpointError, NonFiniteError
from tau_trainer.memory import Rollout, WorkData
from tau_trainer.models import Policy
from tau_trainer.settings import MemorySettings
from tau_trainer.specs import BehaviorSpec
from tests.algorithms.experience import CONTINUOUS, HYBRID, TWO_STREAMS, VECTORS, Collector, behavior, ppo, settings
from tests.networks import IMAGE, LIST

pytestmark = pytest.mark.usefixtures("toys")

NORMALIZED: dict[str, Any] = {"normalize": True}
RECURRENT: dict[str, Any] = {"normalize": True, "memory": MemorySettings(memory_size=6, sequence_length=8)}
PATHS: dict[str, dict[str, Any]] = {"fused": NORMALIZED, "autograd": NORMALIZED, "toys": RECURRENT}
HALVES: dict[str, Any] = {"updates_per_buffer": 2, "buffer_size": 400}
DEVICE = "cuda"
PLACES = {
    "reward.extrinsic": "reward 'extrinsic'",
    "reward.bonus": "reward 'bonus'",
    "obs_1": "observation 'more'",
    "log_prob": "log prob",
    "continuous": "action",
    "obs_3": "observation 'others'",
    "memory": "memory",
}


def made(path: str = "fused", network: dict[str, Any] | None = None, *, device: str = "cpu", **numbers: Any) -> PPO:
    spec = behavior(HYBRID, IMAGE, LIST) if path == "toys" else behavior(HYBRID)
    return ppo(spec, settings(network or PATHS[path], TWO_STREAMS, **numbers), fused=path != "autograd", device=device)


def trained(path: str = "fused", **numbers: Any) -> tuple[PPO, Collector]:
    """After one update, so that optimizer and normaliser hold something."""
    learner = made(path, **numbers)
    collector = Collector(learner)
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    return learner, collector


def assert_same_state(learner: PPO, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
    now, facts_now = learner.state()
    assert set(now) == set(arrays)
    np.testing.assert_equal(arrays, now)
    assert facts_now == metadata


def spoilt(work: WorkData, name: str, value: float, record: int = 20) -> WorkData:
    """A copy with one number changed, of the agent in row 4."""
    array = np.array(work[name])
    array[record].flat[0] = value
    return {**work, name: array}


def test_what_is_handed_out_stays_as_it_is() -> None:
    """Weights, policies and saved states are copies, under the network's names; policies have versions."""
    learner, collector = trained("toys")
    first, (saved, _), weights = learner.snapshot(), learner.state(), learner.weights()
    assert weights.keys() == learner.network.state_dict().keys()
    assert {"normalizer.count", "encoders.0.images.0.layer.weight", "memories.1.kept.bias"} < weights.keys()
    kept = copy.deepcopy((saved, weights, dict(first.weights)))
    learner.update(collector.collect(first), 0.0, None)
    np.testing.assert_equal((saved, weights, dict(first.weights)), kept)
    second = learner.snapshot()
    assert (first.version, second.version) == (1, 2)
    assert [name for name, array in weights.items() if np.array_equal(array, second.weights[name])] == []


def test_bad_numbers_in_a_rollout_are_named_and_change_nothing() -> None:
    learner, collector = trained("toys")
    before, work = learner.state(), collector.collect(learner.snapshot())
    for value, (place, told) in zip(itertools.cycle((np.nan, np.inf)), PLACES.items(), strict=False):
        said = rf"'Walker\?team=0': {told} is NaN or infinite in 1 of 20\d transitions \(first: agent row 4\)"
        with pytest.raises(NonFiniteError, match=said):
            learner.update(spoilt(work, place, value), 0.0, None)
    # After a transition: the last of an episode that a limit cut, or that of a decision without an outcome yet.
    said = r"the next observation 'more' is NaN or infinite in 1 of \d transitions \(first: agent row 4\); nothing was"
    for value, place in ((np.nan, "final.obs_1"), (np.inf, "obs_1")):
        with pytest.raises(NonFiniteError, match=said):
            learner.update(spoilt(work, place, value, record=-1), 0.0, None)
    assert_same_state(learner, *before)


def test_sensors_of_one_name_are_all_looked_at() -> None:
    learner = ppo(BehaviorSpec("Walker", (VECTORS[0],) * 3, HYBRID))
    work = Collector(learner).collect(learner.snapshot())
    for place in ("obs_0", "obs_1", "obs_2"):
        with pytest.raises(NonFiniteError, match="observation 'vector' is NaN or infinite in 1 of"):
            learner.update(spoilt(work, place, np.inf), 0.0, None)


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        # Finite, but its square is not: the value loss overflows in float32.
        ("reward.extrinsic", 1e30, "the loss"),
        # Its probability is 0 before (it is of an older policy, so that is worked out) and after: the ratio is NaN, and
        # so are gradients and all weights after them.
        ("continuous", 1e25, r"the gradient of .*action\.bias.*"),
    ],
)
@pytest.mark.parametrize("path", ["fused", "toys"])
def test_an_update_that_overflows_is_rolled_back(path: str, place: str, value: float, told: str) -> None:
    learner, collector = trained(path)
    before = learner.state()
    work = spoilt(collector.collect(learner.snapshot()), place, value)
    work = {**work, "version": np.zeros_like(work["version"])}
    published: list[Policy] = []
    with pytest.raises(NonFiniteError, match=f"{told} became NaN or infinite in update 2"):
        learner.update(work, 0.0, published.append)
    assert_same_state(learner, *before)
    for policy in published:
        assert all(np.isfinite(array).all() for array in policy.weights.values()), "never published"
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    assert learner.version == 2


def test_an_update_that_went_wrong_leaves_no_trace() -> None:
    """What comes after it is what would have come without it, random numbers and optimizer included."""
    (learner, collector), (straight, other) = trained(), trained()
    work = spoilt(collector.collect(learner.snapshot()), "reward.extrinsic", 1e30)
    other.collect(straight.snapshot())
    with pytest.raises(NonFiniteError):
        learner.update(work, 0.0, None)
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    straight.update(other.collect(straight.snapshot()), 0.0, None)
    assert_same_state(learner, *straight.state())


@pytest.mark.parametrize(("path", "numbers"), [("toys", {}), ("fused", HALVES)])
def test_resume_is_exact_to_the_bit(path: str, numbers: dict[str, Any]) -> None:
    straight, collector = trained(path, **numbers)
    arrays, metadata = straight.state()
    resumed = made(path, **numbers)
    resumed.load({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(metadata)), fresh=False)
    assert resumed.version == 1
    assert_same_state(resumed, arrays, metadata)
    for number in range(1, 3):
        work = collector.collect(straight.snapshot())
        for learner in (straight, resumed):
            learner.update(work, number / 3, None)
    assert_same_state(resumed, *straight.state())


@pytest.mark.gpu
@pytest.mark.parametrize("numbers", [{}, HALVES])
@pytest.mark.parametrize("path", PATHS)
def test_on_an_accelerator_is_learned_what_the_cpu_learns(path: str, numbers: dict[str, Any]) -> None:
    """And either goes on from what the other saved."""
    here, there = (made(path, device=device, **numbers) for device in ("cpu", DEVICE))
    assert all(parameter.device.type == DEVICE for parameter in there.network.parameters())
    collector = Collector(here)
    for number in range(4):
        work, published = collector.collect(here.snapshot()), list[Policy]()
        statistics = [learner.update(work, number / 4, published.append) for learner in (here, there)]
        for name, value in statistics[0].items():
            if not name.endswith("Seconds"):
                assert statistics[1][name] == pytest.approx(value, rel=1e-2, abs=1e-3), name
        for name, array in there.weights().items():
            np.testing.assert_allclose(array, here.weights()[name], rtol=1e-2, atol=1e-3, err_msg=name)
        if number == 1:
            there.load(*here.state(), fresh=False)
            assert_same_state(there, *here.state())


# --- updates that learn from the rollout before as well ---------------------------------------------------------------


def watched(learner: PPO, monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    """A copy of every rollout that the learner learns from."""
    seen, read = list[Rollout](), learner.read

    def see(rollout: Rollout) -> Reader:
        seen.append(Rollout(copy.deepcopy(rollout._data)))
        return read(rollout)

    monkeypatch.setattr(learner, "read", see)
    return seen


@pytest.mark.parametrize("updates", [1, 2])
def test_the_rollout_before_is_learned_from_again(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    learner = made(**(HALVES | {"updates_per_buffer": updates}))
    collector, seen, new = Collector(learner), watched(learner, monkeypatch), list[np.ndarray]()
    assert learner.memory.completed == 0
    for number in range(3):
        work = collector.collect(learner.snapshot())
        new.append(Rollout(work).observations[1].copy())
        statistics = learner.update(work, 0.0, None)
        for values in work.values():  # the memory's arrays serve again
            if isinstance(values, np.ndarray):
                values[...] = 77
        before = new[number - 1] if number and updates == 2 else new[number][:0]
        assert seen[number].older == len(before)
        np.testing.assert_array_equal(seen[number].observations[1], np.concatenate((before, new[number])))
        assert statistics["Perf/Policy Age"] < 0.1, "of what is new"
        minibatches = 2 * (len(new[number]) // 32)
        assert statistics["Train/Minibatches"] == minibatches, "each is learned from num_epoch times in all"
    assert learner.network.normalizer is not None
    assert float(learner.network.normalizer.count) == 1 + sum(map(len, new)), "every observation counts once"


def test_half_a_buffer_is_waited_for() -> None:
    learner = made(**HALVES)
    assert learner.missing == "a buffer of 200"
    collector, policy = Collector(learner), learner.snapshot()
    for step in range(41):
        assert learner.ready(Counters(0, 0)) is None, step
        collector.step(policy)
    assert learner.memory.completed == 200
    assert learner.ready(Counters(0, 0)) is not None


def test_after_a_bad_rollout_the_one_before_is_gone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would be joined with is missing."""
    learner = made(**HALVES)
    collector, seen = Collector(learner), watched(learner, monkeypatch)
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    with pytest.raises(NonFiniteError):
        learner.update(spoilt(collector.collect(learner.snapshot()), "reward.extrinsic", np.nan), 0.0, None)
    learner.update(collector.collect(learner.snapshot()), 0.0, None)
    assert [rollout.older for rollout in seen] == [0, 0]


def test_what_was_learned_can_be_taken_over_alone() -> None:
    """Facts without a version: no experience of the other's, its random numbers neither, and counters at 0."""
    halves: dict[str, Any] = {"updates_per_buffer": 2, "batch_size": 32, "buffer_size": 128}
    first, second = (ppo(HYBRID, settings(NORMALIZED, **halves), seed=seed) for seed in (1, 2))
    collector = Collector(first)
    for _ in range(2):
        first.update(collector.collect(first.snapshot()), 0.0, None)
    arrays, metadata = first.state()
    assert any(name.startswith("older.") for name in arrays)
    before = second.generator.get_state()
    second.load(arrays, metadata, fresh=True)
    after, known = second.state()
    assert known == {**metadata, "version": 0}
    np.testing.assert_array_equal(after.pop("random.generator"), before.numpy())
    assert not any(name.startswith("older.") for name in after)
    np.testing.assert_equal(after, {name: arrays[name] for name in after})


def test_same_seed_same_learner_other_seed_another() -> None:
    first, second, third = (ppo(CONTINUOUS, seed=seed) for seed in (1, 1, 2))
    assert_same_state(first, *second.state())
    assert not np.array_equal(first.weights()["action.weight"], third.weights()["action.weight"])
    assert not np.array_equal(first.state()[0]["random.generator"], third.state()[0]["random.generator"])


def test_large_rollouts_go_through_the_network_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    learners = [made("toys") for _ in range(2)]
    work = Collector(learners[0]).collect(learners[0].snapshot())
    first = learners[0].update(work, 0.0, None)
    monkeypatch.setattr("tau_trainer.algorithms.ppo._ROWS", 7)
    second = learners[1].update(work, 0.0, None)
    assert first["Policy/Extrinsic Value Estimate"] == pytest.approx(
        second["Policy/Extrinsic Value Estimate"], rel=1e-4
    )
    for name, array in learners[0].weights().items():
        np.testing.assert_allclose(array, learners[1].weights()[name], rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="reward_width must be 1 or 4, not 2"):
        ppo(HYBRID, width=2)
    learner = ppo(HYBRID)
    with pytest.raises(ValueError, match="at least one transition"):
        learner.update(learner.memory.take().data, 0.0, None)
    assert learner.version == 0


@pytest.mark.parametrize(
    ("other", "key"),
    [
        (lambda: made(network={"normalize": True, "hidden_units": 17}), "hidden units"),
        (lambda: made(network={"normalize": True, "num_layers": 1}), "num layers"),
        (lambda: made(network={"normalize": False}), "normalize"),
        (lambda: made(shared_critic=True), "shared critic"),
        (lambda: made(network=RECURRENT), "memory"),
        (lambda: ppo(CONTINUOUS, settings(NORMALIZED, TWO_STREAMS)), "discrete branches"),
        (lambda: ppo(HYBRID, settings(NORMALIZED, TWO_STREAMS), width=4), "reward components"),
        (lambda: ppo(behavior(HYBRID, LIST), settings(NORMALIZED, TWO_STREAMS)), "observations"),
    ],
)
def test_another_learners_state_is_refused(other: Any, key: str) -> None:
    learner = other()
    before = learner.state()
    with pytest.raises(CheckpointError, match=f"checkpoint's {key} is .* behavior 'Walker' needs"):
        learner.load(*made().state(), fresh=False)
    assert_same_state(learner, *before)


def test_damaged_tensor_is_named_and_nothing_is_loaded() -> None:
    (arrays, metadata), other = trained()[0].state(), made()
    before = other.state()
    for name in ("model.value.bias", "optimizer.exp_avg", "normalizer.mean", "random.generator"):
        missing = {one: values for one, values in arrays.items() if one != name}
        for damaged in (missing, missing | {name: arrays[name][:-1]}):
            with pytest.raises(CheckpointError, match=f"'{name}'"):
                other.load(damaged, metadata, fresh=False)
    assert_same_state(other, *before)
