"""The command line of the headless engine: the flags of a build of Unity or Unreal, and those of the scenes.

Like such a build, the engine ignores unknown arguments; a wrong value for a known flag is an error.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, NoReturn

from tau_trainer.errors import SettingsError
from tau_trainer.headless.scenes import MOST_AGENTS, SCENES, USUAL_AGENTS
from tau_trainer.headless.scenes.faulty import Fault, FaultKind
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import profile_named


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessOptions:
    """The engine's options, as ``--help`` describes them; None means the scene's default."""

    port: int | None = None
    log_file: Path | None = None
    scene: str = "tau"
    dialect: Literal["unity", "unreal", "godot"] = "unity"
    agents: int | None = None
    seed: int | None = None
    trainer_seed: int = 0
    max_decisions: int | None = None
    step_ms: float = 0.0
    spin_ms: float = 0.0
    connect_seconds: float = 10.0
    report_file: Path | None = None
    report_seconds: float = 1.0
    report_episodes: bool = False
    fault_kind: str | None = None
    fault_after: int = 10
    fault_seconds: float = 5.0
    fault_once: Path | None = None
    tau_profile: str = "tau3"
    tau_data: str | None = None
    tau_target_sensor: bool = False
    tau_reward: str | None = None
    tau_columns: int | None = None
    tau_threshold: float = 0.1
    tau_reward_threshold: float = -100.0
    tau_faithful_terminal: bool = False
    tau_split: Literal["train", "evaluation"] = "train"
    write_build: Path | None = None
    unknown: tuple[str, ...] = ()
    """Unknown arguments, which the engine ignores, like a Unity build."""

    @property
    def fault(self) -> Fault:
        """The fault to play, if any. Default of the scene ``faulty``: crash."""
        kind = self.fault_kind or ("crash" if self.scene == "faulty" else None)
        return Fault(FaultKind(kind) if kind else None, self.fault_after, self.fault_seconds, self.fault_once)


_IGNORED = ("-nographics", "-batchmode", "-nullrhi", "-unattended", "-stdout", "-FullStdOutLogOutput")
"""Flags of Unity's and Unreal's builds for what this engine always does."""
_OF_GODOT = ("--headless", "--disable-render-loop")
"""The same of Godot's."""
_FILES = ("--tau-data", "--report-file", "--fault-once")


def parse_args(arguments: Sequence[str]) -> HeadlessOptions:
    """Parse command-line arguments. Unknown flags are in ``unknown``.

    Raises SettingsError if the value of a known flag is wrong or missing.
    """
    known, unknown = _parser().parse_known_args(list(arguments))
    values = vars(known)
    values.pop("ignored")
    return HeadlessOptions(**values, unknown=tuple(unknown))


def log_file(arguments: Sequence[str]) -> Path | None:
    """The file after ``-logFile``, found without parsing the other flags, because errors in them go to this file."""
    for flag, value in itertools.pairwise(arguments):
        if flag.lower() == "-logfile" and value != "-":
            return Path(value)
    return None


def build_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments that a launcher keeps: all except ``--write-build``, ``--scene`` and the flags of a Unity build.

    Paths are made absolute, because the launcher may be started from any folder.
    """
    parser = _Parser(allow_abbrev=False, add_help=False)
    _add_build_flags(parser.add_argument_group().add_argument)
    parser.add_argument("--write-build")
    parser.add_argument("--scene")
    kept = parser.parse_known_args(list(arguments))[1]
    for position, argument in enumerate(kept):
        flag, equals, value = argument.partition("=")
        if equals and flag in _FILES:
            kept[position] = f"{flag}={Path(value).expanduser().resolve()}"
        elif position and kept[position - 1] in _FILES:
            kept[position] = str(Path(argument).expanduser().resolve())
    return kept


def _within(kind: type[float], low: float = -math.inf, high: float = math.inf) -> Callable[[str], float]:
    """A parser of finite numbers between ``low`` and ``high``; of whole numbers if ``kind`` is ``int``."""
    wanted = "a whole number" if kind is int else "a number"
    if high < math.inf:
        wanted += f" from {low:.12g} to {high:.12g}"
    elif low > -math.inf:
        wanted += f" of at least {low:.12g}"

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (low <= value <= high and abs(value) < math.inf):
            raise argparse.ArgumentTypeError(f"'{text}' is not {wanted}")
        return value

    return parse


def _profile(text: str) -> str:
    try:
        return profile_named(text).name
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_Add = Callable[..., argparse.Action]
_whole, _number = functools.partial(_within, int), functools.partial(_within, float)


class _Parser(argparse.ArgumentParser):
    """Raises an error of one sentence; argparse would print the usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message.removeprefix('argument ')}; `--help` lists the flags.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m tau_trainer.headless",
        description="Play a scene for a trainer that uses ML-Agents' protocol, as a Unity build does.",
        allow_abbrev=False,
    )
    _add_build_flags(parser.add_argument_group("a build's flags").add_argument)
    _add_scene_flags(parser.add_argument_group("scene").add_argument)
    _add_fault_flags(parser.add_argument_group("faults on purpose").add_argument)
    _add_tau_flags(parser.add_argument_group("scene tau").add_argument)
    parser.set_defaults(**{field.name: field.default for field in fields(HeadlessOptions) if field.name != "unknown"})
    return parser


def _add_build_flags(add: _Add) -> None:
    for flag in (*_IGNORED, *_OF_GODOT):
        add(flag, dest="ignored", action="store_true", help="accepted and ignored")
    add("--speedup", "--action_repeat", dest="ignored", metavar="X", help="accepted and ignored (Godot)")
    add("--env_seed", dest="trainer_seed", metavar="S", type=_whole(), help="the trainer's seed (Godot)")
    port = functools.partial(add, dest="port", metavar="N", type=_whole(1, 65535))
    port("--mlagents-port", help="the trainer's port")
    port("-mlAgentPort", help="the same, as Unreal's builds take it: -mlAgentPort=N")
    port("--port", help="the same, as Godot's builds take it: --port=N")
    add("-logFile", "-logfile", dest="log_file", metavar="F", type=Path, help="log file (default: stderr)")


def _add_scene_flags(add: _Add) -> None:
    add("--scene", choices=SCENES, help="scene to play (default: %(default)s)")
    usual = ", ".join(f"{scene} {agents}" for scene, agents in USUAL_AGENTS.items())
    add("--dialect", choices=("unity", "unreal", "godot"), help="engine to play (default: %(default)s)")
    add("--agents", metavar="N", type=_whole(1, MOST_AGENTS), help=f"number of agents (default: {usual})")
    add("--seed", metavar="S", type=_whole(), help="random seed (default: the trainer's)")
    add("--max-decisions", metavar="N", type=_whole(0), help="decisions until an episode is truncated; 0: no limit")
    add("--step-ms", metavar="X", type=_number(0.0), help="sleep for this number of milliseconds in every step")
    add("--spin-ms", metavar="X", type=_number(0.0), help="compute for this number of milliseconds in every step")
    add(
        "--connect-seconds",
        metavar="X",
        type=_number(0.0),
        help="seconds to wait for the trainer (default: %(default)s)",
    )
    add("--report-file", metavar="F", type=Path, help="append counts to this file, as JSON lines")
    add(
        "--report-seconds",
        metavar="X",
        type=_number(0.0),
        help="seconds between two lines (default: %(default)s)",
    )
    add("--report-episodes", action="store_true", help="write a line for each episode to F.episodes too")
    add("--write-build", metavar="DIR", type=Path, help="write a launcher for these flags, then exit")


def _add_fault_flags(add: _Add) -> None:
    add(
        "--fault",
        dest="fault_kind",
        choices=[kind.value for kind in FaultKind],
        help="the fault to play (default of the scene faulty: crash)",
    )
    add("--fault-after", metavar="N", type=_whole(0), help="steps before the fault (default: %(default)s)")
    add("--fault-seconds", metavar="X", type=_number(0.0), help="seconds of a slow start (default: %(default)s)")
    add("--fault-once", metavar="F", type=Path, help="only the first engine fails, and creates this file")


def _add_tau_flags(add: _Add) -> None:
    add("--tau-profile", type=_profile, help="profile (default: %(default)s)")
    add("--tau-data", metavar="F", help="a Tau JSON file (default: the packaged data)")
    add("--tau-agents", dest="agents", metavar="N", type=_whole(1, MOST_AGENTS), help="the same as --agents")
    add("--tau-target-sensor", action="store_true", help="also send the answer's vector, as a sensor")
    add("--tau-reward", choices=REWARDS, help="reward formula (default: the profile's)")
    add("--tau-columns", metavar="N", type=_whole(1), help="number of leading components that count (default: all)")
    add(
        "--tau-threshold",
        metavar="X",
        type=_number(1e-9),
        help="error below which a component is correct (default: %(default)s)",
    )
    add(
        "--tau-reward-threshold",
        metavar="X",
        type=_number(),
        help="end an episode whose reward falls to this (default: %(default)s)",
    )
    add("--tau-faithful-terminal", action="store_true", help="report truncations as real ends, as Tau does")
    add("--tau-split", choices=("train", "evaluation"), help="part of the data to play (default: %(default)s)")
