"""An environment of Gymnasium that breaks its contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import EngineError
from tests.envs.gyms import Probe, environment_of, playing
from tests.envs.playing import play
from tests.waiting import run

FINE: dict[str, Any] = {
    "obs": np.zeros(2, np.float32),
    "reward": 1.0,
    "terminated": False,
    "truncated": False,
    "info": {},
}


class Wrong(Probe):
    """Steps as it is told."""

    said: Any = None
    begun: Any = None

    def step(self, action: Any) -> Any:
        if callable(self.said):
            return self.said()
        return tuple({**FINE, **(self.said or {})}.values())

    def reset(self, **how: Any) -> Any:
        return super().reset(**how) if self.begun is None else self.begun()


def failure(make: Any, steps: int = 1, budget: RestartBudget | None = None) -> EngineError:
    """What an environment of Gymnasium ends with, beginning or within so many steps."""
    environment = environment_of(make, budget)

    async def work() -> EngineError:
        async with playing(environment):
            with pytest.raises(EngineError) as raised:
                await play(environment, await environment.start({}), steps)
            return raised.value

    return run(work())
