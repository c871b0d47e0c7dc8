"""Small runs under Lightning's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning import Trainer

from tau_trainer.lightning import TauDataModule, TauLightningModule
from tau_trainer.settings.run import RunSettings

MARKS = [
    # Lightning's own use of torch.
    pytest.mark.filterwarnings("ignore:`isinstance.treespec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*`checkpoint_callback` dirpath.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty:UserWarning"),
]
CONSTANT = {f"{name}_schedule": "constant" for name in ("learning_rate", "beta", "epsilon")}


PPO = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 64, "buffer_size": 256, "num_epoch": 2, **CONSTANT}}


SMALL = {"network_settings": {"hidden_units": 16, "num_layers": 1}}


def settings(environment: str = "cartpole", num_envs: int = 8, **policies: Any) -> RunSettings:
    return RunSettings.model_validate(
        {
            "environment": {"name": environment, "num_envs": num_envs},
            "behaviors": policies or {"agent": {**PPO, **SMALL}},
            "env_settings": {"seed": 3},
        }
    )


def fit(module: TauLightningModule, tmp_path: Path, epochs: int, batches: int = 3, **options: Any) -> Trainer:
    ckpt = options.pop("ckpt_path", None)
    given = {"logger": False, "enable_checkpointing": False} | options
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        **given,
    )
    trainer.fit(module, TauDataModule(module, batches), ckpt_path=ckpt)
    return trainer
