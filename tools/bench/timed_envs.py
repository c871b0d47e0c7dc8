"""Gymnasium's environments that write down when each episode ended: the same clock for every trainer.

Import registers `Timed<ID>`; every instance writes a file of its own into the folder `TAU_BENCH_EPISODES`, a line of
`time length return begun ended` for each episode, and its first line when it is made. `begun` and `ended` are steps of
all instances of the process until then.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
from gymnasium.envs.registration import WrapperSpec

FOLDER = "TAU_BENCH_EPISODES"
STEP_SECONDS = "TAU_BENCH_STEP_SECONDS"
"""Environment variable with the time that each step sleeps; unset: none."""
NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole-v1": ("CartPole-v1", {}),
    "Pendulum-v1": ("Pendulum-v1", {}),
    "LunarLander-v3": ("LunarLander-v3", {}),
    "LunarLanderContinuous-v3": ("LunarLander-v3", {"continuous": True}),
    "BipedalWalker-v3": ("BipedalWalker-v3", {}),
    "Hopper-v5": ("Hopper-v5", {}),
    "HalfCheetah-v5": ("HalfCheetah-v5", {}),
}
"""Environments that are registered with the prefix `Timed`: Gymnasium's id and its arguments."""


class Timed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts the rewards of its environment."""

    played = 0
    """Steps of all instances of this process."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._file = (Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.txt").open("w", buffering=1)
        self._steps, self._total, self._begun = 0, 0.0, 0
        self._seconds = float(os.environ.get(STEP_SECONDS, "0"))
        self._write()

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one step; write a line if the episode ends."""
        if self._seconds:
            time.sleep(self._seconds)
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._begun = self._begun if self._steps else Timed.played
        Timed.played += 1
        self._steps, self._total = self._steps + 1, self._total + float(reward)
        if terminated or truncated:
            self._write()
            self._steps, self._total = 0, 0.0
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment and the file."""
        self._file.close()
        super().close()

    def _write(self) -> None:
        self._file.write(f"{time.time():.6f} {self._steps} {self._total:.6f} {self._begun} {Timed.played}\n")


for _name, (_id, _made_with) in NAMES.items():
    _own = WrapperSpec(Timed.__name__, f"{__name__}:{Timed.__name__}", {})
    _spec = replace(gymnasium.spec(_id), id=f"Timed{_name}", additional_wrappers=(_own,), vector_entry_point=None)
    gymnasium.registry[_spec.id] = replace(_spec, kwargs={**_spec.kwargs, **_made_with})
