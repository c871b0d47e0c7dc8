"""What Unreal's games are told and started with; what their messages mean is compared with the plugin's own numbers."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.bridge.codec import EngineInitialization, TrainerCodec, parse_engine_message
from tau_trainer.bridge.dialect import UNITY, UNREAL, Codec
from tau_trainer.bridge.engine import Engine
from tau_trainer.bridge.engine_codec import MessageReader, decode_trainer_message, encode_engine_message
from tau_trainer.bridge.launcher import EngineOptions, LaunchSpec
from tau_trainer.bridge.protocol import UNREAL_METHOD, UNREAL_WIRE, Command
from tau_trainer.errors import EngineStoppedError, VersionError
from tau_trainer.headless.link import TrainerClient
from tau_trainer.settings import EngineSettings
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tests.bridge import oracle
from tests.bridge.conftest import free_port
from tests.bridge.oracle import Agent, action_message, assert_equal, engine_message, expected
from tests.waiting import HANG_S

NAME = "Ball?team=1"
SPEC = BehaviorSpec(
    NAME,
    (
        ObservationSpec("rays", (3,), (DimensionProperty.NONE,)),
        ObservationSpec("map", (2, 2, 2), (DimensionProperty.NONE,) * 3),
    ),
    ActionSpec(2, (3, 2)),
)
OBS: tuple[Any, ...] = (np.arange(3, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(2, 2, 2))
AGENTS = [
    Agent(700, OBS, reward=-1.5, done=True, interrupted=True),
    Agent(3, OBS, reward=2.5, done=True, group_id=4, group_reward=0.5),
    Agent(700, OBS, reward=0.25, mask=(False, True, True, False, True), group_id=1, group_reward=-2.0),
    Agent(5, OBS, mask=(True, False, False, False, False)),
]


def met(version: str = "1.0.0", options: EngineOptions | None = None, index: int = 0) -> tuple[Any, Codec, Any]:
    """Package notes, codec and the trainer's answer to a game with this version of the protocol."""
    hello = oracle.UNREAL.UnityMessage()
    hello.header.status = 200
    init = hello.unity_output.rl_initialization_output
    init.name, init.communication_version, init.package_version = "AcademySingleton", version, "1.0.0"
    first = UNREAL.parse(hello.SerializeToString())
    package, codec, answer = UNREAL.meet(first, options or EngineOptions(), index)
    assert answer is not None
    return package.notes, codec, oracle.UNREAL.UnityMessage.FromString(answer)


def test_all_fields_of_an_agent_are_read() -> None:
    codec = TrainerCodec(UNREAL_WIRE)
    message = engine_message([(SPEC, AGENTS)], oracle.UNREAL)
    (batch,) = codec.steps(parse_engine_message(message, UNREAL_WIRE))
    assert codec.specs[NAME] == SPEC
    assert_equal(batch, expected(SPEC, AGENTS))


def test_the_headless_engine_writes_all_of_them_too() -> None:
    batch = expected(SPEC, AGENTS)
    data = encode_engine_message(
        specs=[SPEC], steps=[batch], observation_specs={NAME: SPEC}, reader=MessageReader(UNREAL_WIRE)
    )
    sent = oracle.UNREAL.UnityMessage.FromString(data).unity_output
    assert sent.rl_initialization_output.brain_parameters[0].brain_name == NAME
    for agent, info in zip(AGENTS, sent.rl_output.agent_infos[NAME].value, strict=True):
        assert (info.id, info.reward, info.done, info.max_step_reached) == (
            agent.id, agent.reward, agent.done, agent.interrupted,
        )  # fmt: skip
        assert (info.group_id, info.group_reward) == (agent.group_id, agent.group_reward)
        assert tuple(info.action_mask) == (agent.mask or (False,) * 5)
        for sensor, observation, values in zip(SPEC.observations, info.observations, OBS, strict=True):
            assert (observation.name, tuple(observation.shape)) == (sensor.name, sensor.shape)
            assert list(observation.float_data.data) == values.ravel().tolist()


def test_a_picture_of_a_scene_is_sent_as_numbers_and_a_goal_as_a_vector() -> None:
    """The plugin's messages have neither PNG files nor types."""
    goal = ObservationType.GOAL_SIGNAL
    spec = replace(SPEC, observations=(ObservationSpec("eye", (1, 1, 2), (), goal, np.uint8),))
    batch = expected(spec, [Agent(0, (np.array([[[0, 255]]], np.uint8),))])
    data = encode_engine_message(
        specs=[spec], steps=[batch], observation_specs={NAME: spec}, reader=MessageReader(UNREAL_WIRE)
    )
    (info,) = oracle.UNREAL.UnityMessage.FromString(data).unity_output.rl_output.agent_infos[NAME].value
    assert list(info.observations[0].float_data.data) == [0.0, 1.0]


def test_actions_travel_both_ways() -> None:
    actions = [((0.5, -1.0), (2, 0)), ((0.25, 1.0), (0, 1))]
    theirs = decode_trainer_message(action_message(NAME, actions, oracle.UNREAL), {NAME: SPEC}, UNREAL_WIRE)
    assert theirs.actions[NAME].continuous.tolist() == [[0.5, -1.0], [0.25, 1.0]]
    assert theirs.actions[NAME].discrete.tolist() == [[2, 0], [0, 1]]
    _, codec, _ = met()
    codec.steps(UNREAL.parse(engine_message([(SPEC, AGENTS)], oracle.UNREAL)))
    reply = oracle.UNREAL.UnityMessage.FromString(codec.reply(Command.STEP, theirs.actions)).unity_input.rl_input
    assert reply.command == Command.STEP
    sent = [(tuple(a.continuous_actions), tuple(a.discrete_actions)) for a in reply.agent_actions[NAME].value]
    assert sent == actions


def test_a_reset_names_the_behaviors_because_the_plugin_obeys_no_reply_without_actions() -> None:
    _, codec, _ = met()
    first = oracle.UNREAL.UnityMessage.FromString(codec.reply(Command.RESET, {})).unity_input.rl_input
    assert (first.command, dict(first.agent_actions)) == (Command.RESET, {})  # the second call is obeyed in any case
    codec.steps(UNREAL.parse(engine_message([(SPEC, AGENTS)], oracle.UNREAL)))
    later = oracle.UNREAL.UnityMessage.FromString(codec.reply(Command.RESET, {})).unity_input.rl_input
    assert (later.command, list(later.agent_actions)) == (Command.RESET, [NAME])
    assert list(later.agent_actions[NAME].value) == []


@pytest.mark.parametrize("version", ["1.0.0", "1.3.0", "0.1.0"])
def test_a_game_gets_its_seed_and_its_own_version(version: str) -> None:
    notes, _, answer = met(version, EngineOptions(seed=7, num_areas=3), index=2)
    told = answer.unity_input.rl_initialization_input
    assert (answer.header.status, told.seed, told.num_areas) == (200, 9, 3)
    assert (told.communication_version, told.package_version) == (version, "1.0.0")
    assert notes == []


@pytest.mark.parametrize("version", ["2.0.0", "0.2.0", "10.0.0"])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(VersionError, match=rf"its plugin 1\.0\.0 uses communication version {version}, this trainer 1"):
        met(version)


def test_settings_that_cannot_be_sent_are_named() -> None:
    notes, *_ = met(options=EngineOptions(configuration=EngineSettings(time_scale=5.0, width=100, no_graphics=True)))
    assert notes == [
        "engine_settings.width, engine_settings.time_scale: no effect, because an Unreal game receives no settings"
    ]
    assert met(options=EngineOptions(configuration=EngineSettings(time_scale=20.0)))[0] == []


def test_both_dialects_end_with_the_same_bytes() -> None:
    assert oracle.UNREAL.UnityMessage.FromString(UNREAL.farewell()).header.status == 400
    assert UNREAL.farewell() == UNITY.farewell()


@pytest.mark.parametrize("listen", [None, "127.0.0.1"], ids=["native", "grpcio"])
async def test_an_unreal_editor_is_called_so_and_receives_no_parameters(listen: str | None) -> None:
    port = free_port()

    def game() -> None:
        hello = EngineInitialization(communication_version="1.0.0")
        with contextlib.closing(TrainerClient(port, UNREAL_METHOD)) as link:
            link.connect(encode_engine_message(initialization=hello, reader=MessageReader(UNREAL_WIRE)), HANG_S)
            link.exchange(encode_engine_message(reader=MessageReader(UNREAL_WIRE)))
            for _ in range(2):
                link.exchange(engine_message([(SPEC, AGENTS)], oracle.UNREAL))
            link.goodbye()  # Stop in the editor

    engine = Engine(0, port, None, EngineOptions(timeout_s=HANG_S, listen=listen))
    playing = asyncio.create_task(asyncio.to_thread(game))
    try:
        await engine.start()
        for _ in range(2):
            await engine.reset({"gravity": 3.0, "seed": 1.0})
        assert engine.notes == ["gravity, seed: no effect, because Unreal games receive no parameters"]
        with pytest.raises(EngineStoppedError, match=r"^the Unreal editor stopped the game$"):
            await engine.step({NAME: Actions.zeros(SPEC.actions, 2)})
    finally:
        await engine.kill()
        await playing


@pytest.mark.parametrize("hidden", [False, True])
def test_flags_of_an_unreal_build(hidden: bool, tmp_path: Path) -> None:
    """The port is one word: the plugin reads no value after a space."""
    launch = LaunchSpec(("Game",), no_graphics=hidden, env_args=("-benchmark",), dialect=UNREAL)
    picture = ["-nullrhi"] if hidden else []
    assert launch.argv(5009, 4) == ["Game", "-mlAgentPort=5009", "-unattended", *picture, "-benchmark"]
    logged = replace(launch, log_folder=tmp_path).argv(5009, 4)
    assert logged == [*launch.argv(5009, 4)[:-1], "-stdout", "-FullStdOutLogOutput", "-benchmark"]
