"""``environment_parameters``: numbers and samplers that are sent to the engine, and curricula of them.

Reads every form of ML-Agents' file format: a number, ``sampler_type`` with ``sampler_parameters``, or ``curriculum``.
A sampler of type ``constant`` is read as its number.
A curriculum of a single lesson (the form in which ``mlagents-learn`` writes constants into its
``configuration.yaml``) is read as that lesson's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from tau_trainer.settings.kinds import Bool, Float, NaturalInt, Section, Text, Whole, invalid, one_of


class _Seeded(Section):
    seed: Annotated[Whole, Field(ge=-1, le=2**31 - 1)] = -1
    """Seed of the sampler; -1 = the run's seed plus a running index."""


def _ordered(low: float, high: float) -> None:
    if low > high:
        raise invalid(f"{low} is larger than {high}; write the smaller number first")


class UniformParameters(_Seeded):
    """Range of a uniform sampler."""

    min_value: Float = 0.0
    """Smallest value."""
    max_value: Float = 1.0
    """Largest value."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        _ordered(self.min_value, self.max_value)
        return self


class GaussianParameters(_Seeded):
    """Mean and deviation of a normal sampler."""

    mean: Float = 1.0
    """Mean."""
    st_dev: Annotated[Float, Field(ge=0)] = 1.0
    """Standard deviation."""


class MultiRangeUniformParameters(_Seeded):
    """Ranges of a sampler that is uniform over their union."""

    intervals: Annotated[tuple[tuple[Float, Float], ...], Field(min_length=1)] = ((0.0, 1.0),)
    """Pairs of smallest and largest value."""

    @field_validator("intervals")
    @classmethod
    def _ranges(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        for low, high in value:
            _ordered(low, high)
        return value


class ConstantParameters(_Seeded):
    """Value of a constant."""

    value: Float = 0.0
    """The value."""


class UniformSampler(Section):
    """``sampler_type: uniform``."""

    sampler_type: Literal["uniform"] = "uniform"
    sampler_parameters: UniformParameters


class GaussianSampler(Section):
    """``sampler_type: gaussian``."""

    sampler_type: Literal["gaussian"] = "gaussian"
    sampler_parameters: GaussianParameters


class MultiRangeUniformSampler(Section):
    """``sampler_type: multirangeuniform``."""

    sampler_type: Literal["multirangeuniform"] = "multirangeuniform"
    sampler_parameters: MultiRangeUniformParameters


class ConstantSampler(Section):
    """``sampler_type: constant``."""

    sampler_type: Literal["constant"] = "constant"
    sampler_parameters: ConstantParameters


SamplerSettings = UniformSampler | GaussianSampler | MultiRangeUniformSampler
"""How an engine draws a parameter's value."""


class CompletionCriteria(Section):
    """When a lesson ends."""

    behavior: Text
    """The behavior whose reward or progress is measured."""
    measure: Literal["reward", "progress"] = "reward"
    """Mean episode reward, or steps / max_steps."""
    threshold: Float = 0.0
    """Value above which the next lesson starts; 0 to 1 for progress."""
    min_lesson_length: NaturalInt = 0
    """Minimum episodes of the behavior in the lesson; a reward is the mean over them."""
    signal_smoothing: Bool = True
    """0.25 x previous + 0.75 x current mean."""
    require_reset: Bool = False
    """Reset the whole environment at the change."""

    @model_validator(mode="after")
    def _progress_is_a_share(self) -> Self:
        if self.measure == "progress" and not 0.0 <= self.threshold <= 1.0:
            raise invalid(f"threshold is {self.threshold}, but progress runs from 0 to 1")
        return self


def _number_of(value: ConstantSampler) -> float:
    """The number of a constant sampler, which is sent as a number."""
    return value.sampler_parameters.value


def _kind(value: object) -> str:
    """The kind of a value without a sampler_type."""
    if isinstance(value, Mapping):
        return "curriculum" if "curriculum" in value else ""
    return "curriculum" if isinstance(value, Curriculum) else "number"


def _any_of(**others: Any) -> Any:
    """The annotation of a sampler, or of one of ``others``."""
    samplers = {
        "uniform": UniformSampler,
        "gaussian": GaussianSampler,
        "multirangeuniform": MultiRangeUniformSampler,
        "constant": Annotated[ConstantSampler, AfterValidator(_number_of)],
    }
    missing = "is neither a number nor a sampler nor a curriculum; a sampler needs the key sampler_type"
    return one_of("sampler_type", samplers, others, _kind, missing)


LessonValue = float | SamplerSettings
"""Values of a lesson."""

if not TYPE_CHECKING:
    LessonValue = _any_of(number=Float)


class Lesson(Section):
    """One lesson of a curriculum."""

    name: Text
    """Shown in the curves."""
    value: LessonValue
    """A number or a sampler."""
    completion_criteria: CompletionCriteria | None = None
    """When the next lesson starts; the last lesson needs none."""


class Curriculum(Section):
    """``curriculum``: lessons in order."""

    curriculum: Annotated[tuple[Lesson, ...], Field(min_length=1)]
    """The lessons."""

    @field_validator("curriculum")
    @classmethod
    def _criteria(cls, lessons: tuple[Lesson, ...]) -> tuple[Lesson, ...]:
        for lesson in lessons[:-1]:
            if lesson.completion_criteria is None:
                raise invalid(f"lesson {lesson.name} has no completion_criteria, which every lesson but the last needs")
        return lessons


def _single(value: object) -> object:
    """A curriculum of one lesson is that lesson's value."""
    if isinstance(value, Curriculum) and len(value.curriculum) == 1:
        return value.curriculum[0].value
    return value


AnyParameter = float | SamplerSettings | Curriculum
"""One entry of ``environment_parameters``, after reading."""

if not TYPE_CHECKING:
    AnyParameter = Annotated[_any_of(number=Float, curriculum=Curriculum), AfterValidator(_single)]
