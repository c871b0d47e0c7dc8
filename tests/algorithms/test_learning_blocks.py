"""PPO and SAC learn what only eyes, a list of entities, or a goal can tell, in seconds: bandits with fixed seeds.

Each pays 1 for the one right answer of three; who does not look at the sensor in question is right a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import StepFacts
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tests.algorithms.experience import acted
from tests.networks import observations

AGENTS, ANSWERS = 16, 3

World = Callable[[np.random.Generator], tuple[tuple[Any, ...], Any]]
"""Observations of all agents, and their answers."""

GOAL, VARIABLE = ObservationType.GOAL_SIGNAL, (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
NOISE = ObservationSpec("noise", (2,))


def brightest(side: int) -> World:
    """The number of the bright column of a dim image."""

    def draw(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
        answer = rng.integers(ANSWERS, size=AGENTS)
        images = rng.integers(0, 128, (AGENTS, 1, side, side), np.uint8)
        for image, column in zip(images, answer, strict=True):
            image[:, :, side * column // ANSWERS : side * (column + 1) // ANSWERS] += 127
        return (noise(rng), images), answer

    return draw


def leader(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
    """The colour of the entity with the largest number, of one to five in any order."""
    colours = rng.integers(ANSWERS, size=(AGENTS, 5))
    numbers = rng.uniform(-1, 1, (AGENTS, 5)) - 9.0 * (rng.random((AGENTS, 5)) < 0.4)
    numbers[:, 2] = np.abs(numbers[:, 2]) % 1.0
    entities = np.concatenate([np.eye(ANSWERS)[colours], numbers[:, :, None]], axis=2)
    entities[numbers < -2.0] = 0.0
    return (entities.astype(np.float32), noise(rng)), colours[np.arange(AGENTS), numbers.argmax(axis=1)]


def wanted(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
    """Which of the three cues the goal points at: the answer is the cue's."""
    cues, goal = rng.integers(ANSWERS, size=(AGENTS, 2)), rng.integers(2, size=AGENTS)
    shown = np.eye(ANSWERS, dtype=np.float32)[cues].reshape(AGENTS, -1)
    return (np.eye(2, dtype=np.float32)[goal], shown), cues[np.arange(AGENTS), goal]


def noise(rng: np.random.Generator) -> Any:
    return rng.normal(size=(AGENTS, 2)).astype(np.float32)


WORLDS: dict[str, tuple[tuple[ObservationSpec, ...], World, dict[str, Any]]] = {
    "simple": ((NOISE, ObservationSpec("camera", (1, 20, 20), dtype=np.uint8)), brightest(20), {}),
    "leader of a list": ((ObservationSpec("others", (5, 4), VARIABLE), NOISE), leader, {}),
    "goal": ((ObservationSpec("goal", (2,), (), GOAL), ObservationSpec("cues", (6,))), wanted, {}),
    "goal that is an image": (
        (ObservationSpec("goal", (1, 6, 6), (), GOAL, np.uint8), NOISE),
        lambda rng: (lambda drawn: (drawn[0][::-1], drawn[1]))(brightest(6)(rng)),
        {"vis_encode_type": "fully_connected"},
    ),
}


def make(trainer: str, sensors: tuple[ObservationSpec, ...], network: dict[str, Any]) -> Any:
    numbers: dict[str, Any] = {"steps_per_update": 8, "init_entcoef": 0.1}
    if trainer == "ppo":
        numbers = {"buffer_size": 256, "num_epoch": 6, "learning_rate_schedule": "constant"}
    settings = trainer_type(trainer).settings.model_validate(
        {
            "hyperparameters": {"batch_size": 64, "learning_rate": 1e-3} | numbers,
            "network_settings": {"hidden_units": 32, "num_layers": 1} | network,
            "reward_signals": {"extrinsic": {"gamma": 0.0}},
        }
    )
    return make_algorithm(Setup(BehaviorSpec("Small?team=0", sensors, ActionSpec(0, (ANSWERS,))), settings, seed=1))


def play(algorithm: Any, world: World, most: int = 400) -> list[float]:
    """Share of right answers, decision by decision, until nearly all of the last are right."""
    rng, policy, rows = np.random.default_rng(0), algorithm.snapshot(), np.arange(AGENTS)
    reward, hits = np.zeros((AGENTS, 1), np.float32), list[float]()
    while len(hits) < most and (len(hits) < 20 or np.mean(hits[-20:]) < 0.9):
        obs, answer = world(rng)
        decision = policy.act(obs, None, rng)
        algorithm.memory.append(rows, StepFacts({"extrinsic": reward}), acted(obs, decision), policy.version)
        reward = (decision.discrete == answer[:, None]).astype(np.float32)
        hits.append(float(reward.mean()))
        work = algorithm.ready(Counters(0, algorithm.version))
        if work is not None:
            algorithm.update(work.data, 0.0, None)
            work.release()
            policy = algorithm.snapshot()
    return hits


@pytest.mark.parametrize(
    ("name", "trainer"),
    [
        *((name, "ppo") for name in WORLDS),
        ("goal", "sac"),
        *(pytest.param(name, "sac", marks=pytest.mark.nightly) for name in ("simple", "leader of a list")),
    ],
)
def test_the_answer_is_found(name: str, trainer: str) -> None:
    sensors, world, network = WORLDS[name]
    hits = play(make(trainer, sensors, network), world)
    assert np.mean(hits[:10]) < 0.55
    assert np.mean(hits[-20:]) >= 0.9, hits[::10]


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_every_parameter_of_every_block_learns(trainer: str) -> None:
    sensors = (
        ObservationSpec("target", (1, 20, 20), (), GOAL, np.uint8),
        ObservationSpec("goal", (2,), (), GOAL),
        ObservationSpec("camera", (2, 22, 20)),
        ObservationSpec("others", (4, 3), VARIABLE),
        ObservationSpec("more", (2, 5), VARIABLE),
    )
    algorithm = make(trainer, sensors, {"normalize": True})
    module = algorithm.parameters.module
    before = {name: value.detach().clone() for name, value in module.named_parameters()}

    def world(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
        return observations(algorithm.spec, AGENTS, int(rng.integers(2**31)), 1.0), rng.integers(ANSWERS, size=AGENTS)

    play(algorithm, world, most=40 if trainer == "ppo" else 10)
    assert algorithm.version >= 2
    still = {name for name, value in module.named_parameters() if value.numel() and torch.equal(value, before[name])}
    assert not still
    assert algorithm.network.normalizer is not None
    assert algorithm.network.normalizer.mean.shape == (2,), "vectors alone are normalised, those of goals too"


@pytest.mark.parametrize(
    ("sensor", "key", "other"),
    [
        (ObservationSpec("camera", (1, 20, 20), dtype=np.uint8), "vis_encode_type", "match3"),
        (ObservationSpec("goal", (2,), (), GOAL), "goal_conditioning_type", "none"),
    ],
)
def test_a_checkpoint_of_other_blocks_is_refused(sensor: ObservationSpec, key: str, other: str) -> None:
    one, another = make("ppo", (NOISE, sensor), {}), make("ppo", (NOISE, sensor), {key: other})
    with pytest.raises(CheckpointError, match=f"The checkpoint's {key.replace('_', ' ')} is '{other}'"):
        one.load(*another.state(), fresh=False)
    plain = make("ppo", (NOISE,), {})
    assert key not in plain.metadata(), "where it means nothing, older checkpoints do not have it"
    plain.load(*make("ppo", (NOISE,), {key: other}).state(), fresh=False)
