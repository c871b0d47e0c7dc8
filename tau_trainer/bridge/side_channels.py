"""ML-Agents' side channels: the envelope, the payload primitives, and the five built-in channels.

All values are little-endian; a channel ID is sent in .NET ``Guid`` order (``uuid.bytes_le``).
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import any_pb2
from google.protobuf.message import Message

from tau_trainer.errors import DecodeError
from tau_trainer.specs import Aggregation

if TYPE_CHECKING:
    from tau_trainer.settings import EngineSettings

ENGINE_CONFIGURATION: Final = uuid.UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
ENVIRONMENT_PARAMETERS: Final = uuid.UUID("534c891e-810f-11ea-a9d0-822485860400")
STATS: Final = uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
FLOAT_PROPERTIES: Final = uuid.UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
TRAINING_ANALYTICS: Final = uuid.UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")


def pack_payload(channel: uuid.UUID, payload: bytes) -> bytes:
    """One message in its envelope: 16 bytes ID, int32 length, payload."""
    return channel.bytes_le + struct.pack("<i", len(payload)) + payload


def unpack_payloads(data: bytes) -> list[tuple[uuid.UUID, bytes]]:
    """All messages of one exchange. Raises DecodeError if the last one runs past the end."""
    messages = []
    position = 0
    while position < len(data):
        if position + 20 > len(data):
            raise DecodeError("the side channel's bytes end inside an envelope")
        channel = uuid.UUID(bytes_le=data[position : position + 16])
        (length,) = struct.unpack_from("<i", data, position + 16)
        position += 20
        if length < 0 or position + length > len(data):
            raise DecodeError(f"a side channel message of {length} bytes runs past the end")
        messages.append((channel, data[position : position + length]))
        position += length
    return messages


def string(value: str) -> bytes:
    """int32 byte count and ASCII bytes (others are replaced by ``?``)."""
    text = value.encode("ascii", "replace")
    return struct.pack("<i", len(text)) + text


class PayloadReader:
    """Reads a payload; past the end every call returns a default, as ML-Agents' readers do."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        """Whether everything was read."""
        return self._position >= len(self._data)

    def numbers(self, form: str) -> tuple[float, ...]:
        """The numbers of a :mod:`struct` format; empty past the end."""
        size = struct.calcsize(form)
        if self._position + size > len(self._data):
            return ()
        self._position += size
        return struct.unpack_from(form, self._data, self._position - size)

    def int32(self, default: int = 0) -> int:
        """Four bytes, signed; ``default`` past the end."""
        return int(next(iter(self.numbers("<i")), default))

    def float32(self) -> float:
        """Four bytes; 0 past the end."""
        return next(iter(self.numbers("<f")), 0.0)

    def string(self) -> str:
        """int32 byte count and ASCII bytes; empty past the end."""
        length = self.int32(-1)
        if length < 0 or self._position + length > len(self._data):
            return ""
        text = self._data[self._position : self._position + length]
        self._position += length
        return text.decode("ascii", "replace")

    def float_list(self) -> list[float]:
        """int32 count and float32 values; empty past the end."""
        return list(self.numbers(f"<{max(self.int32(), 0)}f"))


@dataclass(frozen=True, slots=True)
class Stat:
    """One value that the game reported with ``StatsRecorder.Add``."""

    key: str
    value: float
    aggregation: Aggregation


def stat_payload(key: str, value: float, aggregation: Aggregation = Aggregation.AVERAGE) -> bytes:
    """Payload of the Stats channel (engine to trainer)."""
    return string(key) + struct.pack("<fi", value, aggregation)


def parse_stat(payload: bytes) -> Stat:
    """Read a Stats payload. Raises DecodeError for an unknown aggregation."""
    reader = PayloadReader(payload)
    key = reader.string()
    value = reader.float32()
    aggregation = reader.int32()
    if aggregation not in Aggregation.__members__.values():
        raise DecodeError(f"statistic '{key}' has aggregation {aggregation}, but only 0 to 3 are valid")
    return Stat(key, value, Aggregation(aggregation))


def engine_configuration_payloads(settings: Any) -> list[bytes]:
    """One payload for each of the :class:`EngineSettings` that is not None, with its number, in ML-Agents' order."""
    payloads: list[tuple[Any, ...]] = [
        ("<iii", 0, settings.width, settings.height),
        ("<ii", 1, settings.quality_level),
        ("<if", 2, settings.time_scale),
        ("<ii", 3, settings.target_frame_rate),
        ("<ii", 4, settings.capture_frame_rate),
    ]
    return [struct.pack(form, *values) for form, *values in payloads if None not in values]


class SamplerKind(enum.IntEnum):
    """Distributions that an environment parameter can be drawn from."""

    UNIFORM = 0
    GAUSSIAN = 1
    MULTI_RANGE_UNIFORM = 2


@dataclass(frozen=True, slots=True)
class Sampler:
    """A distribution from which the engine draws a value at every use.

    ``values``: uniform (min, max); gaussian (mean, standard deviation); multi-range (min, max, min, max, ...).
    """

    kind: SamplerKind
    seed: int
    values: tuple[float, ...]


def environment_parameter_payload(key: str, value: float | Sampler) -> bytes:
    """Payload of the environment parameters channel (trainer to engine)."""
    if not isinstance(value, Sampler):
        return string(key) + struct.pack("<if", 0, value)
    many = value.kind == SamplerKind.MULTI_RANGE_UNIFORM
    count = struct.pack("<i", len(value.values)) if many else b""
    values = struct.pack(f"<{len(value.values)}f", *value.values)
    return string(key) + struct.pack("<iii", 1, value.seed, value.kind) + count + values


def parse_environment_parameter(payload: bytes) -> tuple[str, float | Sampler]:
    """Read one environment parameter. Raises DecodeError for an unknown kind or sampler."""
    reader = PayloadReader(payload)
    key, kind = reader.string(), reader.int32(-1)
    if kind == 0:
        return key, reader.float32()
    seed, sampler = reader.int32(), reader.int32(-1)
    if kind != 1 or sampler not in SamplerKind.__members__.values():
        raise DecodeError(f"environment parameter '{key}' has unknown kind {kind} (sampler {sampler})")
    if sampler == SamplerKind.MULTI_RANGE_UNIFORM:
        return key, Sampler(SamplerKind(sampler), seed, tuple(reader.float_list()))
    return key, Sampler(SamplerKind(sampler), seed, (reader.float32(), reader.float32()))


_ANALYTICS_TYPE: Final = "type.googleapis.com/communicator_objects.TrainingEnvironmentInitialized"


def training_environment_payload(message: Message) -> bytes:
    """Payload of the training analytics channel (trainer to engine): a ``TrainingEnvironmentInitialized``."""
    return bytes(any_pb2.Any(type_url=_ANALYTICS_TYPE, value=message.SerializeToString()).SerializeToString())


class SideChannelHub:
    """The trainer's end of all side channels of one engine: queues outgoing messages, distributes incoming ones."""

    def __init__(self, on_stat: Callable[[Stat], None] | None = None) -> None:
        self._outgoing = bytearray()
        self._on_stat = on_stat

    def send(self, channel: uuid.UUID, payload: bytes) -> None:
        """Queue a payload for the next reply."""
        self._outgoing += pack_payload(channel, payload)

    def introduce(self, settings: EngineSettings, trainer: Message | None) -> None:
        """Queue all engine settings, and if given, a ``TrainingEnvironmentInitialized`` for the analytics channel.

        Unity's package forwards the latter only if the user has allowed analytics.
        """
        for payload in engine_configuration_payloads(settings):
            self.send(ENGINE_CONFIGURATION, payload)
        if trainer is not None:
            self.send(TRAINING_ANALYTICS, training_environment_payload(trainer))

    def send_environment_parameters(self, parameters: Mapping[str, float | Sampler]) -> None:
        """Queue environment parameters."""
        for key, value in parameters.items():
            self.send(ENVIRONMENT_PARAMETERS, environment_parameter_payload(key, value))

    def take(self) -> bytes:
        """Everything queued, for one reply; the queue is empty afterwards."""
        data = bytes(self._outgoing)
        self._outgoing.clear()
        return data

    def receive(self, data: bytes) -> None:
        """Report the statistics of one exchange; other channels are ignored. Raises DecodeError."""
        for channel, payload in unpack_payloads(data):
            if channel == STATS and self._on_stat is not None:
                self._on_stat(parse_stat(payload))


def joined(messages: Iterable[tuple[uuid.UUID, bytes]]) -> bytes:
    """Envelopes of several messages, joined."""
    return b"".join(pack_payload(channel, payload) for channel, payload in messages)
