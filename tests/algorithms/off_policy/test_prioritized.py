"""What ``prioritized`` and ``n_step`` make of an off-policy learner's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.settings import MemorySettings
from tests.algorithms.experience import DISCRETE, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.replayed import (
    Collector,
    assert_same_state,
    copied,
    dqn,
    dqn_settings,
    sac,
    sac_ln,
    sac_ln_settings,
    settings,
    trained,
)
from tests.networks import IMAGE

pytestmark = pytest.mark.usefixtures("toys")

PRIORITIZED: dict[str, Any] = {"prioritized": {"n_opts_final": 100}}


def several(collector: Collector, learner: OffPolicy, steps: int) -> dict[tuple[float, ...], dict[str, Any]]:
    """What each transition of the ring should be drawn as, by its observation: gone through one by one."""
    held = {tuple(row[:4]) for row in learner.replay.take(np.arange(len(learner.replay)))["input_0"]}
    strengths = np.array([stream.strength for stream in learner.streams])
    expected = {}
    for index, first in enumerate(collector.transitions):
        key = tuple(np.asarray(first["obs"][0], np.float32))
        if key not in held:
            continue
        later = [one for one in collector.transitions[index + 1 :] if one["agent"] == first["agent"]]
        here, rewards, count = first, np.zeros(len(strengths)), 0
        for step in range(steps):
            rewards = rewards + learner.gammas.astype(np.float64) ** step * here["rewards"] * strengths
            count = step + 1
            follower = later[step] if step < len(later) else None
            ended = here["terminated"] or follower is None or not np.array_equal(here["next"][0], follower["obs"][0])
            if ended or follower is None or tuple(follower["obs"][0]) not in held or step == steps - 1:
                break
            here = follower
        following = next((one for one in collector.transitions if np.array_equal(one["obs"][0], here["next"][0])), {})
        expected[key] = first | {
            "rewards": rewards,
            "next": here["next"],
            "goes_on": learner.gammas.astype(np.float64) ** (count - 1) * (not here["terminated"]),
            "forbidden_after": following.get("forbidden"),
            "count": count,
        }
    return expected


@pytest.mark.parametrize(
    ("trainer", "steps", "size"), [("sac", 3, 130), ("sac", 5, 1000), ("dqn", 1, 130), ("dqn", 3, 1000)]
)
def test_targets_of_several_steps_are_what_was_played(trainer: str, steps: int, size: int) -> None:
    """Agents interleaved, real ends and limits, rollouts that go on in the next, and a ring that is overwritten."""
    spec = behavior(HYBRID if trainer == "sac" else DISCRETE, IMAGE)
    # No gradient step is taken: what is remembered is looked at.
    options: dict[str, Any] = {"n_step": steps, "buffer_size": size, "batch_size": 8, "steps_per_update": 1e9}
    learner: OffPolicy
    if trainer == "sac":
        learner = sac(spec, settings(signals=TWO_STREAMS, **options))
    else:
        learner = dqn(spec, dqn_settings(**options))
    collector = Collector(learner)
    for round_ in range(4):
        learner.update(collector.collect(9 + round_), 0.0, None)
    expected = several(collector, learner, steps)
    drawn = learner._taken(np.arange(len(learner.replay)))
    assert len(expected) == len(learner.replay) == min(size, len(collector.closed()))
    assert drawn.inputs[1].dtype == drawn.following[1].dtype == torch.uint8
    counts = set()
    for row, key in enumerate(drawn.inputs[0].numpy()):
        one = expected[tuple(key[:4])]
        counts.add(one["count"])
        np.testing.assert_array_equal(drawn.inputs[0][row], np.concatenate(one["obs"][:2]))
        np.testing.assert_array_equal(drawn.inputs[1][row], one["obs"][2])
        for name in ("continuous", "discrete", "forbidden") if trainer == "sac" else ("discrete",):
            np.testing.assert_array_equal(getattr(drawn, name)[row], one[name])
        np.testing.assert_allclose(drawn.rewards[row], one["rewards"], rtol=1e-5, atol=1e-6)
        goes_on = np.broadcast_to(drawn.goes_on[row], one["goes_on"].shape)
        np.testing.assert_allclose(goes_on, one["goes_on"], rtol=1e-6)
        if one["goes_on"].any():
            np.testing.assert_array_equal(drawn.following[0][row], np.concatenate(one["next"][:2]))
            np.testing.assert_array_equal(drawn.following[1][row], one["next"][2])
            if trainer == "dqn":
                wanted = np.zeros(5, np.bool_) if one["forbidden_after"] is None else one["forbidden_after"]
                np.testing.assert_array_equal(drawn.forbidden_after[row], wanted)
    assert counts == set(range(1, steps + 1))


MAKERS: dict[str, Callable[..., Any]] = {
    "sac": lambda seed=1, **options: sac(HYBRID, settings(**options), seed=seed),
    "sac_ln": lambda seed=1, **options: sac_ln(HYBRID, sac_ln_settings(**options), seed=seed),
    "dqn": lambda seed=1, **options: dqn(DISCRETE, dqn_settings(**options), seed=seed),
}


@pytest.mark.parametrize(
    ("trainer", "fused"), [("sac", True), ("sac_ln", True), ("sac_ln", False), ("dqn", True), ("dqn", False)]
)
def test_errors_become_priorities(trainer: str, fused: bool) -> None:
    learner = MAKERS[trainer](**PRIORITIZED, learning_rate=1e-30)
    if not fused:
        learner.fused = None
    trained(learner, rounds=1)
    for _ in range(30):
        learner._learn_once(1, 1e-30)
    places = np.arange(len(learner.replay))
    drawn = learner._taken(places)
    errors, weights = torch.zeros(len(places)), torch.ones(len(places))
    with torch.no_grad():
        learner.learn(drawn._replace(errors=errors, weights=weights), 1, 1e-30)
    priorities = learner.priorities.state()[0]
    touched = priorities != learner.priorities._largest
    assert touched.mean() > 0.8
    if learner.name == "dqn":
        np.testing.assert_allclose(priorities[touched], (errors.numpy()[touched] + 1e-8) ** 0.6, rtol=2e-3)
        assert learner.priorities._steps == learner.steps + 30


@pytest.mark.parametrize(("trainer", "size"), [("sac", 130), ("sac_ln", 130), ("dqn", 130), ("dqn", 1000)])
def test_a_learner_that_was_read_back_goes_on_the_same(trainer: str, size: int) -> None:
    options = {**PRIORITIZED, "n_step": 3, "save_replay_buffer": True, "buffer_size": size}
    learner, other = (MAKERS[trainer](seed, **options) for seed in (1, 2))
    collector = trained(learner)
    other.load(*copied(learner.state()), fresh=False)
    assert_same_state(other, *copied(learner.state()))
    learner.memory.clear()  # as a checkpoint does: what is open is dropped
    collector._open.clear()
    work = collector.collect()
    for one in (learner, other):
        one.update(work, 0.5, None)
    assert_same_state(other, *copied(learner.state()))


@pytest.mark.parametrize("size", [1000, 130])
def test_an_update_that_fails_takes_back_what_it_learned_of_errors(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    learner = dqn(DISCRETE, dqn_settings(**PRIORITIZED, n_step=2, save_replay_buffer=True, buffer_size=size))
    collector = trained(learner)
    before = copied(learner.state())
    work, taken = collector.collect(), learner.learn

    def late(drawn: Any, steps: int, rate: float) -> Any:
        assert learner.priorities is not None
        if learner.priorities._steps % 7 == 6:
            raise ZeroDivisionError
        return taken(drawn, steps, rate)

    monkeypatch.setattr(learner, "learn", late)
    with pytest.raises(ZeroDivisionError):
        learner.update(work, 0.0, None)
    assert_same_state(learner, *before)
    with pytest.raises(ZeroDivisionError):
        learner.update(Work(NO_TRANSITIONS, gradient_steps=9), 0.0, None)
    monkeypatch.undo()
    assert_same_state(learner, *before)
    learner.update(Work(NO_TRANSITIONS, gradient_steps=9), 0.0, None)
    learner.update(work, 0.0, None)


def test_priorities_of_a_run_that_drew_evenly_begin_alike() -> None:
    learner = dqn(DISCRETE, dqn_settings(save_replay_buffer=True))
    trained(learner)
    other = dqn(DISCRETE, dqn_settings(**PRIORITIZED, save_replay_buffer=True))
    other.load(*copied(learner.state()), fresh=False)
    assert other.priorities is not None
    np.testing.assert_array_equal(other.priorities.state()[0], np.ones(len(learner.replay)))


def test_priorities_that_do_not_fit_are_refused() -> None:
    learner, other = (dqn(DISCRETE, dqn_settings(**PRIORITIZED, save_replay_buffer=True), seed=seed) for seed in (1, 2))
    trained(learner)
    arrays, metadata = copied(learner.state())
    arrays["priorities"][3] = 0.0
    before = copied(other.state())
    with pytest.raises(CheckpointError, match="priorities of the replay memory cannot be read; use the settings"):
        other.load(arrays, metadata, fresh=False)
    assert_same_state(other, *before)


@pytest.mark.parametrize("trainer", ["sac", "sac_ln", "dqn"])
def test_sequences_are_drawn_evenly(trainer: str) -> None:
    network = {"memory": MemorySettings(memory_size=8, sequence_length=4)}
    options: Any = {"sac": settings, "sac_ln": sac_ln_settings, "dqn": dqn_settings}[trainer](network, **PRIORITIZED)
    told = f"{trainer} learns from sequences if the network has a memory; set prioritized: null"
    with pytest.raises(SettingsError, match=told):
        make_algorithm(Setup(behavior(DISCRETE), options, 1))
