"""The hand-written steps of sac and sac_ln against torch's differentiation, which their tests hold against papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.off_policy.sac_ln import SACLN
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS
from tests.algorithms.off_policy.test_sac import KINDS
from tests.algorithms.replayed import random_batch, random_everywhere, sac, sac_ln, sac_ln_settings, settings, trained

BOTH = pytest.mark.parametrize(
    ("make", "options_of"), [(sac, settings), (sac_ln, sac_ln_settings)], ids=["sac", "sac_ln"]
)
Make = Callable[..., Any]


def pair(actions: ActionSpec, options: Any, make: Make = sac, *, wide: float = 0.0) -> tuple[Any, Any]:
    """The same weights, learned by hand and by torch. ``wide`` is added to log sigmas."""
    made = make(actions, options), make(actions, options, fused=False)
    for one in made:
        random_everywhere(one)
        if wide:
            size = actions.continuous_size
            with torch.no_grad():
                one.network.action.bias[size : 2 * size] += torch.linspace(-wide, wide, size)
    return made


def assert_same(ours: SAC | SACLN, theirs: SAC | SACLN, *, rtol: float = 1e-3, atol: float = 1e-5) -> None:
    found = ours.parameters.state()
    for name, wanted in theirs.parameters.state().items():
        np.testing.assert_allclose(found[name], wanted, rtol=rtol, atol=atol, err_msg=name)


def scaled(made: tuple[Any, Any]) -> None:
    """Give `sac_ln` a size of returns, and a new one that it meets at the next update."""
    for one in made:
        if isinstance(one, SACLN):
            one.module.rescale(3.0)
            one._returns.meet(15.0)


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_three_steps_are_the_same(kind: str, layers: int, weighted: bool, make: Make, options_of: Make) -> None:
    ours, theirs = made = pair(KINDS[kind], options_of({"num_layers": layers}, TWO_STREAMS, tau=0.2), make)
    scaled(made)
    batch, _ = random_batch(ours, rows=30, weighted=weighted)
    other = batch._replace(errors=batch.errors.clone())
    found, wanted = ours.learn(batch, 3, 1e-3), theirs.learn(other, 3, 1e-3)
    np.testing.assert_allclose(batch.errors.numpy(), other.errors.numpy(), rtol=1e-3, atol=1e-4)
    assert (batch.errors > 0).all()
    assert found.shape == (3, 6 if make is sac_ln else 7)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
    assert_same(ours, theirs, rtol=1e-4 if make is sac_ln else 1e-3)
    assert int(ours.parameters.optimizer.step) == 3


@BOTH
@torch.no_grad()
def test_log_sigmas_beyond_their_limits_get_no_gradient(make: Make, options_of: Make) -> None:
    ours, theirs = made = pair(ActionSpec(4), options_of(), make, wide=25.0)
    scaled(made)
    batch, _ = random_batch(ours, rows=40)
    found, wanted = (one.learn(batch, 1, 1e-3) for one in made)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
    gradient = ours.parameters.views(ours.parameters.optimizer.gradient)["network.action.bias"]
    assert gradient[4:8].ne(0).tolist() == [False, True, False, False]
    assert_same(ours, theirs, rtol=1e-4 if make is sac_ln else 1e-3)


@BOTH
@pytest.mark.parametrize("actions", [CONTINUOUS, DISCRETE, HYBRID])
def test_whole_updates_are_the_same(actions: ActionSpec, make: Make, options_of: Make) -> None:
    options = options_of({"normalize": True}, TWO_STREAMS, learning_rate=1e-3, steps_per_update=5.0)
    ours, theirs = pair(actions, options, make)
    for one in (ours, theirs):
        trained(one)
    assert_same(ours, theirs, rtol=5e-3, atol=1e-4)
    assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())


@pytest.mark.gpu
@BOTH
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("actions", [CONTINUOUS, HYBRID])
def test_on_an_accelerator_is_learned_what_the_cpu_learns(
    actions: ActionSpec, fused: bool, make: Make, options_of: Make
) -> None:
    options = options_of({"normalize": True}, learning_rate=1e-3, steps_per_update=5.0)
    here, there = (make(actions, options, device=device, fused=fused) for device in ("cpu", "cuda"))
    assert all(parameter.device.type == "cuda" for parameter in there.module.parameters())
    for one in (here, there):
        trained(one)
    assert_same(there, here, rtol=1e-2, atol=1e-3)
    there.load(*here.state(), fresh=False)
    assert_same(there, here, rtol=0.0, atol=0.0)
