"""A parameter server: what its learners add up to, how stale they may be, and what is left when one dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tau_trainer.algorithms import Setup, check_served, make_algorithm
from tau_trainer.columns import Arrays
from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.models import Normalizer
from tau_trainer.remote.process import Message, Parent
from tau_trainer.settings import PPOHyperparameters, TrainerSettings, shared_out
from tau_trainer.training.learning import parameter_server as servers
from tau_trainer.training.learning import process as processes
from tau_trainer.training.learning.group import Ranked
from tau_trainer.training.learning.parameter_server import ParameterServer, added
from tau_trainer.training.learning.process import NO_TAKES, RemoteLearner, Takes
from tests.training.fakes import Memory, begin, ppo_settings, settings_from, train, until, vector_spec
from tests.training.learners import experience
from tests.training.learning.test_group import CONTINUOUS, NETWORK, copied, settings
from tests.waiting import HANG_S

NUMBERS = {"batch_size": 8, "buffer_size": 16, "num_epoch": 2, "updates_per_buffer": 1}
SETUP = Setup(vector_spec(), ppo_settings(hyperparameters=NUMBERS, network_settings=NETWORK), 3)
WAIT_S = HANG_S
RUN = """
behaviors:
  Count-v0:
    trainer_type: ppo
    hyperparameters: {batch_size: 8, buffer_size: 32, updates_per_buffer: 1}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 200
    checkpoint_interval: 50
env_settings: {env_path: "gym:tests.training.toys:Count-v0", env_args: ["length=15"], seed: 7}
devices: 2
strategy: parameter_server
"""


class Near:
    """A LearnerProcess within this one."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.arguments, self.death = {"threads": 1}, None
        self.gate, self.inside = threading.Event(), threading.Event()
        self.gate.set()
        self.said = list[Message]()
        self._host = processes._Host(cast(Parent, self))

    def say(self, kind: str, data: Mapping[str, Any], arrays: Arrays) -> None:
        self.said.append(Message(kind, dict(data), dict(arrays)))

    def fail(self, error: Exception) -> None:
        self.failed = error

    def ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        if request.kind == "update":
            self.inside.set()
            assert self.gate.wait(WAIT_S)
            self.inside.clear()
        before = len(self.said)
        self._host.answer(request)
        if len(self.said) == before:
            raise self.failed
        return self.said[-1]

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., ParameterServer]:
    monkeypatch.setattr(servers, "LearnerProcess", Near)
    return lambda count=2, bound=2: ParameterServer(Ranked(count, "cpu", tmp_path), bound, print)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def gates(server: ParameterServer) -> list[Near]:
    return [cast(Near, worker.process) for worker in server._workers]


def works(count: int) -> list[Work]:
    """All by the first policy."""
    maker = make_algorithm(SETUP)
    return [copied(experience(maker, maker.snapshot(), number)) for number in range(count)]


def learner_of(server: ParameterServer) -> RemoteLearner:
    return RemoteLearner(server, "it", SETUP, make_algorithm(SETUP))


def assert_same(learner: RemoteLearner, weights: Arrays) -> None:
    for name, values in weights.items():
        np.testing.assert_allclose(learner.policy().weights[name], values, rtol=1e-6, atol=1e-7, err_msg=name)


def test_one_after_the_other_is_one_process_to_the_bit(near: Callable[..., ParameterServer]) -> None:
    """Whoever learns begins from what the one before has made: weights, moments, statistics and random numbers."""
    server, alone = near(), make_algorithm(SETUP)
    learner = learner_of(server)
    for number, work in enumerate(works(4)):
        told = learner.submit(copied(work), 0.1, None)
        stats = alone.update(work, 0.1, None)
        assert told[keys.POLICY_LOSS] == pytest.approx(stats[keys.POLICY_LOSS])
        assert told[keys.STALENESS] == 0.0
        assert learner.policy().version == number + 1
    assert_same(learner, alone.weights())
    assert server.words().endswith("4 updates by 2 processes, staleness 0.00 updates, at most 0 (max_staleness 2)")
    arrays, data = learner.state()
    again = learner_of(near())
    again.load(arrays, data, fresh=False)
    work = works(5)[-1]
    again.submit(copied(work), 0.1, None)
    alone.update(work, 0.1, None)
    assert again.policy().version == 5
    assert_same(again, alone.weights())


def test_what_two_have_changed_is_added_up(near: Callable[..., ParameterServer], threads: ThreadPoolExecutor) -> None:
    server = near()
    learner, (first, second) = learner_of(server), works(2)
    learner.state()  # makes it
    for gate in gates(server):
        gate.gate.clear()
    submitted = [threads.submit(learner.submit, copied(work), 0.1, None) for work in (first, second)]
    assert all(gate.inside.wait(WAIT_S) for gate in gates(server)), "both begin from the first weights"
    for gate in gates(server):
        gate.gate.set()
    staleness = [done.result(WAIT_S)[keys.STALENESS] for done in submitted]
    assert sorted(staleness) == [0.0, 1.0]
    assert (server.staleness.mean, server.staleness.most) == (0.5, 1)
    begun = make_algorithm(SETUP).weights()
    ends = []
    for work in (first, second):
        algorithm = make_algorithm(SETUP)
        algorithm.update(work, 0.1, None)
        ends.append(algorithm.weights())
    assert learner.policy().version == 2
    for name, values in learner.policy().weights.items():
        if not name.startswith("normalizer."):
            np.testing.assert_allclose(values, begun[name] + sum(end[name] - begun[name] for end in ends), atol=1e-6)
    assert learner.policy().weights["normalizer.count"] == 97, "an imagined row, and 48 of each"


def test_rows_that_two_have_seen_are_statistics_of_all() -> None:
    """Whatever a third had taken in meanwhile."""
    rng = np.random.default_rng(1)
    batches = [rng.normal(3.0, 2.0, size=(rows, 3)).astype(np.float32) for rows in (40, 7, 25)]

    def seen(*numbers: int) -> Arrays:
        normalizer = Normalizer(3)
        for number in numbers:
            normalizer.merge(batches[number])
        return {f"a.{name}": tensor.numpy() for name, tensor in normalizer.state_dict().items()}

    for name, values in added(seen(0, 1), seen(0), seen(0, 2)).items():
        np.testing.assert_allclose(values, seen(0, 1, 2)[name], rtol=1e-12)
    assert all((added(seen(0, 1), seen(0), seen(0))[name] == values).all() for name, values in seen(0, 1).items())


def test_moments_are_those_of_whoever_came_last() -> None:
    names = ("model.w", "optimizer.exp_avg_sq")
    newest, before, after = ({name: np.full(2, number) for name in names} for number in (5.0, 1.0, 2.0))
    known = added(newest, before, after)
    assert (known["model.w"].tolist(), known["optimizer.exp_avg_sq"].tolist()) == ([6.0, 6.0], [2.0, 2.0])


def test_who_would_make_another_too_stale_waits(
    near: Callable[..., ParameterServer], threads: ThreadPoolExecutor
) -> None:
    """A slow learner: the other goes on until the bound, and no further; it goes on once the slow one has come."""
    server = near(bound=1)
    learner, (slow, *others) = learner_of(server), works(3)
    learner.state()
    first = gates(server)
    for gate in first:
        gate.gate.clear()
    late = threads.submit(learner.submit, slow, 0.1, None)
    until(lambda: any(gate.inside.is_set() for gate in first))
    behind = next(gate for gate in first if gate.inside.is_set())
    next(gate for gate in first if gate is not behind).gate.set()
    learner.submit(others[0], 0.1, None)
    waiting = threads.submit(learner.submit, others[1], 0.1, None)
    until(lambda: server._turn._waiters)  # type: ignore[attr-defined]
    assert not waiting.done()
    assert learner.policy().version == 1
    behind.gate.set()
    assert late.result(WAIT_S)[keys.STALENESS] == 1.0
    assert waiting.result(WAIT_S)[keys.STALENESS] == 0.0
    assert learner.policy().version == 3


def test_what_an_algorithm_refuses_changes_nothing_and_holds_nobody(near: Callable[..., ParameterServer]) -> None:
    server = near(bound=1)
    learner, (wrong, work) = learner_of(server), works(2)
    wrong.data["reward.extrinsic"][:] = np.nan
    for _ in range(3):
        with pytest.raises(NonFiniteError, match="reward 'extrinsic' is NaN"):
            learner.submit(wrong, 0.1, None)
    learner.submit(copied(work), 0.1, None)
    alone = make_algorithm(SETUP)
    alone.update(work, 0.1, None)
    assert_same(learner, alone.weights())


@pytest.mark.skipif(os.name == "nt", reason="kills by a signal of POSIX")
def test_one_that_dies_is_replaced_from_the_newest_weights(tmp_path: Path) -> None:
    """And its work is learned from all the same: the numbers are those of one process."""
    warnings: list[str] = []
    server = ParameterServer(Ranked(2, "cpu", tmp_path), 2, warnings.append)
    learner, alone = learner_of(server), make_algorithm(SETUP)
    for number, work in enumerate(works(4)):
        if number == 2:
            os.kill(server._workers[0].process._process.pid, signal.SIGKILL)
        learner.submit(copied(work), 0.1, None)
        alone.update(work, 0.1, None)
    assert_same(learner, alone.weights())
    assert len(warnings) == 1
    assert warnings[0].startswith("rank 0 of 2 that learn ended by SIGKILL")
    assert warnings[0].endswith("; learning continues in a new one, from the newest weights")
    server.close()


def test_rollouts_are_shared_out() -> None:
    """As many gradient steps for as many decisions as one process takes: PPO learns from halves of this buffer."""

    def sizes(whole: TrainerSettings, learners: int) -> tuple[int, int]:
        numbers = cast(PPOHyperparameters, shared_out(whole, learners).hyperparameters)
        return numbers.buffer_size, numbers.rollout_size

    assert sizes(ppo_settings(hyperparameters={"batch_size": 64, "buffer_size": 12_000}), 3) == (2000, 2000)
    assert sizes(ppo_settings(hyperparameters=NUMBERS), 4) == (8, 8), "one minibatch"
    assert sizes(settings("poca", batch_size=8, buffer_size=64), 2) == (32, 32)


def test_what_learns_from_a_memory_is_refused() -> None:
    check_served(make_algorithm(SETUP), SETUP.spec)
    setup = Setup(CONTINUOUS, settings("sac"), 1)
    with pytest.raises(SettingsError, match=r"^strategy parameter_server: behavior '\w+': .* from a memory"):
        check_served(make_algorithm(setup), setup.spec)


def test_a_run_learns_so_and_goes_on_after_a_checkpoint(tmp_path: Path) -> None:
    """In processes; the staleness is told, and a resumed run begins where the server was."""
    memory = Memory()
    report = begin(settings_from(RUN, tmp_path), memory, "learn").wait(WAIT_S)
    assert (report.outcome, report.decisions >= 200, memory.warnings) == ("completed", True, [])
    words = [event.message for event in memory.events if event.kind == "learners"]
    assert len(words) == 1
    assert "updates by 2 processes, staleness" in str(words[0])
    assert any(keys.STALENESS in summary.values for summary in memory.summaries)
    longer: dict[str, Any] = {"checkpoint_settings.resume": True, "behaviors.*.max_steps": 300}
    report = train(settings_from(RUN, tmp_path, **longer), command="learn")
    assert (report.outcome, report.decisions >= 300) == ("completed", True)
