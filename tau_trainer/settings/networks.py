"""``network_settings``: the shape of a policy's network, with ML-Agents' names and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from tau_trainer import plugins
from tau_trainer.settings.kinds import Bool, PositiveInt, Section, Whole, invalid, unknown_choice

_MOST_LAYERS, _WIDEST = 1024, 65536


def expanded(net_arch: Sequence[Any]) -> list[int | str]:
    """The parts of a ``net_arch`` in order, with repetitions expanded.

    >>> expanded([64, {"repeat": 2, "net_arch": [128, "b"]}, "r32"])
    [64, 128, 'b', 128, 'b', 'r32']
    """
    parts: list[int | str] = []
    for part in net_arch:
        parts += expanded(part["net_arch"]) * part["repeat"] if isinstance(part, Mapping) else [part]
    return parts


def _parts(value: object) -> tuple[Any, ...]:
    """Validate the value of a file and convert it for :func:`expanded`."""
    if not isinstance(value, list | tuple):
        raise invalid("must be a list such as [128, b, r256]")
    parts = tuple(map(_part, value))
    if len(expanded(parts)) > _MOST_LAYERS:
        raise invalid(f"is longer than {_MOST_LAYERS} layers; shorten it")
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
    raise invalid(
        f"has an invalid part {value!r}; use a width (1 to {_WIDEST}), b (BatchNorm), rN (a residual block of width N),"
        " or {repeat, net_arch}"
    )


NetArch = Annotated[tuple[Any, ...], BeforeValidator(_parts)]
"""Hidden layers in hironaka's notation: a width, ``b``, ``rN``, or ``{repeat: times, net_arch: [...]}``."""


class MemorySettings(Section):
    """``memory``: a recurrent layer between body and heads; ``{}`` means the defaults."""

    memory_size: PositiveInt = 128
    """Floats of recurrent state, half hidden and half cell; even."""
    sequence_length: PositiveInt = 64
    """Number of decisions that gradients flow through."""
    type: str = "lstm"
    """Type of the recurrent block; plug-ins may add others."""

    @field_validator("type")
    @classmethod
    def _is_known(cls, value: str) -> str:
        return _known(value, "memory", plugins.names("memories"))

    @field_validator("memory_size")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise invalid("must be even: half is hidden state, half is cell state")
        return value


class NetworkSettings(Section):
    """``network_settings``: encoder and body of a network."""

    normalize: Bool = False
    """Normalize vector observations by their running mean and variance."""
    hidden_units: Annotated[Whole, Field(ge=1, le=_WIDEST)] = 128
    """Units of every hidden layer."""
    num_layers: Annotated[Whole, Field(ge=1, le=1024)] = 2
    """Number of hidden layers."""
    net_arch: NetArch | None = None
    """Hidden layers in order, with ReLU, instead of hidden_units and num_layers: a number is a layer with this number
    of units, ``b`` is BatchNorm after the layer before it, ``rN`` is a residual block of N units, and ``{repeat,
    net_arch}`` repeats a part; null = hidden_units and num_layers."""
    vis_encode_type: str = "simple"
    """Encoder of visual observations: simple, nature_cnn, resnet, match3, fully_connected, or one that a package
    provides as ``visual:<name>``; no effect for a behavior without visual observations."""
    memory: MemorySettings | None = None
    """Recurrent memory, or None."""
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    """How a goal-signal observation conditions the network; no effect without one."""
    action_levels: Annotated[Whole, Field(ge=2, le=1024)] | None = None
    """Number of values of each continuous action, evenly spaced over [-1, 1] and sampled like those of a branch (Tang
    and Agrawal 2020), so that a policy that is undecided between two actions takes one of them, not a value in between;
    null = a Gaussian, as in ML-Agents."""
    deterministic: Bool = False
    """Take the most likely action instead of a sample, also while training."""

    @field_validator("vis_encode_type")
    @classmethod
    def _is_known(cls, value: str) -> str:
        names = plugins.names("encoders")
        return _known(value, "image encoder", [name.removeprefix("visual:") for name in names if ":" in name])


class NormalizingNetworkSettings(NetworkSettings):
    """Network settings of a trainer that normalizes by default."""

    normalize: Bool = True
    """Normalise vector observations by their running mean and variance."""


def _known(value: str, kind: str, known: Sequence[str]) -> str:
    if value not in known:
        raise unknown_choice(f"has an unknown {kind},", value, known)
    return value
