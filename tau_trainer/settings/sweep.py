"""``sweep``: what ``tau-train sweep`` searches, how trials are compared, and which of them go on."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tau_trainer.settings.kinds import Float, Int, PositiveFloat, PositiveInt, Section, Text
from tau_trainer.settings.tasks import ClusterSettings
from tau_trainer.settings.trainers import TrainerSettings

_FROM_ABOVE_ZERO = ("loguniform", "lograndint")


class Distribution(Section):
    """``sweep.space.KEY``: values of a setting, by exactly one of Ray Tune's distributions."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    """One of these."""
    uniform: tuple[Float, Float] | None = None
    """From the first to the second."""
    loguniform: tuple[Float, Float] | None = None
    """The same, every size as likely."""
    quniform: tuple[Float, Float, PositiveFloat] | None = None
    """As uniform, rounded to multiples of the third."""
    randint: tuple[Int, Int] | None = None
    """Whole numbers from the first on, below the second."""
    lograndint: tuple[Int, Int] | None = None
    """The same, every size as likely."""
    qrandint: tuple[Int, Int, PositiveInt] | None = None
    """Whole multiples of the third, from the first to the second."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "one_distribution",
                "needs exactly one of {known}, such as loguniform: [1e-5, 1e-2]",
                {"known": ", ".join(type(self).model_fields)},
            )
        if self.kind == "choice":
            return self
        low, high = self.arguments[:2]
        if low >= high or (self.kind in _FROM_ABOVE_ZERO and low <= 0):
            raise PydanticCustomError(
                "range",
                "has a {kind} from {low} to {high}; let it begin {above}below its end",
                {"kind": self.kind, "low": low, "high": high, "above": "above 0 and " if "log" in self.kind else ""},
            )
        return self

    @property
    def kind(self) -> str:
        """Its name, which is Ray Tune's."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Values to choose from, or the numbers that Ray Tune's function takes."""
        given: tuple[Any, ...] = getattr(self, self.kind)
        return given

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values to choose from, or the least and the largest."""
        if self.kind == "choice":
            return self.arguments
        low, high = self.arguments[:2]
        return low, high - 1 if self.kind in ("randint", "lograndint") else high

    def within(self, value: Any) -> Any:
        """``value``, or the end of the range that it is beyond."""
        return value if self.kind == "choice" else min(max(value, self.extremes[0]), self.extremes[1])


class SweepSettings(Section):
    """``sweep``: many runs with different settings, of which the better ones go on."""

    metric: Literal["reward", "accuracy"] = "reward"
    """Mean return of the episodes since the last report, or the newest policy's accuracy on validation rows."""
    mode: Literal["max", "min"] = "max"
    """Whether more of it is better, or less."""
    trials: PositiveInt = 10
    """Runs, each with values of its own."""
    scheduler: Literal["asha", "pbt", "none"] = "asha"
    """Successive halving ends who is behind; population-based training lets them go on from who is ahead, with values
    near theirs; none lets all come to their end."""
    interval: PositiveInt | None = None
    """Decisions of a trial between two reports, by which it is judged; null = the smallest summary_freq."""
    grace: PositiveInt | None = None
    """Decisions that ``asha`` lets every trial have; null = max_steps / reduction_factor^2, at least one interval."""
    reduction_factor: Annotated[PositiveInt, Field(ge=2)] = 4
    """Of so many trials ``asha`` lets one go on, each time they have had so many times the decisions."""
    quantile: Annotated[Float, Field(gt=0, le=0.5)] = 0.25
    """Share of trials that ``pbt`` takes as ahead, and as behind."""
    space: Annotated[dict[Text, Distribution], Field(min_length=1)]
    """Distribution of each setting that is searched, by its key as ``--set`` has it; what all behaviors have needs no
    ``behaviors.*`` before it."""
    cluster: ClusterSettings = ClusterSettings(address="local")
    """Where trials run; ``resources`` is what a node must have free for each."""

    @field_validator("cluster", mode="before")
    @classmethod
    def _is_here(cls, value: Any) -> Any:
        return {"address": "local"} | value if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _fits_what_was_learned(self) -> Self:
        fixed = [key for key in self.space if "network_settings" in key or key.rpartition(".")[2] == "trainer_type"]
        if self.scheduler == "pbt" and fixed:
            raise PydanticCustomError(
                "pbt_goes_on",
                "has scheduler pbt, which goes on with the networks that there are, and searches {key}; "
                "choose scheduler asha or take that key out of space",
                {"key": fixed[0]},
            )
        return self


def full_key(key: str) -> str:
    """``hyperparameters.beta`` as ``behaviors.*.hyperparameters.beta``: what all behaviors have needs no more.

    ``key`` may be an assignment, ``KEY=VALUE``.
    """
    section = key.partition("=")[0].partition(".")[0].strip()
    return f"behaviors.*.{key}" if section in TrainerSettings.model_fields else key
