"""A loop over our bridge that answers every decision with zeros: only engine and communication. Runs until interrupted.

Arguments: build, number of engines, first port, seed, and `bare` for a loop that neither reads what the engine says
nor writes actions. Prints the processor seconds it used since the first reset when it ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.bridge.codec import TrainerInitialization, encode_close, encode_initialization, encode_reply
from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.launcher import EngineOptions, EngineProcess, LaunchSpec
from tau_trainer.bridge.protocol import Command
from tau_trainer.bridge.server import EngineServer
from tau_trainer.specs import Actions, StepBatch


async def main(build: str, engines: int, port: int, seed: int, bare: bool) -> None:
    """Drives all engines side by side until cancelled."""
    launch = LaunchSpec.of(build, no_graphics=True)
    drive = drive_bare if bare else drive_bridge
    began = time.process_time()
    try:
        await asyncio.gather(*(drive(launch, index, port + index, seed) for index in range(engines)))
    finally:
        print(f"{time.process_time() - began:.3f}", flush=True)


async def drive_bridge(launch: LaunchSpec, index: int, port: int, seed: int) -> None:
    """One engine through the whole bridge: arrays in, arrays out."""
    engine = Engine(index, port, launch, EngineOptions(seed=seed))
    ready: dict[tuple[str, int], Actions] = {}
    try:
        await engine.start()
        steps = await engine.reset()
        while True:
            steps = await engine.step({step.behavior: zeros(engine, step, ready) for step in steps})
    finally:
        await engine.close()


def zeros(engine: Engine, step: StepBatch, ready: dict[tuple[str, int], Actions]) -> Actions:
    """Zero actions for all agents that ask, made once for each number of agents."""
    key = (step.behavior, len(step))
    if key not in ready:
        ready[key] = Actions.zeros(engine.specs[step.behavior].actions, len(step))
    return ready[key]


async def drive_bare(launch: LaunchSpec, index: int, port: int, seed: int) -> None:
    """One engine with only the server: every reply has the same bytes, which mean zero actions."""
    server = EngineServer()
    await server.start(port)
    process = await EngineProcess.start(launch, port, index)
    answer = encode_reply(Command.STEP)
    try:
        await server.receive()
        server.reply(encode_initialization(TrainerInitialization(seed + index)))
        await server.receive()
        server.reply(encode_reply(Command.RESET))
        while True:
            await server.receive()
            server.reply(answer)
    finally:
        server.reply(encode_close())
        await server.stop()
        await process.stop(5.0)


if __name__ == "__main__":
    try:
        count, first_port, chosen_seed = (int(argument) for argument in sys.argv[2:5])
        asyncio.run(main(sys.argv[1], count, first_port, chosen_seed, bare="bare" in sys.argv[5:]))
    except KeyboardInterrupt:
        sys.exit(0)
