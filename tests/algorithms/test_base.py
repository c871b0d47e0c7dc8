from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tau_trainer import plugins
from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.errors import SettingsError
from tau_trainer.rewards import RewardStream
from tau_trainer.settings import NetworkSettings
from tau_trainer.settings.trainers import (
    DDPGTrainerSettings,
    POCATrainerSettings,
    PPOTrainerSettings,
    SACTrainerSettings,
    TrainerType,
)
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import HYBRID, TWO_STREAMS, Collector, behavior, settings
from tests.networks import IMAGE, observations

OTHER = TrainerType(PPOTrainerSettings, f"{__name__}:OtherPPO")
"""What a package of somebody else brings."""


class OtherPPO(PPO):
    """An algorithm of another package."""

    name = "other"


def test_the_algorithm_is_found_by_its_trainer_type(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugins._found
    others = {"other": f"{__name__}:OTHER"}
    monkeypatch.setattr(plugins, "_found", lambda kind: found(kind) | (others if kind == "trainers" else {}))
    assert type(make_algorithm(Setup(behavior(HYBRID), settings(), 1))) is PPO
    options = settings().model_copy(update={"trainer_type": "other"})
    assert type(make_algorithm(Setup(behavior(HYBRID), options, 1))).__name__ == "OtherPPO"


@pytest.mark.parametrize(
    ("options", "actions", "said"),
    [
        (settings(), ActionSpec(), "^behavior 'Walker' has no actions, so there is nothing to learn$"),
        (
            POCATrainerSettings(network_settings=NetworkSettings(hidden_units=30)),
            HYBRID,
            "^behavior 'Walker': network_settings.hidden_units is 30, which the 4 heads .* make it a multiple of 4$",
        ),
    ],
)
def test_what_cannot_be_learned_is_told(options: Any, actions: ActionSpec, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        make_algorithm(Setup(behavior(actions), options, 1))


@pytest.mark.parametrize("trainer", [settings(), POCATrainerSettings(), SACTrainerSettings(), DDPGTrainerSettings()])
@pytest.mark.parametrize(
    ("sensors", "has"),
    [
        ((), "no sensors"),
        ((ObservationSpec("a", (0,)),), r"only sensors of size 0 \('a'\)"),
        ((ObservationSpec("a", (0, 9, 9)), ObservationSpec("b", (4, 0))), r"only sensors of size 0 \('a', 'b'\)"),
        ((ObservationSpec("a", (3,), hidden=True),), "no sensors"),
    ],
)
def test_who_sees_nothing_cannot_learn(trainer: Any, sensors: tuple[ObservationSpec, ...], has: str) -> None:
    with pytest.raises(
        SettingsError, match=f"^behavior 'Walker' has {has}, so there is nothing to decide by; give its"
    ):
        make_algorithm(Setup(BehaviorSpec("Walker", sensors, ActionSpec(2)), trainer, 1))


def test_a_network_that_cannot_be_built_is_told_with_the_behavior() -> None:
    with pytest.raises(SettingsError, match=r"^behavior 'Walker': sensor 'camera' sends images of 4 x 3 pixels"):
        make_algorithm(Setup(behavior(HYBRID, IMAGE), settings(), 1))


def test_streams_of_a_setup() -> None:
    setup = Setup(behavior(HYBRID), settings(signals=TWO_STREAMS), 1, reward_width=4)
    assert setup.streams == (RewardStream("extrinsic", 4, 0.9, 0.5), RewardStream("bonus", 1, 0.6, 2.0))


def test_one_instance_collects_and_another_learns() -> None:
    """As in two processes: work travels one way, weights the other, and nothing else connects them."""
    setup = Setup(behavior(HYBRID), settings(), 1)
    collecting, learning, both = (make_algorithm(setup) for _ in range(3))
    assert isinstance(collecting, PPO)
    assert isinstance(both, PPO)
    work = [Collector(one).collect(one.snapshot()) for one in (collecting, both)]
    learning.update(pickle.loads(pickle.dumps(dict(work[0]))), 0.5, None)
    both.update(work[1], 0.5, None)
    policy = collecting.policy(pickle.loads(pickle.dumps(learning.weights())), learning.version)
    obs, expected = observations(setup.spec, 5), both.snapshot()
    first, second = (one.act(obs, None, np.random.default_rng(0)) for one in (policy, expected))
    np.testing.assert_array_equal(first.continuous, second.continuous)
    np.testing.assert_array_equal(first.extras["log_prob"], second.extras["log_prob"])
    assert (policy.version, collecting.version) == (1, 0)
