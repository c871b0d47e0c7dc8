"""Evaluation on tensors: one episode of each copy, however long. In a run: tests/training/batched/test_run.py."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from typing_extensions import override

from tau_trainer.algorithms.batched import Acted, ActorInput, TensorActor
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.evaluation.batched import EVALUATION_SEED, BatchedEvaluation
from tau_trainer.settings.run import RunSettings
from tests.envs.batched.counting import Counting


class Constant(TensorActor):
    """Always adds the same."""

    def __init__(self, action: int) -> None:
        self.action = action

    @override
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        assert deterministic
        return Acted(torch.full(seen.observations.shape[:2], self.action))


class Third(TensorActor):
    """Adds something at the third decision of an episode alone."""

    @override
    def fresh_state(self, envs: int, agents: int) -> torch.Tensor:
        return torch.zeros(envs, agents, 1, 1)

    @override
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        assert seen.state is not None
        return Acted((seen.state == 2.0).long().flatten(1), state=seen.state + 1.0)


@dataclass
class Adding:
    name: str
    agents: list[int]
    action: int

    def player_in(self, env: BatchedEnv) -> TensorActor:
        return Third() if self.action == 3 else Constant(self.action)


def evaluation(copies: int, most: int, made: list[BatchedEnv], right: int = 1) -> BatchedEvaluation:
    settings = RunSettings.model_validate(
        {
            "environment": {"name": "cartpole"},
            "behaviors": {"agent": {"trainer_type": "ppo"}},
            "evaluation": {"episodes": copies, "max_episode_steps": most},
            "env_settings": {"seed": 5},
        }
    )

    def make(count: int, seed: int) -> BatchedEnv:
        assert seed == 5 + EVALUATION_SEED
        made.append(Counting(count, limit=9, seed=seed))
        return made[-1]

    # The agents' order is not that of the policies.
    return BatchedEvaluation(settings, [Adding("right", [1], right), Adding("left", [0], 0)], make)


def test_every_copy_counts_once_however_long_its_episode_is() -> None:
    made: list[BatchedEnv] = []
    found = evaluation(8, 100, made)
    episodes = found.run()
    begun = Counting(8, limit=9, seed=5 + EVALUATION_SEED)
    begun.reset()
    wanted = [min(10.0 - start, 9.0) for start in begun.state["sum"].tolist()]
    assert len(set(wanted)) > 1
    assert episodes["right"].returns == episodes["right"].lengths == wanted
    assert episodes["left"].returns == [0.0] * 8
    assert episodes["left"].lengths == wanted
    assert episodes["right"].mean_return == pytest.approx(sum(wanted) / 8)
    again = found.run()
    assert again["right"].returns == wanted, "the same episodes every time"
    assert len(made) == 1


def test_who_remembers_begins_each_evaluation_anew() -> None:
    found = evaluation(8, 100, [], right=3)
    for _ in range(2):
        episodes = found.run()
        assert episodes["right"].returns == [1.0] * 8
        assert episodes["right"].lengths == [9.0] * 8


def test_it_can_be_cut_and_stopped() -> None:
    assert evaluation(3, 2, []).run()["right"].returns == [2.0] * 3
    assert evaluation(3, 100, []).run(lambda: True) == {}
