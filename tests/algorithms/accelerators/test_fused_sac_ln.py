"""The hand-written step against torch's own differentiation, which test_sac_ln.py holds against the papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.off_policy.sac_ln import SACLN
from tau_trainer.specs import ActionSpec
from tests.algorithms.accelerators.test_fused_sac import assert_same
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.off_policy.test_sac import KINDS, random_batch
from tests.algorithms.replayed import random_everywhere, sac_ln, sac_ln_settings, trained
from tests.networks import IMAGE


def pair(actions: ActionSpec, options: Any, *, wide: float = 0.0) -> tuple[SACLN, SACLN]:
    """The same weights, learned by hand and by torch. ``wide`` is added to log sigmas."""
    made = sac_ln(actions, options), sac_ln(actions, options, fused=False)
    for one in made:
        random_everywhere(one)
        if wide:
            size = actions.continuous_size
            with torch.no_grad():
                one.network.action.bias[size : 2 * size] += torch.linspace(-wide, wide, size)
    return made


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_three_steps_are_the_same(kind: str, layers: int, weighted: bool) -> None:
    ours, theirs = pair(KINDS[kind], sac_ln_settings({"num_layers": layers}, TWO_STREAMS, tau=0.2))
    batch, _ = random_batch(ours, rows=30, weighted=weighted)
    other = batch._replace(errors=batch.errors.clone())
    with torch.no_grad():
        for one in (ours, theirs):
            one.module.rescale(3.0)
            one._returns._largest = 15.0
        found, wanted = (one.learn(rows, 3, 1e-3) for one, rows in ((ours, batch), (theirs, other)))
    np.testing.assert_allclose(batch.errors.numpy(), other.errors.numpy(), rtol=1e-4, atol=1e-5)
    assert (batch.errors > 0).all()
    assert found.shape == (3, 7)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert_same(ours, theirs, rtol=1e-4)
    assert int(ours.parameters.optimizer.step) == 3


def test_log_sigmas_beyond_their_limits_get_no_gradient() -> None:
    ours, theirs = pair(ActionSpec(4), sac_ln_settings(), wide=25.0)
    batch, _ = random_batch(ours, rows=40)
    with torch.no_grad():
        for one in (ours, theirs):
            one._returns._largest = 5.0
            one.learn(batch, 1, 1e-3)
    gradient = ours.parameters.views(ours.parameters.optimizer.gradient)["network.action.bias"]
    assert gradient[4:8].ne(0).tolist() == [False, True, False, False]
    assert_same(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("actions", [CONTINUOUS, DISCRETE, HYBRID])
def test_whole_updates_are_the_same(actions: ActionSpec) -> None:
    options = sac_ln_settings({"normalize": True}, TWO_STREAMS, learning_rate=1e-3, steps_per_update=5.0)
    ours, theirs = pair(actions, options)
    for one in (ours, theirs):
        trained(one)
    assert_same(ours, theirs, rtol=5e-3, atol=1e-4)
    assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())


def test_batches_of_other_sizes() -> None:
    ours, theirs = pair(HYBRID, sac_ln_settings())
    for rows in (8, 20, 5):
        batch, _ = random_batch(ours, rows=rows)
        with torch.no_grad():
            for one in (ours, theirs):
                one._returns._largest = 5.0
                one.learn(batch, 1, 1e-3)
    assert_same(ours, theirs, rtol=1e-4)


def test_it_is_scripted() -> None:
    assert not sac_ln(HYBRID).holds_lock


@pytest.mark.gpu
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("actions", [CONTINUOUS, HYBRID])
def test_on_an_accelerator_is_learned_what_the_cpu_learns(actions: ActionSpec, fused: bool) -> None:
    options = sac_ln_settings({"normalize": True}, learning_rate=1e-3, steps_per_update=5.0)
    here, there = (sac_ln(actions, options, device=device, fused=fused) for device in ("cpu", "cuda"))
    assert all(parameter.device.type == "cuda" for parameter in there.module.parameters())
    for one in (here, there):
        trained(one)
    assert_same(there, here, rtol=1e-2, atol=1e-3)
    there.load(*here.state(), fresh=False)
    assert_same(there, here, rtol=0.0, atol=0.0)


@pytest.mark.usefixtures("toys")
def test_other_networks_take_the_other_path() -> None:
    assert sac_ln(behavior(CONTINUOUS, IMAGE)).holds_lock
    assert sac_ln(CONTINUOUS, fused=False).holds_lock
