"""A loop over our bridge that answers every decision with zeros: engine and wire alone. Runs until interrupted.

Arguments: build, number of engines, first port, seed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.bridge.engine import Engine, EngineOptions
from tau_trainer.bridge.launcher import LaunchSpec
from tau_trainer.specs import Actions, StepBatch


async def main(build: str, engines: int, port: int, seed: int) -> None:
    """Drives all engines side by side until cancelled."""
    launch = LaunchSpec.of(build, no_graphics=True)
    fleet = [Engine(index, port + index, launch, EngineOptions(seed=seed)) for index in range(engines)]
    try:
        await asyncio.gather(*(drive(engine) for engine in fleet))
    finally:
        await asyncio.gather(*(engine.close() for engine in fleet), return_exceptions=True)


async def drive(engine: Engine) -> None:
    """One engine: zeros for ever."""
    await engine.start()
    steps = await engine.reset()
    ready: dict[tuple[str, int], Actions] = {}
    while True:
        steps = await engine.step({step.behavior: zeros(engine, step, ready) for step in steps})


def zeros(engine: Engine, step: StepBatch, ready: dict[tuple[str, int], Actions]) -> Actions:
    """Zero actions for everyone who asks, made once for each number of agents."""
    key = (step.behavior, len(step))
    if key not in ready:
        ready[key] = Actions.zeros(engine.specs[step.behavior].actions, len(step))
    return ready[key]


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], *(int(argument) for argument in sys.argv[2:5])))
    except KeyboardInterrupt:
        sys.exit(0)
