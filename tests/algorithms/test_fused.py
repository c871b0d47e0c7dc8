from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import PPO, autograd, fused
from tau_trainer.algorithms.batch import Samples, new_statistics
from tau_trainer.algorithms.learner_state import new_optimizer
from tau_trainer.algorithms.ppo import compiled_epoch
from tau_trainer.models import ActorCritic
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, Collector, behavior, settings

ALL_ACTIONS = [CONTINUOUS, DISCRETE, HYBRID]
ROWS = 24


def numbers_for(actions: ActionSpec, **changes: Any) -> fused.Numbers:
    defaults: dict[str, Any] = {
        "epsilon": 0.2,
        "beta": 0.05,
        "learning_rate": 1e-3,
        "max_grad_norm": 0.5,
        "weight_decay": 0.0,
        "decayed": 0,
    }
    return fused.Numbers(
        continuous=actions.continuous_size, branches=list(actions.discrete_branches), **{**defaults, **changes}
    )


def random_samples(network: ActorCritic, groups: int, columns: int, masked: bool) -> Samples:
    """``groups`` ratios with ``columns`` advantages; the policy that acted had log-probability 0 everywhere."""
    actions, generator = network.actions, torch.Generator().manual_seed(0)
    mask = torch.zeros(0, 0, dtype=torch.bool)
    if masked:
        mask = torch.rand(ROWS, actions.mask_size, generator=generator) < 0.4
        mask[:, 0] = mask[:, -1] = False  # index 0 of the first and the last index of the last branch stay allowed
    chosen = [torch.zeros(ROWS, dtype=torch.int64), torch.ones(ROWS, dtype=torch.int64)]
    return Samples(
        observations=torch.randn(ROWS, network.observation_size, generator=generator),
        continuous=torch.randn(ROWS, actions.continuous_size, generator=generator),
        discrete=torch.stack(chosen, dim=1)[:, : actions.discrete_size],
        mask=mask,
        log_prob=torch.zeros(ROWS, groups),
        advantage=torch.randn(ROWS, columns, generator=generator),
        returns=torch.randn(ROWS, network.values, generator=generator),
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["joint", "component", "credit"])
@pytest.mark.parametrize(
    ("actions", "masked"), [(CONTINUOUS, False), (DISCRETE, False), (DISCRETE, True), (HYBRID, True)]
)
def test_gradient_equals_autograd(actions: ActionSpec, masked: bool, kind: str, layers: int, shared: bool) -> None:
    parts = actions.components
    groups, columns = {"joint": (1, 1), "component": (parts, 1), "credit": (parts, parts)}[kind]
    network = ActorCritic(
        observation_size=5, actions=actions, hidden_units=8, num_layers=layers, values=columns, shared_critic=shared
    )
    numbers, samples = numbers_for(actions), random_samples(network, groups, columns, masked)
    flat = network.layout.zeros()
    network.initialize(flat, torch.Generator().manual_seed(1))
    # Against zeros the log ratio is the log-probability: the policy that "acted" is near, on both sides of the clip.
    log_prob = autograd.minibatch_loss(network, numbers, flat, samples)[1]
    samples = samples._replace(
        log_prob=log_prob + 0.3 * torch.randn(log_prob.shape, generator=torch.Generator().manual_seed(2))
    )
    gradient = network.layout.zeros()
    statistics = new_statistics(samples, ROWS, 1)
    entropy = fused.compute_gradient(
        numbers,
        fused.named_weights(network, flat),
        fused.named_weights(network, gradient),
        fused.new_workspace(network, ROWS, groups, flat.device),
        samples,
        statistics.log_ratio,
        statistics.values,
    )
    flat.requires_grad_()
    loss, log_ratio, values, expected_entropy = autograd.minibatch_loss(network, numbers, flat, samples)
    (expected,) = torch.autograd.grad(loss, flat)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(statistics.log_ratio, log_ratio, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(statistics.values, values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(entropy, expected_entropy, rtol=1e-5, atol=1e-6)
    outside = (log_ratio.exp() - 1).abs() > numbers.epsilon
    assert outside.any(), "the clip must be reached"
    assert not outside.all(), "and not by all"


@pytest.mark.parametrize("limit", [0.0, 0.3, 1e9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_descend_equals_torch_adamw(limit: float, decay: float) -> None:
    network = ActorCritic(observation_size=5, actions=HYBRID, hidden_units=8)
    layout = network.layout
    optimizer = new_optimizer(network, torch.Generator().manual_seed(2), torch.device("cpu"))
    copies = {name: view.clone().requires_grad_() for name, view in layout.views(optimizer.parameters).items()}
    weights = [copies[name] for name, offset in layout.offsets.items() if offset < layout.decayed_size]
    others = [copies[name] for name, offset in layout.offsets.items() if offset >= layout.decayed_size]
    groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=1e-2, eps=1e-8)
    numbers = numbers_for(
        HYBRID, learning_rate=1e-2, max_grad_norm=limit, weight_decay=decay, decayed=layout.decayed_size
    )
    norm, generator = torch.zeros(()), torch.Generator().manual_seed(3)
    for step in range(1, 6):
        for name, view in layout.views(optimizer.gradient).items():
            view.copy_(torch.randn(view.shape, generator=generator))
            copies[name].grad = view.clone()
        expected_norm = torch.nn.utils.clip_grad_norm_(weights + others, limit or 1e12)
        reference.step()
        fused.descend(numbers, optimizer, step, norm)
        assert norm.item() == pytest.approx(expected_norm.item(), rel=1e-5)
    for name, view in layout.views(optimizer.parameters).items():
        torch.testing.assert_close(view, copies[name].detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("actions", ALL_ACTIONS)
def test_compiled_epoch_equals_the_python_one_to_the_bit(actions: ActionSpec) -> None:
    learners = [PPO(behavior(actions), settings(), seed=1) for _ in range(2)]
    assert isinstance(compiled_epoch(), torch.jit.ScriptFunction)
    plain = learners[1]._fused
    assert plain is not None
    plain._epoch = fused.run_epoch
    rollout = Collector(actions).collect(learners[0].snapshot()).take()
    for ppo in learners:
        ppo.update(rollout, 0.0)
        ppo.update(rollout, 0.0)
    states = [ppo.state_dict()[0] for ppo in learners]
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_without_torchscript_the_python_functions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("TorchScript is gone")

    monkeypatch.setattr(torch.jit, "script", refuse)
    assert fused.compiled() is fused.run_epoch


def test_minibatches_of_any_size_after_each_other() -> None:
    """The last rollout of a run may be smaller than a minibatch."""
    learners = [PPO(behavior(HYBRID), settings(batch_size=64), seed=1, fused=fused) for fused in (True, False)]
    for steps in (41, 5, 41, 9):
        rollout = Collector(HYBRID).collect(learners[0].snapshot(), steps).take()
        results = [ppo.update(rollout, 0.0) for ppo in learners]
        assert results[0]["Train/Minibatches"] == 2 * max(1, len(rollout) // 64)
        assert results[0]["Losses/Value Loss"] == pytest.approx(results[1]["Losses/Value Loss"], rel=1e-3)


def test_acting_and_collecting_go_on_while_a_thread_learns() -> None:
    ppo, collector = PPO(behavior(CONTINUOUS), settings(num_epoch=10), seed=1), Collector(CONTINUOUS)
    policy = ppo.snapshot()
    expected = PPO(behavior(CONTINUOUS), settings(num_epoch=10), seed=1)
    rollout, twin = (Collector(CONTINUOUS).collect(policy).take() for _ in range(2))
    expected.update(twin, 0.0)
    thread = threading.Thread(target=ppo.update, args=(rollout, 0.0))
    thread.start()
    steps = 0
    while thread.is_alive() or steps == 0:
        collector.collect(policy, 1)
        steps += 1
    thread.join()
    wanted = expected.snapshot().weights.arrays()
    for array, other in zip(ppo.snapshot().weights.arrays(), wanted, strict=True):
        np.testing.assert_array_equal(array, other)
