"""Runs inside the environment of mlagents-envs: plays a build that fails, and prints which `except` catches it.

With every `mlagents_envs` replaced by `tau_trainer.envs.mlagents` it does the same with our own.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import traceback
from typing import Any

from mlagents_envs import exception
from mlagents_envs.environment import UnityEnvironment


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Steps until it fails; the exception's name if it is of the kind that is expected, else what it was."""
    expected = getattr(exception, request["expected"], None) or getattr(builtins, request["expected"])
    environment, steps = None, 0
    try:
        environment = UnityEnvironment(
            file_name=request["build"], base_port=request["port"], timeout_wait=10, log_folder=request["log_folder"]
        )
        environment.reset()
        for _ in range(request["steps"]):
            environment.step()
            steps += 1
        caught = "nothing"
    except expected:
        caught = request["expected"]
    except Exception as error:
        caught = repr(error)
    if environment is not None and "Time" not in caught:  # the reference would wait as long again
        environment.close()
    return {"caught": caught, "steps": steps}


if __name__ == "__main__":
    code = 1
    try:
        sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
        sys.stdout.flush()
        code = 0
    except BaseException:  # the reference's gRPC thread keeps a failed interpreter from ending: leave by force
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)
