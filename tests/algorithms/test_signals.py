"""AIRL beside PPO and SAC: paid right, learned beside the policy, resumed to the bit, and it finds the expert."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import make_algorithm
from tau_trainer.algorithms.offline import recordings
from tau_trainer.algorithms.signals import experience_of, log_prob
from tau_trainer.bridge.demonstrations import Demonstration, read_demonstrations
from tau_trainer.bridge.package import RECORDED, ImageOrder
from tau_trainer.errors import CheckpointError, DataError
from tau_trainer.memory import Rollout
from tau_trainer.specs import BehaviorSpec
from tests.algorithms.demonstrations import PENDULUM, demo_file, learn_in, played, swing, worth
from tests.algorithms.test_learned_streams import imitator, learner, rollout_of


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_an_update_that_fails_leaves_the_signal_as_it_was(kind: str, tmp_path: Path) -> None:
    one = learner(kind, ("airl",), tmp_path)
    work = rollout_of(one)
    before = one.state()[0]

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("in the middle")

    one.check_finite = fail
    with pytest.raises(RuntimeError, match="in the middle"):
        one.update(work, 0.0, None)
    np.testing.assert_equal(one.state()[0], before)


def test_a_checkpoint_without_the_signal_changes_nothing(tmp_path: Path) -> None:
    one, other = (learner("ppo", ("airl",), tmp_path) for _ in range(2))
    other.update(rollout_of(other), 0.0, None)
    arrays, metadata = other.state()
    before = one.state()[0]
    for lost in ("model.action.weight", "signal."):
        damaged = {name: values for name, values in arrays.items() if not name.startswith(lost)}
        with pytest.raises(CheckpointError):
            one.load(damaged, metadata, fresh=False)
        np.testing.assert_equal(one.state()[0], before)


@pytest.mark.parametrize(("kind", "largest"), [("ppo", 3.0), ("sac", 1.0)])
def test_squashed_and_raw_actions_of_the_expert_are_as_likely_as_they_were(
    kind: str, largest: float, tmp_path: Path
) -> None:
    """The same action in the environment: raw times three for PPO, itself for SAC, and its density under each."""
    one = learner(kind, ("airl",), tmp_path)
    expert = one.signals[0]._expert
    assert 0.9 * largest < float(expert.continuous.abs().max()) <= largest
    assert bool(torch.isfinite(log_prob(one.network, expert)).all())


def test_who_only_plays_needs_no_demonstration_and_who_learns_one_that_serves(tmp_path: Path) -> None:
    trained = learner("ppo", ("airl",), tmp_path)
    trained.update(rollout_of(trained), 0.0, None)
    (path,) = tmp_path.glob("*.demo")
    path.unlink()
    plays: Any = make_algorithm(replace(trained._setup, learns=False))
    plays.load(*trained.state(), fresh=False)
    np.testing.assert_array_equal(plays.weights()["action.weight"], trained.weights()["action.weight"])
    with pytest.raises(DataError, match="there is no demonstration"):
        make_algorithm(trained._setup)
    demo_file(tmp_path, played(PENDULUM, swing, copies=1))
    with pytest.raises(DataError, match="its actions are 1 continuous"):
        make_algorithm(trained._setup)


def test_recordings_are_read_in_the_order_of_the_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ImageOrder] = []

    def read(paths: Any, spec: BehaviorSpec, images: ImageOrder) -> Demonstration:
        asked.append(images)
        return read_demonstrations(paths, spec)

    monkeypatch.setattr(recordings, "read_demonstrations", read)
    one, order = learner("ppo", ("airl",), tmp_path), ImageOrder(flat=("heat",))
    make_algorithm(replace(one._setup, images=order))
    assert asked == [RECORDED, order]


def test_what_a_rollout_is_to_a_signal(tmp_path: Path) -> None:
    one = learner("ppo", ("airl",), tmp_path)
    rollout = Rollout(rollout_of(one, steps=60))
    own = experience_of(rollout, one.network, one.device)
    np.testing.assert_array_equal(own.goes_on.numpy() == 0, rollout.terminated)
    np.testing.assert_array_equal(own.following[0].numpy(), rollout.next_observations(0))
    found = log_prob(one.network, own).detach().numpy()
    np.testing.assert_allclose(found, rollout.column("log_prob").sum(axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_airl_goes_where_the_expert_went(kind: str, tmp_path: Path) -> None:
    """The expert gets 9.1; who is paid for the entropy alone gets 2.7 at most. Nobody falls, so f alone shows the way.

    Seeds 1, 2 and 3: 9.1 each, by PPO and by SAC.
    """
    own: dict[str, Any] = {"beta": 0.0} if kind == "ppo" else {}
    one = imitator(kind, tmp_path, "airl", **own)
    returns = learn_in(one, 8000 if kind == "ppo" else 4000, copies=16)
    assert np.mean(returns[:64]) < 2.5
    assert worth(one.snapshot(), copies=40) > 5.0
