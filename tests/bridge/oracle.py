"""An independent reading of ML-Agents' messages: every field as the protocol names it, through protobuf alone.

The messages live in a pool of their own. ``PACKED`` serialises as every known sender does; ``UNPACKED`` writes repeated
numbers one field each, which proto3 allows; both have fields that no receiver knows.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from numpy.typing import NDArray
from PIL import Image

from tau_trainer.specs import ActionSpec, BehaviorSpec, FloatArray, ObservationSpec, StepBatch, Terminals

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "float": _Field.TYPE_FLOAT,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "fixed64": _Field.TYPE_FIXED64,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
# (name, number, type); "*" repeats, "{}" is a map from string.
_SCHEMA: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Header": (("status", 1, "int32"), ("message", 2, "string")),
    "Capabilities": tuple((name, i + 1, "bool") for i, name in enumerate("abcdefg")),
    "FloatData": (("data", 1, "*float"), ("later", 90, "string")),
    "Observation": (
        ("shape", 1, "*int32"),
        ("compression_type", 2, "int32"),
        ("compressed_data", 3, "bytes"),
        ("float_data", 4, "FloatData"),
        ("compressed_channel_mapping", 5, "*int32"),
        ("dimension_properties", 6, "*int32"),
        ("observation_type", 7, "int32"),
        ("name", 8, "string"),
        ("later", 91, "fixed64"),
    ),
    "AgentInfo": (
        ("reward", 7, "float"),
        ("done", 8, "bool"),
        ("max_step_reached", 9, "bool"),
        ("id", 10, "int32"),
        ("action_mask", 11, "*bool"),
        ("observations", 13, "*Observation"),
        ("group_id", 14, "int32"),
        ("group_reward", 15, "float"),
        ("later", 92, "string"),
        ("latest", 93, "int64"),
    ),
    "AgentInfos": (("value", 1, "*AgentInfo"),),
    "AgentAction": (
        ("vector_actions_deprecated", 1, "*float"),
        ("value", 4, "float"),
        ("continuous_actions", 6, "*float"),
        ("discrete_actions", 7, "*int32"),
    ),
    "AgentActions": (("value", 1, "*AgentAction"),),
    "ActionSpec": (
        ("num_continuous_actions", 1, "int32"),
        ("num_discrete_actions", 2, "int32"),
        ("discrete_branch_sizes", 3, "*int32"),
    ),
    "BrainParameters": (
        ("vector_action_size_deprecated", 3, "*int32"),
        ("vector_action_space_type_deprecated", 6, "int32"),
        ("brain_name", 7, "string"),
        ("is_training", 8, "bool"),
        ("action_spec", 9, "ActionSpec"),
    ),
    "InitOutput": (
        ("name", 1, "string"),
        ("communication_version", 2, "string"),
        ("brain_parameters", 5, "*BrainParameters"),
        ("package_version", 7, "string"),
        ("capabilities", 8, "Capabilities"),
    ),
    "RLOutput": (("agent_infos", 2, "{}AgentInfos"), ("side_channel", 3, "bytes")),
    "UnityOutput": (("rl_output", 1, "RLOutput"), ("rl_initialization_output", 2, "InitOutput")),
    "InitInput": (
        ("seed", 1, "int32"),
        ("communication_version", 2, "string"),
        ("package_version", 3, "string"),
        ("capabilities", 4, "Capabilities"),
        ("num_areas", 5, "int32"),
    ),
    "RLInput": (("agent_actions", 1, "{}AgentActions"), ("command", 4, "int32"), ("side_channel", 5, "bytes")),
    "UnityInput": (("rl_input", 1, "RLInput"), ("rl_initialization_input", 2, "InitInput")),
    "UnityMessage": (("header", 1, "Header"), ("unity_output", 2, "UnityOutput"), ("unity_input", 3, "UnityInput")),
}


_UNREAL_SCHEMA = {
    "Header": _SCHEMA["Header"],
    "FloatData": _SCHEMA["FloatData"],
    "Observation": (
        ("shape", 1, "*int32"),
        ("float_data", 2, "FloatData"),
        ("dimension_properties", 3, "*int32"),
        ("name", 4, "string"),
    ),
    "AgentInfo": (
        ("reward", 1, "float"),
        ("done", 2, "bool"),
        ("max_step_reached", 3, "bool"),
        ("id", 4, "int32"),
        ("action_mask", 5, "*bool"),
        ("observations", 6, "*Observation"),
        ("group_id", 7, "int32"),
        ("group_reward", 8, "float"),
    ),
    "AgentInfos": (("value", 1, "*AgentInfo"),),
    "AgentAction": (("value", 1, "float"), ("continuous_actions", 2, "*float"), ("discrete_actions", 3, "*int32")),
    "AgentActions": (("value", 1, "*AgentAction"),),
    "ActionSpec": (*_SCHEMA["ActionSpec"], ("action_descriptions", 4, "*string")),
    "BrainParameters": (("brain_name", 1, "string"), ("is_training", 2, "bool"), ("action_spec", 3, "ActionSpec")),
    "InitOutput": (
        ("name", 1, "string"),
        ("communication_version", 2, "string"),
        ("log_path", 3, "string"),
        ("brain_parameters", 4, "*BrainParameters"),
        ("package_version", 5, "string"),
    ),
    "RLOutput": (("agent_infos", 1, "{}AgentInfos"), ("side_channel", 2, "bytes")),
    "UnityOutput": _SCHEMA["UnityOutput"],
    "InitInput": (
        ("seed", 1, "int32"),
        ("communication_version", 2, "string"),
        ("package_version", 3, "string"),
        ("num_areas", 4, "int32"),
    ),
    "RLInput": (("agent_actions", 1, "{}AgentActions"), ("command", 2, "int32"), ("side_channel", 3, "bytes")),
    "UnityInput": _SCHEMA["UnityInput"],
    "UnityMessage": _SCHEMA["UnityMessage"],
}
"""The messages of the UnrealMLAgents plugin 1.0.0, by its .proto files, under the names of Unity's."""


class Messages:
    """The classes of the messages that tests begin with."""

    def __init__(
        self, *, packed: bool, schema: Mapping[str, tuple[tuple[str, int, str], ...]] = _SCHEMA, name: str = ""
    ) -> None:
        package = name or ("packed_oracle" if packed else "unpacked_oracle")
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, fields in schema.items():
            message = file.message_type.add(name=name)
            for field, number, kind in fields:
                _add(message, package, field, number, kind, packed)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        classes: dict[str, Any] = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in schema
        }
        self.UnityMessage, self.AgentInfos = classes["UnityMessage"], classes["AgentInfos"]


def _add(message: Any, package: str, name: str, number: int, kind: str, packed: bool) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    plain = kind.removeprefix("*").removeprefix("{}")
    if kind.startswith("{}"):
        entry = name.title().replace("_", "") + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add(nested, package, "key", 1, "string", packed)
        _add(nested, package, "value", 2, plain, packed)
        kind, plain = "*", f"{message.name}.{entry}"
    if kind.startswith("*"):
        field.label = _Field.LABEL_REPEATED
        if plain in ("float", "bool", "int32"):
            field.options.packed = packed
    if plain in _SCALARS:
        field.type = _SCALARS[plain]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{plain}"


PACKED = Messages(packed=True)
UNPACKED = Messages(packed=False)
UNREAL = Messages(packed=True, schema=_UNREAL_SCHEMA, name="unreal_oracle")


@dataclass(slots=True)
class Agent:
    """What an engine says of one agent."""

    id: int
    obs: tuple[NDArray[Any], ...]
    reward: float = 0.0
    done: bool = False
    interrupted: bool = False
    mask: tuple[bool, ...] | None = None
    group_id: int = 0
    group_reward: float = 0.0
    unknown: bool = False
    """Carries fields that no receiver knows."""


def announce(message: Any, spec: BehaviorSpec) -> None:
    """Add a behavior's actions to a UnityMessage."""
    brain = message.unity_output.rl_initialization_output.brain_parameters.add(brain_name=spec.name, is_training=True)
    brain.action_spec.num_continuous_actions = spec.actions.continuous_size
    brain.action_spec.num_discrete_actions = spec.actions.discrete_size
    brain.action_spec.discrete_branch_sizes.extend(spec.actions.discrete_branches)


def fill(infos: Any, spec: BehaviorSpec, agents: Sequence[Agent]) -> None:
    """Add agents to an AgentInfos message, as a game does: whatever is zero is not on the wire."""
    for agent in agents:
        info = infos.value.add(
            reward=agent.reward,
            done=agent.done,
            max_step_reached=agent.interrupted,
            id=agent.id,
            action_mask=agent.mask or (),
            group_id=agent.group_id,
            group_reward=agent.group_reward,
        )
        if agent.unknown:
            info.later, info.latest = "from a later version", -1
        for sensor, values in zip(spec.observations, agent.obs, strict=True):
            observation = info.observations.add(
                shape=sensor.shape,
                dimension_properties=[int(p) for p in sensor.dimension_property],
                name=sensor.name,
            )
            if sensor.observation_type:
                observation.observation_type = int(sensor.observation_type)
            if values.dtype == np.uint8:
                observation.compression_type, observation.compressed_data = 1, unity_png(values)
            else:
                observation.float_data.data.extend(values.ravel().tolist())
                observation.float_data.SetInParent()
            if agent.unknown:
                observation.later = 7
            if agent.unknown and values.dtype != np.uint8:
                observation.float_data.later = "later"


def png(image: NDArray[np.uint8], **options: Any) -> bytes:
    """One file of [H, W] or [H, W, channels], written by Pillow."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(stream, "png", **options)
    return stream.getvalue()


def unity_png(image: NDArray[np.uint8]) -> bytes:
    """The files of [C, H, W] as Unity writes them: RGB, three channels each, grey for a single one."""
    channels = len(image)
    planes = np.repeat(image, 3, axis=0) if channels == 1 else np.pad(image, ((0, -channels % 3), (0, 0), (0, 0)))
    return b"".join(png(planes[k : k + 3].transpose(1, 2, 0)) for k in range(0, len(planes), 3))


def read_images(data: bytes, channels: int, mapping: Sequence[int] = ()) -> NDArray[np.float64]:
    """[C, H, W] with values of 0 to 255, by Pillow and the rules of ML-Agents' Python side alone."""
    planes: list[NDArray[np.float64]] = []
    for file in data.split(b"\x89PNG\r\n\x1a\n")[1:]:
        image = np.asarray(Image.open(io.BytesIO(b"\x89PNG\r\n\x1a\n" + file)), np.float64)
        planes += list(np.atleast_3d(image).transpose(2, 0, 1))
        if channels == 1 and not mapping:
            return np.array([np.mean(planes, axis=0)])
    if not mapping:
        return np.array(planes[:channels])
    assert len(mapping) == len(planes)
    return np.array(
        [np.mean([p for p, to in zip(planes, mapping, strict=True) if to == k], axis=0) for k in range(channels)]
    )


def engine_message(
    behaviors: Sequence[tuple[BehaviorSpec, Sequence[Agent]]], messages: Messages = PACKED, side_channel: bytes = b""
) -> bytes:
    """A step message that also announces every behavior."""
    message = messages.UnityMessage()
    message.header.status = 200
    message.unity_output.rl_output.side_channel = side_channel
    for spec, agents in behaviors:
        announce(message, spec)
        fill(message.unity_output.rl_output.agent_infos[spec.name], spec, agents)
    return bytes(message.SerializeToString())


def expected(spec: BehaviorSpec, agents: Sequence[Agent]) -> StepBatch:
    """The arrays that ``agents`` mean, made agent by agent."""
    live, ended = [a for a in agents if not a.done], [a for a in agents if a.done]
    mask = None
    if spec.actions.mask_size and any(a.mask for a in agents):
        rows = [a.mask or (False,) * spec.actions.mask_size for a in live]
        mask = np.array(rows, np.bool_).reshape(len(live), spec.actions.mask_size)
    terminals = Terminals(
        ids(ended), obs(spec, ended), rewards(ended), np.array([a.interrupted for a in ended], np.bool_),
        groups(ended), group_rewards(ended),
    )  # fmt: skip
    return StepBatch(
        spec.name, ids(live), obs(spec, live), rewards(live), groups(live), group_rewards(live), terminals, mask
    )


def ids(agents: Sequence[Agent]) -> Any:
    return np.array([a.id for a in agents], np.int32)


def groups(agents: Sequence[Agent]) -> Any:
    return np.array([a.group_id for a in agents], np.int32)


def rewards(agents: Sequence[Agent]) -> FloatArray:
    return np.array([a.reward for a in agents], np.float32)


def group_rewards(agents: Sequence[Agent]) -> FloatArray:
    return np.array([a.group_reward for a in agents], np.float32)


def obs(spec: BehaviorSpec, agents: Sequence[Agent]) -> tuple[NDArray[Any], ...]:
    return tuple(
        np.array([a.obs[i] for a in agents], sensor.dtype).reshape(len(agents), *sensor.shape)
        for i, sensor in enumerate(spec.observations)
    )


def assert_equal(found: StepBatch, wanted: StepBatch) -> None:
    """Both hold the same arrays, of the promised types, and own them."""
    assert found.behavior == wanted.behavior
    assert (found.action_mask is None) == (wanted.action_mask is None)
    for part, other in ((found, wanted), (found.terminals, wanted.terminals)):
        for name in ("agent_ids", "reward", "group_id", "group_reward", "truncated", "action_mask"):
            if getattr(other, name, None) is not None:
                one, two = getattr(part, name), getattr(other, name)
                assert one.dtype == two.dtype, name
                np.testing.assert_array_equal(one, two, err_msg=name)
        assert len(part.obs) == len(other.obs)
        for one, two in zip(part.obs, other.obs, strict=True):
            np.testing.assert_array_equal(one, two, strict=True)
            assert one.flags.c_contiguous
            assert one.flags.aligned
            assert one.flags.writeable


def action_message(name: str, actions: Sequence[tuple[Sequence[float], Sequence[int]]], messages: Messages) -> bytes:
    """A trainer's reply with one behavior's actions."""
    message = messages.UnityMessage()
    message.header.status = 200
    for continuous, discrete in actions:
        message.unity_input.rl_input.agent_actions[name].value.add(
            continuous_actions=continuous, discrete_actions=discrete, value=1.5
        )
    return bytes(message.SerializeToString())


def simple_spec(actions: ActionSpec, *shapes: tuple[int, ...], name: str = "B?team=0") -> BehaviorSpec:
    """A behavior with sensors ``s0``, ``s1`` ... of these shapes."""
    return BehaviorSpec(name, tuple(ObservationSpec(f"s{i}", shape) for i, shape in enumerate(shapes)), actions)
