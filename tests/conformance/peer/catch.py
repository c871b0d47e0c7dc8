"""Runs inside the environment of mlagents-envs: plays a build that fails, and tells which `except` catches it.

With every `mlagents_envs` replaced by `tau_trainer.envs.mlagents` it does the same with our own.
"""

from __future__ import annotations

import builtins
from dataclasses import replace
from typing import Any

from mlagents_envs import exception
from mlagents_envs.environment import UnityEnvironment

SHORT = 0.3
"""Seconds to wait for what never comes."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Steps until it fails; the exception's name if it is of the kind that is expected, else what it was.

    `stalls_after`: the number of steps after which nothing comes any more, or None.
    """
    expected = getattr(exception, request["expected"], None) or getattr(builtins, request["expected"])
    environment, steps = None, 0
    try:
        environment = UnityEnvironment(
            file_name=request["build"], base_port=request["port"], timeout_wait=10, log_folder=request["log_folder"]
        )
        environment.reset()
        for _ in range(request["steps"]):
            if steps == request["stalls_after"]:
                hurry(environment)
            environment.step()
            steps += 1
        caught = "nothing"
    except expected:
        caught = request["expected"]
    except Exception as error:
        caught = repr(error)
    if environment is not None:
        environment.close()
    return {"caught": caught, "steps": steps}


def hurry(environment: Any) -> None:
    """Neither package waits for long from now on, also not for the end of the build."""
    if hasattr(environment, "_communicator"):
        environment._communicator.timeout_wait = environment._timeout_wait = SHORT
    else:
        environment._engine._options = replace(environment._engine._options, timeout_s=SHORT)
        environment._timeout_s = SHORT
