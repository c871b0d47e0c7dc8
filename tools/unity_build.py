"""Build a player of the Unity project from the command line.

Run it in the checkout with Python 3.11 or later; only Unity needs to be installed::

    python tools/unity_build.py                          # the Linux player, unity_project/Builds/linux/Tau.x86_64
    python tools/unity_build.py --target windows --output D:/players
    python tools/unity_build.py --server                 # without graphics and sound, if that module is installed

The last line of the output is the path for `tau-train parallel --env`. Exit codes: 0 the player was built, 1 the build
failed, 2 an error (no editor, project open, wrong argument), 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools._bootstrap.progress import SetupError
from tools._unity.diagnosis import Failure, diagnose, own_lines
from tools._unity.editors import Editor, Machine, Wanted, find_editor
from tools._unity.running import BuildTimeoutError, Follower, read_log, run_editor

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "unity_project"


@dataclass(frozen=True, slots=True)
class Target:
    """A platform to build for."""

    method: str
    """Method of the project's build script."""
    flag: str
    """Its name for Unity's `-buildTarget`."""
    player: str
    """The file, or on macOS the bundle, that the build makes."""


TARGETS = {
    "linux": Target("Tau.Editor.Build.Linux", "Linux64", "Tau.x86_64"),
    "windows": Target("Tau.Editor.Build.Windows", "Win64", "Tau.exe"),
    "macos": Target("Tau.Editor.Build.MacOS", "OSXUniversal", "Tau.app"),
}


@dataclass(frozen=True, slots=True)
class Order:
    """All options of one build."""

    project: Path
    target: Target
    editor: Editor
    wanted: Wanted
    player: Path
    log: Path
    server: bool
    timeout: float

    def command(self) -> list[str]:
        """The editor's command line."""
        return [
            str(self.editor.program),
            "-batchmode",
            "-nographics",
            "-quit",
            "-projectPath",
            str(self.project),
            "-buildTarget",
            self.target.flag,
            "-executeMethod",
            self.target.method,
            "-logFile",
            str(self.log),
            "-tauOutput",
            str(self.player),
            *(["-tauServer"] if self.server else []),
        ]


def main(arguments: Sequence[str] | None = None, machine: Machine | None = None) -> int:
    """The command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"unity-build [{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr, flush=True)

    try:
        order = _order(options, machine or Machine())
        if order.editor.warning:
            say(f"warning: {order.editor.warning}")
        say(f"building for {options.target} with {order.editor.program}; log: {order.log}")
        failure = build(order, Follower(order.log, say, heartbeat=options.heartbeat))
    except SetupError as error:
        print(f"unity-build: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"unity-build: {error}: check that the folder can be written to and the disk has room.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("unity-build: stopped, and the editor too.", file=sys.stderr)
        return 130
    if failure:
        print(f"unity-build: {failure}", file=sys.stderr)
        return 1
    say("the player is ready; train with `tau-train parallel --no-graphics --env` and this path:")
    print(order.player)
    return 0


def build(order: Order, follower: Follower) -> str | None:
    """Runs the editor; returns an error as one sentence, or None.

    Raises:
        SetupError: the editor does not start.
    """
    for folder in (order.player.parent, order.log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    console = order.log.with_name(f"{order.log.name}.console")
    order.log.unlink(missing_ok=True)
    try:
        code = run_editor(order.command(), console, follower, order.timeout)
    except BuildTimeoutError:
        return (
            f"Unity took longer than {order.timeout:g} s and was stopped: the first import is slow; set a larger "
            f"--timeout, or check in the log what it waits for: {order.log}"
        )
    log = read_log(order.log) + read_log(console)
    done = any(line.startswith("done: ") for line in own_lines(log))
    if code == 0 and done and order.player.exists():
        console.unlink()
        return None
    return diagnose(Failure(log, order.log, code, order.wanted))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="unity_build", description="Builds a player of the Unity project.")
    parser.add_argument("--editor", metavar="PATH", help="the Unity editor; default: UNITY_EDITOR, else Unity Hub's")
    parser.add_argument("--target", choices=sorted(TARGETS), default="linux", help="default: linux")
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for the player; default: Builds/TARGET")
    parser.add_argument("--server", action="store_true", help="build a dedicated server, if that module is installed")
    parser.add_argument("--timeout", type=_seconds, default=3600.0, metavar="S", help="default: 3600")
    parser.add_argument("--log", type=Path, metavar="FILE", help="default: Logs/tau-build-TARGET.log in the project")
    parser.add_argument("--project", type=Path, default=PROJECT, metavar="DIR", help="default: unity_project")
    parser.add_argument(
        "--heartbeat", type=_seconds, default=30.0, metavar="S", help="seconds between progress lines; default: 30"
    )
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds above 0")
    return value


def _order(options: argparse.Namespace, machine: Machine) -> Order:
    project: Path = options.project.resolve()
    target = TARGETS[options.target]
    wanted = Wanted.of(project)
    lock = project / "Temp" / "UnityLockfile"
    if lock.exists():
        raise SetupError(
            f"The project is open in a Unity editor ({lock} is there): close that editor and build again; if none is "
            "running, an editor crashed: delete that file."
        )
    editor = find_editor(wanted, options.editor, machine)
    folder: Path = options.output or project / "Builds" / options.target
    log: Path = options.log or project / "Logs" / f"tau-build-{options.target}.log"
    player = folder.resolve() / target.player
    return Order(project, target, editor, wanted, player, log.resolve(), options.server, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
