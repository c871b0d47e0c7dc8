"""Functions with TorchScript and without it."""

from __future__ import annotations

import pytest
import torch

from tau_trainer.algorithms.accelerators import fused
from tau_trainer.algorithms.accelerators.scripting import scripted
from tests.algorithms.experience import HYBRID, ppo


def test_without_torchscript_the_python_functions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("TorchScript is gone")

    monkeypatch.setattr(torch.jit, "script", refuse)
    assert scripted.__wrapped__(fused.run_epoch) is fused.run_epoch
    monkeypatch.setattr(fused, "scripted", scripted.__wrapped__)
    assert ppo(HYBRID).holds_lock, "then learning had better have a process of its own"
