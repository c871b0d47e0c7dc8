"""Runs in the incumbent's environment: makes its networks with random weights and writes what they say.

    python networks_mlagents.py CASES.json FOLDER

For each case, `FOLDER/<name>.npz` has weights, observations and answers, and `FOLDER/<name>.onnx` is its export.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from mlagents.torch_utils import torch
from mlagents.trainers.settings import ConditioningType, EncoderType, NetworkSettings
from mlagents.trainers.torch_entities.model_serialization import ModelSerializer
from mlagents.trainers.torch_entities.networks import SimpleActor, ValueNetwork
from mlagents_envs.base_env import ActionSpec, DimensionProperty, ObservationSpec, ObservationType

ROWS = 9


def main(cases: dict[str, Any], folder: Path) -> None:
    """Writes every case."""
    for seed, (name, case) in enumerate(cases.items()):
        torch.manual_seed(seed)
        np.savez(folder / f"{name}.npz", **answers(case, np.random.default_rng(seed), folder / name))


def answers(case: dict[str, Any], rng: np.random.Generator, path: Path) -> dict[str, Any]:
    """Weights, observations and what the networks say, by name."""
    sensors = [
        ObservationSpec(tuple(shape), tuple(map(DimensionProperty, dimensions)), ObservationType(kind), sensor)
        for sensor, shape, dimensions, kind in case["sensors"]
    ]
    actions = ActionSpec(case["continuous"], tuple(case["branches"]))
    settings, squashed = NetworkSettings(**case["network"]), case["squashed"]
    settings.vis_encode_type = EncoderType(settings.vis_encode_type)
    settings.goal_conditioning_type = ConditioningType(settings.goal_conditioning_type)
    values = max(1, sum(case["branches"]))
    networks = {
        "actor": SimpleActor(sensors, settings, actions, conditional_sigma=squashed, tanh_squash=squashed),
        "critic": ValueNetwork(["extrinsic"], sensors, settings),
        "q": ValueNetwork(["extrinsic"], sensors, settings, case["continuous"], values),
    }
    obs = [observe(sensor, rng) for sensor in sensors]
    given = [torch.from_numpy(one.astype(np.float32) / (255 if one.dtype == np.uint8 else 1)) for one in obs]
    chosen = torch.from_numpy(rng.uniform(-1, 1, (ROWS, case["continuous"])).astype(np.float32))
    said: dict[str, Any] = {f"obs_{i}": one for i, one in enumerate(obs)}
    with torch.no_grad():
        for network in networks.values():
            for parameter in network.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * torch.randn_like(parameter))
        statistics(networks, sensors, rng)
        for part, network in networks.items():
            said |= {f"{part}.{key}": value.numpy() for key, value in network.state_dict().items()}
        encoding, _ = networks["actor"].network_body(given)
        said |= {"encoding": encoding.numpy(), "chosen": chosen.numpy()}
        said["values"] = networks["critic"](given)[0]["extrinsic"].numpy()
        # heads drop a dimension of one
        said["qs"] = networks["q"](given, actions=chosen)[0]["extrinsic"].numpy().reshape(ROWS, -1)
    policy = SimpleNamespace(
        actor=networks["actor"],
        behavior_spec=SimpleNamespace(observation_specs=sensors, action_spec=actions),
        export_memory_size=0,
    )
    ModelSerializer(policy).export_policy_model(str(path))
    return said


def observe(sensor: Any, rng: np.random.Generator) -> Any:
    """Bytes for images, with 0 to all entities for lists, Gaussian numbers otherwise."""
    shape = (ROWS, *sensor.shape)
    if len(shape) == 4:
        return rng.integers(0, 256, shape, np.uint8)
    values = rng.normal(size=shape).astype(np.float32)
    if len(shape) == 3:
        values += np.sign(values)  # the incumbent takes what is near zero for absent
        values[np.arange(shape[1]) >= np.arange(ROWS)[:, None] % (shape[1] + 1)] = 0.0
    return values


def statistics(networks: dict[str, Any], sensors: list[Any], rng: np.random.Generator) -> None:
    """The same statistics for all normalisers of a sensor."""
    for i, sensor in enumerate(sensors):
        batch = torch.from_numpy(rng.normal(0.5, 2.0, (20, *sensor.shape)).astype(np.float32))
        for network in networks.values():
            processor = network.network_body.processors[i]
            if getattr(processor, "normalizer", None) is not None:
                processor.update_normalization(batch)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
