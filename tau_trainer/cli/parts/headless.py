"""``tau-train headless``: the headless engine alone. Its own parser reads the flags, which are a build's."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def headless(*words: Annotated[str, Parameter(help="The engine's flags.", allow_leading_hyphen=True)]) -> int:
    """Run the engine with its own flags; returns its exit code."""
    for name in _THREADS:
        # One thread is fastest for the engine's small arrays; numpy reads this once, when it is imported.
        os.environ.setdefault(name, "1")
    from tau_trainer.headless.main import main

    return main(words)
