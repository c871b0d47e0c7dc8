"""``network_settings``: the shape of a policy's network, with ML-Agents' names and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from tau_trainer import plugins
from tau_trainer.settings.kinds import Bool, PositiveInt, Section, Whole

_MOST_LAYERS, _WIDEST = 1024, 65536


def expanded(net_arch: Sequence[Any]) -> list[int | str]:
    """The parts of a ``net_arch`` one after the other, repetitions written out.

    >>> expanded([64, {"repeat": 2, "net_arch": [128, "b"]}, "r32"])
    [64, 128, 'b', 128, 'b', 'r32']
    """
    parts: list[int | str] = []
    for part in net_arch:
        parts += expanded(part["net_arch"]) * part["repeat"] if isinstance(part, Mapping) else [part]
    return parts


def _parts(value: object) -> tuple[Any, ...]:
    """What :func:`expanded` takes, from what a file says."""
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("net_arch", "must be a list such as [128, b, r256]")
    parts = tuple(map(_part, value))
    if len(expanded(parts)) > _MOST_LAYERS:
        raise PydanticCustomError("net_arch", "is longer than {most} layers; shorten it", {"most": _MOST_LAYERS})
    return parts


def _part(value: object) -> object:
    if isinstance(value, Mapping) and set(value) == {"repeat", "net_arch"}:
        times = value["repeat"]
        if isinstance(times, int) and not isinstance(times, bool) and 1 <= times <= _MOST_LAYERS:
            return {"repeat": times, "net_arch": _parts(value["net_arch"])}
    if value == "b":
        return value
    written = "" if isinstance(value, bool) or not isinstance(value, int | str) else str(value)
    found = re.fullmatch(r"(r?)0*([1-9][0-9]{0,5})", written)
    if found is not None and int(found[2]) <= _WIDEST:
        return f"r{found[2]}" if found[1] else int(found[2])
    raise PydanticCustomError(
        "net_arch",
        "has a part {part}, which is neither a width (1 to {most}), nor b (BatchNorm), nor rN (a residual block of "
        "width N), nor {{repeat, net_arch}}; correct it",
        {"part": repr(value), "most": _WIDEST},
    )


NetArch = Annotated[tuple[Any, ...], BeforeValidator(_parts)]
"""Hidden layers by hironaka's grammar: a width, ``b``, ``rN``, or ``{repeat: times, net_arch: [...]}``."""


class MemorySettings(Section):
    """``memory``: a recurrent layer between body and heads; ``{}`` means the defaults."""

    memory_size: PositiveInt = 128
    """Floats of recurrent state, half hidden and half cell; even."""
    sequence_length: PositiveInt = 64
    """Decisions that gradients flow through at once."""
    type: str = "lstm"
    """The block; a plug-in may bring others."""

    @field_validator("type")
    @classmethod
    def _is_known(cls, value: str) -> str:
        return _known(value, "memory", plugins.names("memories"))

    @field_validator("memory_size")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise PydanticCustomError("even_number", "must be even: one half is hidden state, one half cell state")
        return value


class NetworkSettings(Section):
    """``network_settings``: encoder and body of a network."""

    normalize: Bool = False
    """Normalise vector observations by their running mean and variance."""
    hidden_units: Annotated[Whole, Field(ge=1, le=_WIDEST)] = 128
    """Units of every hidden layer."""
    num_layers: Annotated[Whole, Field(ge=1, le=1024)] = 2
    """Number of hidden layers."""
    net_arch: NetArch | None = None
    """Hidden layers one by one, with ReLU, in place of hidden_units and num_layers: a number is a layer of so many
    units, ``b`` BatchNorm behind the layer before it, ``rN`` a residual block of N units, and ``{repeat, net_arch}``
    repeats a part; null = hidden_units and num_layers."""
    vis_encode_type: str = "simple"
    """Encoder of visual observations: simple, nature_cnn, resnet, match3, fully_connected, or one that a package brings
    as ``visual:<name>``; means nothing for a behavior that has none."""
    memory: MemorySettings | None = None
    """Recurrent memory, or None."""
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    """How a goal-signal observation conditions the network; means nothing without one."""
    action_levels: Annotated[Whole, Field(ge=2, le=1024)] | None = None
    """Each continuous action takes one of so many values, evenly spread over [-1, 1] and drawn like the values of a
    branch (Tang and Agrawal 2020), so that a policy that hesitates between two actions takes one of them instead of
    what lies between; null = a Gaussian, as in ML-Agents."""
    deterministic: Bool = False
    """Take the most likely action instead of a sample, while training too."""

    @field_validator("vis_encode_type")
    @classmethod
    def _is_known(cls, value: str) -> str:
        names = plugins.names("encoders")
        return _known(value, "image encoder", [name.removeprefix("visual:") for name in names if ":" in name])


class NormalizingNetworkSettings(NetworkSettings):
    """The same for a trainer that normalises unless told otherwise."""

    normalize: Bool = True
    """Normalise vector observations by their running mean and variance."""


def _known(value: str, kind: str, known: Sequence[str]) -> str:
    if value not in known:
        text = f"asks for an unknown {kind},"
        raise PydanticCustomError("unknown_choice", text, {"given": value, "known": list(known)})
    return value
