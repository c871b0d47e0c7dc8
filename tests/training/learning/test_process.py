from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer import plugins
from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.bridge.package import ImageOrder
from tau_trainer.errors import LearnerError
from tau_trainer.metrics import PairState
from tau_trainer.remote import forking
from tau_trainer.remote.process import GoneError, Message, Parent
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, ObservationSpec
from tau_trainer.training.learning import process as learner_process
from tau_trainer.training.learning.process import LearnerProcess, RemoteLearner, _Host
from tests.remote.threads import Threads
from tests.training.fakes import (
    Memory,
    SceneEngine,
    Stage,
    begin,
    pairs_of,
    ppo_settings,
    tau_settings,
    until,
    vector_spec,
)
from tests.training.learners import experience
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="these signals are POSIX's")
SETUP = Setup(vector_spec(), ppo_settings(), seed=3)

Start = Callable[[], LearnerProcess]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run_logs" / "Learner-0.log"


@pytest.fixture
def start(log: Path) -> Iterator[Start]:
    started: list[LearnerProcess] = []

    def make() -> LearnerProcess:
        started.append(LearnerProcess(log))
        return started[-1]

    yield make
    for process in started:
        process.close()


@pytest.fixture(scope="module")
def shared_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run_logs") / "Learner-0.log"


@pytest.fixture(scope="module")
def shared(odd: Setup, shared_log: Path) -> Iterator[LearnerProcess]:
    """One process for the tests that do it no harm; it knows the algorithm of somebody else."""
    process = LearnerProcess(shared_log)
    yield process
    process.close()


def remote(process: LearnerProcess, name: str = "Agent", setup: Setup = SETUP) -> RemoteLearner:
    return RemoteLearner(process, name, setup, make_algorithm(setup))


def test_both_ends_read_recordings_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process is told makes the same setup there, through JSON."""
    setup = replace(
        SETUP, images=ImageOrder(written_last=True, flat=("heat",)), environment=("gym:X", "a=1"), max_steps=34
    )
    made: list[Setup] = []
    process = cast("LearnerProcess", SimpleNamespace(abreast=1))
    data = json.loads(json.dumps(RemoteLearner(process, "Agent", setup, make_algorithm(setup))._setup))
    monkeypatch.setattr(learner_process, "make_algorithm", made.append)
    learner_process._made(data)
    assert made == [setup]
    assert made[0].decisions == 34, "what falls over a share of them falls there as it does where agents act"


def learn(learner: RemoteLearner, seed: int = 0) -> dict[str, float]:
    return learner.submit(experience(learner._algorithm, learner.policy(), seed), 0.0, None)


def pid_of(process: LearnerProcess) -> int:
    return process._process.pid


def alive(pid: int) -> bool:
    """Whether there is such a process, other than one that has ended and that nobody has looked at since."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # no such folder outside Linux; there everybody's children are looked at
        return not Path("/proc/self").exists()


def test_several_algorithms_share_a_process_and_nothing_else(shared: LearnerProcess) -> None:
    """Each learns what it would have learned alone, in a thread."""
    setups = SETUP, Setup(vector_spec(5, ActionSpec(0, (3,))), ppo_settings(), seed=8)
    learners = [remote(shared, f"learner of {setup.seed}", setup) for setup in setups]
    algorithms = [make_algorithm(setup) for setup in setups]
    for seed in range(2):
        for learner, algorithm in zip(learners, algorithms, strict=True):
            learn(learner, seed)
            algorithm.update(experience(algorithm, algorithm.snapshot(), seed).data, 0.0, None)
    for learner, algorithm in zip(learners, algorithms, strict=True):
        np.testing.assert_equal(dict(learner.policy().weights), algorithm.weights())


def test_it_learns_the_same_where_messages_are_all_there_is(log: Path) -> None:
    """Behind the wall could be another machine."""
    process = LearnerProcess(log, place=Threads())
    learner, algorithm = remote(process), make_algorithm(SETUP)
    learn(learner)
    algorithm.update(experience(algorithm, algorithm.snapshot(), 0).data, 0.0, None)
    np.testing.assert_equal(dict(learner.policy().weights), algorithm.weights())
    process.close()
    with pytest.raises(LearnerError, match="the process that learns ended with exit code 0"):
        learn(learner)


def test_several_threads_work_on_images_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", chosen.append)
    camera = replace(vector_spec(), observations=(ObservationSpec("camera", (1, 20, 20), dtype=np.uint8),))
    host = _Host(Silent(threads=3))
    for name, spec in (("vectors", vector_spec()), ("images", camera)):
        setup = replace(SETUP, spec=spec)
        host._algorithms[name] = make_algorithm(setup)
        data, arrays = experience(make_algorithm(setup), make_algorithm(setup).snapshot(), 0).sent()
        data |= {"learner": name, "progress": 0.0, "publish": False}
        host.answer(Message("update", data, arrays))
    assert chosen == [1, 3]


class Silent(Parent):
    """Is told nothing but that updates were made."""

    def __init__(self, threads: int) -> None:
        self.arguments = {"threads": threads}

    def say(self, kind: str, *_: Any) -> None:
        assert kind == "updated"

    def hear(self) -> Message:
        raise GoneError

    def newest(self, _: Any) -> Any:
        raise NotImplementedError

    def leave(self, code: int = 0) -> None:
        raise NotImplementedError


def test_learners_in_several_threads_take_turns(shared: LearnerProcess) -> None:
    learners = [remote(shared, f"learner {i}") for i in range(3)]
    with ThreadPoolExecutor(3) as executor:
        for seed in range(5):
            list(executor.map(partial(learn, seed=seed), learners))
    assert {one.policy().version for one in learners} == {5}
    assert len({one.policy().weights["action.weight"].tobytes() for one in learners}) == 1


def test_it_ends_when_it_is_closed(start: Start, log: Path) -> None:
    process = start()
    learner, pid = remote(process), pid_of(process)
    learn(learner)
    process.close()
    assert not alive(pid)
    assert log.read_text() == ""
    process.close()


@POSIX
def test_a_process_that_is_gone_is_named_with_its_signal_and_its_log(start: Start, log: Path) -> None:
    process = start()
    learner = remote(process)
    learn(learner)
    os.kill(pid_of(process), signal.SIGKILL)
    with pytest.raises(LearnerError, match=rf"ended by SIGKILL \(.* memory was low\); see {log}$"):
        learn(learner)
    assert learner.policy().version == 1, "what was learned is still there to act with"
    with pytest.raises(LearnerError, match="SIGKILL"):
        learner.state()


@POSIX
def test_a_process_that_crashes_as_it_starts(start: Start, log: Path) -> None:
    process = start()
    os.kill(pid_of(process), signal.SIGSEGV)
    with pytest.raises(LearnerError, match=rf"^the process that learns ended by SIGSEGV; see {log}$"):
        learn(remote(process))


@POSIX
def test_the_last_line_of_its_log_is_told(start: Start, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = ["/bin/sh", "-c", "echo first >&2; echo there is no torch >&2; exit 3"]
    popen = subprocess.Popen
    monkeypatch.setattr(forking, "POSSIBLE", False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen(false, **how))
    with pytest.raises(LearnerError, match=rf"ended with exit code 3; see {log}: there is no torch$"):
        learn(remote(start()))


def test_a_process_that_cannot_be_started(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forking, "POSSIBLE", False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LearnerError, match="the process that learns cannot be started: No such file"):
        start()


@POSIX
def test_signals_are_the_trainers_business_from_the_first_moment_on(start: Start) -> None:
    process = start()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "they still reach us"
    learner = remote(process)
    for _ in range(2):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid_of(process), number)
        learn(learner)
    assert learner.policy().version == 2


PARENT = """
    import sys, time
    from pathlib import Path
    from tau_trainer.algorithms import Setup, make_algorithm
    from tau_trainer.training.learning.process import LearnerProcess, RemoteLearner
    from tests.training.fakes import ppo_settings, vector_spec

    process = LearnerProcess(Path(sys.argv[1]))
    sys.stdout.write(f"{process._process.pid}\\n")
    sys.stdout.flush()
    if sys.argv[2] == "late":
        setup = Setup(vector_spec(), ppo_settings(), seed=3)
        RemoteLearner(process, "Agent", setup, make_algorithm(setup)).state()
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    time.sleep(1000)
"""


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("when", ["early", "late"])
def test_it_ends_with_a_trainer_that_is_killed(tmp_path: Path, when: str) -> None:
    (tmp_path / "parent.py").write_text(textwrap.dedent(PARENT))
    command = [sys.executable, "parent.py", str(tmp_path / "learner.log"), when]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert parent.stdout.readline() == "ready\n"
            assert alive(pid)
        finally:
            parent.kill()
    until(lambda: not alive(pid))


# --- an algorithm of somebody else, that does what one should not -----------------------------------------------------

OTHER = """
    import os
    import time
    from typing import Literal

    from tau_trainer.algorithms.ppo import PPO
    from tau_trainer.settings import PPOTrainerSettings, TrainerType

    class Settings(PPOTrainerSettings):
        trainer_type: Literal["odd"] = "odd"

    class Odd(PPO):
        def update(self, work, progress, publish):
            print("this is not a message")
            os.write(1, b"nor this")
            if progress == 0.5:
                raise ZeroDivisionError("somewhere")
            if progress == 1.0:
                time.sleep(1000)
            return super().update(work, progress, publish)

    ODD = TrainerType(Settings, "other_trainer:Odd")
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """An installed package that brings the trainer type ``odd``."""
    site = tmp_path_factory.mktemp("site")
    (site / "other-1.0.dist-info").mkdir()
    (site / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (site / "other-1.0.dist-info" / "entry_points.txt").write_text("[tau_trainer.trainers]\nodd = other_trainer:ODD\n")
    (site / "other_trainer.py").write_text(textwrap.dedent(OTHER))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        plugins._found.cache_clear()
        chosen = ppo_settings().model_dump() | {"trainer_type": "odd"}
        yield Setup(vector_spec(), trainer_type("odd").settings.model_validate(chosen), seed=3)
    plugins._found.cache_clear()
    sys.modules.pop("other_trainer", None)


def ask(learner: RemoteLearner, progress: float) -> None:
    learner.submit(experience(learner._algorithm, learner.policy(), 0), progress, None)


def test_a_defect_is_told_and_the_process_goes_on(shared: LearnerProcess, shared_log: Path, odd: Setup) -> None:
    """What is printed meanwhile goes to the log, not between the messages."""
    learner = remote(shared, "odd", odd)
    with pytest.raises(LearnerError, match="failed: ZeroDivisionError: somewhere"):
        ask(learner, 0.5)
    ask(learner, 0.0)
    assert learner.policy().version == 1
    said = shared_log.read_text()
    assert said.count("this is not a message") == said.count("nor this") == 2
    assert "ZeroDivisionError: somewhere" in said


def test_an_update_that_never_ends_does_not_keep_it(start: Start, odd: Setup) -> None:
    process = start()
    learner, pid = remote(process, setup=odd), pid_of(process)
    ask(learner, 0.0)
    with ThreadPoolExecutor(1) as executor:
        update = executor.submit(ask, learner, 1.0)
        until(process._lock.locked)
        process.close()
        with pytest.raises(LearnerError, match="the process that learns ended"):
            update.result(HANG_S)
    assert not alive(pid)


# --- whole runs -------------------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["shared", "independent"])
def test_a_run_whose_process_is_killed_ends_with_an_error(
    stage: Stage, tmp_path: Path, memory: Memory, policy: str
) -> None:
    """It does not hang, and what was learned until then is kept."""
    killed: list[int] = []

    async def kill(engine: SceneEngine) -> None:
        if session.status().policy_version >= 2 and not killed:
            for process in pairs_of(session).pool._processes:
                assert isinstance(process, LearnerProcess)
                killed.append(pid_of(process))
                os.kill(killed[-1], signal.SIGKILL)

    stage.before_step = kill
    settings = tau_settings(
        tmp_path, collection__learner="process", tau__policy=policy, behaviors__TauAgent__max_steps=100_000
    )
    session = begin(settings, memory)
    report = session.wait(HANG_S)
    assert killed
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert {pair.state for pair in report.pairs} == {PairState.FAILED}
    assert all("the process that learns ended by SIGKILL" in error for error in report.errors)
    assert all("Learner-0.log" in error for error in report.errors)
    assert report.models[0].is_file(), "the policy that acted is exported"
    assert not stage.live
    assert not any(alive(pid) for pid in killed)
