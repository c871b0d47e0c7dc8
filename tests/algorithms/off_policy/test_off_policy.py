from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.errors import CheckpointError, NonFiniteError, SettingsError
from tau_trainer.memory import NO_TRANSITIONS, StepFacts, Work, WorkData
from tau_trainer.settings import MemorySettings
from tau_trainer.settings.replay import PrioritizedSettings
from tests.algorithms.experience import AGENTS, CONTINUOUS, HYBRID, TWO_STREAMS, behavior, ppo
from tests.algorithms.replayed import Collector, assert_same_state, copied, sac, settings, trained
from tests.networks import IMAGE

pytestmark = pytest.mark.usefixtures("toys")

FULL: dict[str, Any] = {"network": {"normalize": True}, "signals": TWO_STREAMS, "save_replay_buffer": True} | {
    "terminal_share": 0.25
}
FORGETFUL = {**FULL, "save_replay_buffer": False}


def rows_of(learner: SAC) -> dict[str, Any]:
    return learner.replay.take(np.arange(len(learner.replay)))


def test_what_two_actors_collect_by_turns_is_followed_by_what_came_after_in_each() -> None:
    """Their agents have the same rows, and decisions stay open from one hand-over to the next."""
    options = settings(signals=TWO_STREAMS)
    learner = sac(behavior(HYBRID, IMAGE), options)
    collectors = [Collector(sac(behavior(HYBRID, IMAGE), options), seed) for seed in range(2)]
    for source in (0, 1, 1, 0, 1, 0):
        learner.update(Work(collectors[source].collect(5), source=source, gradient_steps=0), 0.0, None)
    by_place = {tuple(one["obs"][0]): one for collector in collectors for one in collector.closed()}
    held = rows_of(learner)
    assert len(held["terminated"]) == len(by_place)
    for row, place in enumerate(held["input_0"]):
        one = by_place[tuple(place[:4])]
        if not one["terminated"]:
            np.testing.assert_array_equal(held["next_1"][row], one["next"][2])


def test_gradient_steps_are_those_that_are_asked_for_with_transitions_or_without() -> None:
    learner = sac(CONTINUOUS, settings(steps_per_update=1.0))
    collector = Collector(learner)
    weights = learner.weights()
    learner.update(Work(collector.collect(), gradient_steps=0), 0.0, None)
    np.testing.assert_equal(learner.weights(), weights)
    held, seen = len(learner.replay), learner.seen
    stats = learner.update(Work(NO_TRANSITIONS, gradient_steps=3), 0.0, None)
    assert stats["Train/Minibatches"] == 3.0
    assert "Perf/Policy Age" not in stats
    assert (learner.steps, learner.seen, len(learner.replay), learner.version) == (3, seen, held, 2)
    with pytest.raises(ValueError, match="at least one transition"):
        learner.update(NO_TRANSITIONS, 0.0, None)


def test_an_actor_hands_over_as_many_as_it_is_told_to() -> None:
    learner = sac(CONTINUOUS, settings(buffer_init_steps=500))
    Collector(learner).play(3)
    assert learner.memory.completed == 2 * AGENTS
    assert learner.ready(Counters(0, 0)) is None
    assert learner.ready(Counters(0, 0, push=2 * AGENTS + 1)) is None
    assert learner.ready(Counters(0, 0, push=2 * AGENTS)) is not None


def ends_of(learner: SAC) -> set[tuple[float, ...]]:
    rows = rows_of(learner)
    return {tuple(row) for row in rows["input_0"][rows["terminated"]]}


def drawn_from(learner: SAC, size: int = 16) -> tuple[Any, Any]:
    """100 minibatches: whether rows ended an episode, and what was seen in them."""
    batch = learner.draw(100)
    return (batch.goes_on[:, 0] == 0.0).reshape(100, size).numpy(), batch.inputs[0].reshape(100, size, -1).numpy()


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_share_of_each_minibatch_is_ends_but_no_more_than_there_are(n_step: int) -> None:
    learner = sac(CONTINUOUS, settings(batch_size=16, terminal_share=0.25, n_step=n_step))
    trained(learner, rounds=3)
    ends = ends_of(learner)
    assert learner.ends is not None
    assert len(learner.ends) == len(ends) >= 4
    ended, seen = drawn_from(learner)
    assert ended[:, :4].all()
    assert {tuple(row) for row in seen[:, :4].reshape(400, -1)} == ends
    if n_step == 1:
        assert abs(ended[:, 4:].mean() - rows_of(learner)["terminated"].mean()) < 0.05  # drawn like all others
    held = rows_of(learner)
    paid = {tuple(row): reward for row, reward in zip(held["input_0"], held["rewards"], strict=True)}
    batch = learner.draw(1)
    for row, reward in zip(batch.inputs[0][:4], batch.rewards[:4], strict=True):
        assert reward.numpy() == paid[tuple(row.numpy())]  # the last one alone, however many steps are added up
    learner.ends.clear()
    learner.ends.append(learner.replay.take(learner.replay.where("terminated")[:2]))
    ended, _ = drawn_from(learner)
    assert ended[:, :2].all()
    assert not ended[:, 2:4].all()
    learner.ends.clear()
    assert not drawn_from(learner)[0][:, :2].all()


def test_ends_outlive_the_decisions_around_them() -> None:
    learner = sac(CONTINUOUS, settings(buffer_size=100, terminal_share=0.25))
    collector = trained(learner, rounds=3)
    first = ends_of(learner)
    for _ in range(6):
        collector._steps = 0  # an episode ends at every fifth
        learner.update(collector.collect(4), 0.0, None)
    assert not ends_of(learner)
    ended, seen = drawn_from(learner)
    assert ended[:, :4].all()
    assert not ended[:, 4:].any()
    assert {tuple(row) for row in seen[:, :4].reshape(400, -1)} >= first
    assert learner.ends is not None
    assert learner.ends.capacity == 16  # a twentieth would be 5, but a minibatch fits


def test_a_run_that_had_no_memory_of_ends_takes_those_of_its_replay_memory() -> None:
    learner = sac(CONTINUOUS, settings(save_replay_buffer=True))
    trained(learner, rounds=3)
    other = sac(CONTINUOUS, settings(save_replay_buffer=True, terminal_share=0.25), seed=2)
    other.load(*copied(learner.state()), fresh=False)
    assert other.ends is not None
    rows = other.ends.take(np.arange(len(other.ends)))
    assert {tuple(row) for row in rows["input_0"]} == ends_of(learner)
    assert rows["terminated"].all()


@pytest.mark.parametrize("prioritized", [False, True])
def test_errors_and_sequences_decide_alone_what_is_drawn(prioritized: bool) -> None:
    chosen = settings({"memory": MemorySettings(sequence_length=8)})
    if prioritized:
        chosen = settings(prioritized=PrioritizedSettings())
    hyper = chosen.hyperparameters.model_copy(update={"terminal_share": 0.25})  # as a default: nobody asked for it
    assert sac(CONTINUOUS, chosen.model_copy(update={"hyperparameters": hyper})).ends is None


def test_only_the_newest_are_kept() -> None:
    learner = sac(CONTINUOUS, settings(buffer_size=100))
    collector = trained(learner, rounds=4)
    played = collector.closed()
    assert len(learner.replay) == 100
    newest = {tuple(one["obs"][0]) for one in played[-100:]}
    assert sum(tuple(row[:4]) in newest for row in rows_of(learner)["input_0"]) >= 100 - AGENTS


def test_minibatches_are_normalised_and_drawn_evenly() -> None:
    learner = sac(CONTINUOUS, settings({"normalize": True}, batch_size=20))
    trained(learner)
    assert learner.network.normalizer is not None
    held = rows_of(learner)
    mean = held["input_0"].astype(np.float64).sum(axis=0) / (len(learner.replay) + 1)  # one imagined row of zeros
    np.testing.assert_allclose(learner.network.normalizer.mean.numpy(), mean)
    drawn = learner.draw(200).inputs[0]
    wanted = learner.network.normalize([torch.from_numpy(held["input_0"])])[0]
    counts = [(drawn == row).all(dim=1).sum().item() for row in wanted]
    assert sum(counts) == 4000
    assert min(counts) > 0.3 * 4000 / len(wanted)
    assert max(counts) < 2.5 * 4000 / len(wanted)


@pytest.mark.parametrize(
    ("numbers", "steps"),
    [
        # 60 decisions of which 5 are still open, and some have ended since
        ({"steps_per_update": 1.0}, [55, 115]),
        ({"steps_per_update": 2.5}, [22, 46]),
        ({"steps_per_update": 0.5}, [110, 230]),
        ({"steps_per_update": 10.0, "buffer_init_steps": 100}, [0, 1]),
        ({"steps_per_update": 1.0, "batch_size": 64}, [0, 60]),  # what came before there was a batch is passed by
    ],
)
def test_so_many_gradient_steps_for_so_many_decisions(
    numbers: dict[str, Any], steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = sac(CONTINUOUS, settings(**numbers))
    taken: list[float] = []

    def learn(_: SAC, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        assert len(drawn.rewards) == steps * learner.hyperparameters.batch_size
        taken.extend([learning_rate] * steps)
        return torch.zeros(steps, 6)

    monkeypatch.setattr(SAC, "learn", learn)
    collector, found, seen = Collector(learner), [], []
    for _ in range(2):
        result = learner.update(collector.collect(), 0.0, None)
        found.append(len(taken))
        seen.append(learner.seen)
        assert ("Policy/Learning Rate" in result) == bool(result.get("Train/Minibatches"))
    assert (found, seen) == (steps, [55, 115])


@pytest.mark.parametrize(("every", "enough"), [(0.5, 2), (7.0, 28), (13.0, 39), (24.0, 24), (64.0, 64)])
def test_work_is_ready_when_there_is_something_to_learn(every: float, enough: int) -> None:
    """Four gradient steps at once, but not of more than 40 decisions, if they are more than one."""
    learner, after = readiness(every)
    assert learner.missing == "20 decisions"
    assert [after(19, 0), after(20, 0), after(enough - 1, 3), after(enough, 3)] == [False, True, False, True]


def test_a_learner_that_rests_is_given_what_the_ceiling_of_auto_makes_worth_it() -> None:
    _, after = readiness("auto")
    assert [after(31, 3), after(32, 3)] == [False, True], "four steps at the floor"
    assert [after(3, 3, idle=True), after(4, 3, idle=True)] == [False, True], "and at the ceiling"
    _, after = readiness(8.0)
    assert [after(31, 3, idle=True), after(32, 3, idle=True)] == [False, True], "a number is both"


def readiness(every: float | str) -> tuple[SAC, Callable[..., bool]]:
    """A learner, and whether it has work after so many decisions and updates."""
    learner = sac(CONTINUOUS, settings(batch_size=16, buffer_init_steps=20, steps_per_update=every))
    collector = Collector(learner)

    def after(decisions: int, updates: int, *, idle: bool = False) -> bool:
        learner.memory.clear()
        collector._open.clear()
        rows = np.arange(decisions)
        for _ in range(2):
            obs = tuple(np.zeros((decisions, *sensor.shape), np.float32) for sensor in learner.spec.observations)
            values = {f"obs_{i}": one for i, one in enumerate(obs)}
            actions = {"continuous": np.zeros((decisions, 2), np.float32), "discrete": None, "mask": None}
            nothing = {"extrinsic": np.zeros((decisions, 1), np.float32)}
            learner.memory.append(rows, StepFacts(nothing), {**values, **actions}, 0)
        work = learner.ready(Counters(1000, updates, idle=idle))
        return work is not None

    return learner, after


def test_auto_is_its_floor_where_nobody_says_how_many_steps_there_is_time_for() -> None:
    learner = sac(CONTINUOUS, settings(steps_per_update="auto"))
    trained(learner, rounds=3)
    assert learner.steps == learner.seen // 8
    learner.update(Work(NO_TRANSITIONS, gradient_steps=200), 0.0, None)
    for source in range(2):  # what was taken beyond the floor does not lessen what is due later
        seen = learner.seen
        stats = learner.update(Work(Collector(learner).collect(), source=source), 0.0, None)
        assert learner.seen >= seen + 40
    assert stats["Train/Minibatches"] == learner.seen // 8 - seen // 8


@pytest.mark.parametrize(("before", "after"), [(10.0, 1.0), (1.0, 10.0), ("auto", 1.0), (10.0, "auto")])
def test_a_run_that_goes_on_with_another_number_makes_up_for_nothing(before: float | str, after: float | str) -> None:
    first = sac(CONTINUOUS, settings(steps_per_update=before, save_replay_buffer=True))
    trained(first, rounds=3)
    again = sac(CONTINUOUS, settings(steps_per_update=after, save_replay_buffer=True))
    again.load(*first.state(), fresh=False)
    again.update(Collector(again).collect(), 0.0, None)
    every = 8.0 if after == "auto" else float(after)
    assert again.steps == int(again.seen / every)
    assert int(again.parameters.optimizer.step) - int(first.parameters.optimizer.step) == again.steps - int(
        first.seen / every
    )


def spoilt(work: WorkData, name: str, value: float, record: int = 20) -> WorkData:
    array = np.array(work[name])
    array[record].flat[0] = value
    return {**work, name: array}


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("reward.bonus", np.nan, r"reward 'bonus' is NaN or infinite in 1 of \d+ transitions \(first: agent"),
        ("continuous", np.inf, "action is NaN or infinite in 1 of"),
        ("obs_1", np.nan, "observation 'more' is NaN or infinite in 1 of"),
        ("final.obs_1", np.nan, "the next observation 'more' is NaN or infinite in 1 of"),
        ("reward.extrinsic", 1e30, "the loss became NaN or infinite in update 3"),
    ],
)
def test_an_update_that_meets_nan_changes_nothing(place: str, value: float, told: str) -> None:
    learner = sac(HYBRID, settings(**FULL, buffer_size=130))
    collector = trained(learner)
    before = copied(learner.state())
    work = collector.collect()
    with pytest.raises(NonFiniteError, match=told):
        learner.update(spoilt(work, place, value, record=-1 if place.startswith("final") else 20), 0.0, None)
    assert_same_state(learner, *before)
    learner.update(work, 0.0, None)
    assert learner.version == 3


@pytest.mark.parametrize("size", [1000, 130])
def test_a_learner_that_was_read_back_goes_on_the_same(size: int) -> None:
    learner, other = (sac(HYBRID, settings(**FULL, buffer_size=size), seed=seed) for seed in (1, 2))
    collector = trained(learner)
    other.load(*copied(learner.state()), fresh=False)
    assert_same_state(other, *copied(learner.state()))
    assert other.module.log_coefficients.tolist() == learner.module.log_coefficients.tolist()
    work = collector.collect()
    results = [one.update(work, 0.5, None) for one in (learner, other)]
    del results[0]["Train/Update Seconds"], results[1]["Train/Update Seconds"]
    assert results[0] == results[1]
    assert_same_state(other, *copied(learner.state()))


def test_without_its_memory_it_says_so_and_waits_for_a_minibatch() -> None:
    learner, other = sac(HYBRID, settings(**FORGETFUL)), sac(HYBRID, settings(**FORGETFUL), seed=2)
    collector = trained(learner)
    arrays, metadata = copied(learner.state())
    assert not [name for name in arrays if name.startswith(("replay.", "ends."))]
    assert other.lost(metadata) == (
        "the replay memory of 'Walker' was not saved, so learning continues once 16 new decisions are made; "
        "save_replay_buffer: true keeps it"
    )
    full = sac(HYBRID, settings(**FULL))
    assert full.lost(full.state()[1]) == ppo(HYBRID).lost({}) == ""
    other.load(arrays, metadata, fresh=False)
    assert len(other.replay) == 0
    assert (other.seen, other.steps) == (learner.seen, learner.steps)
    before = other.weights()
    assert "Losses/Policy Loss" not in other.update(collector.collect(1), 0.0, None)
    after = other.weights()
    assert all(np.array_equal(values, after[name]) for name, values in before.items() if "normalizer" not in name)
    for _ in range(4):
        result = other.update(collector.collect(1), 0.0, None)
    assert result["Train/Minibatches"] > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda arrays, _: arrays.pop("replay.rewards"), r"its columns \['rewards'\] do not fit; use the settings"),
        (lambda arrays, _: arrays.pop("ends.rewards"), r"its columns \['rewards'\] do not fit; use the settings"),
        (lambda arrays, metadata: metadata.update(replay=10**6), "rows do not fit"),
        (lambda arrays, metadata: arrays["model.q.weight"].fill(np.nan), "q.weight' of the checkpoint holds NaN"),
        (lambda arrays, metadata: arrays.pop("model.log_coefficients"), "no tensor 'model.log_coefficients'"),
        (lambda arrays, metadata: metadata.update(algorithm="ppo"), "trainer type is 'ppo'"),
    ],
)
def test_a_checkpoint_that_does_not_fit_changes_nothing(change: Any, said: str) -> None:
    learner, other = (sac(HYBRID, settings(**FULL), seed=seed) for seed in (1, 2))
    trained(learner)
    trained(other, rounds=1)
    before = copied(other.state())
    arrays, metadata = copied(learner.state())
    change(arrays, metadata)
    with pytest.raises(CheckpointError, match=said):
        other.load(arrays, metadata, fresh=False)
    assert_same_state(other, *before)


def test_a_wide_reward_is_refused() -> None:
    setup = Setup(behavior(HYBRID), settings(), 1, reward_width=4)
    with pytest.raises(SettingsError, match=r"^behavior 'Walker': sac learns from one reward per decision"):
        make_algorithm(setup)
