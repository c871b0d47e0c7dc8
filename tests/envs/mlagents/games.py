"""Games that UnityEnvironment opens."""

from __future__ import annotations

from typing import Any

from tau_trainer.envs.mlagents import UnityEnvironment
from tests.envs.mlagents.engines import SPEC, batch, message

NAME = "Basic?team=0"


def game(*arguments: str, scene: str = "basic", **keywords: Any) -> UnityEnvironment:
    """A real headless engine."""
    given: dict[str, Any] = {"base_port": 0, "timeout_wait": 20, "additional_args": ["--agents", "3", *arguments]}
    return UnityEnvironment(f"headless:{scene}", **given | keywords)


HELLO = message(batch(SPEC, 4, 7), specs=[SPEC])
