"""Godot games with the Godot RL Agents plugin: how they introduce themselves, and the flags of their builds.

The wire is JSON (see :mod:`~tau_trainer.bridge.godot.codec`) in Godot's own frames
(:mod:`~tau_trainer.bridge.godot.server`). Compared with versions 0.7 of the plugin and 0.8.2 of ``godot-rl``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from tau_trainer.bridge.codec import EngineMessage
from tau_trainer.bridge.dialect import Dialect, Meeting
from tau_trainer.bridge.godot.codec import INTRODUCTION, GodotCodec, GodotMessage, parse_message
from tau_trainer.bridge.package import Package
from tau_trainer.errors import DecodeError, VersionError

if TYPE_CHECKING:
    from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec

EDITOR_PORT: Final = 11008
"""The port to which the plugin connects without ``--port``, so in the editor."""
GREETING: Final = (
    json.dumps({"type": "handshake", "major_version": "0", "minor_version": "7"}).encode(),
    json.dumps({"type": INTRODUCTION}).encode(),
)
"""The trainer's first messages; only the second has an answer. The plugin warns about other versions."""


@dataclass(frozen=True, slots=True)
class Godot(Dialect):
    """Games with the plugin, by what they must be told. The defaults are the game's own."""

    seed: int = 0
    """Engine ``i`` gets ``seed + i``."""
    speed_up: float = 1.0
    """Game seconds for each real second."""
    action_repeat: int | None = None
    """Physics frames for each decision."""
    truncate_after: int | None = None
    """An episode that ends after this number of decisions, or later, was cut by a limit."""

    game = "Godot"
    plugin = "Godot RL Agents"
    says_goodbye = False
    quiet = "is the game paused, and does every AIController reset itself when needs_reset is true"

    @override
    def parse(self, data: bytes) -> EngineMessage:
        return parse_message(data)

    @override
    def meet(self, first: EngineMessage, options: EngineOptions, index: int) -> Meeting:
        assert isinstance(first, GodotMessage)
        package, flat = Package(), options.image_order == "declared"
        try:
            return package, GodotCodec(first.said, self.truncate_after, package.notes, flat=flat), None
        except DecodeError as error:
            raise VersionError(str(error)) from None

    @override
    def farewell(self) -> bytes:
        return b'{"type":"close"}'

    @override
    def arguments(self, launch: LaunchSpec, port: int, index: int) -> list[str]:
        return [
            f"--port={port}",
            f"--env_seed={self.seed + index}",
            f"--speedup={self.speed_up:g}",
            *([] if self.action_repeat is None else [f"--action_repeat={self.action_repeat}"]),
            *(["--headless", "--disable-render-loop"] if launch.hidden(index) else []),
        ]
