"""The command line ``tau-train``: one file a command, each imported only when it is asked for."""

from __future__ import annotations

from tau_trainer.cli.entry import main

__all__ = ["main"]
