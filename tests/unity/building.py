"""What is compiled: by a compiler that stays, and the player only once for all who play it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools._bootstrap.locking import exclusive
from tools.csharp import Toolchain, build_player, ensure_toolchain, ensure_unity_assemblies, unsupported

HOST = Path(__file__).parent / "compiler" / "Host.cs"
ENDED = "ended with "


@dataclass(frozen=True)
class WarmToolchain(Toolchain):
    """Has one process of the compiler: starting one costs five times as much as compiling."""

    process: subprocess.Popen[str]

    def run_compiler(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Tell it to the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("".join(f"{argument}\n" for argument in (*arguments, "")))
        self.process.stdin.flush()
        said: list[str] = []
        for line in self.process.stdout:
            if line.startswith(ENDED):
                return subprocess.CompletedProcess(arguments, int(line.removeprefix(ENDED)), "".join(said), "")
            said.append(line)
        raise AssertionError(f"the compiler ended: {''.join(said)}")


@contextmanager
def warm_toolchain(folder: Path) -> Iterator[Toolchain]:
    """Compiler, runtime and Unity's assemblies; where they cannot run the test is skipped, else it fails."""
    if reason := unsupported():
        pytest.skip(reason)
    cold = ensure_toolchain()
    ensure_unity_assemblies(cold.cache)
    host = folder / "Host.dll"
    compilation = cold.compile([HOST], host, kind="program", profile="netcoreapp3.1")
    assert compilation.ok, compilation
    pipe = subprocess.PIPE
    with subprocess.Popen(
        cold.command(host, str(cold.compiler)),
        stdin=pipe, stdout=pipe, encoding="utf-8", errors="replace", env=cold.environment,
    ) as process:  # fmt: skip
        try:
            yield WarmToolchain(cold.folder, cold.cache, process)
        finally:
            process.kill()


def shared_player(factory: pytest.TempPathFactory) -> Path:
    """The launcher of the player without Unity, what `--env` and `UnityEnvironment(file_name=...)` accept.

    Built by the first who asks, in the folder that the workers of a run have in common.
    """
    if reason := unsupported():
        pytest.skip(reason)
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    note = root / "player.txt"
    with exclusive(root / "player.lock", lambda _: None):
        if not note.is_file():
            with warm_toolchain(root / "player-compiler") as toolchain:
                launcher = build_player(toolchain, root / "player")
            note.write_text(str(launcher), encoding="utf-8")
    return Path(note.read_text(encoding="utf-8"))
