"""Files of ML-Agents' format, read without asking whether this version can train what they ask for."""

from __future__ import annotations

from pathlib import Path

from tau_trainer.settings import RunSettings
from tau_trainer.settings.loading import read_settings


def parse_settings(path: Path | str | None = None, *, lenient: bool = False) -> RunSettings:
    """Everything that the file says."""
    return read_settings(path, {}, lenient, {})[0]
