"""Every trainer type with every way of gathering experience: one update, or the sentence of the table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer import plugins
from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.columns import EXTRINSIC, Arrays
from tau_trainer.memory import NO_TRANSITIONS, StepFacts, Work
from tau_trainer.settings import RunSettings, TrainerSettings, shared_out
from tau_trainer.settings.gathering import TABLE, Row, Way, blanks
from tau_trainer.settings.outlook import untrainable
from tau_trainer.specs import ActionSpec
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.learning.parameter_server import added
from tests.algorithms import demonstrations
from tests.algorithms.batched import test_population
from tests.algorithms.batched.together import Threads, together
from tests.algorithms.experience import acted, behavior

TYPES = plugins.own("trainers")
DISCRETE = ("dqn", "iqn")
"""Trainers of discrete actions alone; all others learn continuous ones here."""
ROLLOUTS = ("ppo", "a2c", "poca", "mappo")
RECORDED = ("bc", "iql", "awac")
AGENTS, COPIES = 4, 4
OF_WAYS: dict[Way, dict[str, Any]] = {
    Way.ACTORS: {"execution": "async", "env_settings": {"env_path": "gym:Pendulum-v1"}},
    Way.POPULATION: {"env_settings": {"env_path": "batched:tau"}},
    Way.TENSORS: {"environment": {"name": "pendulum", "num_envs": COPIES}},
    Way.DEVICES: {"devices": 2},
    Way.RANKS: {"environment": {"name": "pendulum", "num_envs": COPIES}, "devices": 2},
    Way.SERVER: {"devices": 2, "strategy": "parameter_server"},
}


def run_of(kind: str, way: Way, demo_path: str = "x") -> RunSettings:
    """The smallest run of a trainer type."""
    numbers: dict[str, Any] = {"batch_size": 16}
    if kind in ROLLOUTS:
        numbers |= {"buffer_size": 32}
    elif kind not in RECORDED:
        numbers |= {"batch_size": 8, "buffer_size": 64, "buffer_init_steps": 0, "steps_per_update": 8}
    trainer = {
        "trainer_type": kind,
        "hyperparameters": numbers,
        "network_settings": {"hidden_units": 8, "num_layers": 1},
        "max_steps": 1000,
    }
    trainer |= {"demo_path": demo_path} if kind in RECORDED else {}
    whole = OF_WAYS.get(way, {})
    if kind in DISCRETE and "environment" in whole:
        whole = whole | {"environment": {"name": "cartpole", "num_envs": COPIES}}
    return RunSettings.model_validate({"behaviors": {"A": trainer}} | whole)


def row_of(kind: str) -> Row[TrainerSettings]:
    """The trainer type's row of the table."""
    (row,) = (row for row in TABLE if f"`{kind}`" in row.name)
    return row


def setup_of(settings: TrainerSettings, ranks: Ranks | None = None, seed: int = 3) -> Setup:
    actions = ActionSpec(0, (3, 2)) if settings.trainer_type in DISCRETE else ActionSpec(2)
    return Setup(behavior(actions), settings, seed, ranks=ranks or Ranks())


def gathered(algorithm: Algorithm, push: int = 0) -> Work:
    """Work from agents in two groups that decide together; ``push``: as an actor hands it over."""
    rng, rows, policy = np.random.default_rng(5), np.arange(AGENTS), algorithm.snapshot()
    for moment in range(100):
        obs = tuple(rng.normal(size=(AGENTS, *sensor.shape)).astype(np.float32) for sensor in policy.spec.observations)
        decision = policy.act(obs, None, rng)
        rewards = {EXTRINSIC: rng.normal(size=(AGENTS, 1)).astype(np.float32)}
        facts = StepFacts(rewards, group=rows.astype(np.int32) // 2 + 1, moment=moment)
        algorithm.memory.append(rows, facts, acted(obs, decision), policy.version)
        if (work := algorithm.ready(Counters(moment * AGENTS, 0, push))) is not None:
            return work
    raise AssertionError("nothing is ready")


def learned(algorithm: Algorithm, learn: Callable[[], object]) -> Arrays:
    """The weights, which must have changed with one update."""
    before = algorithm.weights()
    learn()
    after = algorithm.weights()
    assert algorithm.version == 1
    assert any(not np.array_equal(values, after[name]) for name, values in before.items())
    assert all(np.isfinite(values).all() for values in after.values())
    return after


def of_engines(run: RunSettings, seed: int = 3) -> Arrays:
    algorithm = make_algorithm(setup_of(run.behaviors["A"], seed=seed))
    return learned(algorithm, lambda: algorithm.update(gathered(algorithm), 0.1, None))


def of_pairs(run: RunSettings) -> None:
    """Each has a learner of its own."""
    one, other = of_engines(run, 3), of_engines(run, 4)
    assert any(not np.array_equal(values, other[name]) for name, values in one.items())


def of_actors(run: RunSettings) -> None:
    """One instance collects, the other learns from what is sent."""
    here, there = (make_algorithm(setup_of(run.behaviors["A"])) for _ in range(2))
    metadata, arrays = gathered(there, there.rollout_size or 16).sent()
    work = Work.received(metadata, arrays)
    work = work if here.rollout_size else replace(work, source=1, gradient_steps=2)
    learned(here, lambda: here.update(work, 0.1, None))


def of_devices(run: RunSettings) -> None:
    def work(ranks: Ranks) -> Arrays:
        algorithm = make_algorithm(setup_of(run.behaviors["A"], ranks))
        return learned(algorithm, lambda: algorithm.update(gathered(algorithm), 0.1, None))

    one, other = together(2, work)
    np.testing.assert_equal(one, other)


def of_server(run: RunSettings) -> None:
    """Two make an update each from the same state, and both changes count."""
    settings, states = shared_out(run.behaviors["A"], 2), []
    for _ in range(2):
        algorithm = make_algorithm(setup_of(settings))
        before = algorithm.state()[0]
        learned(algorithm, lambda algorithm=algorithm: algorithm.update(gathered(algorithm), 0.1, None))  # type: ignore[misc]
        states.append((before, algorithm.state()[0]))
    newest = states[0][1]
    both = added(newest, *states[1])
    assert any(not np.array_equal(values, newest[name]) for name, values in both.items() if name.startswith("model."))


def of_tensors(run: RunSettings, ranks: Threads | None = None) -> Arrays:
    playing = Playing(run.model_copy(update={"env_settings": run.env_settings.model_copy(update={"seed": 3})}), ranks)
    (entry,) = playing.learning

    def learn() -> None:
        if ranks is not None and not ranks.first:
            with suppress(threading.BrokenBarrierError):
                playing.follow()
        while not entry.learner.version:
            playing.advance()
        if ranks is not None and ranks.first:
            playing.count_episodes()  # the other one has learned, too
            ranks.over()

    return learned(entry.learner.algorithm, learn)


def of_ranks(run: RunSettings) -> None:
    one, other = together(2, partial(of_tensors, run))
    np.testing.assert_equal(one, other)


def of_population(run: RunSettings) -> None:
    settings = run.behaviors["A"]
    members = [PPO(replace(setup_of(settings, seed=seed), spec=test_population.SPEC)) for seed in (3, 4)]
    population = Population(members, test_population.COPIES, 1)
    rollout = test_population.lived(population, (3, 4), 0, 1)
    learned(members[0], lambda: population.learn(rollout, 0.1))
    assert not population.frozen.any()


def of_recordings(run: RunSettings) -> None:
    algorithm = make_algorithm(Setup(demonstrations.PENDULUM, run.behaviors["A"], 3))
    learned(algorithm, lambda: algorithm.update(Work(NO_TRANSITIONS, gradient_steps=2), 0.1, None))


UPDATE: dict[Way, Callable[[RunSettings], object]] = {
    Way.ENGINES: of_engines,
    Way.ACTORS: of_actors,
    Way.POPULATION: of_population,
    Way.RECORDINGS: of_recordings,
    Way.TENSORS: of_tensors,
    Way.PAIRS: of_pairs,
    Way.DEVICES: of_devices,
    Way.RANKS: of_ranks,
    Way.SERVER: of_server,
}


@cache
def recording(folder: Path) -> str:
    return demonstrations.demo_file(folder, demonstrations.played(demonstrations.PENDULUM, demonstrations.swing, 1))


@pytest.mark.parametrize("way", list(Way), ids=str)
@pytest.mark.parametrize("kind", TYPES)
def test_it_learns_or_says_why_not(kind: str, way: Way, tmp_path_factory: pytest.TempPathFactory) -> None:
    torch.set_num_threads(1)
    demo_path = recording(tmp_path_factory.getbasetemp()) if kind in RECORDED else ""
    run, reason = run_of(kind, way, demo_path), row_of(kind).reason(way)
    found = dict(blanks(run, way))
    if reason:
        sentence = reason.format(type=kind, env=run.env_settings.env_path)
        assert found == {("behaviors", "A", "trainer_type"): sentence}
    else:
        assert found == {}
        assert list(untrainable(run)) == []
        UPDATE[way](run)
