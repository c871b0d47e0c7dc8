"""Under Lightning's Trainer a run is the same run, and its users' callbacks do what they are used to."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.lightning import ResetCallback, TauLightningModule
from tau_trainer.training.batched.playing import Playing
from tests.lightning.fitting import MARKS, PPO, SMALL, fit, settings

pytestmark = MARKS
RETURN = "Environment/Cumulative Reward"


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["steps"] == other["steps"]
    for name, values in one["copies"].items():
        assert torch.equal(values, other["copies"][name]), name
    for policy, parts in one["policies"].items():
        for name, values in parts["tensors"].items():
            assert torch.equal(values, other["policies"][policy]["tensors"][name]), name


def test_it_is_the_same_run_to_the_bit(tmp_path: Path) -> None:
    module, playing = TauLightningModule(settings()), Playing(settings())
    trainer = fit(module, tmp_path, epochs=2)
    for _ in range(6):
        playing.advance()
    playing.count_episodes()
    same(module.playing.state(), playing.state())
    assert trainer.global_step == 6


def test_schedules_end_with_the_trainer(tmp_path: Path) -> None:
    linear = {"learning_rate": 1e-3, "learning_rate_schedule": "linear", "batch_size": 64, "buffer_size": 256}
    module = TauLightningModule(settings(agent={"trainer_type": "ppo", "hyperparameters": linear, **SMALL}))
    trainer = fit(module, tmp_path, epochs=2, batches=4)
    # Progress is that behind the update: 5, 6, 7 and 8 of 8 in the last epoch, whose mean is logged.
    assert float(trainer.callback_metrics["Policy/Learning Rate"]) == pytest.approx(1e-3 * (1.0 - 6.5 / 8), rel=1e-3)


def test_it_goes_on_from_a_checkpoint_to_the_bit(tmp_path: Path) -> None:
    whole = TauLightningModule(settings())
    fit(whole, tmp_path, epochs=4)
    first = TauLightningModule(settings())
    saved = ModelCheckpoint(tmp_path / "saved", save_last=True)
    fit(first, tmp_path, epochs=2, enable_checkpointing=True, callbacks=[saved])
    first_saved = shutil.copy(saved.last_model_path, tmp_path / "first.ckpt")
    resumed = TauLightningModule(settings())
    callbacks = [ResetCallback(), ModelCheckpoint(tmp_path / "saved", save_last=True)]
    last = saved.last_model_path
    trainer = fit(resumed, tmp_path, epochs=4, ckpt_path=last, enable_checkpointing=True, callbacks=callbacks)
    assert trainer.global_step == 12
    same(resumed.playing.state(), whole.playing.state())
    content = torch.load(first_saved, weights_only=True)  # nothing but tensors and plain values
    assert content["tau_trainer"]["steps"] == first.playing.collector.steps
    again = TauLightningModule.load_from_checkpoint(first_saved)
    same(again.playing.state(), first.playing.state())


def test_several_policies_have_optimizers_and_names_of_their_own(tmp_path: Path) -> None:
    halves: dict[str, Any] = {"trainer_type": "a2c", "hyperparameters": {"buffer_size": 64}, **SMALL}
    policies: dict[str, Any] = {
        "left": {"agents": ["left"], **halves},
        "right": {"agents": ["right"], "trainer_type": "a2c", "hyperparameters": {"buffer_size": 128}, **SMALL},
    }
    module = TauLightningModule(settings("tests.envs.batched.counting:Counting", **policies))
    trainer = fit(module, tmp_path, epochs=1, batches=4)
    assert len(trainer.optimizers) == 2
    assert trainer.global_step == 4 + 2, "every 8 steps the one, every 16 the other"
    assert {f"left/{RETURN}", f"right/{RETURN}", "left/Losses/Policy Loss"} <= trainer.callback_metrics.keys()
    assert [entry.learner.version for entry in module.learning] == [4, 2]


@pytest.mark.parametrize(
    ("trainer", "text"),
    [
        ({"world_size": 2}, "use one device here, or tau-train batch --devices"),
        ({"precision": "bf16-mixed"}, "precision='bf16-mixed'.* is not supported for policies; omit it"),
        ({"device": "cuda:0"}, "the environment is on cpu and the Trainer on cuda:0; choose Trainer.accelerator='cpu'"),
    ],
)
def test_what_would_train_something_else_is_refused(trainer: dict[str, Any], text: str) -> None:
    module = TauLightningModule(settings())
    device = torch.device(trainer.pop("device", "cpu"))
    known = {"world_size": 1, "precision": "32-true", "strategy": SimpleNamespace(root_device=device)}
    module._trainer = SimpleNamespace(**(known | trainer))  # type: ignore[assignment]
    module._fabric = None
    with pytest.raises(SettingsError, match=text):
        module.setup("fit")


def test_checkpoints_of_others_are_refused() -> None:
    module = TauLightningModule(settings())
    with pytest.raises(CheckpointError, match="was not written by a TauLightningModule"):
        module.on_load_checkpoint({})
    other = TauLightningModule(settings(num_envs=4)).playing.state()
    with pytest.raises(CheckpointError, match="another number of copies"):
        module.on_load_checkpoint({"tau_trainer": other | {"module_updates": 0}})
    named = TauLightningModule(settings(somebody={**PPO, **SMALL})).playing.state()
    with pytest.raises(CheckpointError, match="is of the policies somebody"):
        module.on_load_checkpoint({"tau_trainer": named | {"module_updates": 0}})


def test_overrides_are_for_files() -> None:
    with pytest.raises(SettingsError, match="overrides are only for a file"):
        TauLightningModule(settings(), {"env_settings.seed": 1})


def test_without_lightning_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("tau_trainer.lightning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lightning", None)
    with pytest.raises(SettingsError, match=r"pip install 'tau-trainer\[lightning\]'"):
        importlib.import_module("tau_trainer.lightning")
