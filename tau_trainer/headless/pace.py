"""Engine time: how long a step of a real game would take, asleep or at work."""

from __future__ import annotations

import time

from tau_trainer.headless.parameters import EnvironmentParameters


class Pace:
    """Makes every step cost time: ``sleep_ms`` of waiting (a game on a GPU), ``spin_ms`` of computing.

    The environment parameters ``step_ms`` and ``spin_ms`` take precedence, and may be distributions.
    """

    def __init__(self, sleep_ms: float = 0.0, spin_ms: float = 0.0) -> None:
        self._sleep_ms = sleep_ms
        self._spin_ms = spin_ms

    def spend(self, parameters: EnvironmentParameters) -> None:
        """Let one step's time pass."""
        spin = parameters.get("spin_ms", self._spin_ms)
        if spin > 0.0:
            end = time.perf_counter() + spin / 1000.0
            while time.perf_counter() < end:
                pass
        sleep = parameters.get("step_ms", self._sleep_ms)
        if sleep > 0.0:
            time.sleep(sleep / 1000.0)
