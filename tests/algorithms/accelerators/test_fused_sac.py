"""The hand-written steps of sac and sac_ln against torch's differentiation, which their tests hold against papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.accelerators import scripting
from tau_trainer.algorithms.accelerators.fused_sac import run_soft_steps
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.off_policy.sac_ln import SACLN
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.off_policy.test_sac import KINDS
from tests.algorithms.replayed import random_batch, random_everywhere, sac, sac_ln, sac_ln_settings, settings, trained
from tests.networks import IMAGE

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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_three_steps_are_the_same(kind: str, layers: int, weighted: bool) -> None:
    ours, theirs = pair(KINDS[kind], settings({"num_layers": layers}, TWO_STREAMS, tau=0.2))
    batch, _ = random_batch(ours, rows=30, weighted=weighted)
    other = batch._replace(errors=batch.errors.clone())
    with torch.no_grad():
        found, wanted = (one.learn(rows, 3, 1e-3) for one, rows in ((ours, batch), (theirs, other)))
    np.testing.assert_allclose(batch.errors.numpy(), other.errors.numpy(), rtol=1e-3, atol=1e-4)
    assert (batch.errors > 0).all()
    assert found.shape == (3, 7)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
    assert_same(ours, theirs)
    assert int(ours.parameters.optimizer.step) == 3


def test_log_sigmas_beyond_their_limits_get_no_gradient() -> None:
    ours, theirs = pair(ActionSpec(4), settings(), wide=25.0)
    batch, _ = random_batch(ours, rows=40)
    with torch.no_grad():
        found, wanted = (one.learn(batch, 1, 1e-3) for one in (ours, theirs))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
    gradient = ours.parameters.views(ours.parameters.optimizer.gradient)["network.action.bias"]
    assert gradient[4:8].ne(0).tolist() == [False, True, False, False]
    assert_same(ours, theirs)


@BOTH
@pytest.mark.parametrize("actions", [CONTINUOUS, DISCRETE, HYBRID])
def test_whole_updates_are_the_same(actions: ActionSpec, make: Make, options_of: Make) -> None:
    options = options_of({"normalize": True}, TWO_STREAMS, learning_rate=1e-3, steps_per_update=5.0)
    ours, theirs = pair(actions, options, make)
    for one in (ours, theirs):
        trained(one)
    assert_same(ours, theirs, rtol=5e-3, atol=1e-4)
    assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())


@BOTH
def test_batches_of_other_sizes(make: Make, options_of: Make) -> None:
    ours, theirs = pair(HYBRID, options_of(), make)
    for rows in (8, 20, 5):
        batch, _ = random_batch(ours, rows=rows)
        with torch.no_grad():
            for one in (ours, theirs):
                if make is sac_ln:
                    one._returns.meet(5.0)
                one.learn(batch, 1, 1e-3)
    assert_same(ours, theirs, rtol=1e-4 if make is sac_ln else 1e-3)


def test_without_torchscript_it_is_ordinary_python(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = sac(HYBRID)
    assert not scripted.holds_lock
    scripting.scripted.cache_clear()

    def broken(_: object) -> None:
        raise RuntimeError("no TorchScript here")

    with monkeypatch.context() as patch:
        patch.setattr(torch.jit, "script", broken)
        plain = sac(HYBRID)
        assert scripting.scripted(run_soft_steps) is run_soft_steps
    scripting.scripted.cache_clear()
    assert plain.holds_lock
    for one in (scripted, plain):
        trained(one)
    assert_same(scripted, plain)


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


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("make", [sac, sac_ln])
def test_other_networks_take_the_other_path(make: Make) -> None:
    assert not make(HYBRID).holds_lock
    assert make(behavior(CONTINUOUS, IMAGE)).holds_lock
    assert make(CONTINUOUS, fused=False).holds_lock
