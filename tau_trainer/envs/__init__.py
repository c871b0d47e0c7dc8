"""What can be trained on: the contract, engines over the wire, Gymnasium."""

from __future__ import annotations

from tau_trainer.envs.contract import Environment, EnvironmentSource, Parameters, open_source

__all__ = ["Environment", "EnvironmentSource", "Parameters", "open_source"]
