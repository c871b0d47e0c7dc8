"""Gymnasium's environments that write down when each episode ended: the same clock for every trainer.

Import registers `Timed/<ID>`; every instance writes a file of its own into the folder `TAU_BENCH_EPISODES`, a line of
`time length return` for each episode, and its first line when it is made.
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
"""Variable that says for how long a step sleeps before it is played; unset: not at all."""
NAMES = ("CartPole-v1", "Pendulum-v1", "LunarLander-v3")


class Timed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts what its environment pays."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._file = (Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.txt").open("w", buffering=1)
        self._steps, self._total = 0, 0.0
        self._seconds = float(os.environ.get(STEP_SECONDS, "0"))
        self._write()

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step; the end of an episode is written down."""
        if self._seconds:
            time.sleep(self._seconds)
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._steps, self._total = self._steps + 1, self._total + float(reward)
        if terminated or truncated:
            self._write()
            self._steps, self._total = 0, 0.0
        return obs, reward, terminated, truncated, info

    def _write(self) -> None:
        self._file.write(f"{time.time():.6f} {self._steps} {self._total:.6f}\n")


for _name in NAMES:
    _own = WrapperSpec(Timed.__name__, f"{__name__}:{Timed.__name__}", {})
    _spec = replace(gymnasium.spec(_name), id=f"Timed{_name}", additional_wrappers=(_own,), vector_entry_point=None)
    gymnasium.registry[_spec.id] = _spec
