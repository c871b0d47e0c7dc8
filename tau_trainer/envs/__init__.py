"""Environments: the contract, engines over the wire, Gymnasium, PettingZoo, and mlagents-envs' low-level API.

The names of :mod:`tau_trainer.envs.mlagents` are also available here; each is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tau_trainer.envs.contract import Environment, EnvironmentSource, Parameters, open_source

if TYPE_CHECKING:
    from tau_trainer.envs.mlagents import *  # noqa: F403

__all__ = ["Environment", "EnvironmentSource", "Parameters", "open_source"]


def __getattr__(name: str) -> Any:
    mlagents = import_module("tau_trainer.envs.mlagents")
    if name in mlagents.__all__ and not name.startswith("_"):
        return getattr(mlagents, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
