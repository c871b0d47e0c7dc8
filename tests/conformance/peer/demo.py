"""Runs inside the environment of mlagents: reads a demonstration, and writes one.

The only argument is a JSON object: `read` (a file of ours) and `write` (where to put one). Prints what was read.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from mlagents.trainers.buffer import BufferKey
from mlagents.trainers.demo_loader import demo_to_buffer, load_demonstration, write_demo
from mlagents.trainers.trajectory import ObsUtil
from mlagents_envs.communicator_objects.agent_info_action_pair_pb2 import AgentInfoActionPairProto
from mlagents_envs.communicator_objects.brain_parameters_pb2 import BrainParametersProto
from mlagents_envs.communicator_objects.demonstration_meta_pb2 import DemonstrationMetaProto


def read(path: str) -> dict[str, Any]:
    spec, pairs, count = load_demonstration(path)
    _, buffer = demo_to_buffer(path, 1, spec)
    with open(path, "rb") as file:
        data = file.read()
    meta = DemonstrationMetaProto()
    meta.ParseFromString(data[1 : 1 + data[0]])
    sensors = range(len(spec.observation_specs))
    return {
        "meta": [meta.api_version, meta.demonstration_name, meta.number_steps, meta.number_episodes, meta.mean_reward],
        "count": [count, len(pairs)],
        "sensors": [[one.name, list(one.shape)] for one in spec.observation_specs],
        "actions": [spec.action_spec.continuous_size, list(spec.action_spec.discrete_branches)],
        "obs": [np.asarray(buffer[ObsUtil.get_name_at(i)], np.float64).ravel().tolist() for i in sensors],
        "reward": np.asarray(buffer[BufferKey.ENVIRONMENT_REWARDS], np.float64).tolist(),
        "done": np.asarray(buffer[BufferKey.DONE], np.float64).tolist(),
        "continuous": np.asarray(buffer[BufferKey.CONTINUOUS_ACTION], np.float64).tolist(),
        "discrete": np.asarray(buffer[BufferKey.DISCRETE_ACTION], np.float64).tolist(),
    }


def write(path: str) -> None:
    """Two episodes of three records; the answer to an observation stands in the record after, as Unity writes it."""
    brain = BrainParametersProto(brain_name="Theirs?team=0")
    brain.action_spec.num_continuous_actions = 2
    brain.action_spec.num_discrete_actions = 1
    brain.action_spec.discrete_branch_sizes.extend([3])
    pairs = []
    for record in range(6):
        step = record % 3
        pair = AgentInfoActionPairProto()
        info = pair.agent_info
        info.reward, info.done, info.max_step_reached, info.id = record / 4, step == 2, record == 5, 7
        info.action_mask.extend([False, step == 1, False])
        vector, image = info.observations.add(), info.observations.add()
        vector.name, image.name = "a", "b"
        vector.shape.append(2)
        vector.float_data.data.extend([record, -record])
        image.shape.extend([2, 2])
        image.float_data.data.extend([0.5 * record] * 4)
        pair.action_info.continuous_actions.extend([step / 4, -step / 4])
        pair.action_info.discrete_actions.append(step)
        pairs.append(pair)
    meta = DemonstrationMetaProto(api_version=1, demonstration_name="theirs", number_steps=6, number_episodes=2)
    write_demo(path, meta, brain, pairs)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    write(request["write"])
    sys.stdout.write(json.dumps(read(request["read"])))
