"""MA-POCA and MAPPO, held to what `grouped.py` writes down decision by decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.losses import trust_region
from tau_trainer.algorithms.poca import MAPPO, POCA
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import SettingsError
from tau_trainer.metrics import keys
from tau_trainer.settings.trainers import POCATrainerSettings
from tests.algorithms.batched.together import together
from tests.algorithms.experience import HYBRID, Collector, behavior
from tests.algorithms.grouped import History, poca
from tests.algorithms.teams import ALWAYS, DYING, FORGETS, played


def test_trust_region() -> None:
    """What has gone as far towards its return as it may has no gradient; what moves away from it has."""
    before, returns = torch.zeros(4), torch.tensor([1.0, 1.0, 1.0, -1.0])
    values = torch.tensor([0.1, 0.5, -0.5, -0.3], requires_grad=True)
    losses = trust_region(values, before, returns, 0.2)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert losses.tolist() == pytest.approx([0.81, 0.64, 2.25, 0.64])
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx([-1.8, 0.0, -3.0, 0.0])


@pytest.mark.parametrize(("size", "wide"), [(0.01, False), (100.0, True)])
def test_the_trust_region_is_as_wide_as_the_critic_is_wrong(size: float, wide: bool) -> None:
    learner, _, work = played(POCA, HYBRID, (ALWAYS * 4 + DYING) * 4, learning_rate=0.3, num_epoch=3)
    work = {**work, "reward.extrinsic": work["reward.extrinsic"] * size, "group_reward": work["group_reward"] * size}
    learner.update(work, 0.0, None)
    reach: Any = learner.policy_update._reach  # type: ignore[attr-defined]
    assert bool((reach > 10.0).all()) == wide
    if not wide:
        assert reach.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("network", [None, FORGETS])
def test_ready_collect_learn_and_go_on_equal_to_the_bit(network: Any) -> None:
    """From a checkpoint in between, the size of the largest group included."""
    learner, history, work = played(POCA, HYBRID, (ALWAYS * 4 + DYING) * 4, network=network)
    learner.update(work, 0.0, None)
    assert float(learner.network.get_buffer("critic.most")) == 3.0
    other = poca(behavior(HYBRID), network=network)
    arrays, metadata = learner.state()
    other.load({name: values.copy() for name, values in arrays.items()}, metadata, fresh=False)
    history.policy = learner.snapshot()
    work = history.play((ALWAYS * 4 + DYING) * 4)
    first, second = (one.update(work, 0.3, None) for one in (learner, other))
    assert {name: first[name] for name in first if "Seconds" not in name} == {
        name: second[name] for name in second if "Seconds" not in name
    }
    np.testing.assert_equal(learner.state()[0], other.state()[0])


@pytest.mark.parametrize("network", [None, FORGETS])
def test_stale_decisions_are_compared_with_the_policy_of_now(network: Any) -> None:
    numbers = {"num_epoch": 1, "batch_size": 1000, "buffer_size": 1000}
    learner, history, work = played(POCA, HYBRID, ALWAYS * 9, network=network, **numbers)
    learner.update(work, 0.0, None)
    work = history.play(ALWAYS * 9)  # the policy of before
    assert learner.update(work, 0.0, None)[keys.APPROXIMATE_KL] < 1e-9


def test_an_update_without_any_group_and_one_of_rewards_without_a_groups() -> None:
    learner = poca(behavior(HYBRID), MAPPO)
    collector = Collector(learner)
    collector.columns = ["log_prob"]
    assert learner.update(collector.collect(learner.snapshot()), 0.0, None)[keys.VALUE_LOSS] > 0.0


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(SettingsError, match=r"behavior 'Walker': poca learns from one reward per decision"):
        make_algorithm(Setup(behavior(HYBRID), POCATrainerSettings(), 1, reward_width=4))
    with pytest.raises(ValueError, match=r"sequence_length 64 is larger than hyperparameters\.batch_size 32"):
        POCATrainerSettings.model_validate(
            {"network_settings": {"memory": {}}, "hyperparameters": {"batch_size": 32, "buffer_size": 320}}
        )


@pytest.mark.parametrize("kind", [POCA, MAPPO])
def test_ranks_learn_as_one(kind: type[POCA]) -> None:
    """Each takes a part of every minibatch, and sees all of a set that is cut."""

    def work(ranks: Ranks) -> tuple[torch.Tensor, list[float]]:
        learner = kind(replace(poca(behavior(HYBRID), kind, optimizer="sgd", learning_rate=0.01)._setup, ranks=ranks))
        result = learner.update(History(learner, learner.snapshot()).play((ALWAYS * 4 + DYING) * 4), 0.0, None)
        told = [result[name] for name in (keys.POLICY_LOSS, keys.VALUE_LOSS, keys.POLICY_ENTROPY)]
        return learner.parameters.optimizer.parameters.clone(), told

    (one, told), (other, _) = together(2, work)
    assert torch.equal(one, other)
    ((alone, wanted),) = together(1, work)
    torch.testing.assert_close(one, alone, rtol=1e-3, atol=1e-4)
    assert told == pytest.approx(wanted, rel=1e-3, abs=1e-4)
