"""The headless engine: a program that stands where a Unity build stands.

It is started with a build's flags, connects as a gRPC client, speaks ML-Agents' protocol and plays a scene made of
arrays. It knows no trainer: ours and ``mlagents-learn`` drive it alike.

``python -m tau_trainer.headless --scene balance --mlagents-port 5005`` runs it; :func:`write_build` leaves a launcher.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tau_trainer.headless.build import write_build
    from tau_trainer.headless.options import HeadlessOptions
    from tau_trainer.headless.parameters import EnvironmentParameters
    from tau_trainer.headless.scenes import SCENES, create_scene

__all__ = ["SCENES", "EnvironmentParameters", "HeadlessOptions", "create_scene", "write_build"]

_HOMES = {
    "SCENES": "scenes",
    "HeadlessOptions": "options",
    "EnvironmentParameters": "parameters",
    "create_scene": "scenes",
    "write_build": "build",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: ``__main__`` must set numpy's threads before numpy is imported."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
