"""Runs inside the environment of mlagents-envs, with this checkout on the path: both packages in one process.

With every `mlagents_envs` replaced by `tau_trainer.envs.mlagents` it does the same on our own protobuf.
"""

from __future__ import annotations

import sys
from typing import Any

import google.protobuf
import numpy as np
from mlagents_envs.environment import UnityEnvironment

from tau_trainer.bridge.codec import (
    EngineInitialization,
    TrainerCodec,
    TrainerInitialization,
    encode_initialization,
    parse_engine_message,
)
from tau_trainer.bridge.engine_codec import decode_trainer_message, encode_engine_message
from tau_trainer.bridge.protocol import Command
from tau_trainer.headless import client as headless_client
from tau_trainer.headless.args import HeadlessOptions
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions

LOADED = sorted(name for name in ("torch", "pydantic", "onnx", "rich") if name in sys.modules)


def main(_: None) -> dict[str, Any]:
    """What our codec writes and reads: the first words of both sides, and ten exchanges of a scene."""
    first = encode_engine_message(initialization=EngineInitialization())
    greeting = encode_initialization(TrainerInitialization(seed=42, num_areas=3))
    scene = create_scene(HeadlessOptions(scene="gridworld", agents=3), EnvironmentParameters(), seed=5)
    codec, known = TrainerCodec(), {spec.name: spec for spec in scene.specs}
    written = [first.hex(), greeting.hex()]
    read: list[Any] = [repr(decode_trainer_message(greeting, {}).initialization)]
    batches = scene.reset(EnvironmentParameters())
    for step in range(10):
        data = encode_engine_message(specs=scene.specs, steps=batches, side_channel=b"\x01", observation_specs=known)
        seen = codec.steps(parse_engine_message(data))
        chosen = {one.behavior: Actions.zeros(known[one.behavior].actions, len(one)) for one in seen}
        for one in chosen.values():
            one.discrete[:] = step % 4
        reply = codec.reply(Command.STEP, chosen, b"xyz")
        heard = decode_trainer_message(reply, known)
        written += [data.hex(), reply.hex()]
        read += [shown([*one.obs, one.agent_ids, one.reward, one.action_mask, *one.terminals.obs]) for one in seen]
        read += [shown([one.discrete for one in heard.actions.values()]), heard.side_channel.hex()]
        batches = scene.step(heard.actions)
    return {
        "protobuf": google.protobuf.__version__,
        "environment": UnityEnvironment.__module__,
        "client": headless_client.__name__,
        "loaded": LOADED,
        "written": written,
        "read": read,
    }


def shown(values: Any) -> list[Any]:
    """Arrays as nested lists."""
    return [None if one is None else np.asarray(one).tolist() for one in values]
