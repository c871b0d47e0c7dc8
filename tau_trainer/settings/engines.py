"""``env_settings`` and ``engine_settings``: which engines to start and how, with ML-Agents' names and defaults."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from tau_trainer.settings.kinds import Bool, Float, Int, PositiveInt, Section, Text, Whole, invalid

EDITOR = "editor"
"""An env_path that means the editor, like no env_path."""
ATTACH = "attach"
"""``attach:MAX``: wait for up to MAX engines, which something else starts, one per port."""
GODOT = "godot"
"""An env_path that means Godot's editor; before a colon and another env_path: its games are Godot's."""
HEADLESS_PREFIX = "headless:"
"""Prefix of an env_path that names a scene of the headless engine."""
UNREAL_PREFIX = "unreal:"
"""Prefix of an env_path that names an Unreal build, for builds that :func:`plays_unreal` does not recognise."""
HEADLESS_SCENES = (
    "tau",
    "balance",
    "basic",
    "gridworld",
    "hallway",
    "foodcollector",
    "walljump",
    "sorter",
    "dungeon",
    "pyramids",
    "soccer",
    "faulty",
)
"""Scenes of the headless engine."""
SENT = ("width", "height", "quality_level", "time_scale", "target_frame_rate", "capture_frame_rate")
"""Keys of ``engine_settings`` that are sent to the game."""
Port = Annotated[Whole, Field(ge=1, le=65535)]
"""A TCP port."""
MOST_ENGINES = 1000
"""Maximum number of engines at once, and of actors."""
Engines = Annotated[Whole, Field(ge=1, le=MOST_ENGINES)]
"""A number of engines, each with its own port."""
Unlimited = Annotated[Int, Field(ge=-1)]
"""A count; -1 = unlimited."""
Int32 = Annotated[Whole, Field(le=2**31 - 1)]
"""A whole number of 32 bits, as it is sent to the engine."""


def plays_unreal(env_path: str) -> bool:
    """Whether this env_path is an Unreal build, by its name or by what lies beside it.

    A packaged game has the folders ``Engine`` and ``<project>/Content`` beside its program, on macOS in the bundle's
    ``Contents/UE``; the program itself can also be meant (``<project>/Binaries/<platform>/<program>``). A Unity build
    has a folder ``<name>_Data`` instead.
    """
    if env_path.startswith(UNREAL_PREFIX):
        return True
    path = Path(env_path).expanduser().absolute()
    if (path.parent / f"{path.stem}_Data").is_dir():
        return False
    bundle = path.with_suffix(".app") / "Contents" / "UE"
    roots = (path.parent, *path.parents[3:4], bundle, path.parent.parent / "UE")
    return any((root / "Engine").is_dir() and any(root.glob("*/Content")) for root in roots)


class EnvSettings(Section):
    """``env_settings``: the engine's program, the number of engines, and restarts after failures."""

    env_path: Text | None = None
    """A build, ``headless:SCENE``, or ``attach:MAX``; None = the editor, which connects to port 5004. After
    ``godot:``, the same for Godot games; ``godot`` alone = Godot's editor, which connects to port 11008."""
    env_args: tuple[str, ...] | None = None
    """Arguments to pass to the engine."""
    base_port: Port = 5005
    """First port; engine i uses base_port + i or the next free one."""
    num_envs: Engines = 1
    """Engines that run at once; with ``execution: async``, the number of actors with one engine each."""
    num_areas: Annotated[Whole, Field(ge=1, le=100_000)] = 1
    """Copies of the training area in each engine."""
    timeout_wait: PositiveInt = 60
    """Seconds to wait for an engine."""
    seed: Annotated[Int32, Field(ge=-1)] = -1
    """Seed of the run; engine i gets seed + i. -1 = a random one from 0 to 9999."""
    max_lifetime_restarts: Unlimited = 10
    """Restarts of one engine in a run; -1 = unlimited."""
    restarts_rate_limit_n: Unlimited = 1
    """Restarts of one engine within the period; -1 = unlimited."""
    restarts_rate_limit_period_s: PositiveInt = 60
    """The period in seconds."""

    @field_validator("env_path")
    @classmethod
    def _known_scene(cls, value: str | None) -> str | None:
        if value is None or value == EDITOR:
            return None
        kind, colon, most = value.partition(":")
        if kind == GODOT:
            if most.startswith((f"{GODOT}:", UNREAL_PREFIX)):
                raise invalid("write one kind of game: godot: before the path of a build, headless:SCENE or attach:MAX")
            place = cls._known_scene(most or EDITOR)
            return kind if place is None else f"{kind}:{place}"
        if kind == ATTACH:
            if colon and not (most.isascii() and most.isdigit() and 1 <= int(most) <= MOST_ENGINES):
                raise invalid(f"attach:MAX needs a number of engines from 1 to {MOST_ENGINES:,}, not '{most}'")
            return f"{ATTACH}:{most or 1}"
        if value == UNREAL_PREFIX:
            raise invalid("unreal:PATH needs the path of a build")
        if not value.startswith(HEADLESS_PREFIX):
            return value
        scene = value.removeprefix(HEADLESS_PREFIX)
        if scene not in HEADLESS_SCENES:
            near = difflib.get_close_matches(scene, HEADLESS_SCENES, 1)
            said = f"{scene} is not a headless scene" if scene else f"{HEADLESS_PREFIX}SCENE needs the name of a scene"
            hint = f"did you mean {HEADLESS_PREFIX}{near[0]}?" if near else f"it has {', '.join(HEADLESS_SCENES)}"
            raise invalid(f"{said}; {hint}")
        return value

    @property
    def godot(self) -> bool:
        """Whether the engines are Godot games."""
        return (self.env_path or "").partition(":")[0] == GODOT

    @property
    def place(self) -> str | None:
        """env_path without ``godot:``; None = the editor."""
        path = self.env_path or ""
        return (path.partition(":")[2] if self.godot else path) or None

    @property
    def attached(self) -> bool:
        """Whether the run waits for engines to connect: ``attach:MAX``."""
        return (self.place or "").startswith(f"{ATTACH}:")

    @property
    def awaited(self) -> bool:
        """Whether this program does not start the engines: the editor, or ``attach:MAX``."""
        return self.place is None or self.attached

    @property
    def engines(self) -> int:
        """Maximum number of engines at once."""
        return int((self.place or "").partition(":")[2]) if self.attached else self.num_envs

    @model_validator(mode="after")
    def _engines_are_counted_once(self) -> Self:
        if self.attached and self.num_envs not in (1, self.engines):
            raise invalid(
                f"num_envs is {self.num_envs}, but {self.env_path} sets the number of engines; leave num_envs out"
            )
        if self.place is None and self.num_envs > 1:
            raise invalid(
                f"num_envs is {self.num_envs}, but there is only one editor; name a build with env_path (--env), "
                "or use num_envs 1"
            )
        return self


class EngineSettings(Section):
    """``engine_settings``: values sent over the engine-configuration channel, and flags of the player."""

    width: Annotated[Int32, Field(ge=1)] = 84
    """Window width in pixels."""
    height: Annotated[Int32, Field(ge=1)] = 84
    """Window height in pixels."""
    quality_level: Annotated[Int32, Field(ge=0)] = 5
    """Unity's quality level."""
    time_scale: Annotated[Float, Field(ge=0, le=1e38)] = 20.0
    """Game seconds for each real second, sent as a float32; Godot's speed-up."""
    target_frame_rate: Annotated[Int32, Field(ge=-1)] = -1
    """Frames per second; -1 = unlimited."""
    capture_frame_rate: Annotated[Int32, Field(ge=0)] = 60
    """Frames for each game second, independent of real time."""
    no_graphics: Bool = False
    """Start players without graphics."""
    no_graphics_monitor: Bool = False
    """Like no_graphics, but the first player shows its window."""
