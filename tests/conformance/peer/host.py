"""Runs inside the environment of mlagents-envs, once for many tests: one script after the other, imports paid once.

A line on standard input is a JSON object with `script`, `argument` and `paths` (put on `sys.path`); the answer is a
line with what the script's `main` returned (`answer`) or the traceback of what it raised (`error`).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """One script, run to its end."""
    sys.path[:0] = [path for path in request["paths"] if path not in sys.path]
    names: dict[str, Any] = {"__name__": "script"}
    try:
        exec(compile(Path(request["script"]).read_text("utf-8"), request["script"], "exec"), names)
        return {"answer": names["main"](request["argument"])}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # engines write into the same standard output
        for line in sys.stdin:
            answers.write(json.dumps(answered(json.loads(line))) + "\n")
            answers.flush()
    os._exit(0)  # the reference's gRPC threads keep an interpreter from ending
