"""What holds for every test: a quiet plot backend, signals as a terminal has them, patient property tests; toys.

Tests marked `gpu` are left out where there is no accelerator, and those marked `nightly` unless they are asked for.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.waiting import run

os.environ.setdefault("MPLBACKEND", "Agg")
# As the command line does: threads wait for each other busily.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some load onnxruntime by themselves: see tau_trainer/export/session.py.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def _signals_as_a_terminal_has_them() -> None:
    """What `nohup`, or `&` in a script, has set to be ignored or blocked would be so in every child of a test."""
    ends = [getattr(signal, name) for name in ("SIGHUP", "SIGQUIT", "SIGTERM") if hasattr(signal, name)]
    for number in ends:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, *ends])


_signals_as_a_terminal_has_them()

# A shared machine may stop for a second at any point: time limits are pytest-timeout's business, one for each test.
PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("tau-trainer", max_examples=50, **PATIENT)
settings.register_profile("tau-trainer-nightly", max_examples=400, **PATIENT)
settings.load_profile("tau-trainer")


@pytest.fixture(autouse=True)
def _logger_as_it_begins() -> None:
    """The command line sets up the package's logger: a test or a wider fixture before this one may have called it."""
    logger = logging.getLogger("tau_trainer")
    logger.handlers.clear()
    logger.propagate = True
    logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _nothing_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the runs and engines that a test has started in this process, however the test ends."""
    engines: list[Any] = []
    launcher, fakes = (sys.modules.get(name) for name in ("tau_trainer.bridge.launcher", "tests.training.fakes"))
    if launcher is not None:
        start = launcher.EngineProcess.start

        async def noted(*how: Any) -> Any:
            engines.append(await start(*how))
            return engines[-1]

        monkeypatch.setattr(launcher.EngineProcess, "start", staticmethod(noted))
    yield
    if fakes is not None:
        fakes.end_sessions()
    for engine in engines:
        if engine.returncode is None:
            engine.kill()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy encoders of images and of lists and a toy memory are installed."""
    from tests.networks import plug_in  # imports torch, which most tests do without

    plug_in(monkeypatch)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in a loop of its own, inside of fixtures that are asynchronous contexts."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for name in inspect.signature(pyfuncitem.obj).parameters:
                given[name] = value = pyfuncitem.funcargs[name]
                if isinstance(value, contextlib.AbstractAsyncContextManager):
                    given[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**given)

    given: dict[str, Any] = {}
    run(main())
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--all`, which `tools/bootstrap.py test --all` passes on."""
    parser.addoption("--all", action="store_true", dest="nightly", help="run the tests marked `nightly` as well")


def pytest_configure(config: pytest.Config) -> None:
    """At night, property tests look at more examples."""
    if config.getoption("nightly", False):
        settings.load_profile("tau-trainer-nightly")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests live as long as the process: looking for garbage among them takes a tenth of the time that they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what is not asked for, or cannot run here."""
    left = set() if _nightly_asked_for(config) else {item for item in items if item.get_closest_marker("nightly")}
    marked = {item for item in items if item.get_closest_marker("gpu")}
    if marked and not _accelerator_available():  # which imports torch
        left |= marked
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def _nightly_asked_for(config: pytest.Config) -> bool:
    """By `--all`, by a `-m` that speaks of them, or by the name of a test."""
    return (
        config.getoption("nightly", False)
        or "nightly" in config.getoption("markexpr")
        or any("::" in one for one in config.args)
    )


def _accelerator_available() -> bool:
    import torch

    return torch.cuda.is_available()
