"""Starts engines: their options, program, flags, log, and the end of their process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tau_trainer.bridge.dialect import UNITY, UNREAL, Dialect
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.godot.server import GodotServer
from tau_trainer.bridge.server import ANYBODY, Admission, EngineServer, Server
from tau_trainer.bridge.tls import Tls
from tau_trainer.errors import LaunchError
from tau_trainer.settings import HEADLESS_PREFIX, EngineSettings
from tau_trainer.settings.engines import UNREAL_PREFIX, plays_unreal

_SUFFIXES = (".app", ".exe", ".x86_64", ".x86")
_KILL_AFTER_S = 5.0
_TAIL_BYTES = 4096
_BOUND = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"cannot start '{sys.argv[2]}': {error.strerror}")
"""
"""Replaces itself with another program that the system kills when its starting thread ends (PR_SET_PDEATHSIG)."""


def resolve_executable(path: str | Path, platform: str = sys.platform) -> Path:
    """Find the program that ``--env`` names, by ML-Agents' rules, and Unreal's .sh on Linux. Raises LaunchError.

    The path can omit the platform's suffix or have another platform's. On macOS it names an ``.app`` bundle; on Windows
    it can name the build's folder.
    """
    given = Path(path).expanduser()
    stem = given.with_suffix("") if given.suffix in _SUFFIXES else given
    files = [candidate for candidate in _candidates(stem, given, platform) if candidate.is_file()]
    for file in files:
        if os.access(file, os.X_OK):
            return file.resolve()
    if files:
        raise LaunchError(f"{files[0]} is not executable; allow it with: chmod +x '{files[0]}'")
    raise LaunchError(f"no program found at '{path}'; give --env the path of a build, or headless:tau")


def _candidates(stem: Path, given: Path, platform: str) -> list[Path]:
    def with_suffix(suffix: str) -> Path:
        return stem.with_name(stem.name + suffix)

    if platform == "darwin":
        inside = with_suffix(".app") / "Contents" / "MacOS"
        return [inside / stem.name, *(sorted(inside.glob("*")) if inside.is_dir() else []), given]
    if platform == "win32":
        programs = sorted(stem.glob("*.exe")) if stem.is_dir() else []
        return [
            with_suffix(".exe"),
            with_suffix(".bat"),
            *(p for p in programs if not p.name.startswith("UnityCrashHandler")),
            given,
        ]
    return [with_suffix(".x86_64"), with_suffix(".x86"), given, stem, with_suffix(".sh")]


def _says_something(line: str) -> bool:
    """Whether a line has content: it is not empty, a separator, or a position in Unity's own sources."""
    return any(map(str.isalnum, line)) and not line.startswith("(Filename:")


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to start engines: the program with its leading arguments, and the values of a build's flags."""

    program: tuple[str, ...]
    """argv without flags; never passed to a shell."""
    no_graphics: bool = False
    no_graphics_monitor: bool = False
    """The same for all engines but the first."""
    env_args: tuple[str, ...] = ()
    """The user's ``--env-args``, appended last, verbatim."""
    log_folder: Path | None = None
    """Folder for ``Player-<i>.log`` files."""
    environment: dict[str, str] = field(default_factory=dict)
    """Added to this process's environment variables."""
    dialect: Dialect = UNITY
    """Whose flags they take."""
    bound: bool = False
    """Whether engines end with the thread that starts them, however it ends (Linux only)."""

    @staticmethod
    def of(env: str, godot: Godot | None = None, **settings: object) -> LaunchSpec:
        """For the value of ``--env``: a build's path, ``unreal:PATH`` or ``headless:SCENE``. Raises LaunchError.

        ``godot``: what Godot games are told; None: it is another engine's game.
        """
        if env.startswith(HEADLESS_PREFIX):
            scene = env.removeprefix(HEADLESS_PREFIX)
            spoken = () if godot is None else ("--dialect", "godot")
            program = (sys.executable, "-P", "-m", "tau_trainer.headless", "--scene", scene, *spoken)
            package = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
            # One thread each: engines share the machine with the trainer and with other engines.
            variables = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            return LaunchSpec(program, dialect=godot or UNITY, environment=variables, **settings)  # type: ignore[arg-type]
        build = str(resolve_executable(env.removeprefix(UNREAL_PREFIX)))
        dialect = UNREAL if plays_unreal(env) or plays_unreal(build) else UNITY
        return LaunchSpec((build,), dialect=godot or dialect, **settings)  # type: ignore[arg-type]

    def hidden(self, index: int) -> bool:
        """Whether engine ``index`` draws nothing."""
        return self.no_graphics or (self.no_graphics_monitor and index > 0)

    def log_file(self, index: int) -> Path | None:
        """The log file of engine ``index``; None if the user named one or there is no folder."""
        if self.log_folder is None or any(arg.lower() == "-logfile" for arg in self.env_args):
            return None
        return self.log_folder.resolve() / f"Player-{index}.log"

    def argv(self, port: int, index: int) -> list[str]:
        """The whole command line, in ML-Agents' order."""
        bound = self.bound and sys.platform == "linux"
        return [
            *([sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid())] if bound else []),
            *self.program,
            *self.dialect.arguments(self, port, index),
            *self.env_args,
        ]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options for every engine of a run."""

    seed: int = 0
    """Engine ``i`` gets ``seed + i``."""
    num_areas: int = 1
    timeout_s: float = 60.0
    """Maximum wait for one message of the engine, in seconds."""
    configuration: EngineSettings = field(default_factory=EngineSettings)
    trainer: Any = None
    """Message about this trainer for engine 0, on the training analytics channel; None: nothing."""
    may_leave: bool = False
    """Whether a build may end by itself, for example because the user closes its window."""
    listen: str | None = None
    """An address for engines on other machines, served by grpcio; None: only loopback, with our own server."""
    tls: Tls | None = None
    """That server's certificate; None: unencrypted."""
    image_order: Literal["auto", "declared", "channels_last"] = "auto"
    """Order of uncompressed images: as the engine's package writes them, as in their shape, or [H, W, C]."""
    flat_sensors: tuple[str, ...] = ()
    """Sensors whose images are always in the order of their shape, for any :attr:`image_order`."""
    attached: bool = False
    """Whether an engine that this program does not start is a game that joins; else it is the editor."""
    fixed_port: bool = True
    """Whether the port is fixed; else another one is used if it is taken."""
    godot: Godot | None = None
    """What Godot games are told; None: the engines are not Godot games."""

    def server(self, admission: Admission = ANYBODY) -> Server:
        """A new server for one engine."""
        if self.godot is not None:
            return GodotServer(self.godot, admission)
        if self.listen is None:
            return EngineServer(admission)
        from tau_trainer.bridge.grpcio_server import GrpcioServer  # slow to import and seldom needed

        return GrpcioServer(self.listen, self.tls, admission)


class EngineProcess:
    """A running engine in its own process group, so that its children end with it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path | None) -> None:
        self._process = process
        self._over = False
        self.log = log

    @staticmethod
    async def start(spec: LaunchSpec, port: int, index: int) -> EngineProcess:
        """Start engine ``index``. Raises LaunchError if the operating system refuses."""
        argv, log = spec.argv(port, index), spec.log_file(index)
        if log is not None:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_bytes(b"")
            except OSError as error:
                raise LaunchError(f"cannot write the engine's log {log}: {error.strerror or error}") from error
        options: dict[str, object] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        # Output before the engine opens its log, and a crash's last output, go to the same file.
        output = open(log, "ab") if log else subprocess.DEVNULL  # noqa: SIM115, ASYNC230 (local, at start)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if log else output,
                env={**os.environ, **spec.environment},
                **options,  # type: ignore[arg-type]
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise LaunchError(f"cannot start '{argv[0]}': {reason}; check that it is built for this system") from error
        finally:
            if not isinstance(output, int):
                output.close()
        return EngineProcess(process, log)

    @property
    def pid(self) -> int:
        """Process ID."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code; None while it runs; negative: minus the signal's number."""
        return self._process.returncode

    def describe_exit(self) -> str:
        """How it ended, in words, with the last lines of its log."""
        code = self.returncode
        how = f"exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-code).name}"
        return how + self.log_tail()

    def log_tail(self, lines: int = 5) -> str:
        """The last lines of its log, as the end of a sentence; empty if it has no log."""
        if self.log is None:
            return ""
        text = ""
        with contextlib.suppress(OSError), self.log.open("rb") as file:  # a player's log can be gigabytes long
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
        tail = [line.strip() for line in text.splitlines() if _says_something(line.strip())][-lines:]
        return f"; its log ends with: {' | '.join(tail)}" if tail else "; its log is empty"

    async def wait(self, timeout: float) -> bool:
        """Whether it ended within ``timeout`` seconds."""
        try:
            await asyncio.wait_for(self._process.wait(), timeout)
        except TimeoutError:
            return False
        return True

    async def stop(self, timeout: float) -> None:
        """Wait for it to end by itself, then end the rest of its process group."""
        if not await self.wait(timeout) and sys.platform != "win32":
            self._signal_group(signal.SIGTERM)
            await self.wait(min(timeout, _KILL_AFTER_S))
        self.kill()
        await self.wait(_KILL_AFTER_S)

    def kill(self) -> None:
        """End its process group at once, even if the engine itself has already ended."""
        if self._over:
            return
        self._over = self.returncode is not None  # from now on the system can reuse its ID
        if sys.platform != "win32":
            self._signal_group(signal.SIGKILL)
        elif not self._over:
            # On Windows, ending a process does not end its children, and a .bat build is a child of its interpreter.
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], capture_output=True, check=False)

    def _signal_group(self, number: int) -> None:
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
