"""ML-Agents' communicator API 1.5.0 and Unreal's port of it: names, numbers, and message classes, built at import.

There is no generated code, because generated modules need one specific protobuf runtime. Descriptors built at run time
work with protobuf 3.20.3 and later, so mlagents-envs (which needs 3.20.3) can share the environment.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from google.protobuf import descriptor_pb2, message_factory

COMMUNICATION_VERSION: Final = "1.5.0"
"""The communicator API of this package (``com.unity.ml-agents`` 1.9-preview to 4.x)."""
PACKAGE_VERSION: Final = "1.1.0"
"""The Python package version announced to the engine: that of the trainer that this one replaces."""
OLD_PACKAGE_VERSION: Final = "0.20.0"
"""The same for engines whose package is older than 2.0. Packages up to 1.0.8 refuse a trainer above 0.25.999, and warn
about one above 0.20.0, the latest that they support (``PythonTrainerVersions``); nothing else depends on it."""
SERVICE: Final = "communicator_objects.UnityToExternalProto"
METHOD_NAME: Final = "Exchange"
METHOD: Final = f"/{SERVICE}/{METHOD_NAME}"
"""HTTP/2 path of the only unary call."""
UNREAL_VERSION: Final = "1.0.0"
"""The same version of the UnrealMLAgents plugin 1.0.0. Before its release it was 0.1.0, with the same messages."""
UNREAL_METHOD: Final = f"/communicator_objects.UnrealToExternalProto/{METHOD_NAME}"
METHODS: Final = (METHOD, UNREAL_METHOD)
"""The paths of all dialects over gRPC."""
STATUS_OK: Final = 200
STATUS_CLOSE: Final = 400

EDITOR_PORT: Final = 5004
"""The port to which the editors of Unity and Unreal connect."""
BASE_PORT: Final = 5005
"""The first port for players; engine ``i`` gets ``base + i``."""


def understood(api: str) -> bool:
    """Whether engines with this communicator API are supported: capabilities distinguish minor versions."""
    return api.split(".")[0] == COMMUNICATION_VERSION.split(".")[0]


class Command(enum.IntEnum):
    """The command in the trainer's reply (``CommandProto``)."""

    STEP = 0
    RESET = 1
    QUIT = 2


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """Field numbers of ``AgentInfoProto``; by default those of ML-Agents 1.x to 4.x."""

    reward: int = 7
    done: int = 8
    max_step: int = 9
    id: int = 10
    mask: int = 11
    observation: int = 13
    group: int = 14
    group_reward: int = 15


@dataclass(frozen=True, slots=True)
class AgentAction:
    """Field numbers of ``AgentActionProto``; 0: a field that the messages do not have."""

    legacy: int = 1
    value: int = 4
    continuous: int = 6
    discrete: int = 7


@dataclass(frozen=True, slots=True)
class Observation:
    """Field numbers of ``ObservationProto``; 0: a field that the messages do not have."""

    shape: int = 1
    compression: int = 2
    compressed: int = 3
    floats: int = 4
    mapping: int = 5
    properties: int = 6
    type: int = 7
    name: int = 8


_FIELD = re.compile(r"(?P<repeated>repeated )?(?P<type>map<string, bytes>|\w+) (?P<name>\w+) = (?P<number>\d+);")
_MESSAGE = re.compile(r"message (?P<name>\w+) \{(?P<body>[^}]*)\}")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _Field.TYPE_INT32,
    "float": _Field.TYPE_FLOAT,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}


def _add_field(message: Any, package: str, match: re.Match[str]) -> None:
    """Add one parsed field; a map becomes a nested entry message, as in protoc."""
    field = message.field.add(name=match["name"], number=int(match["number"]), label=_Field.LABEL_OPTIONAL)
    if match["type"].startswith("map"):
        entry = "".join(part.capitalize() for part in match["name"].split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
        nested.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_BYTES)
        field.label = _Field.LABEL_REPEATED
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry}"
        return
    if match["repeated"]:
        field.label = _Field.LABEL_REPEATED
    if match["type"] in _SCALARS:
        field.type = _SCALARS[match["type"]]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{match['type']}"


def _classes(name: str) -> tuple[str, Any]:
    """The package of one of our .proto files and its message classes by full name, outside the pool of others."""
    file = _file_descriptor(name, resources.files(__package__).joinpath(name).read_text("utf-8"))
    return file.package, message_factory.GetMessages([file])


def _file_descriptor(name: str, text: str) -> Any:
    """Parse the simple subset of proto3 that our .proto files use."""
    text = re.sub(r"//[^\n]*", "", text)
    package = re.search(r"package ([\w.]+);", text)
    assert package is not None
    file = descriptor_pb2.FileDescriptorProto(name=f"tau_trainer/{name}", package=package[1], syntax="proto3")
    for match in _MESSAGE.finditer(text):
        message = file.message_type.add(name=match["name"])
        for field in _FIELD.finditer(match["body"]):
            _add_field(message, package[1], field)
    return file


_UNITY, _UNITY_CLASSES = _classes("wire.proto")
_UNREAL, _UNREAL_CLASSES = _classes("unreal.proto")

UnityMessage: Any = _UNITY_CLASSES[f"{_UNITY}.Message"]
"""The protocol's only message: a header and either the engine's output or the trainer's input."""
TrainingEnvironmentInitialized: Any = _UNITY_CLASSES[f"{_UNITY}.TrainingEnvironmentInitialized"]
"""The message of the training analytics channel."""
DemonstrationMeta: Any = _UNITY_CLASSES[f"{_UNITY}.DemonstrationMeta"]
DemonstrationPair: Any = _UNITY_CLASSES[f"{_UNITY}.DemonstrationPair"]
"""The messages of a recording: its metadata, and a record with the action that was active."""


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """What differs on the wire between the dialects over gRPC."""

    version: str = COMMUNICATION_VERSION
    """The communicator API."""
    method: str = METHOD
    """HTTP/2 path of the only unary call."""
    message: Any = UnityMessage
    """The class of the only message. Fields with the same meaning have the same name."""
    agent: AgentInfo = AgentInfo()
    observation: Observation = Observation()
    action: AgentAction = AgentAction()


UNITY_WIRE: Final = Wire()
UNREAL_WIRE: Final = Wire(
    UNREAL_VERSION,
    UNREAL_METHOD,
    _UNREAL_CLASSES[f"{_UNREAL}.Message"],
    AgentInfo(*range(1, 9)),
    Observation(shape=1, floats=2, properties=3, name=4, compression=0, compressed=0, mapping=0, type=0),
    AgentAction(legacy=0, value=1, continuous=2, discrete=3),
)
"""Of the UnrealMLAgents plugin, by its ``.proto`` files: no PNG files, no types of observations."""
