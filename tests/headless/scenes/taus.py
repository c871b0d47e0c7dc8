"""The scene tau on the packaged data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tau_trainer.headless.scenes.tau import TauRules, TauScene
from tau_trainer.specs import Actions
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.profiles import PROFILES

DATA = load_dataset()


def scene(
    profile: str = "tau3", *, agents: int = 6, seed: int = 0, target_sensor: bool = False, **rules: object
) -> TauScene:
    return TauScene(
        dataset=DATA,
        profile=PROFILES[profile],
        agents=agents,
        seed=seed,
        rules=replace(TauRules(), **rules),  # type: ignore[arg-type]
        target_sensor=target_sensor,
    )


def answer(output: NDArray[np.floating]) -> Actions:
    return Actions(output.astype(np.float32), np.zeros((len(output), 0), np.int32))


def truth(played: TauScene) -> NDArray[np.floating]:
    return played._target
