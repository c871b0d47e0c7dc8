"""A C# compiler for every test of the Unity project: fetched once, kept in the checkout's cache folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.unity.building import shared_player, warm_toolchain
from tests.waiting import HANG_S
from tools.csharp import CORE_SOURCES, Asmdef, Toolchain, read_project

FETCH_SECONDS = {"toolchain": 600.0, "player": 600.0}
"""What a first set-up may take; the first test that wants it gets this on top of its own time limit."""
PROGRAM_SECONDS = HANG_S

RunProgram = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the first test that needs something from the network the time to fetch it; all others keep theirs."""
    waiting = dict(FETCH_SECONDS)
    for item in items:
        wanted = [name for name in waiting if name in getattr(item, "fixturenames", ())]
        limit = time_limit(item)
        if wanted and limit > 0 and Path(__file__).parent in item.path.parents:
            extra = sum(waiting.pop(name) for name in wanted)
            item.add_marker(pytest.mark.timeout(limit + extra), append=False)


def time_limit(item: pytest.Item) -> float:
    """The seconds that a test has by its own mark or else by the project's setting; 0: no limit."""
    mark = item.get_closest_marker("timeout")
    if mark is None:
        return float(item.config.getini("timeout") or 0)
    return float(mark.args[0] if mark.args else mark.kwargs["timeout"])


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolchain]:
    """See :func:`warm_toolchain`."""
    with warm_toolchain(tmp_path_factory.mktemp("compiler")) as toolchain:
        yield toolchain


@pytest.fixture(scope="session")
def asmdefs() -> list[Asmdef]:
    """The Unity project's assemblies, each after those that it refers to."""
    return read_project()


@pytest.fixture(scope="session")
def unity_scripts(asmdefs: list[Asmdef]) -> list[Path]:
    """Every script of the Unity project."""
    return [path for asmdef in asmdefs for path in asmdef.sources]


@pytest.fixture(scope="session")
def core_sources() -> list[Path]:
    """The scripts of the core, which knows no engine."""
    return sorted(CORE_SOURCES.rglob("*.cs"))


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See :func:`shared_player`."""
    return shared_player(tmp_path_factory)


@pytest.fixture(scope="session")
def run_program(toolchain: Toolchain) -> RunProgram:
    """Runs a compiled program to its end: `run_program(dll, *args, timeout=300.0)`."""

    def run(
        dll: Path, *args: str, timeout: float = PROGRAM_SECONDS, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        command: Sequence[str] = toolchain.command(dll, *args)
        folder = os.fspath(cwd or dll.parent)
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            env=toolchain.environment,
            cwd=folder,
            timeout=timeout,
            check=False,
        )

    return run
