from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.accelerators import fused
from tau_trainer.algorithms.accelerators.fused import FusedEpochs
from tau_trainer.algorithms.accelerators.scripting import scripted
from tau_trainer.algorithms.losses import minibatch_loss
from tau_trainer.algorithms.minibatches import Coefficients, new_statistics
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.settings import PPOHyperparameters
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, Collector, ppo, random_samples, settings
from tests.networks import make_network

ROWS = 24


def numbers_for(actions: ActionSpec, **changes: Any) -> Coefficients:
    defaults: dict[str, Any] = {
        "epsilon": 0.2,
        "beta": 0.05,
        "learning_rate": 1e-3,
        "max_grad_norm": 0.5,
    }
    return Coefficients(
        continuous=actions.continuous_size, branches=list(actions.discrete_branches), **{**defaults, **changes}
    )


def parameters_of(actions: ActionSpec, numbers: PPOHyperparameters | None = None, **shape: Any) -> FlatParameters:
    """Of a network that sees five numbers."""
    spec = BehaviorSpec("Walker", (ObservationSpec("vector", (5,)),), actions)
    network = make_network(spec, **{"hidden_units": 8, "normalize": False, **shape})
    return FlatParameters(network, torch.device("cpu"), numbers)


@pytest.mark.parametrize(("layers", "shared"), [(0, False), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("kind", ["aggregate", "credit", "streams"])
@pytest.mark.parametrize(
    ("actions", "masked"), [(CONTINUOUS, False), (DISCRETE, False), (DISCRETE, True), (HYBRID, True)]
)
def test_gradient_equals_autograd(actions: ActionSpec, masked: bool, kind: str, layers: int, shared: bool) -> None:
    width = 1 if kind == "aggregate" else actions.components
    streams = {"extrinsic": width} | ({"more": 2} if kind == "streams" else {})
    parameters = parameters_of(actions, num_layers=layers, streams=streams, shared_critic=shared)
    network: Any = parameters.module
    numbers, samples = numbers_for(actions), random_samples(network, ROWS, width, masked=masked)
    # Against zeros the log ratio is the log-probability: the policy that "acted" is near, on both sides of the clip.
    log_prob = minibatch_loss(network, numbers, samples)[1]
    samples = samples._replace(
        log_prob=log_prob + 0.3 * torch.randn(log_prob.shape, generator=torch.Generator().manual_seed(2))
    )
    statistics, optimizer = new_statistics(samples, ROWS, 1), parameters.optimizer
    with torch.no_grad():
        entropy = fused.compute_gradient(
            numbers,
            fused.named_weights(parameters.views(optimizer.parameters)),
            fused.named_weights(parameters.views(optimizer.gradient)),
            fused.new_workspace(network, ROWS),
            samples,
            statistics.log_ratio,
            statistics.values,
        )
    found = optimizer.gradient.clone()
    optimizer.gradient.zero_()
    loss, log_ratio, values, entropies = minibatch_loss(network, numbers, samples)
    loss.backward()  # type: ignore[no-untyped-call]
    assert found.any()
    torch.testing.assert_close(found, optimizer.gradient, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(statistics.log_ratio, log_ratio, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(statistics.values, values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(entropy, entropies.mean(), rtol=1e-5, atol=1e-6)
    outside = (log_ratio.exp() - 1).abs() > numbers.epsilon
    assert outside.any(), "the clip must be reached"
    assert not outside.all(), "and not by all"


@pytest.mark.parametrize("actions", [CONTINUOUS, DISCRETE, HYBRID])
def test_compiled_epoch_equals_the_python_one_to_the_bit(actions: ActionSpec) -> None:
    learners = [ppo(actions) for _ in range(2)]
    assert isinstance(scripted(fused.run_epoch), torch.jit.ScriptFunction)
    assert not learners[0].holds_lock
    plain = learners[1].policy_update.epochs
    assert isinstance(plain, FusedEpochs)
    plain._epoch = fused.run_epoch
    work = Collector(learners[0]).collect(learners[0].snapshot())
    for learner in learners:
        learner.update(work, 0.0, None)
        learner.update(work, 0.0, None)
    states = [learner.state()[0] for learner in learners]
    np.testing.assert_equal(states[0], states[1])


def test_minibatches_of_any_size_after_each_other() -> None:
    """The last rollout of a run may be smaller than a minibatch."""
    learners = [ppo(HYBRID, settings(batch_size=64), fused=kind) for kind in (True, False)]
    collector = Collector(learners[0])
    for steps in (41, 5, 41, 9):
        work = collector.collect(learners[0].snapshot(), steps)
        results = [learner.update(work, 0.0, None) for learner in learners]
        assert results[0]["Train/Minibatches"] == results[1]["Train/Minibatches"] >= 2
        assert results[0]["Losses/Value Loss"] == pytest.approx(results[1]["Losses/Value Loss"], rel=1e-3)


def test_acting_and_collecting_go_on_while_a_thread_learns() -> None:
    learner, expected = (ppo(CONTINUOUS, settings(num_epoch=10)) for _ in range(2))
    collector, policy = Collector(learner), learner.snapshot()
    work = collector.collect(policy)
    expected.update(Collector(expected).collect(policy), 0.0, None)
    thread = threading.Thread(target=learner.update, args=(work, 0.0, None))
    thread.start()
    steps = 0
    while thread.is_alive() or steps == 0:
        collector.step(policy)
        steps += 1
    thread.join()
    wanted = expected.weights()
    np.testing.assert_equal(learner.weights(), wanted)
