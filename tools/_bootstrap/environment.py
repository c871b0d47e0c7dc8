"""The project's own environment in `.venv`: made once, repaired if incomplete, left alone if nothing changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path

from .locking import exclusive
from .progress import Progress, SetupError

WINDOWS = os.name == "nt"
STAMP = "tau-trainer-setup.stamp"
LOG = "tau-trainer-setup.log"
UNFINISHED = "tau-trainer-setup.unfinished"
HEALTHY = "import sys, pip; sys.exit(0 if sys.version_info[:2] >= (3, 11) and sys.prefix != sys.base_prefix else 1)"


@dataclass(frozen=True, slots=True)
class Environment:
    """One checkout (`root`) and the virtual environment inside it."""

    root: Path

    @property
    def folder(self) -> Path:
        """The folder of the virtual environment."""
        return self.root / ".venv"

    @property
    def scripts(self) -> Path:
        """The folder of the environment's programs: `bin`, or `Scripts` on Windows."""
        return self.folder / ("Scripts" if WINDOWS else "bin")

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.program("python")

    @property
    def constraints(self) -> Path:
        """The file with the exact versions."""
        return self.root / "constraints.txt"

    def program(self, name: str) -> Path:
        """The path of an installed program, with `.exe` on Windows."""
        return self.scripts / (f"{name}.exe" if WINDOWS else name)

    def fingerprint(self) -> str:
        """One hash of everything that the set-up depends on: requirements, interpreter, and the checkout's path."""
        digest = hashlib.sha256()
        for path in (self.root / "pyproject.toml", self.constraints, self.folder / "pyvenv.cfg"):
            digest.update(path.read_bytes() if path.is_file() else b"missing")
            digest.update(b"\0")
        digest.update(os.fsencode(self.root))
        return digest.hexdigest()

    def ready(self) -> bool:
        """True if the set-up is complete and nothing it depends on has changed since."""
        stamp = self.folder / STAMP
        return self.python.exists() and stamp.is_file() and stamp.read_text(encoding="ascii") == self.fingerprint()


def ensure(environment: Environment, progress: Progress | None = None) -> None:
    """Prepares the environment; returns at once if it is ready.

    Raises:
        SetupError: something could not be made or installed.
    """
    if environment.ready():
        return
    progress = progress or Progress()
    with exclusive(environment.root / ".venv.lock", progress.waiting):
        if environment.ready():
            return
        _make(environment, progress)
        _install(environment, progress)
        _write_stamp(environment)
        progress.say("set-up is complete")


def child_environment() -> dict[str, str]:
    """This process's environment without variables that would lead a child to another Python's modules.

    It also omits the variable that disables bytecode files: a test run has hundreds of children, and each would compile
    the package.
    """
    left_out = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    return {key: value for key, value in os.environ.items() if key not in left_out}


def _healthy(environment: Environment) -> bool:
    if not environment.python.exists():
        return False
    try:
        done = subprocess.run(
            [str(environment.python), "-c", HEALTHY], capture_output=True, env=child_environment(), check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def _make(environment: Environment, progress: Progress) -> None:
    """Creates the environment; first removes one that does not work, because it is incomplete or of an older Python."""
    folder = environment.folder
    if _healthy(environment) and not (folder / UNFINISHED).exists():
        return
    if folder.exists():
        progress.say(f"{folder.name} is incomplete or does not work: making it again")
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise SetupError(f"Cannot remove the broken environment {folder} ({error}): remove it by hand.") from error
    progress.say(f"making {folder.name}")
    try:
        _create(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"Cannot make the environment {folder} ({error}): check the folder and the disk.") from error


def _create(folder: Path) -> None:
    venv.EnvBuilder(with_pip=True).create(folder)


def _install(environment: Environment, progress: Progress) -> None:
    """Installs everything, with a mark in the folder for as long as it is unfinished."""
    unfinished = environment.folder / UNFINISHED
    (environment.folder / STAMP).unlink(missing_ok=True)
    unfinished.touch()
    try:
        _install_parts(environment, progress)
    except SetupError:
        unfinished.unlink()  # pip ended by itself and has rolled back; a killed pip leaves parts behind
        raise
    unfinished.unlink()


def _install_parts(environment: Environment, progress: Progress) -> None:
    # torch alone and first: pip then uses this machine's build, and the next step finds it installed
    torch = _pin(environment.constraints, "torch")
    _pip(environment, progress, f"installing {torch} (the largest part)", [torch])
    _pip(environment, progress, "installing Tau Trainer and its other parts", ["-e", f"{environment.root}[dev]"])


def _pip(environment: Environment, progress: Progress, text: str, what: list[str]) -> None:
    command = [str(environment.python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    # modules are compiled when they are imported: a tenth of the installed ones
    command += ["--no-compile", "--progress-bar", "off", "-c", str(environment.constraints), *what]
    progress.run(text, command, environment.folder / LOG, child_environment())


def _pin(constraints: Path, name: str) -> str:
    """The line `name==version` of the constraints file."""
    for line in constraints.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}=="):
            return line.strip()
    raise SetupError(f"{constraints} has no line `{name}==...`: restore the file from version control.")


def _write_stamp(environment: Environment) -> None:
    staged = environment.folder / f"{STAMP}.staged"
    staged.write_text(environment.fingerprint(), encoding="ascii")
    staged.replace(environment.folder / STAMP)
