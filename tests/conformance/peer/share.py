"""Runs inside the environment of mlagents-envs, with this checkout on the path: both packages in one process.

Tells what our codec wrote and mlagents-envs' own classes read, and the other way round.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import google.protobuf
import grpc
import numpy as np
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.communicator_objects.unity_input_pb2 import UnityInputProto
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.rpc_utils import behavior_spec_from_proto, steps_from_proto

from tau_trainer.bridge.codec import EngineInitialization, TrainerCodec, encode_initialization, parse_engine_message
from tau_trainer.bridge.codec import TrainerInitialization as OurTrainer
from tau_trainer.bridge.engine_codec import decode_trainer_message, encode_engine_message
from tau_trainer.bridge.protocol import Command
from tau_trainer.headless import client as headless_client
from tau_trainer.headless.args import HeadlessOptions
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    StepBatch,
    Terminals,
)

HYBRID = BehaviorSpec(
    "Hybrid?team=1",
    (
        ObservationSpec("a", (3,), (DimensionProperty.NONE,)),
        ObservationSpec("b", (2, 2), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)),
    ),
    ActionSpec(2, (3, 2)),
)


def hybrid_step() -> StepBatch:
    """Three agents that ask, one of them just begun anew, and two that ended, one of them cut; masks and groups too."""
    rng = np.random.default_rng(3)
    mask = np.zeros((3, 5), np.bool_)
    mask[0, 1] = mask[2, 4] = mask[2, 0] = True
    return StepBatch(
        HYBRID.name,
        np.array([4, 7, 9], np.int32),
        (rng.normal(size=(3, 3)).astype(np.float32), rng.normal(size=(3, 2, 2)).astype(np.float32)),
        np.array([0.5, -1.0, 0.0], np.float32),
        np.array([0, 2, 2], np.int32),
        np.array([0.0, 0.25, 0.25], np.float32),
        Terminals(
            np.array([9, 11], np.int32),
            (rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(2, 2, 2)).astype(np.float32)),
            np.array([1.5, -2.0], np.float32),
            np.array([True, False]),
            np.array([2, 0], np.int32),
            np.array([0.125, 0.0], np.float32),
        ),
        mask,
    )


def as_lists(sensors: Any) -> list[Any]:
    """Observations as nested lists."""
    return [np.asarray(sensor).tolist() for sensor in sensors]


def read_by_reference(data: bytes) -> dict[str, Any]:
    """Our engine's message through the reference's own reader."""
    message = UnityMessageProto.FromString(data)
    output = message.unity_output.rl_output
    infos = output.agentInfos[HYBRID.name].value
    brain = message.unity_output.rl_initialization_output.brain_parameters[0]
    spec = behavior_spec_from_proto(brain, infos[0])
    decisions, terminals = steps_from_proto(list(infos), spec)
    return {
        "status": message.header.status,
        "side_channel": output.side_channel.hex(),
        "name": brain.brain_name,
        "actions": [spec.action_spec.continuous_size, list(spec.action_spec.discrete_branches)],
        "sensors": [[sensor.name, list(sensor.shape)] for sensor in spec.observation_specs],
        "ids": decisions.agent_id.tolist(),
        "rewards": decisions.reward.tolist(),
        "groups": [int(group) for group in decisions.group_id],
        "group_rewards": [float(reward) for reward in decisions.group_reward],
        "obs": as_lists(decisions.obs),
        "masks": [branch.tolist() for branch in decisions.action_mask],
        "ended": terminals.agent_id.tolist(),
        "ended_rewards": terminals.reward.tolist(),
        "ended_obs": as_lists(terminals.obs),
        "interrupted": terminals.interrupted.tolist(),
    }


def read_by_us(data: bytes) -> dict[str, Any]:
    """The same bytes, written again by the reference's classes, through our decoder."""
    again = UnityMessageProto.FromString(data).SerializeToString()
    codec = TrainerCodec()
    (step,) = codec.steps(parse_engine_message(again))
    assert step.action_mask is not None
    return {
        "ids": step.agent_ids.tolist(),
        "rewards": step.reward.tolist(),
        "groups": step.group_id.tolist(),
        "group_rewards": step.group_reward.tolist(),
        "obs": as_lists(step.obs),
        "mask": step.action_mask.tolist(),
        "ended": step.terminals.agent_ids.tolist(),
        "ended_rewards": step.terminals.reward.tolist(),
        "ended_obs": as_lists(step.terminals.obs),
        "interrupted": step.terminals.truncated.tolist(),
    }


def actions_both_ways() -> dict[str, Any]:
    """Actions: the reference's writer to our reader, and our writer to the reference's classes."""
    continuous = np.array([[0.5, -1.0], [0.0, 3.0], [0.25, 0.125]], np.float32)
    discrete = np.array([[2, 1], [0, 0], [1, 1]], np.int32)
    environment = UnityEnvironment.__new__(UnityEnvironment)  # its message writer needs no engine
    environment._env_state = {HYBRID.name: (range(3), ())}
    environment._side_channel_manager = type("Channels", (), {"generate_side_channel_messages": lambda self: b"abc"})()
    reference = UnityMessageProto()
    reference.header.status = 200
    reference.unity_input.CopyFrom(environment._generate_step_input({HYBRID.name: ActionTuple(continuous, discrete)}))
    ours = decode_trainer_message(reference.SerializeToString(), {HYBRID.name: HYBRID})
    codec = TrainerCodec()
    codec.steps(parse_engine_message(announced()))
    theirs = UnityMessageProto.FromString(
        codec.reply(Command.STEP, {HYBRID.name: Actions(continuous, discrete)}, b"xyz")
    )
    read = theirs.unity_input.rl_input.agent_actions[HYBRID.name].value
    return {
        "sent": [continuous.tolist(), discrete.tolist()],
        "read_by_us": [ours.actions[HYBRID.name].continuous.tolist(), ours.actions[HYBRID.name].discrete.tolist()],
        "our_side_channel": ours.side_channel.decode(),
        "read_by_reference": [
            [list(action.continuous_actions) for action in read],
            [list(action.discrete_actions) for action in read],
        ],
        "their_side_channel": theirs.unity_input.rl_input.side_channel.decode(),
    }


def announced() -> bytes:
    """The hybrid behavior's first step message."""
    return encode_engine_message(
        specs=(HYBRID,), steps=(hybrid_step(),), side_channel=b"\x01\x02", observation_specs={HYBRID.name: HYBRID}
    )


def initializations() -> dict[str, Any]:
    """Both first words, each through the other side's reader."""
    engine = UnityMessageProto.FromString(encode_engine_message(initialization=EngineInitialization()))
    trainer = UnityMessageProto.FromString(encode_initialization(OurTrainer(seed=42, num_areas=3)))
    init = engine.unity_output.rl_initialization_output
    assert isinstance(trainer.unity_input, UnityInputProto)
    ours = decode_trainer_message(trainer.SerializeToString(), {}).initialization
    assert ours is not None
    return {
        "engine": [init.name, init.communication_version, init.capabilities.multiAgentGroups],
        "trainer": asdict(ours),
        "seed": trainer.unity_input.rl_initialization_input.seed,
    }


def scene_runs() -> list[float]:
    """The headless engine's scene in this process: the rewards of some steps."""
    scene = create_scene(HeadlessOptions(scene="balance", agents=2), EnvironmentParameters(), seed=5)
    (spec,) = scene.specs
    scene.reset(EnvironmentParameters())
    return [float(scene.step({spec.name: Actions.zeros(spec.actions, 2)})[0].reward.sum()) for _ in range(5)]


def main(_: None) -> dict[str, Any]:
    """Everything this script finds out."""
    data = announced()
    return {
        "protobuf": google.protobuf.__version__,
        "grpc": grpc.__version__,
        "numpy": np.__version__,
        "client": headless_client.__name__,
        "loaded": sorted(name for name in ("torch", "pydantic", "onnx", "rich") if name in sys.modules),
        "by_reference": read_by_reference(data),
        "by_us": read_by_us(data),
        "actions": actions_both_ways(),
        "initializations": initializations(),
        "scene": scene_runs(),
    }
