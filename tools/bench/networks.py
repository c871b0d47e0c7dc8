"""Our networks beside those of the incumbent, weight for weight: do they say the same, and their exported files too?

    python tools/bench/networks.py [--python 3.10's interpreter] [--cache FOLDER]

The incumbent makes each network with random weights (`networks_mlagents.py`); ours takes the weights over, and both
are asked about the same observations. Prints the largest difference of each case, and leaves with 1 where one is
above 1e-4 or where the files' inputs and outputs differ.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from tau_trainer.export.build import build_model
from tau_trainer.export.session import run_feed, session_of
from tau_trainer.models.blocks import kind_of
from tau_trainer.models.observation_encoder import ObservationEncoder
from tau_trainer.models.soft_actor_critic import SoftActorCritic
from tau_trainer.settings import NetworkSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from tools.bench.versus_mlagents import install
from tools.peers import CACHE

LIMIT = 1e-4
UNITS = 48
NONE, SHIFTED, VARIABLE = (1,), (1, 2, 2), (4, 1)
SENSORS: dict[str, tuple[list[int], tuple[int, ...], int]] = {
    "vector": ([5], NONE, 0),
    "camera": ([3, 40, 44], SHIFTED, 0),
    "grid": ([6, 36, 38], SHIFTED, 0),
    "list": ([6, 4], VARIABLE, 0),
    "others": ([3, 7], VARIABLE, 0),
    "goal": ([3], NONE, 1),
    "target": ([3, 36, 37], SHIFTED, 1),
}
ENCODERS = "simple", "nature_cnn", "resnet", "match3", "fully_connected"
ACTIONS = {"continuous": (2, []), "discrete": (0, [3, 2]), "hybrid": (2, [3, 2])}
Arrays = dict[str, NDArray[Any]]


def make_cases() -> dict[str, Any]:
    """By name: every encoder, block and combination, with all kinds of actions in turn."""
    kinds = itertools.cycle(ACTIONS.items())
    shapes: dict[str, tuple[list[str], dict[str, Any]]] = {
        **{name: (["vector", "camera"], {"vis_encode_type": name}) for name in ENCODERS},
        "two cameras alone": (["grid", "camera"], {}),
        "list": (["vector", "list"], {}),
        "lists alone": (["list", "others"], {}),
        "list and camera": (["camera", "others", "vector", "list"], {}),
        "goal": (["vector", "goal"], {}),
        "goal and camera, one layer": (["camera", "goal"], {"num_layers": 1}),
        "goal, not hyper": (["goal", "vector"], {"goal_conditioning_type": "none"}),
        "everything": (["camera", "goal", "list", "target", "vector", "grid", "others"], {"num_layers": 3}),
    }
    cases = {}
    for squashed, (name, (sensors, network)) in itertools.product((False, True), shapes.items()):
        kind, (continuous, branches) = next(kinds)
        cases[f"{'sac' if squashed else 'ppo'}, {name}, {kind}"] = {
            "sensors": [[sensor, *SENSORS[sensor]] for sensor in sensors],
            "continuous": continuous,
            "branches": branches,
            "squashed": squashed,
            "network": {"normalize": True, "hidden_units": UNITS, "num_layers": 2, **network},
        }
    return cases


def main() -> int:
    """Compares every case and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="an interpreter of Python 3.10")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the incumbent's environment is kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases, worst = make_cases(), 0.0
    with tempfile.TemporaryDirectory(prefix="tau-networks-") as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(cases))
        script = Path(__file__).with_name("networks_mlagents.py")
        interpreter = install(arguments.python, arguments.cache)
        subprocess.run([str(interpreter), str(script), str(folder / "cases.json"), name], check=True)
        for label, case in cases.items():
            with np.load(folder / f"{label}.npz") as stored:
                found = compare(case, dict(stored), folder / f"{label}.onnx")
            worst = max(worst, *found.values())
            print(f"{label:45} {', '.join(f'{key} {value:.1e}' for key, value in found.items())}")
    print(f"largest difference {worst:.1e}, {'fine' if worst <= LIMIT else 'too large'}")
    return 0 if worst <= LIMIT else 1


def compare(case: dict[str, Any], theirs: Arrays, model: Path) -> dict[str, float]:
    """Largest difference of each answer; infinite for the files where they do not even look alike."""
    spec = BehaviorSpec(
        "Peer",
        tuple(
            ObservationSpec(
                sensor,
                tuple(shape),
                tuple(map(DimensionProperty, dimensions)),
                ObservationType(kind),
                np.uint8 if len(shape) == 3 else np.float32,
            )
            for sensor, shape, dimensions, kind in case["sensors"]
        ),
        ActionSpec(case["continuous"], tuple(case["branches"])),
    )
    ours = SoftActorCritic(
        spec, NetworkSettings(**case["network"]), {"extrinsic": 1}, 1.0, torch.Generator().manual_seed(0)
    )
    if not case["squashed"]:
        ours.network = type(ours.network)(
            spec, NetworkSettings(**case["network"]), {"extrinsic": 1}, generator=torch.Generator().manual_seed(0)
        )
    network, q = ours.network, ours.q
    with torch.no_grad():
        for part, tower, module in (("actor", 0, network), ("critic", 1, network), ("q", 0, q), ("q", 1, q)):
            weights = {name[len(part) + 1 :]: values for name, values in theirs.items() if name.startswith(f"{part}.")}
            take_body(module, tower, spec, weights)
            take_heads(module, tower, part, spec, weights, squashed=case["squashed"])
        obs = tuple(theirs[f"obs_{i}"] for i in range(len(spec.observations)))
        inputs = network.prepare(obs)
        encoding = network._tower(inputs, None, None, 0)[0]
        values = network.values(inputs)
        qs = q(q.see(inputs), torch.from_numpy(theirs["chosen"]))[:, :, 0]
    return {
        "encoding": off(encoding, theirs["encoding"]),
        "value": off(values[:, 0], theirs["values"]),
        "Q": max(off(one, theirs["qs"]) for one in qs),
        "file": compare_files(onnx.load(model), build_model(network, spec), spec, obs, squashed=case["squashed"]),
    }


def off(ours: Any, theirs: NDArray[Any]) -> float:
    """The largest difference, relative to the largest number (and to 1)."""
    return float(np.abs(np.asarray(ours) - theirs).max() / max(1.0, np.abs(theirs).max()))


def compare_files(theirs: Any, ours: Any, spec: BehaviorSpec, obs: tuple[Any, ...], *, squashed: bool) -> float:
    """Largest difference of what is deterministic; infinite where inputs or outputs differ in name, type or shape."""
    if signature(theirs.graph.input) != signature(ours.graph.input):
        print("  inputs:", signature(theirs.graph.input), signature(ours.graph.input))
        return float("inf")
    names = [[value.name for value in model.graph.output] for model in (theirs, ours)]
    types = [[value.type.tensor_type.elem_type for value in model.graph.output] for model in (theirs, ours)]
    if names[0] != names[1] or types[0] != types[1]:
        print("  outputs:", names, types)
        return float("inf")
    feed = {f"obs_{i}": one.astype(np.float32) / (255 if one.dtype == np.uint8 else 1) for i, one in enumerate(obs)}
    if spec.actions.discrete_size:
        feed["action_masks"] = np.ones((len(obs[0]), spec.actions.mask_size), np.float32)
        feed["action_masks"][::2, 1] = 0.0
    first, second = (run_feed(session_of(model.SerializeToString()), feed) for model in (theirs, ours))
    worst = 0.0
    for name in names[0]:
        if first[name].shape != second[name].shape:
            print(f"  {name}: {first[name].shape}, {second[name].shape}")
            return float("inf")
        if name in ("continuous_actions", "discrete_actions"):
            continue
        said = np.tanh(first[name]) if squashed and name.startswith("deterministic_cont") else first[name]
        worst = max(worst, off(second[name], said))
    return worst


def signature(values: Any) -> list[Any]:
    """Name, type and shape of each."""
    return [
        (v.name, v.type.tensor_type.elem_type, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in values
    ]


def take_body(module: Any, tower: int, spec: BehaviorSpec, theirs: Arrays) -> None:
    """Give one tower of ours the incumbent's encoders, statistics and hidden layers."""
    kinds = [kind_of(sensor) for sensor in spec.observations]
    if module.encoders:
        take_encoders(module.encoders[tower], spec, theirs)
    if getattr(module, "normalizer", None) is not None:
        prefix = "network_body.observation_encoder.processors.{}.normalizer."
        places = [prefix.format(i) for i, kind in enumerate(kinds) if kind == "vector"]
        module.normalizer.mean.copy_(joined(theirs, places, "running_mean"))
        module.normalizer.squares.copy_(joined(theirs, places, "running_variance"))
        module.normalizer.count.copy_(torch.tensor(theirs[f"{places[0]}normalization_steps"]))
    order = feature_order(module, spec)
    prefix = "network_body._body_endoder."
    layers = "layers" if f"{prefix}layers.0.weight" in theirs or module.hyper is not None else "seq_layers"
    for i, layer in enumerate(module.body.layers):
        take_stacked(layer, tower, theirs, f"{prefix}{layers}.{2 * i}", order if i == 0 else None)
    if module.hyper is None:
        return
    name = f"{prefix}layers.{2 * len(module.body.layers)}"
    hyper = module.hyper
    for layer, place in ((hyper.first, 0), (hyper.second, 2), (hyper.made, 5)):
        take_stacked(
            layer, tower, theirs, f"{name}.hypernet.{place}", by_kind(spec, goals_alone=True) if place == 0 else None
        )
    if not module.body.layers:
        for tensor in (hyper.made.weight[tower], hyper.made.bias[tower]):
            apart = tensor.view(len(tensor), hyper.inputs, hyper.size)
            apart.copy_(apart[:, extended(order, hyper.inputs)].clone())
    hyper.bias[tower, 0] = torch.tensor(theirs[f"{name}.bias"])


def take_encoders(encoder: ObservationEncoder, spec: BehaviorSpec, theirs: Arrays) -> None:
    """Give the incumbent's encoders to ours."""
    kinds = [kind_of(sensor) for sensor in spec.observations]
    prefix = "network_body.observation_encoder."
    processors = [f"{prefix}processors.{i}." for i, kind in enumerate(kinds) if kind == "image"]
    for image, processor in zip(encoder.images, processors, strict=True):
        for ours, name in image_names(image):
            take(ours, theirs, processor + name)
    if encoder.lists is None:
        return
    lists: Any = encoder.lists
    places = [i for i, kind in enumerate(kinds) if kind == "list"]
    for embedding, place in zip(lists.embeddings, places, strict=True):
        take(embedding, theirs, f"{prefix}processors.{place}.self_ent_encoder.seq_layers.0")
    for ours, name in ((lists.query, "q"), (lists.key, "k"), (lists.value, "v"), (lists.out, "out")):
        take(ours, theirs, f"{prefix}rsa.fc_{name}")
    if lists.own is not None:
        take(lists.own, theirs, f"{prefix}x_self_encoder.seq_layers.0")
        lists.own.weight.copy_(lists.own.weight[:, by_kind(spec, goals_alone=False)].clone())


def image_names(image: Any) -> Iterator[tuple[Any, str]]:
    """Our layers with the incumbent's names."""
    if hasattr(image, "stacks"):
        for i, stack in enumerate(image.stacks):
            yield stack.convolution, f"sequential.{4 * i}"
            for j, block in enumerate(stack.blocks):
                yield block.first, f"sequential.{4 * i + 2 + j}.layers.1"
                yield block.second, f"sequential.{4 * i + 2 + j}.layers.3"
        yield image.dense, "dense"
        return
    for i, convolution in enumerate(getattr(image, "convolutions", ())):
        yield convolution, f"conv_layers.{2 * i}"
    yield image.dense, "dense.0"


def take_heads(module: Any, tower: int, part: str, spec: BehaviorSpec, theirs: Arrays, *, squashed: bool) -> None:
    """Give the incumbent's heads to ours."""
    if part == "critic":
        module.value.weight.copy_(torch.tensor(theirs["value_heads.value_heads.extrinsic.weight"]).T)
        module.value.bias.copy_(torch.tensor(theirs["value_heads.value_heads.extrinsic.bias"]))
    elif part == "q":
        module.weight[tower] = torch.tensor(theirs["value_heads.value_heads.extrinsic.weight"]).T
        module.bias[tower, 0] = torch.tensor(theirs["value_heads.value_heads.extrinsic.bias"])
    else:
        heads = []
        if spec.actions.continuous_size:
            heads.append("action_model._continuous_distribution.mu")
            if squashed:
                heads.append("action_model._continuous_distribution.log_sigma")
        branches = range(spec.actions.discrete_size)
        heads += [f"action_model._discrete_distribution.branches.{i}" for i in branches]
        module.action.weight.copy_(torch.cat([torch.tensor(theirs[f"{head}.weight"]).T for head in heads], dim=1))
        module.action.bias.copy_(torch.cat([torch.tensor(theirs[f"{head}.bias"]) for head in heads]))


def feature_order(module: Any, spec: BehaviorSpec) -> list[int]:
    """Where each of our features stands among the incumbent's, which are in wire order, then the attention's."""
    order = by_kind(spec, goals_alone=False)
    return [*order, *range(len(order), module.encoders[0].size)] if module.encoders else order


def by_kind(spec: BehaviorSpec, *, goals_alone: bool) -> list[int]:
    """The same without the attention's; of those of goals among themselves."""
    places: dict[str, list[int]] = {"vector": [], "image": []}
    end = 0
    for sensor in spec.observations:
        kind = kind_of(sensor)
        if kind != "list" and (not goals_alone or sensor.observation_type is ObservationType.GOAL_SIGNAL):
            begin, end = end, end + (UNITS if kind == "image" else sensor.size)
            places[kind] += range(begin, end)
    return [*places["vector"], *places["image"]]


def extended(order: list[int], inputs: int) -> list[int]:
    """An order with what comes behind (actions) as it is."""
    return [*order, *range(len(order), inputs)]


def take(layer: Any, theirs: Arrays, name: str) -> None:
    """Copy a layer of torch's own."""
    layer.weight.copy_(torch.tensor(theirs[f"{name}.weight"]))
    layer.bias.copy_(torch.tensor(theirs[f"{name}.bias"]))


def take_stacked(layer: Any, tower: int, theirs: Arrays, name: str, order: list[int] | None) -> None:
    """Copy a layer to one tower, its inputs in another order."""
    weight = torch.tensor(theirs[f"{name}.weight"]).T
    layer.weight[tower] = weight if order is None else weight[extended(order, len(weight))]
    layer.bias[tower, 0] = torch.tensor(theirs[f"{name}.bias"])


def joined(theirs: Arrays, places: list[str], name: str) -> torch.Tensor:
    """Statistics of all vectors side by side."""
    return torch.cat([torch.tensor(theirs[place + name]) for place in places])


if __name__ == "__main__":
    sys.exit(main())
