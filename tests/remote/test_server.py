from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tau_trainer.remote import forking
from tau_trainer.remote.launching import Launched, launch
from tests.trainers import LOADED, MODULE, ROOT
from tests.training.fakes import until
from tests.waiting import HANG_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One for the test alone, which ends with it, as does what the test has started."""
    monkeypatch.setattr(forking, "_server", None)
    yield
    forking.close()
    while _STARTED:
        _STARTED.pop().process.kill()


_STARTED: list[Launched] = []


def started(module: str, *arguments: str) -> Launched:
    with tempfile.TemporaryFile() as errors:
        launched = launch(module, arguments, errors=errors, several=True)
    _STARTED.append(launched)
    launched.sink.close()
    return launched


def ended(launched: Launched) -> tuple[int, bytes]:
    with launched.source as source:
        return launched.process.wait(HANG_S), source.read()


def the_server() -> int:
    assert forking._server is not None
    assert forking._server._process is not None
    return forking._server._process.pid


@pytest.mark.usefixtures("server")
def test_a_module_is_loaded_once_and_processes_come_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "counted.py").write_text(
        "import os, random, numpy.random\n"
        f"open({str(tmp_path / 'loads')!r}, 'a').write('x')\n"
        "def main():\n    print(os.getppid(), random.random(), numpy.random.random())\n"
    )
    answers = [ended(started("counted")) for _ in range(3)]
    assert {code for code, _ in answers} == {0}
    assert {int(said.split()[0]) for _, said in answers} == {the_server()}
    for column in (1, 2):
        assert len({said.split()[column] for _, said in answers}) == 3, "each draws numbers of its own"
    assert (tmp_path / "loads").read_text() == "x"


@pytest.mark.usefixtures("server")
def test_a_module_that_starts_a_thread_is_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock could be held by a thread that is not there any more."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "threaded.py").write_text(
        "import os, sys, threading\n"
        "LOADED = os.getpid()\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "def main():\n    print(os.getpid() == LOADED, sys.argv[1:])\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    assert ended(started("threaded", "a b")) == (0, b"True ['a b']\n")


@pytest.mark.usefixtures("server")
def test_what_the_server_has_in_its_environment_is_not_its_childrens(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for value in ("the server's", None):
        if value is None:
            monkeypatch.delenv("TAU_TEST")
        else:
            monkeypatch.setenv("TAU_TEST", value)
        said.append(json.loads(ended(started("tests.remote.work", "end"))[1])["variable"])
    assert said == ["the server's", None]


def test_what_the_trainer_has_forked_starts_no_thread_as_it_is_loaded() -> None:
    """One that did would have everything after it started by itself."""
    modules = [f"tau_trainer.training.{name}" for name in ("actors.actor", "learning.process", "batched.ranks")]
    modules += ["tau_trainer.remote.here", "tau_trainer.search.elsewhere", "tau_trainer.search.probe", MODULE, *LOADED]
    code = f"import os, {', '.join(modules)}; print(len(os.listdir('/proc/self/task')))"
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=alone, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@pytest.mark.usefixtures("server")
def test_a_module_that_is_not_there_is_the_process_s_own_trouble(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as errors:
        launched = launch("tests.remote.nowhere", errors=errors, several=True)
        launched.sink.close()
        assert ended(launched) == (1, b"")
        assert (tmp_path / "log").read_text().endswith("ModuleNotFoundError: No module named 'tests.remote.nowhere'\n")


@pytest.mark.usefixtures("server")
def test_ctrl_c_does_not_end_it_and_whoever_kills_it_gets_another() -> None:
    ended(started("tests.remote.work", "end"))
    first = the_server()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(first, number)
    assert ended(started("tests.remote.work", "end"))[0] == 7
    assert the_server() == first
    waits = started("tests.remote.work", "wait")
    pid = waits.process.pid
    os.kill(first, signal.SIGKILL)
    waits.source.close()
    assert waits.process.wait(HANG_S) == -signal.SIGKILL, "nobody else could say how it ended"
    os.kill(pid, signal.SIGKILL)
    assert ended(started("tests.remote.work", "end"))[0] == 7
    assert the_server() != first


@pytest.mark.usefixtures("server")
def test_it_is_gone_when_nobody_can_ask_any_more_and_what_was_forked_goes_on_without_it() -> None:
    waits = started("tests.remote.work", "wait")
    assert waits.process.pid > 0
    pid = the_server()
    forking.close()
    until(lambda: not Path(f"/proc/{pid}").exists())
    os.kill(waits.process.pid, 0)
    os.kill(waits.process.pid, signal.SIGKILL)
    waits.source.close()
    assert waits.process.wait(HANG_S) < 0


@pytest.mark.usefixtures("server")
def test_a_forked_process_has_its_own_forked_by_the_same_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nested.py").write_text(
        "import os, sys, tempfile\n"
        "from tau_trainer.remote.launching import launch\n"
        "def main():\n"
        "    if sys.argv[1] == 'outer':\n"
        "        with tempfile.TemporaryFile() as errors:\n"
        "            inner = launch('nested', ['inner'], errors=errors, several=True)\n"
        "        inner.sink.close()\n"
        "        print(inner.source.read().decode().strip(), inner.process.wait(), inner.process.pid)\n"
        "        inner.source.close()\n"
        "        sys.exit(0)\n"
        "    print(os.getppid())\n"
        "    sys.exit(5)\n"
    )
    code, said = ended(started("nested", "outer"))
    parent, inner_code, _ = (int(one) for one in said.split())
    assert (code, parent, inner_code) == (0, the_server(), 5)
