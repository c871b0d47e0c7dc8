"""An engine that is replaced when it fails: real engines that crash, stall and talk nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.codec import EngineInitialization, encode_close
from tau_trainer.bridge.engine_codec import decode_trainer_message, encode_engine_message
from tau_trainer.bridge.godot.dialect import Godot
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.envs import Environment
from tau_trainer.envs import engines as module
from tau_trainer.envs.engines import EngineSource, EngineWorker
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import (
    DecodeError,
    EngineDisconnectedError,
    EngineError,
    EngineExitedError,
    EngineStoppedError,
    EngineTimeoutError,
    PortInUseError,
    SettingsError,
)
from tau_trainer.settings import load_settings
from tau_trainer.specs import ActionSpec, StepBatch
from tests.bridge.conftest import client, free_port
from tests.bridge.oracle import Agent, engine_message, simple_spec
from tests.envs.playing import Sentences, zeros
from tests.training.fakes import Hook, SceneEngine, Stage, launched, nothing
from tests.waiting import HANG_S

AGENTS = 4
PEM = Path(__file__).parents[1] / "bridge" / "data"


class Workers:
    """Makes workers and ends them with the test."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.events = Sentences()
        self.made: list[EngineWorker] = []

    def __call__(
        self,
        *flags: str,
        budget: RestartBudget | None = None,
        port: int = 0,
        fixed_port: bool = False,
        may_leave: bool = False,
    ) -> EngineWorker:
        worker = EngineWorker(
            0,
            port,
            LaunchSpec.of("headless:balance", env_args=("--agents", str(AGENTS), *flags), log_folder=self._logs),
            EngineOptions(timeout_s=HANG_S, may_leave=may_leave, fixed_port=fixed_port),
            budget or self.budget(10),
        )
        self.made.append(worker)
        return worker

    async def __aenter__(self) -> Workers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.made:
            await worker.kill()

    def budget(self, restarts: int) -> RestartBudget:
        return RestartBudget(restarts, -1, 60.0, self.events)


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(RestartBudget, "FIRST_WAIT_S", 0.01)
    return Workers(tmp_path)


async def play(worker: Environment, batches: list[StepBatch], steps: int) -> tuple[list[StepBatch], EngineError | None]:
    """Step until ``steps`` are done or the engine fails."""
    for _ in range(steps):
        try:
            worker.answer(zeros(worker, batches))
            batches = await worker.next()
        except EngineError as error:
            return batches, error
    return batches, None


async def test_a_sound_engine_and_a_port_that_is_taken_meanwhile(workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} is taken"):
            await workers(port=port, fixed_port=True).start({})
        worker = workers(port=port)
        assert worker.specs == {}
        first = await worker.start({})
    waited_for = [workers().waits_for]
    batches, error = await play(worker, first, 5)
    assert error is None
    worker.answer(zeros(worker, batches))
    step = asyncio.create_task(worker.next())
    await asyncio.sleep(0)
    waited_for.append(worker.waits_for)
    batches = await step
    assert [*waited_for, worker.waits_for] == ["engine 0 to start", "engine 0 to answer a step", None]
    assert worker.exchanges == 6
    (again,) = await worker.reset({"num_agents": float(AGENTS)})
    assert len(again) == len(batches[0]) == AGENTS
    engine = worker.engine
    assert engine is not None
    assert engine.process is not None
    assert engine.port != port
    await worker.close()
    assert worker.engine is None
    assert engine.process.returncode == 0
    assert (worker.restarts, workers.events) == (0, [])


@pytest.mark.parametrize(
    ("fault", "kind", "sentence"),
    [
        ("crash", EngineExitedError, "engine 0 ended while it should answer a step: exit code 70"),
        ("stall", EngineTimeoutError, "engine 0 did not answer a step within 0.6 s; r"),
        ("malformed", DecodeError, "64 bytes that are not a message"),
    ],
)
async def test_an_engine_that_fails_is_replaced_and_plays_on(
    workers: Workers, tmp_path: Path, fault: str, kind: type[EngineError], sentence: str
) -> None:
    worker = workers("--fault", fault, "--fault-after", "4", "--fault-once", str(tmp_path / "failed"))
    await worker.start({"num_agents": 2.0})
    batches = await worker.reset({"num_agents": 3.0})
    assert worker.engine is not None
    if fault == "stall":  # engines may take their time to connect
        worker.engine._options = replace(worker.engine._options, timeout_s=0.6)
    batches, error = await play(worker, batches, 30)
    assert isinstance(error, kind)
    assert worker.engine.process is not None
    first = worker.engine.process.pid
    batches = await worker.recover(error)
    assert len(batches[0]) == 3, "as the last reset said"
    assert worker.engine.process.pid != first
    _, error = await play(worker, batches, 20)
    assert error is None
    assert worker.restarts == 1
    (event,) = workers.events
    assert event.startswith(sentence) or sentence in event
    assert event.endswith("; starting it again in 0.01 s (restart 1)")


def fails_after(exchanges: int) -> Hook:
    """An engine ends once it has had so many exchanges."""

    async def fail(engine: SceneEngine) -> None:
        if engine.exchanges > exchanges:
            raise EngineExitedError(f"engine {engine.index} ended")

    return fail


async def failed(
    stage: Stage, folder: Path, exchanges: int, told: Sentences, **overrides: Any
) -> tuple[EngineWorker, EngineError]:
    """A worker whose engine has ended in this way."""
    stage.before_step = fails_after(exchanges)
    source = source_of(folder, **{"env_settings__restarts_rate_limit_n": -1} | overrides)
    worker = source.make(0, lambda stat: None, told)
    assert isinstance(worker, EngineWorker)
    _, error = await play(worker, await worker.start({}), 20)
    assert error is not None
    return worker, error


async def test_a_build_that_has_played_anywhere_is_started_again(stage: Stage, tmp_path: Path) -> None:
    """One of its engines dies in the handshake, and one before its second step: the build works all the same."""
    failed: list[int] = []

    async def dies_early(engine: SceneEngine) -> None:
        if engine.index and engine.index not in failed:
            failed.append(engine.index)
            raise EngineDisconnectedError(f"engine {engine.index} closed the connection")

    stage.before_start = dies_early
    source, told = source_of(tmp_path, 3), Sentences()
    workers = [source.make(index, lambda stat: None, told) for index in range(3)]
    batches = await workers[0].start({})
    with pytest.raises(EngineDisconnectedError) as in_handshake:
        await workers[1].start({})
    with pytest.raises(EngineDisconnectedError):  # nobody knows yet whether this build works
        await workers[1].recover(in_handshake.value)
    await play(workers[0], batches, 1)
    assert await workers[1].recover(in_handshake.value)
    stage.before_start, stage.before_step = nothing, dies_early
    _, error = await play(workers[2], await workers[2].start({}), 10)
    assert isinstance(error, EngineDisconnectedError)
    _, error = await play(workers[2], await workers[2].recover(error), 10)
    assert error is None
    assert [worker.restarts for worker in workers] == [0, 1, 1]
    with pytest.raises(PortInUseError):
        await workers[1].recover(PortInUseError("port 5006 is taken"))
    assert told == [
        f"engine {index} closed the connection; starting it again in 0.001 s (restart 1)" for index in (1, 2)
    ]


# --- what engines are started and told --------------------------------------------------------------------------------


TLS: dict[str, Any] = {
    "collection__tls_cert": str(PEM / "certificate.pem"),
    "collection__tls_key": str(PEM / "key.pem"),
}


def source_of(tmp_path: Path, count: int = 1, args: tuple[str, ...] = (), **overrides: Any) -> EngineSource:
    """The engines of a run of ``headless:basic``; keys with __ in place of dots."""
    chosen = {"env_settings__env_path": "headless:basic", "env_settings__seed": 7} | overrides
    settings = load_settings(None, {key.replace("__", "."): value for key, value in chosen.items()})
    return EngineSource(settings, count, tmp_path / "run_logs", args)


def test_engines_have_ports_of_their_own_and_the_users_arguments_last(stage: Stage, tmp_path: Path) -> None:
    source = source_of(tmp_path, 3, ("--agents", "2"), env_settings__env_args=["--step-ms", "1"])
    engines = launched(stage, source, 3)
    assert len({engine.port for engine in engines}) == 3
    assert min(engine.port for engine in engines) >= BASE_PORT
    assert [engine.launch.env_args for engine in engines] == [("--agents", "2", "--step-ms", "1")] * 3
    assert {engine.launch.log_folder for engine in engines} == {tmp_path / "run_logs"}
    assert source.invitation is None
    assert source.warnings == ()


def test_no_graphics_monitor_shows_the_first(stage: Stage, tmp_path: Path) -> None:
    engines = launched(stage, source_of(tmp_path, 2, engine_settings__no_graphics_monitor=True), 2)
    assert [engine.launch.hidden(i) for i, engine in enumerate(engines)] == [False, True]


def test_engine_options(stage: Stage, tmp_path: Path) -> None:
    images: dict[str, Any] = {"collection__image_order": "declared", "collection__flat_sensors": ["heat"]}
    wishes: dict[str, Any] = {
        "env_settings__timeout_wait": 7,
        "env_settings__num_areas": 3,
        "engine_settings__time_scale": 3,
    }
    source = source_of(tmp_path, **images, **wishes)
    (engine,) = launched(stage, source, 1)
    assert (engine.options.image_order, engine.options.flat_sensors) == ("declared", ("heat",))
    assert (engine.options.seed, engine.options.timeout_s, engine.options.num_areas) == (7, 7.0, 3)
    assert engine.options.configuration.time_scale == 3.0
    assert engine.options.trainer is not None
    assert engine.options.trainer.num_envs == 1


def test_where_and_how_engines_are_listened_for(stage: Stage, tmp_path: Path) -> None:
    (here,) = launched(stage, source_of(tmp_path), 1)
    assert (here.options.listen, here.options.tls) == (None, None)
    (there,) = launched(stage, source_of(tmp_path, collection__listen="0.0.0.0", **TLS), 1)
    assert there.options.listen == "0.0.0.0"
    assert there.options.tls is not None
    assert there.options.tls.certificate == (PEM / "certificate.pem").read_bytes()
    with pytest.raises(SettingsError, match=r"--tls-key .* cannot be read"):
        source_of(tmp_path, collection__listen="::1", **TLS | {"collection__tls_key": str(tmp_path / "k.pem")})
    plain = "without encryption or password: anyone who can reach it can act as an engine"
    encrypted = "with TLS but without client authentication: anyone who can reach it can still act"
    for tls, sentence in (({}, plain), (TLS, encrypted)):
        (warning,) = source_of(tmp_path, collection__listen="127.0.0.1", **tls).warnings
        assert warning.startswith(f"listening on 127.0.0.1, {sentence}")
        assert "omit --listen" in warning


@pytest.mark.parametrize("path", ["editor", None])
def test_the_editor_is_one_and_invited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None) -> None:
    with pytest.raises(SettingsError, match="only one editor; to use 2 engines, name a build"):
        source_of(tmp_path, 2, env_settings__env_path=path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(module, "EDITOR_PORT", port)
        with pytest.raises(PortInUseError, match=f"port {port}, where the editor connects, is taken"):
            source_of(tmp_path, env_settings__env_path=path)
    source = source_of(tmp_path, env_settings__env_path=path)
    assert source.invitation == f"waiting for the editor on port {port}: press Play in the editor"
    assert source.warnings == ()
    assert source_of(tmp_path, env_settings__env_path=path, env_settings__base_port=port).warnings == ()
    said = f"--base-port 6000 has no effect: the editor always connects to port {port}"
    assert source_of(tmp_path, env_settings__env_path=path, env_settings__base_port=6000).warnings == (said,)


@pytest.mark.parametrize("named", [True, False])
def test_a_port_that_the_user_names_is_that_one_or_none(stage: Stage, tmp_path: Path, named: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=str(port)):
            source_of(tmp_path, env_settings__base_port=port)
    tried: list[int] = []

    async def taken(engine: SceneEngine) -> None:
        tried.append(engine.port)
        raise PortInUseError(f"port {engine.port} is taken")

    source = source_of(tmp_path, **{"env_settings__base_port": port} if named else {})
    stage.before_start = taken
    with pytest.raises(PortInUseError):
        asyncio.run(source.make(0, lambda stat: None, Sentences()).start({}))
    assert tried == [port] if named else tried[1:] == [0], "another free one will do only where none was named"


@pytest.mark.parametrize("error", [EngineExitedError("engine 0 ended"), asyncio.CancelledError()])
def test_an_engine_that_does_not_begin_is_ended(stage: Stage, tmp_path: Path, error: BaseException) -> None:
    async def fail(engine: SceneEngine) -> None:
        assert stage.live == {0}
        raise error

    stage.before_reset = fail
    with pytest.raises(type(error)):
        asyncio.run(source_of(tmp_path).make(0, lambda stat: None, Sentences()).start({}))
    assert stage.ends == [(0, "killed")]


async def test_what_has_changed_is_told_and_all_of_it_to_a_replacement(stage: Stage, tmp_path: Path) -> None:
    worker = source_of(tmp_path).make(0, lambda stat: None, Sentences())
    batches = await worker.start({"gravity": 5.0, "scale": 1.0})
    for scale in (1.0, 2.0, 2.0):
        worker.tell({"gravity": 5.0, "scale": scale})
    await play(worker, batches, 3)
    await worker.recover(EngineExitedError("engine 0 ended"))
    told = [values for _, values in stage.told if values]
    assert told == [{"gravity": 5.0, "scale": 1.0}, {"scale": 2.0}, {"gravity": 5.0, "scale": 2.0}]
    assert stage.ends == [(0, "killed")], "the engine that was replaced"


async def test_what_a_package_cannot_do_is_told_once(stage: Stage, tmp_path: Path) -> None:
    """At once, and in the middle of a game, where a behavior with images may appear."""

    async def old(engine: SceneEngine) -> None:
        engine.notes.append("package 1.0.8 speaks API 1.0.0")

    async def meet(engine: SceneEngine) -> None:
        if engine.exchanges == 2:
            engine.notes.append("a package sends uncompressed images")

    stage.before_start, stage.before_step = old, meet
    source, told = source_of(tmp_path, 2), Sentences()
    for index in (0, 1):
        worker = source.make(index, lambda stat: None, told)
        await play(worker, await worker.start({}), 3)
        await play(worker, await worker.recover(EngineExitedError("engine 0 ended")), 3)
    said = ["package 1.0.8 speaks API 1.0.0", "a package sends uncompressed images"]
    assert [sentence for sentence in told if "package" in sentence] == said


async def test_the_budget_is_that_of_the_settings_and_every_restart_is_told(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Sentences()
    worker, error = await failed(stage, tmp_path, 2, told, env_settings__max_lifetime_restarts=3)
    for restart in (1, 2, 3):
        if restart == 3:
            monkeypatch.setattr(RestartBudget, "PROOF_STEPS", 2)
        _, again = await play(worker, await worker.recover(error), 10)
        assert isinstance(again, EngineExitedError)
        assert worker.restarts == restart
    with pytest.raises(EngineExitedError, match=r"restarted 3 times, the most that max_lifetime_restarts allows\)"):
        await worker.recover(error)
    waits = ("0.001", "0.002", "0.001")  # the last time, the engine before had proved itself
    assert [line.partition(" again in ")[2] for line in told] == [
        f"{wait} s (restart {restart})" for restart, wait in enumerate(waits, 1)
    ]


def _editor_worker(events: Sentences, timeout_s: float = HANG_S) -> EngineWorker:
    return EngineWorker(
        0,
        free_port(),
        None,
        EngineOptions(timeout_s=timeout_s),
        RestartBudget(0, 0, 60.0, events),
    )


async def _press_play(port: int) -> asyncio.subprocess.Process:
    """The headless engine, started by nobody of ours."""
    flags = ("--scene", "balance", "--agents", str(AGENTS), "--mlagents-port", str(port))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tau_trainer.headless", *flags, stderr=asyncio.subprocess.DEVNULL
    )


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be asked to end there")
@pytest.mark.parametrize(
    ("end", "said"),
    [
        (signal.SIGTERM, "the Unity editor stopped the game"),
        (signal.SIGKILL, "the Unity editor closed the connection (crashed or was killed?)"),
    ],
    ids=["Stop", "crash"],
)
async def test_play_pressed_again_goes_on(end: signal.Signals, said: str) -> None:
    """However late, whatever the budget for engines that we start ourselves."""
    events = Sentences()
    worker = _editor_worker(events)
    games = [await _press_play(worker._port)]
    batches = await worker.start({})
    worker._options = replace(worker._options, timeout_s=0.1)
    batches, error = await play(worker, batches, 5)
    assert error is None
    games[-1].send_signal(end)
    _, error = await play(worker, batches, 100_000)
    assert isinstance(error, EngineStoppedError)
    recovering = asyncio.create_task(worker.recover(error))
    await asyncio.sleep(0.5)  # the clock is looked at four times a second
    assert worker.waits_for == "engine 0 to connect"
    worker._options = replace(worker._options, timeout_s=HANG_S)
    games.append(await _press_play(worker._port))
    batches = await recovering
    assert len(batches[0]) == AGENTS
    assert await games[-2].wait() == (0 if end == signal.SIGTERM else -end), "it heard our goodbye"
    assert worker.restarts == 1
    await worker.close()
    assert await games[-1].wait() == 0
    assert events == [f"{said}; press Play to continue the run, or Ctrl-C to end it"]


async def test_stop_is_answered_before_the_next_play_is_waited_for() -> None:
    """The editor says goodbye with a call, and hangs until it has its answer."""
    spec = simple_spec(ActionSpec(1), (2,))
    one = engine_message([(spec, [Agent(4, (np.ones(2, np.float32),))])])
    worker = _editor_worker(Sentences())
    with client(worker._port) as editor:
        starting = asyncio.create_task(worker.start({}))
        await asyncio.sleep(0.05)
        await editor.call(encode_engine_message(initialization=EngineInitialization()))
        second = editor.call(encode_engine_message())
        await second
        asked = editor.call(one)
        batches = await starting
        worker.answer(zeros(worker, batches))
        await asked
        stop = editor.call(encode_close())
        with pytest.raises(EngineStoppedError) as error:
            await worker.next()
        waiting = asyncio.create_task(worker.recover(error.value))
        assert decode_trainer_message(await asyncio.wait_for(stop, HANG_S), {}).status == 400
        waiting.cancel()
        await asyncio.wait([waiting])
    await worker.kill()


async def test_who_joins_and_cannot_play_is_told_of_and_the_next_may_join() -> None:
    """Whoever comes is no engine of ours: nothing it does ends the run, or costs a restart."""
    spec, events, port = simple_spec(ActionSpec(1), (2,)), Sentences(), free_port()
    asking = engine_message([(spec, [Agent(4, (np.ones(2, np.float32),))])])
    options = EngineOptions(timeout_s=0.2, attached=True)
    worker = EngineWorker(3, port, None, options, RestartBudget(0, 0, 60.0, events))
    starting = asyncio.create_task(worker.start({}))
    await asyncio.sleep(0.6)  # longer than an engine of ours may take
    assert worker.waits_for == f"an engine to join on port {port}"
    assert worker.absent == f"no engine has joined on port {port}"
    with client(port) as old:
        hello = EngineInitialization(communication_version="0.15.0")
        with contextlib.suppress(Exception):
            await old.call(encode_engine_message(initialization=hello))
    worker._options = replace(options, timeout_s=HANG_S)
    await asyncio.sleep(0.5)
    with client(port) as game:
        await game.call(encode_engine_message(initialization=EngineInitialization()))
        second = game.call(encode_engine_message())
        await second
        asked = game.call(asking)
        batches = await starting
        assert worker.restarts == 0
        worker.answer(zeros(worker, batches))
        await asked
    await worker.kill()
    (said,) = events
    assert "uses communicator API 0.15.0" in said
    assert said.endswith(f"; another may join on port {port}")


def test_engines_that_join_are_invited(tmp_path: Path) -> None:
    port = free_port(2)
    source = source_of(tmp_path, 2, env_settings__env_path="attach:2", env_settings__base_port=port)
    where = f"ports {port} to {port + 1}"
    flag = "--mlagents-port PORT (Unreal: -mlAgentPort=PORT)"
    assert source.invitation == f"waiting for engines to join on {where}: start one a port, with {flag}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} is taken by another program"):
            source_of(tmp_path, env_settings__env_path="attach", env_settings__base_port=port)


async def test_an_editor_that_is_still_there_is_not_waited_for() -> None:
    worker = _editor_worker(Sentences(), timeout_s=0.3)
    with pytest.raises(DecodeError, match="nonsense"):  # nobody need press anything
        await worker.recover(DecodeError("nonsense"))


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be asked to end there")
async def test_a_build_that_may_leave_has_ended_well(workers: Workers) -> None:
    worker = workers(may_leave=True)
    batches, _ = await play(worker, await worker.start({}), 3)
    assert worker.engine is not None
    process = worker.engine.process
    assert process is not None
    os.kill(process.pid, signal.SIGTERM)
    _, error = await play(worker, batches, 100_000)
    assert isinstance(error, EngineStoppedError)
    assert str(error) == "engine 0 has left the game"
    with pytest.raises(EngineStoppedError):
        await worker.recover(error)
    assert worker.restarts == 0
    assert process.returncode == 0
    await worker.close()


def test_games_of_godot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by env_path: their flags, their editor's port, and how they join."""
    port = free_port()
    monkeypatch.setattr(module, "GODOT_PORT", port)
    told: dict[str, Any] = {
        "engine_settings__time_scale": 4.0,
        "collection__action_repeat": 3,
        "collection__truncate_after": 9,
    }
    source = source_of(tmp_path, env_settings__env_path="godot:headless:basic", **told)
    worker = source.make(0, lambda stat: None, Sentences())
    assert worker._options.godot == Godot(7, 4.0, 3, 9)
    assert worker._launch is not None
    assert worker._launch.dialect is worker._options.godot
    source = source_of(tmp_path, env_settings__env_path="godot")
    assert source.invitation == f"waiting for the editor on port {port}: press Play in the editor"
    port = free_port(1)
    source = source_of(tmp_path, env_settings__env_path="godot:attach", env_settings__base_port=port)
    assert source.invitation == (f"waiting for engines to join on port {port}: start one a port, with --port=PORT")
    with pytest.raises(SettingsError, match=r"leave --listen \(collection\.listen\) out"):
        source_of(tmp_path, env_settings__env_path="godot:headless:basic", collection__listen="127.0.0.1")
