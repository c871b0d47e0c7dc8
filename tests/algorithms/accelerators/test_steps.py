"""The class that runs hand-written steps."""

from __future__ import annotations

import pytest
import torch

from tau_trainer.algorithms.accelerators import scripting
from tau_trainer.algorithms.accelerators.fused_sac import run_soft_steps
from tests.algorithms.accelerators.test_fused_sac import BOTH, Make, assert_same, pair, scaled
from tests.algorithms.experience import CONTINUOUS, HYBRID, behavior
from tests.algorithms.replayed import random_batch, sac, sac_ln, trained
from tests.networks import IMAGE


@BOTH
def test_batches_of_other_sizes(make: Make, options_of: Make) -> None:
    ours, theirs = made = pair(HYBRID, options_of(), make)
    scaled(made)
    for rows in (8, 20, 5):
        batch, _ = random_batch(ours, rows=rows)
        with torch.no_grad():
            for one in (ours, theirs):
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


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("make", [sac, sac_ln])
def test_other_networks_take_the_other_path(make: Make) -> None:
    assert not make(HYBRID).holds_lock
    assert make(behavior(CONTINUOUS, IMAGE)).holds_lock
    assert make(CONTINUOUS, fused=False).holds_lock
