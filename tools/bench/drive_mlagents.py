"""Runs inside the environment of mlagents: `UnityEnvironment` answering every decision with zeros, until interrupted.

With every `mlagents_envs.` replaced by `tau_trainer.envs.mlagents.` it drives our own.

Arguments: build, worker id, first port, seed.
"""

from __future__ import annotations

import os
import sys

from mlagents_envs.environment import UnityEnvironment


def main(build: str, worker: int, port: int, seed: int) -> None:
    """Drives one engine through the low-level API."""
    environment = UnityEnvironment(
        file_name=build, worker_id=worker, base_port=port, seed=seed, no_graphics=True, timeout_wait=60
    )
    try:
        environment.reset()
        while True:
            for name, spec in environment.behavior_specs.items():
                decisions, _ = environment.get_steps(name)
                environment.set_actions(name, spec.action_spec.empty_action(len(decisions)))
            environment.step()
    finally:
        environment.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1], *(int(argument) for argument in sys.argv[2:5]))
    except KeyboardInterrupt:
        pass
    finally:  # its gRPC thread would keep the interpreter from ending
        os._exit(0)
