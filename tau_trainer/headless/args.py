"""The command line of the headless engine: a Unity build's flags, and the scenes' own.

As a Unity build does, the engine ignores arguments that it does not know; a wrong value for one that it knows is an
error.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

from tau_trainer.errors import SettingsError
from tau_trainer.headless.options import HeadlessOptions
from tau_trainer.headless.scenes import MOST_AGENTS, SCENES
from tau_trainer.headless.scenes.faulty import FaultKind
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES

_FILES = ("--tau-data", "--report-file", "--fault-once")


def parse_args(arguments: Sequence[str]) -> HeadlessOptions:
    """Options from command-line arguments.

    Raises SettingsError for a wrong or missing value of a known flag; unknown flags are in ``unknown``.
    """
    known, unknown = _parser().parse_known_args(list(arguments))
    values = vars(known)
    for ignored in ("nographics", "batchmode"):
        values.pop(ignored)
    return HeadlessOptions(**values, unknown=tuple(unknown))


def log_file(arguments: Sequence[str]) -> Path | None:
    """The file after ``-logFile``, found without reading the other flags: where their mistakes are told."""
    for flag, value in itertools.pairwise(arguments):
        if flag.lower() == "-logfile" and value != "-":
            return Path(value)
    return None


def build_arguments(arguments: Sequence[str]) -> list[str]:
    """The part of ``arguments`` that a launcher keeps: all but ``--write-build``, ``--scene`` and the flags of a start.

    Files are made absolute, since nobody knows from where the launcher will be started.
    """
    parser = _Parser(allow_abbrev=False, add_help=False)
    _add_build_flags(parser.add_argument_group())
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


class _Parser(argparse.ArgumentParser):
    """Raises one sentence where argparse would print the usage and leave."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message.removeprefix('argument ')}; `--help` lists the flags.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m tau_trainer.headless",
        description="Play a scene for a trainer that speaks ML-Agents' protocol, as a Unity build would.",
        allow_abbrev=False,
    )
    _add_build_flags(parser.add_argument_group("a Unity build's flags"))
    _add_scene_flags(parser.add_argument_group("scene"))
    _add_fault_flags(parser.add_argument_group("faults on purpose"))
    _add_tau_flags(parser.add_argument_group("scene tau"))
    parser.set_defaults(**{field.name: field.default for field in fields(HeadlessOptions) if field.name != "unknown"})
    return parser


def _add_build_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-nographics", action="store_true", help="accepted; there are no pictures anyway")
    group.add_argument("-batchmode", action="store_true", help="accepted")
    group.add_argument(
        "--mlagents-port", dest="port", metavar="N", type=_whole(1, 65535), help="where the trainer listens"
    )
    group.add_argument("-logFile", "-logfile", dest="log_file", metavar="F", type=Path, help="log here, not to stderr")


def _add_scene_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--scene", choices=SCENES, help="what to play (default: %(default)s)")
    group.add_argument(
        "--agents", metavar="N", type=_whole(1, MOST_AGENTS), help="agents (default: tau 32, balance 12, basic 1)"
    )
    group.add_argument("--seed", metavar="S", type=_whole(None), help="default: the trainer's")
    group.add_argument("--max-decisions", metavar="N", type=_whole(0), help="limit of an episode; 0: none")
    group.add_argument("--step-ms", metavar="X", type=_number(0.0), help="sleep this long in every step")
    group.add_argument("--spin-ms", metavar="X", type=_number(0.0), help="compute this long in every step")
    group.add_argument(
        "--connect-seconds", metavar="X", type=_number(0.0), help="how long to look for one (default: %(default)s)"
    )
    group.add_argument("--report-file", metavar="F", type=Path, help="append JSON lines of counts")
    group.add_argument(
        "--report-seconds", metavar="X", type=_number(0.0), help="time between two of them (default: %(default)s)"
    )
    group.add_argument("--write-build", metavar="DIR", type=Path, help="write a launcher for these flags, and leave")


def _add_fault_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--fault", choices=[kind.value for kind in FaultKind], help="what goes wrong (scene faulty: crash)"
    )
    group.add_argument("--fault-after", metavar="N", type=_whole(0), help="steps that go well (default: %(default)s)")
    group.add_argument("--fault-seconds", metavar="X", type=_number(0.0), help="of a slow start (default: %(default)s)")
    group.add_argument("--fault-once", metavar="F", type=Path, help="only the first engine fails; it makes this file")


def _add_tau_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tau-profile", choices=PROFILES, help="default: %(default)s")
    group.add_argument("--tau-data", metavar="F", help="a Tau JSON file (default: the packaged data)")
    group.add_argument(
        "--tau-agents", dest="agents", metavar="N", type=_whole(1, MOST_AGENTS), help="the same as --agents"
    )
    group.add_argument("--tau-target-sensor", action="store_true", help="also send the answer's vector")
    group.add_argument("--tau-reward", choices=REWARDS, help="formula (default: the profile's)")
    group.add_argument("--tau-columns", metavar="N", type=_whole(1), help="leading components that count")
    group.add_argument("--tau-threshold", metavar="X", type=_number(1e-9), help="default: %(default)s")
    group.add_argument("--tau-reward-threshold", metavar="X", type=_number(None), help="default: %(default)s")
    group.add_argument("--tau-faithful-terminal", action="store_true", help="report limits as real ends, as Tau does")
    group.add_argument("--tau-split", choices=("train", "evaluation"), help="default: %(default)s")


def _whole(low: int | None, high: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers within limits."""
    limits = _limits(low, high)

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or (low is not None and value < low) or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number{limits}")
        return value

    return parse


def _number(low: float | None) -> Callable[[str], float]:
    """A parser of finite numbers within a limit."""
    limits = _limits(low, None)

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or (low is not None and value < low):
            raise argparse.ArgumentTypeError(f"'{text}' is not a number{limits}")
        return value

    return parse


def _limits(low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    return f" of at least {low:.12g}" if high is None else f" from {low:.12g} to {high:.12g}"
