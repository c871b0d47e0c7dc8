"""What an update tells; what it learns is held to references in `test_ppo.py` and `batched/test_on_policy.py`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.minibatches import MemberRows, Rows
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.memory import Rollout
from tau_trainer.metrics import keys
from tests.algorithms.batched.together import together
from tests.algorithms.experience import CONTINUOUS, TWO_STREAMS, Collector, behavior, ppo, settings

UPDATE = ppo(CONTINUOUS, settings(signals=TWO_STREAMS)).policy_update


def explained(values: torch.Tensor, returns: torch.Tensor) -> float:
    found = UPDATE._of_values(values, returns, Rows(len(values), torch.Generator()))
    return float(found[keys.EXPLAINED_VARIANCE])


def test_explained_variance() -> None:
    returns = torch.tensor([[0.0], [1.0], [2.0], [3.0]]).expand(4, 2)
    assert explained(returns, returns) == 1.0
    assert explained(torch.full((4, 2), 1.5), returns) == 0.0
    assert explained(-returns, returns) == pytest.approx(-3.0)
    assert explained(returns, torch.ones(4, 2)) == 0.0, "what does not vary counts as 0"
    half = torch.stack((returns[:, 0], torch.full((4,), 1.5)), dim=1)
    assert explained(half, returns) == 0.5, "each column for itself"


def updated(learner: PPO, times: int = 1) -> tuple[dict[str, float], int]:
    """What the last of so many updates tells, and the new decisions that it learned from."""
    collector = Collector(learner)
    for _ in range(times):
        work = collector.collect(learner.snapshot())
        told = learner.update(work, 0.0, None)
    return told, len(Rollout(work))


@pytest.mark.parametrize(("halves", "times"), [(1, 1), (2, 1), (2, 3)])
def test_gradient_steps_follow_from_the_new_rows_alone(halves: int, times: int) -> None:
    """From the second update on, half of what an update by halves learns from is older."""
    learner = ppo(CONTINUOUS, settings(batch_size=32, buffer_size=400, updates_per_buffer=halves, num_epoch=3))
    told, new = updated(learner, times)
    assert told[keys.MINIBATCHES] == 3 * (new // 32)
    assert (learner.state()[0].get("older.step") is not None) == (halves == 2)


@pytest.mark.parametrize(("epsilon", "epochs"), [(0.001, 2), (0.9, 1)])
def test_target_kl_is_compared_with_the_kl_and_nothing_else(epsilon: float, epochs: int) -> None:
    """A narrow range clips far more than the target while the KL is small, a wide one nothing while it is large."""

    def made(**more: Any) -> dict[str, float]:
        return updated(ppo(CONTINUOUS, settings(epsilon=epsilon, learning_rate=0.01, **more)))[0]

    first = made(num_epoch=1)
    kl, clipped = first[keys.APPROXIMATE_KL], first[keys.CLIP_FRACTION]
    target = (kl + clipped) / 2
    assert (clipped > 2 * kl) == (epochs == 2)
    assert (kl > 2 * clipped) == (epochs == 1)
    assert made(num_epoch=2, target_kl=target)[keys.MINIBATCHES] == epochs * first[keys.MINIBATCHES]


def test_ranks_learn_as_one_by_torchs_differentiation_as_well() -> None:
    def work(ranks: Ranks) -> torch.Tensor:
        learner = PPO(Setup(behavior(CONTINUOUS), settings(), 1, ranks=ranks), fused=False)
        learner.update(Collector(learner).collect(learner.snapshot()), 0.0, None)
        return learner.parameters.optimizer.parameters.clone()

    one, other = together(2, work)
    assert torch.equal(one, other)
    (alone,) = together(1, work)
    torch.testing.assert_close(one, alone, rtol=1e-3, atol=1e-4)


def test_what_members_tell_is_each_ones_own() -> None:
    drawn = torch.Generator().manual_seed(2)
    values, returns = torch.randn(3, 8, 2, generator=drawn), torch.randn(3, 8, 2, generator=drawn)
    together = UPDATE._of_values(values.flatten(0, 1), returns.flatten(0, 1), MemberRows(8, [torch.Generator()] * 3))
    for index in range(3):
        alone = UPDATE._of_values(values[index], returns[index], Rows(8, torch.Generator()))
        for name, found in alone.items():
            torch.testing.assert_close(together[name][index], found)
