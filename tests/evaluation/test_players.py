from __future__ import annotations

import numpy as np

from tau_trainer.evaluation.players import evenly, policy_player
from tau_trainer.settings.exploration import EpsGreedySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.networks import make_network, policy_of


def test_who_explores_does_not_where_nobody_learns() -> None:
    """Its model file takes the best action, too."""
    spec = BehaviorSpec("B", (ObservationSpec("a", (3,)),), ActionSpec(0, (4,)))
    policy = policy_of(make_network(spec, exploration=EpsGreedySettings(eps=1.0, eps_min=1.0)))
    player = policy_player({"B": policy}, spec, 0, deterministic=False)
    obs = (np.ones((200, 3), np.float32),)
    assert len(np.unique(player.decide(np.arange(200), obs, None).discrete)) == 1


def test_chance_takes_every_action_that_is_not_forbidden() -> None:
    rng, spec = np.random.default_rng(0), ActionSpec(2, (3, 2))
    mask = np.zeros((500, 5), np.bool_)
    mask[:, 1] = True
    drawn = evenly(spec, 500, mask, rng)
    assert set(drawn.discrete[:, 0].tolist()) == {0, 2}
    assert set(drawn.discrete[:, 1].tolist()) == {0, 1}
    assert -1.0 <= drawn.continuous.min() < -0.95
    assert 0.95 < drawn.continuous.max() <= 1.0
    mask[:, :3] = True  # as a whole, which forbids nothing
    assert set(evenly(spec, 500, mask, rng).discrete[:, 0].tolist()) == {0, 1, 2}
