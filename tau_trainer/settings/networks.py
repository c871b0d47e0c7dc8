"""``network_settings``: the shape of a policy's network, with ML-Agents' names and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from tau_trainer import plugins
from tau_trainer.settings.kinds import Bool, PositiveInt, Section


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
    hidden_units: Annotated[PositiveInt, Field(le=65536)] = 128
    """Units of every hidden layer."""
    num_layers: Annotated[PositiveInt, Field(le=1024)] = 2
    """Number of hidden layers."""
    vis_encode_type: str = "simple"
    """Encoder of visual observations: simple, nature_cnn, resnet, match3, fully_connected, or one that a package brings
    as ``visual:<name>``; means nothing for a behavior that has none."""
    memory: MemorySettings | None = None
    """Recurrent memory, or None."""
    goal_conditioning_type: Literal["hyper", "none"] = "hyper"
    """How a goal-signal observation conditions the network; means nothing without one."""
    action_levels: Annotated[PositiveInt, Field(ge=2, le=1024)] | None = None
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


def _known(value: str, kind: str, known: Sequence[str]) -> str:
    if value not in known:
        text = f"asks for an unknown {kind},"
        raise PydanticCustomError("unknown_choice", text, {"given": value, "known": list(known)})
    return value
