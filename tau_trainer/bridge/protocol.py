"""ML-Agents' communicator API 1.5.0: names, numbers, and message classes built from ``wire.proto`` at import.

There is no generated code, because generated modules need one specific protobuf runtime. Descriptors built at run time
work with protobuf 3.20.3 and later, so mlagents-envs (which needs 3.20.3) can share the environment.
"""

from __future__ import annotations

import enum
import re
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
METHODS: Final = (METHOD,)
"""The same of all dialects over gRPC."""
STATUS_OK: Final = 200
STATUS_CLOSE: Final = 400

EDITOR_PORT: Final = 5004
"""The port to which the Unity editor connects."""
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


class AgentInfo:
    """Fields of ``AgentInfoProto`` in ML-Agents 1.x to 4.x."""

    REWARD, DONE, MAX_STEP, ID, MASK, OBSERVATION, GROUP, GROUP_REWARD = 7, 8, 9, 10, 11, 13, 14, 15


class AgentAction:
    """Fields of ``AgentActionProto``."""

    LEGACY, VALUE, CONTINUOUS, DISCRETE = 1, 4, 6, 7


class DemonstrationMeta:
    """Fields of ``DemonstrationMetaProto``."""

    VERSION, NAME, STEPS, EPISODES, MEAN_REWARD = range(1, 6)


class Observation:
    """Fields of ``ObservationProto``."""

    SHAPE, COMPRESSION, COMPRESSED, FLOATS, MAPPING, PROPERTIES, TYPE, NAME = range(1, 9)


_FIELD = re.compile(r"(?P<repeated>repeated )?(?P<type>map<string, bytes>|\w+) (?P<name>\w+) = (?P<number>\d+);")
_MESSAGE = re.compile(r"message (?P<name>\w+) \{(?P<body>[^}]*)\}")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _Field.TYPE_INT32,
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


def _file_descriptor(text: str) -> Any:
    """Parse the simple subset of proto3 that ``wire.proto`` uses."""
    text = re.sub(r"//[^\n]*", "", text)
    package = re.search(r"package ([\w.]+);", text)
    assert package is not None
    file = descriptor_pb2.FileDescriptorProto(name="tau_trainer/wire.proto", package=package[1], syntax="proto3")
    for match in _MESSAGE.finditer(text):
        message = file.message_type.add(name=match["name"])
        for field in _FIELD.finditer(match["body"]):
            _add_field(message, package[1], field)
    return file


_FILE = _file_descriptor(resources.files(__package__).joinpath("wire.proto").read_text("utf-8"))
_CLASSES = message_factory.GetMessages([_FILE])

UnityMessage: Any = _CLASSES[f"{_FILE.package}.Message"]
"""The protocol's only message: a header and either the engine's output or the trainer's input."""
TrainingEnvironmentInitialized: Any = _CLASSES[f"{_FILE.package}.TrainingEnvironmentInitialized"]
"""The message of the training analytics channel."""
