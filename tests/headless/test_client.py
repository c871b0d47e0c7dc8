"""The engine on the wire, against a trainer that plays by the test's script."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tau_trainer.bridge.codec import (
    Capabilities,
    EngineMessage,
    TrainerCodec,
    TrainerInitialization,
    encode_close,
    encode_initialization,
    encode_reply,
    parse_engine_message,
)
from tau_trainer.bridge.protocol import UNREAL_WIRE, Command
from tau_trainer.bridge.side_channels import (
    ENGINE_CONFIGURATION,
    ENVIRONMENT_PARAMETERS,
    STATS,
    Sampler,
    SamplerKind,
    Stat,
    engine_configuration_payloads,
    environment_parameter_payload,
    joined,
    parse_stat,
    unpack_payloads,
)
from tau_trainer.headless.args import parse_args
from tau_trainer.headless.client import HeadlessEngine
from tau_trainer.settings import EngineSettings
from tau_trainer.specs import (
    Actions,
    Aggregation,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.headless.conftest import EngineStarter, FakeTrainer


def parameters(**values: float | Sampler) -> bytes:
    return joined((ENVIRONMENT_PARAMETERS, environment_parameter_payload(key, value)) for key, value in values.items())


def tilt(n: int, value: float = 0.0) -> dict[str, Actions]:
    return {"3DBall?team=0": Actions(np.full((n, 2), value, np.float32), np.zeros((n, 0), np.int32))}


def move(n: int, action: int) -> dict[str, Actions]:
    return {"Basic?team=0": Actions(np.zeros((n, 0), np.float32), np.full((n, 1), action, np.int32))}


def test_handshake_and_steps_are_those_of_a_unity_build(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "balance")
    first = trainer.receive()
    assert first.status == 200
    assert first.initialization is not None
    assert first.initialization.name == "AcademySingleton"
    assert first.initialization.communication_version == "1.5.0"
    assert first.initialization.capabilities.multi_agent_groups
    assert first.action_specs == {}
    assert first.agent_lists == {}
    trainer.send(encode_initialization(TrainerInitialization(seed=1)))
    assert trainer.raw() == bytes.fromhex("0a0308c801")  # header only
    trainer.reset()
    message, batch = trainer.steps()
    assert list(message.action_specs) == ["3DBall?team=0"]
    assert message.initialization is None
    assert batch.agent_ids.tolist() == list(range(12))
    assert np.all(batch.reward == 0.0)
    assert len(batch.terminals) == 0
    trainer.act(tilt(12))
    message, batch = trainer.steps()
    assert message.action_specs == {}  # described once only
    np.testing.assert_allclose(batch.reward, 0.1)


@pytest.mark.parametrize("concatenates", [False, True])
def test_images_travel_as_the_trainer_said_that_it_can_read_them(
    trainer: FakeTrainer, start: EngineStarter, concatenates: bool
) -> None:
    start("--scene", "foodcollector")
    trainer.receive()
    trainer.send(encode_initialization(TrainerInitialization(capabilities=Capabilities(concatenated_png=concatenates))))
    trainer.raw()
    trainer.reset()
    _, batch = trainer.steps()
    assert batch.obs[0].dtype == (np.uint8 if concatenates else np.float32)
    assert batch.obs[0].max() == (255 if concatenates else 1.0)


def test_an_episodes_end_and_the_next_ones_begin_come_together_and_are_counted(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path
) -> None:
    report = tmp_path / "counts.jsonl"
    engine = start("--scene", "basic", "--agents", "4", "--report-file", str(report))
    trainer.handshake()
    for step in range(6):
        _, batch = trainer.steps()
        trainer.act(move(4, 1))
        if step == 3:
            assert batch.terminals.agent_ids.tolist() == [0, 1, 2, 3]
            assert not batch.terminals.truncated.any()
            np.testing.assert_allclose(batch.terminals.reward, 0.09)
            assert batch.agent_ids.tolist() == [0, 1, 2, 3]
            assert np.all(batch.reward == 0.0)
    trainer.steps()
    trainer.close()
    assert engine.finish() == 0
    last = json.loads(report.read_text("utf-8").splitlines()[-1])
    assert (last["exchanges"], last["decisions"], last["episodes"]) == (6, 24, 8)
    assert last["mean_return"] == pytest.approx(0.07)


def test_behaviors_are_described_with_their_first_agent_and_agents_move_between_them(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path
) -> None:
    report = tmp_path / "counts.jsonl"
    flags = ("--agents", "1", "--max-decisions", "2", "--report-file", str(report), "--report-episodes")
    engine = start("--scene", "walljump", *flags)
    trainer.handshake(seed=1)
    described: list[str] = []
    played: list[str] = []
    for _ in range(40):
        message = trainer.receive()
        described += message.action_specs
        assert set(message.agent_lists) == set(described)  # once described, a behavior is there, if only empty
        batches = [batch for batch in trainer.codec.steps(message) if len(batch) or len(batch.terminals)]
        assert set(message.action_specs) <= {batch.behavior for batch in batches}
        ended = [batch.behavior for batch in batches if len(batch.terminals)]
        assert ended in ([], played[-1:])
        (asking,) = (batch for batch in batches if len(batch))
        played.append(asking.behavior)
        actions = np.array([[1, 0, 0, 0]], np.int32)
        trainer.act({asking.behavior: Actions(np.zeros((1, 0), np.float32), actions)})
    trainer.raw()
    trainer.close()
    assert engine.finish() == 0
    assert set(described) == set(played) == {"SmallWallJump?team=0", "BigWallJump?team=0"}
    assert len(described) == 2
    last = json.loads(report.read_text("utf-8").splitlines()[-1])
    assert (last["exchanges"], last["decisions"], last["episodes"]) == (40, 40, 20)
    assert last["mean_return"] == pytest.approx(-0.005)
    episodes = [json.loads(line) for line in report.with_name("counts.jsonl.episodes").read_text("utf-8").splitlines()]
    assert [episode["behavior"] for episode in episodes] == played[:40:2]


def test_too_many_actions_of_one_behavior_are_told(trainer: FakeTrainer, start: EngineStarter, tmp_path: Path) -> None:
    log = tmp_path / "log"
    engine = start("--scene", "walljump", "--agents", "9", "-logFile", str(log))
    trainer.handshake(seed=1)
    small = next(batch for batch in trainer.codec.steps(trainer.receive()) if batch.behavior.startswith("Small"))
    n = len(small) + 1
    trainer.act({small.behavior: Actions(np.zeros((n, 0), np.float32), np.zeros((n, 4), np.int32))})
    assert engine.finish() == 2
    assert f"{n} actions of behavior `SmallWallJump?team=0` for the {n - 1} agents" in log.read_text("utf-8")


def test_missing_actions_are_zeros_and_a_reset_begins_anew_without_terminals_and_keeps_ids(
    trainer: FakeTrainer, start: EngineStarter
) -> None:
    start("--scene", "basic", "--agents", "3")
    trainer.handshake()
    _, first = trainer.steps()
    trainer.send(encode_reply(Command.STEP))
    _, second = trainer.steps()
    np.testing.assert_array_equal(first.obs[0], second.obs[0])
    np.testing.assert_allclose(second.reward, -0.01)
    trainer.act(move(3, 2))
    trainer.steps()
    trainer.reset()
    message, batch = trainer.steps()
    assert message.action_specs == {}
    assert len(batch.terminals) == 0
    assert batch.agent_ids.tolist() == [0, 1, 2]
    assert np.all(batch.reward == 0.0)
    assert np.all(batch.obs[0][:, 10] == 1.0)


def test_the_trainers_seed_makes_the_run_and_the_flag_wins(trainer: FakeTrainer, start: EngineStarter) -> None:
    seen = []
    for seed, flags in ((5, ()), (5, ()), (6, ()), (6, ("--seed", "5"))):
        engine = start("--scene", "balance", *flags)
        trainer.handshake(seed=seed)
        seen.append(trainer.steps()[1].obs[0])
        trainer.close()
        assert engine.finish() == 0
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
    np.testing.assert_array_equal(seen[0], seen[3])


def test_a_reset_goes_on_unless_the_seed_parameter_is_set(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "balance")
    trainer.handshake(seed=5)
    begin = trainer.steps()[1].obs[0]
    trainer.reset()
    assert not np.array_equal(begin, trainer.steps()[1].obs[0])
    trainer.reset(parameters(seed=5.0))
    np.testing.assert_array_equal(begin, trainer.steps()[1].obs[0])


def test_parameters_of_the_first_reply_shape_the_scene(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "tau")
    trainer.handshake(side_channel=parameters(num_agents=3.0, profile=0.0, target_sensor=1.0), areas=2)
    message, batch = trainer.steps()
    assert message.action_specs["TauAgent?team=0"].continuous_size == 384
    assert batch.agent_ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert [sensor.shape for sensor in batch.obs] == [(6, 384), (6, 384)]


def test_settings_and_unknown_channels_are_taken_calmly(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "Player-0.log"
    engine = start("--scene", "basic", "-logFile", str(log), "-screen-fullscreen", "0")
    stranger = uuid.UUID("12345678-1234-5678-1234-567812345678")
    channel = joined((ENGINE_CONFIGURATION, payload) for payload in engine_configuration_payloads(EngineSettings()))
    trainer.handshake(side_channel=channel + joined([(stranger, b"hello"), (stranger, b"again")]))
    trainer.steps()
    trainer.close()
    assert engine.finish() == 0
    text = log.read_text("utf-8")
    assert text.count(str(stranger)) == 1
    assert "ignored unknown arguments: -screen-fullscreen 0" in text


def test_statistics_arrive_with_the_next_message(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "tau", "--agents", "500")
    trainer.handshake()
    actions = {"TauAgent?team=0": Actions(np.zeros((500, 3), np.float32), np.zeros((500, 0), np.int32))}
    for _ in range(2):
        assert trainer.steps()[0].side_channel == b""
        trainer.act(actions)
    message, _ = trainer.steps()
    messages = unpack_payloads(message.side_channel)
    assert {channel for channel, _ in messages} == {STATS}
    stats = {stat.key: stat.value for stat in (parse_stat(payload) for _, payload in messages)}
    assert stats["Tau/Decisions"] == 1000.0
    assert -3.0 < stats["Averaged Reward"] < 1.0


def test_step_time_is_slept_or_computed(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "basic", "--step-ms", "30")
    trainer.handshake()
    trainer.steps()
    began = time.perf_counter()
    for _ in range(3):
        trainer.act(move(1, 0))
        trainer.steps()
    assert time.perf_counter() - began >= 0.09
    trainer.act(move(1, 0), parameters(step_ms=0.0, spin_ms=Sampler(SamplerKind.UNIFORM, 0, (50.0, 51.0))))
    began = time.perf_counter()
    trainer.steps()
    assert time.perf_counter() - began >= 0.045


@pytest.mark.parametrize("moment", ["first", "second", "step"])
def test_status_400_ends_quietly_at_any_moment(trainer: FakeTrainer, start: EngineStarter, moment: str) -> None:
    start("--scene", "basic")
    if moment == "step":
        trainer.handshake()
    elif moment == "second":
        trainer.receive()
        trainer.send(encode_initialization(TrainerInitialization()))
    trainer.raw()


def test_the_command_quit_ends_the_engine(trainer: FakeTrainer, start: EngineStarter) -> None:
    engine = start("--scene", "basic")
    trainer.handshake()
    trainer.steps()
    trainer.send(encode_reply(Command.QUIT))
    assert engine.finish() == 0


def test_a_trainer_that_dies_ends_the_engine_quietly_with_one_line(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    engine = start("--scene", "basic", "-logFile", str(log))
    trainer.handshake()
    trainer.steps()
    trainer.die()
    assert engine.finish() == 0
    assert "Traceback" not in log.read_text("utf-8")
    assert log.read_text("utf-8").count("the trainer has disconnected") == 1


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (tilt(5), "5 actions of behavior `3DBall.team=0` for the 12 agents"),
        (tilt(12, float("nan")), "NaN as an action.*agent 0"),
    ],
)
def test_actions_that_cannot_be_followed_are_told_in_the_log(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path, actions: dict[str, Actions], message: str
) -> None:
    import re

    log = tmp_path / "log"
    engine = start("--scene", "balance", "-logFile", str(log))
    trainer.handshake()
    trainer.steps()
    trainer.act(actions)
    assert engine.finish() == 2
    assert re.search(message, log.read_text("utf-8"))
    assert "Traceback" not in log.read_text("utf-8")


@pytest.mark.parametrize("version", ["2.0.0", "0.15.0"])
def test_a_trainer_of_another_version_is_refused(
    trainer: FakeTrainer, start: EngineStarter, tmp_path: Path, version: str
) -> None:
    log = tmp_path / "log"
    engine = start("--scene", "basic", "-logFile", str(log))
    trainer.receive()
    trainer.send(encode_initialization(TrainerInitialization(communication_version=version)))
    assert engine.finish() == 2
    assert version in log.read_text("utf-8")
    assert "1.5.0" in log.read_text("utf-8")


def test_minor_version_differences_are_silent(trainer: FakeTrainer, start: EngineStarter) -> None:
    start("--scene", "basic")
    trainer.receive()
    trainer.send(encode_initialization(TrainerInitialization(communication_version="1.0.0")))
    trainer.raw()
    trainer.reset()
    trainer.steps()


class Replies:
    """A trainer's end of the link that gives these answers in order, and keeps what the engine says."""

    def __init__(self, *replies: bytes) -> None:
        self.asked: list[EngineMessage] = []
        self._replies = list(replies)

    def connect(self, request: bytes, seconds: float) -> bytes:
        return self.exchange(request)

    def exchange(self, request: bytes) -> bytes:
        self.asked.append(parse_engine_message(request, UNREAL_WIRE))
        return self._replies.pop(0)


def test_as_a_game_of_unreal_it_obeys_no_command_without_actions_and_has_no_statistics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "tau_trainer.headless.scenes.tau.TauScene.stats", lambda _: [Stat("goals", 1.0, Aggregation.SUM)]
    )
    codec = TrainerCodec(UNREAL_WIRE)
    reset = encode_reply(Command.RESET, wire=UNREAL_WIRE)
    heard = encode_reply(Command.RESET, {"TauAgent?team=0": b""}, wire=UNREAL_WIRE)
    met = encode_initialization(TrainerInitialization(communication_version="1.0.0"), UNREAL_WIRE)
    link: Any = Replies(met, reset, reset, heard, encode_close())
    HeadlessEngine(
        link, parse_args(["--dialect", "unreal", "--scene", "tau", "--agents", "2", "--max-decisions", "1"])
    ).run()
    hello, _, *steps = link.asked
    assert hello.initialization is not None
    assert (hello.initialization.communication_version, hello.initialization.package_version) == ("1.0.0", "1.0.0")
    ended = [len(codec.steps(message)[0].terminals) for message in steps]
    assert ended == [0, 2, 0], "the first reset, a step in place of the second, and the third"
    assert [message.side_channel for message in steps] == [b""] * 3
