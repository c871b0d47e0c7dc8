"""Current environment parameters: fixed ones, and those with a curriculum, which is a sequence of lessons.

A lesson ends by ML-Agents' rules: the finished share of the named behavior's ``max_steps``, or the mean return of its
latest episodes, exceeds the threshold; and at least ``min_lesson_length`` episodes ended in it, for both measures. Two
of these rules differ: with ``min_lesson_length`` 0, a single lucky episode ends a lesson in ML-Agents, but here
:data:`FEWEST_EPISODES` episodes decide; and here the smoothed mean moves with new episodes, not with every message of
the engine.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tau_trainer.bridge.side_channels import Sampler, SamplerKind
from tau_trainer.envs import Parameters
from tau_trainer.errors import SettingsError
from tau_trainer.settings import GaussianSampler, UniformSampler
from tau_trainer.settings.parameters import AnyParameter, CompletionCriteria, Curriculum, Lesson
from tau_trainer.specs import FloatArray, Json

FEWEST_EPISODES = 10
"""Number of episodes over which a reward is measured if ``min_lesson_length`` is 0."""
SMOOTHING = 0.25
"""Weight of the previous mean if ``signal_smoothing`` is set (as in ML-Agents)."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(slots=True)
class _Course:
    """One parameter's curriculum."""

    name: str
    lessons: tuple[Lesson, ...]
    values: tuple[float | Sampler, ...]
    """One for each lesson, in the form that is sent to engines."""
    number: int = 0
    """Index of the current lesson, from 0."""
    smoothed: float = 0.0

    @property
    def criteria(self) -> CompletionCriteria | None:
        """When the current lesson ends; None for the last lesson, which never ends."""
        last = self.number + 1 == len(self.lessons)
        return None if last else self.lessons[self.number].completion_criteria

    def __str__(self) -> str:
        return f"{self.name}: lesson {self.number + 1} of {len(self.lessons)}, {self.lessons[self.number].name}"


class Lessons:
    """All environment parameters of a run. Belongs to the event loop.

    Attributes:
        goes_on: whether any current lesson is followed by another.
        version: number of changes so far.
        reset_version: the :attr:`version` of the latest change that requires environments to restart.
    """

    def __init__(
        self,
        parameters: Mapping[str, AnyParameter],
        progress: Callable[[str], float] = lambda behavior: 0.0,
        begun: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Starts at every curriculum's first lesson. Raises SettingsError for a value that float32 cannot hold.

        Args:
            parameters: ``environment_parameters`` of the settings.
            progress: returns the finished share of a behavior's ``max_steps``, 0 to 1.
            begun: called with a sentence for each lesson that starts.
        """
        self.version = self.reset_version = 0
        self._progress = progress
        self._begun = begun
        self._fixed = {
            name: _travelling(name, value) for name, value in parameters.items() if not isinstance(value, Curriculum)
        }
        self._courses = [
            _Course(name, value.curriculum, tuple(_travelling(name, lesson.value) for lesson in value.curriculum))
            for name, value in parameters.items()
            if isinstance(value, Curriculum)
        ]
        self.goes_on = self._going_on
        self._returns: dict[str, deque[float]] = {
            behavior: deque(maxlen=longest) for behavior, longest in self._lengths().items()
        }
        self._heard: set[str] = set()

    @property
    def _going_on(self) -> bool:
        return any(course.criteria is not None for course in self._courses)

    def _lengths(self) -> dict[str, int]:
        """The largest number of episodes that a criterion needs, by behavior."""
        lengths: dict[str, int] = {}
        for course in self._courses:
            for lesson in course.lessons:
                criteria = lesson.completion_criteria
                if criteria is not None:
                    lengths[criteria.behavior] = max(lengths.get(criteria.behavior, 0), _length(criteria))
        return lengths

    @property
    def parameters(self) -> Parameters:
        """Current values to send to environments."""
        return self._fixed | {course.name: course.values[course.number] for course in self._courses}

    @property
    def numbers(self) -> Mapping[str, int]:
        """Index of the current lesson of each parameter with a curriculum, from 0."""
        return {course.name: course.number for course in self._courses}

    @property
    def sentences(self) -> tuple[str, ...]:
        """The current lessons, in words."""
        return tuple(str(course) for course in self._courses)

    def episodes(self, behavior: str, returns: FloatArray) -> None:
        """Episodes of a behavior (its short name) ended with undiscounted ``returns`` [k]."""
        known = self._returns.get(behavior)
        if known is not None and len(returns):
            known.extend(returns[np.isfinite(returns)].tolist())
            self._heard.add(behavior)

    def check(self) -> None:
        """Start the next lesson of each curriculum whose current one is over. Cheap: call it after every step."""
        over = [course for course in self._courses if self._over(course)]
        self._heard.clear()
        if not over:
            return
        self.version += 1
        for course in over:
            criteria = course.criteria
            assert criteria is not None
            if criteria.require_reset:
                self.reset_version = self.version
            course.number += 1
            self._begun(str(course))
        self.goes_on = self._going_on
        for returns in self._returns.values():  # they belong to earlier lessons
            returns.clear()

    def _over(self, course: _Course) -> bool:
        criteria = course.criteria
        if criteria is None or len(returns := self._returns[criteria.behavior]) < _length(criteria):
            return False
        if criteria.measure == "progress":
            return self._progress(criteria.behavior) > criteria.threshold
        if criteria.behavior not in self._heard:
            return False
        mean = math.fsum(returns) / len(returns)
        if criteria.signal_smoothing:
            mean = SMOOTHING * course.smoothed + (1.0 - SMOOTHING) * mean
            course.smoothed = mean
        return mean > criteria.threshold

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint keeps, as JSON values."""
        courses = {course.name: {"lesson": course.number, "smoothed": course.smoothed} for course in self._courses}
        return {"courses": courses, "returns": {name: list(values) for name, values in self._returns.items()}}

    def load(self, state: Json) -> None:
        """Restore :meth:`state`. If a curriculum has become shorter, it continues with its last lesson."""
        for course in self._courses:
            known = state["courses"].get(course.name)
            if known is not None:
                course.number = min(int(known["lesson"]), len(course.lessons) - 1)
                course.smoothed = float(known["smoothed"])
        self.goes_on = self._going_on
        for behavior, returns in self._returns.items():
            returns.extend(float(value) for value in state["returns"].get(behavior, ()))


def _length(criteria: CompletionCriteria) -> int:
    """Minimum number of episodes in a lesson; a reward is measured over them."""
    return criteria.min_lesson_length or (FEWEST_EPISODES if criteria.measure == "reward" else 0)


def _travelling(name: str, value: AnyParameter) -> float | Sampler:
    """A number or a sampler in the form that is sent. Raises SettingsError for values that float32 cannot hold."""
    parameter = _parameter(value)
    numbers = parameter.values if isinstance(parameter, Sampler) else (parameter,)
    if any(abs(number) > _LARGEST for number in numbers):
        raise SettingsError(f"environment_parameters.{name} is beyond {_LARGEST:.3g}, the largest possible value")
    return parameter


def _parameter(value: AnyParameter) -> float | Sampler:
    if isinstance(value, float | int):
        return float(value)
    if isinstance(value, UniformSampler):
        uniform = value.sampler_parameters
        return Sampler(SamplerKind.UNIFORM, uniform.seed, (uniform.min_value, uniform.max_value))
    if isinstance(value, GaussianSampler):
        gaussian = value.sampler_parameters
        return Sampler(SamplerKind.GAUSSIAN, gaussian.seed, (gaussian.mean, gaussian.st_dev))
    assert not isinstance(value, Curriculum), "lessons have values, not curricula"
    ranges = value.sampler_parameters
    return Sampler(SamplerKind.MULTI_RANGE_UNIFORM, ranges.seed, tuple(itertools.chain(*ranges.intervals)))
