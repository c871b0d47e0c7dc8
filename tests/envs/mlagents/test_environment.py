from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tau_trainer.bridge.protocol import Command
from tau_trainer.envs.mlagents import (
    ActionTuple,
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironment,
    UnityEnvironmentException,
    UnityException,
    UnityObservationException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from tau_trainer.envs.mlagents import environment as module
from tau_trainer.errors import (
    DecodeError,
    EngineDisconnectedError,
    EngineError,
    EngineExitedError,
    EngineLeftError,
    EngineStoppedError,
    EngineTimeoutError,
    LaunchError,
    TauError,
    VersionError,
)
from tests.envs.mlagents.engines import GOODBYE, SPEC, Talk
from tests.envs.mlagents.games import HELLO, NAME, game

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")


def test_a_game(basic: UnityEnvironment) -> None:
    assert list(basic.behavior_specs) == []
    basic.step()  # the first is a reset
    assert list(basic.behavior_specs) == [NAME]
    spec = basic.behavior_specs[NAME]
    assert spec.observation_specs[0].shape == (20,)
    assert spec.action_spec.discrete_branches == (3,)
    decisions, terminals = basic.get_steps(NAME)
    assert decisions.agent_id.tolist() == [0, 1, 2]
    assert len(terminals) == 0
    assert decisions.action_mask is not None
    assert [mask.shape for mask in decisions.action_mask] == [(3, 3)]
    decisions.obs[0][:] = 0.0  # who has an array may write into it
    basic.set_actions(NAME, ActionTuple(discrete=np.array([[2], [2], [1]])))
    basic.step()
    after, _ = basic.get_steps(NAME)
    assert after.obs[0].sum() == 3.0
    assert (after.obs[0][0] == after.obs[0][1]).all() or after[0].reward == np.float32(-0.01)
    basic.reset()
    assert basic.get_steps(NAME)[0].reward.tolist() == [0.0] * 3


def test_what_is_not_set_is_zero_and_lasts_for_one_step() -> None:
    talk = Talk(HELLO, HELLO, HELLO, HELLO, GOODBYE)
    env = talk.environment(seed=5)
    env.step()  # a reset, as it is the first
    env.set_action_for_agent(SPEC.name, 7, ActionTuple(np.array([[0.5]]), np.array([[2, 1]])))
    env.step()
    env.set_actions(SPEC.name, ActionTuple(np.array([[0.25], [-1.0]]), np.array([[1, 0], [0, 1]])))
    env.set_action_for_agent(SPEC.name, 4, ActionTuple(np.array([[0.75]]), np.array([[2, 0]])))
    env.step()
    env.step()
    with pytest.raises(UnityCommunicatorStoppedException, match="stopped the game"):
        env.step()
    env.close()
    talk.finish()
    assert talk.heard[0].initialization is not None
    assert talk.heard[0].initialization.seed == 5
    sent = [said.actions.get(SPEC.name) for said in talk.heard]
    assert [said.command for said in talk.heard[1:6]] == [Command.RESET, *[Command.STEP] * 4]
    chosen = [(one.continuous.tolist(), one.discrete.tolist()) for one in sent[2:6] if one is not None]
    nothing = ([[0.0], [0.0]], [[0, 0], [0, 0]])
    assert chosen == [
        ([[0.0], [0.5]], [[0, 0], [2, 1]]),
        ([[0.75], [-1.0]], [[2, 0], [0, 1]]),
        nothing,
        nothing,
    ]


def test_a_closed_environment(basic: UnityEnvironment) -> None:
    basic.reset()
    basic.close()
    for call in (basic.step, basic.reset, basic.close):
        with pytest.raises(UnityEnvironmentException, match="closed; make another"):
            call()


def test_ports(basic: UnityEnvironment) -> None:
    port = basic._engine.port
    with pytest.raises(UnityWorkerInUseException, match="port of worker 1 is taken"):
        game(base_port=port - 1, worker_id=1)
    with pytest.raises(UnityWorkerInUseException):
        game(base_port=65_536)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UnityWorkerInUseException):
            UnityEnvironment(base_port=taken.getsockname()[1])


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(UnityEnvironmentException, match=r"no program found .* give file_name the path"):
        UnityEnvironment("no/such/build", base_port=0)
    with pytest.raises(UnityEnvironmentException, match="only one editor, and it is worker 0, not 2"):
        UnityEnvironment(worker_id=2)
    with pytest.raises(UnityEnvironmentException, match=r"exit code 70.*its log ends with"):
        game("--fault", "exit", log_folder=str(tmp_path), worker_id=3)
    assert (tmp_path / "Player-3.log").is_file()
    with pytest.raises(UnityEnvironmentException, match="uses communicator API 2"):
        game("--fault", "wrong-version")
    with pytest.raises(UnityTimeOutException, match="did not connect"):
        game("--fault", "slow-start", "--fault-seconds", "9", timeout_wait=0.2)


@pytest.mark.parametrize(
    ("fault", "expected", "text"),
    [
        ("crash", UnityEnvironmentException, "exit code 70"),
        ("stall", UnityTimeOutException, "within 0.3 s.*raise timeout_wait if"),
    ],
)
def test_an_engine_that_fails(fault: str, expected: type[UnityException], text: str) -> None:
    env = game("--fault", fault, "--fault-after", "2", scene="faulty")
    env.reset()
    env.step()
    env._engine._options = replace(env._engine._options, timeout_s=0.3)  # now that it has started
    with pytest.raises(expected, match=text):
        env.step()
    with pytest.raises(expected, match="close this environment"):
        env.reset()
    env.close()


def test_what_is_not_finite_ends_nothing() -> None:
    env = game("--fault", "nan-observation", "--fault-after", "2", scene="faulty")
    env.reset()
    env.step()
    with pytest.raises(UnityObservationException, match=r"NaN or infinity in .* of agent 0"):
        env.step()
    env.step()
    env.close()


def test_all_exceptions_are_of_this_package_and_each_of_the_bridge_has_one() -> None:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, UnityException)]
    assert len(kinds) >= 8
    assert all(issubclass(kind, TauError) for kind in kinds)
    wanted: dict[type[EngineError], type[UnityException]] = {}
    wanted |= dict.fromkeys((LaunchError, VersionError, EngineExitedError, EngineError), UnityEnvironmentException)
    wanted |= dict.fromkeys((EngineLeftError, EngineStoppedError), UnityCommunicatorStoppedException)
    wanted |= {EngineTimeoutError: UnityTimeOutException, DecodeError: UnityObservationException}
    wanted |= {EngineDisconnectedError: UnityCommunicationException}
    env = UnityEnvironment.__new__(UnityEnvironment)
    for error, kind in wanted.items():
        with pytest.raises(UnityException, match="text") as caught, env._translated():
            raise error("text")
        assert caught.type is kind


def test_workers_play_the_same_game_and_one_can_be_watched() -> None:
    seen = []
    for worker, hidden in ((0, False), (2, True)):
        env = game(scene="balance", seed=3, worker_id=worker, no_graphics_monitor=True)
        env.reset()
        seen.append(env.get_steps("3DBall?team=0")[0].obs[0].tolist())
        assert env._engine._launch is not None
        assert env._engine._launch.hidden(worker) is hidden
        env.close()
    assert seen[0] == seen[1]


def test_a_connection_that_breaks() -> None:
    talk = Talk(HELLO)
    env = talk.environment()
    env.reset()
    talk.hang_up()
    with pytest.raises(UnityCommunicatorStoppedException, match="closed the connection"):
        env.step()
    env.close()


@POSIX
@pytest.mark.parametrize("notebook", [False, True])
def test_ctrl_c_interrupts_a_step_and_the_game_can_be_closed(notebook: bool) -> None:
    """Also where a loop runs already, as in a notebook, whose kernel has a handler of its own."""

    def play() -> None:
        env = game("--fault", "stall", "--fault-after", "2", scene="faulty")
        env.reset()
        env.step()
        assert env.get_steps("3DBall?team=0")[0].agent_id.tolist() == [0, 1, 2]
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            env.step()
        assert time.monotonic() - began < 10
        env._timeout_s = 0.2
        env.close()

    async def cell() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        play()

    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(cell()) if notebook else play()
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_editor_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(UnityTimeOutException, match="press Play in the editor"):
        UnityEnvironment(base_port=0, timeout_wait=0.1)  # type: ignore[arg-type]
    assert "press Play in the editor" in caplog.text
