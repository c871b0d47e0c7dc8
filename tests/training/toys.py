"""An environment of Gymnasium that actors play in tests: ``gym:tests.training.toys:Count-v0``."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tau_trainer.specs import FloatArray

START_FILE = "TAU_TEST_STARTS"
"""Variable that names a file in which environments write when they begin and have begun to be made."""
SECONDS = "TAU_TEST_SECONDS"
"""Variable that says how long a step takes where no argument does."""


class Count(gymnasium.Env[FloatArray, FloatArray]):
    """The state grows by the action; rewards are 0 and no episode ends, as in border's test of its trainer.

    Args:
        seconds: that a step takes.
        length: steps of an episode; 0: it never ends.
        dies_at: the step at which its process is killed, 0 while it is made; None: never.
        hangs_at: the step that never ends; None: none.
        once: a file that the first makes that dies or hangs; where it is there nobody does.
        slow_start: seconds until it is made.
    """

    def __init__(
        self,
        seconds: float | None = None,
        length: int = 0,
        dies_at: int | None = None,
        hangs_at: int | None = None,
        once: str | None = None,
        slow_start: float = 0.0,
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._seconds = float(os.environ.get(SECONDS, "0")) if seconds is None else seconds
        self._length, self._dies_at, self._hangs_at, self._once = length, dies_at, hangs_at, once
        self._state = np.zeros(1, np.float32)
        self._steps = self._age = 0
        self._note("begin")
        self._fail()
        time.sleep(slow_start)
        self._note("end")

    def _fail(self) -> None:
        dies, hangs = self._age == self._dies_at, self._age == self._hangs_at
        if not (dies or hangs):
            return
        if self._once is not None:
            try:
                Path(self._once).touch(exist_ok=False)
            except FileExistsError:
                return
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()

    @staticmethod
    def _note(what: str) -> None:
        if START_FILE in os.environ:
            with Path(os.environ[START_FILE]).open("a") as file:
                file.write(f"{what} {os.getpid()}\n")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.np_random.normal(size=1).astype(np.float32)
        self._steps = 0
        return self._state.copy(), {}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._steps += 1
        self._age += 1
        self._fail()
        self._state = np.clip(self._state + action, -5, 5).astype(np.float32)
        return self._state.copy(), -float(abs(self._state[0])), False, self._steps == self._length, {}


gymnasium.register("Count-v0", f"{__name__}:Count", disable_env_checker=True, order_enforce=False)
