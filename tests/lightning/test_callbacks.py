"""Callbacks of Lightning."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from lightning import Callback, LightningModule, Trainer

from tau_trainer.lightning import PerformanceCallback, ResetCallback, TauLightningModule
from tests.lightning.fitting import MARKS, fit, settings

pytestmark = MARKS


def test_copies_begin_anew_when_the_callback_says_so(tmp_path: Path) -> None:
    module = TauLightningModule(settings())
    fit(module, tmp_path, epochs=1)
    assert (module.playing.env.state["step"] > 0).any()
    begun: list[bool] = []

    class Look(Callback):
        def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
            state = module.playing.env.state
            begun.append(not bool(state["step"].any()) and not bool(state["episode"].any()))

    fit(module, tmp_path, epochs=4, callbacks=[ResetCallback(every_n_epochs=2), Look()])
    assert begun == [True, False, True, False]
    with pytest.raises(TypeError, match="LightningModule has no batched environment"):
        ResetCallback().on_train_start(SimpleNamespace(ckpt_path=None), LightningModule())  # type: ignore[arg-type]


def test_speeds_are_those_of_an_epoch(tmp_path: Path) -> None:
    trainer = fit(TauLightningModule(settings()), tmp_path, epochs=2, callbacks=[PerformanceCallback()])
    told = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("Perf/")}
    assert sum(told[f"Perf/Share of {part}"] for part in ("Acting", "Stepping", "Learning")) == pytest.approx(1.0)
    assert 10.0 < told["Perf/Agent Steps per Second"] < 1e7
