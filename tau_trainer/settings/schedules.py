"""Numbers that follow a schedule over a run's steps ``t``: decisions so far, including those before it was resumed.

The value of such a key is a number; or ``[[t, v], ...]``, linear between these points; or a mapping with a ``mode``,
whose formulas are hironaka's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, TypeAdapter

from tau_trainer.settings.kinds import Fraction, NaturalFloat, PositiveFloat, Section, invalid, one_of


class ScheduleSettings(Section):
    """Base of every ``mode``."""

    mode: str
    initial: NaturalFloat
    """The number at the start."""

    def at(self, t: float) -> float:
        """The number after ``t`` steps."""
        raise NotImplementedError


class ExponentialSettings(ScheduleSettings):
    """``exponential``: ``initial rate^t + final (1 - rate^t)``."""

    mode: Literal["exponential"] = "exponential"
    final: NaturalFloat
    """The number in the limit."""
    rate: Fraction
    """Share of the difference left after one step: 1 is constant; 0.999999 halves it about every 700,000 steps."""

    def at(self, t: float) -> float:
        """The number after ``t`` steps."""
        left: float = self.rate**t
        return self.initial * left + self.final * (1.0 - left)


class InverseSettings(ScheduleSettings):
    """``inverse``: ``rate / (t + rate / initial)``; after ``rate / initial`` steps, half of the number is left."""

    mode: Literal["inverse"] = "inverse"
    rate: PositiveFloat
    """The larger, the slower the number falls."""

    def at(self, t: float) -> float:
        """The number after ``t`` steps."""
        return self.rate / (t + self.rate / self.initial) if self.initial else 0.0


Scheduled = float | tuple[tuple[float, float], ...] | ScheduleSettings
"""A number, points, or a formula."""
_MODES = {"exponential": ExponentialSettings, "inverse": InverseSettings}


def at(number: Scheduled, t: float) -> float:
    """The number after ``t`` steps; before the first point and after the last one, the value is constant."""
    if isinstance(number, ScheduleSettings):
        return number.at(t)
    if not isinstance(number, tuple):
        return number
    after = bisect_right(number, t, key=lambda point: point[0])
    if after in (0, len(number)):
        return number[min(after, len(number) - 1)][1]
    (begin, first), (end, last) = number[after - 1 : after + 1]
    return first + (last - first) * (t - begin) / (end - begin)


def described(number: Scheduled, schedule: str) -> str:
    """The start and the end of ``number``, and how it changes: by ``schedule`` if it is one number."""
    if isinstance(number, ScheduleSettings):
        end = f" to {number.final:g}" if isinstance(number, ExponentialSettings) else ""
        return f"{number.initial:g}{end} {number.mode}"
    if isinstance(number, tuple):
        return f"{number[0][1]:g} to {number[-1][1]:g} by points"
    return f"{number:g} {schedule}"


def _in_order(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if not points or any(before[0] >= after[0] for before, after in pairwise(points)):
        raise invalid("must be points [step, value] with increasing steps")
    return points


def _pairs(value: object) -> object:
    if isinstance(value, list | tuple) and not all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        raise invalid(
            "must be a number, or points [step, value] such as [[0, 3e-4], [1e6, 1e-5]], or a mapping with a mode"
        )
    return value


def _schedule_of(number: Any) -> Any:
    """The annotation of a key whose value is a ``number`` or a schedule of such numbers."""
    reader = TypeAdapter(number)

    def between(value: Any) -> Any:
        if isinstance(value, ScheduleSettings):
            for end in (value.initial, getattr(value, "final", value.initial)):
                reader.validate_python(end)
        return value

    points = Annotated[tuple[tuple[NaturalFloat, number], ...], BeforeValidator(_pairs), AfterValidator(_in_order)]
    schedule = one_of(
        "mode",
        _MODES,
        {"number": number, "points": points},
        lambda value: "points" if isinstance(value, list | tuple) else "" if isinstance(value, Mapping) else "number",
    )
    return Annotated[schedule, AfterValidator(between)]


PositiveSchedule = Scheduled
NaturalSchedule = Scheduled
FractionSchedule = Scheduled
if not TYPE_CHECKING:
    PositiveSchedule, NaturalSchedule, FractionSchedule = map(_schedule_of, (PositiveFloat, NaturalFloat, Fraction))
