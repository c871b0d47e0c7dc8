"""The sections of a run with a batched environment, whose copies are tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.kinds import Bool, NaturalInt, PositiveInt, Section, Text


class EnvironmentSettings(Section):
    """``environment``: the environment and its copies."""

    name: Text
    """A batched environment by its name, or the user's own MODULE:CLASS."""
    num_envs: PositiveInt = 1024
    """Copies that play at once."""
    starts: Literal["drawn", "fixed", "pool"] | None = None
    """How episodes start: drawn at random, each like the first one of its copy, or from a pool of starts; null = the
    environment's own way."""
    pool: PositiveInt = 1024
    """Number of starts in the pool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, by name."""


class EvaluationSettings(Section):
    """``evaluation``: episodes with the most likely actions, in separate copies."""

    interval: NaturalInt = 0
    """Decisions between two evaluations; 0: only at the end."""
    episodes: NaturalInt = 16
    """Copies that play one episode each; 0: no evaluation."""
    max_episode_steps: PositiveInt = 10000
    """Steps after which an unfinished episode is counted as it is."""
    trace: Bool = False
    """Keep one episode of the last evaluation: trace.npz, and trace.gif if the environment draws pictures."""

    @model_validator(mode="after")
    def _plays(self) -> Self:
        if self.interval and not self.episodes:
            text = "has episodes 0 but interval {interval}; raise episodes, or set interval to 0 for no evaluation"
            raise PydanticCustomError("plays_nothing", text, {"interval": self.interval})
        return self


def _as_word(value: object) -> object:
    """Undo YAML's reading of ``on`` and ``off`` as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Compile = Annotated[Literal["auto", "on", "off"], BeforeValidator(_as_word)]
"""When to compile stepping and acting: if a probe finds it faster, always, or never."""


def is_batched(data: Mapping[str, Any]) -> bool:
    """Whether a file's data has a batched environment."""
    return data.get("environment") is not None
