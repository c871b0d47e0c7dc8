from __future__ import annotations

from typing import Any

import pytest
import torch

from tau_trainer.models.soft_actor_critic import SoftActorCritic
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, ObservationType
from tests.networks import IMAGE, LIST, observations

VECTOR, GOAL = ObservationSpec("vector", (3,)), ObservationSpec("goal", (2,), (), ObservationType.GOAL_SIGNAL)


def made(sensors: tuple[ObservationSpec, ...], **settings: Any) -> tuple[SoftActorCritic, list[torch.Tensor]]:
    spec, generator = BehaviorSpec("Walker", sensors, ActionSpec(2, (3,))), torch.Generator().manual_seed(0)
    module = SoftActorCritic(spec, NetworkSettings(hidden_units=8, **settings), {"a": 1, "b": 1}, 1.0, generator)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return module, module.network.prepare(observations(spec, 5, scale=1.0))


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("sensors", "layers"), [((VECTOR,), 2), ((GOAL, VECTOR), 1), ((GOAL, IMAGE, VECTOR, LIST), 2)])
def test_q_is_layers_over_features_and_actions_of_each_tower(sensors: Any, layers: int, frozen: bool) -> None:
    module, inputs = made(sensors, num_layers=layers)
    q, actions = module.q, torch.randn(5, 2, requires_grad=True)
    seen = q.see(inputs)
    answer = q(seen, actions, frozen=frozen)
    assert answer.shape == (2, 5, 2, 3)
    for tower in range(2):
        x = torch.cat([seen[tower].features, actions], dim=1)
        if q.encoders:
            torch.testing.assert_close(seen[tower].features, q.encoders[tower](inputs).features)
        x = q.body(x, tower)
        assert len(q.body) == layers - (q.hyper is not None)
        if q.hyper is not None:
            x = q.hyper(x, seen[tower].goal, tower)
        expected = x @ q.weight[tower] + q.bias[tower]
        torch.testing.assert_close(answer[tower].flatten(1), expected)
    answer.square().sum().backward()
    assert actions.grad is not None
    assert actions.grad.any(dim=1).all()
    for key, parameter in q.named_parameters():
        assert (parameter.grad is None) == frozen, key
