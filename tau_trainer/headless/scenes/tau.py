"""The Tau task: see a prompt's embedding, and answer with a vector. The closer to the answer's, the higher the reward.

tau.md 5 describes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import LockstepScene, Played, numbers
from tau_trainer.headless.scenes.tau_stats import TauStats
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, IndexArray, Observations
from tau_trainer.tau.dataset import SplitName, TauDataset
from tau_trainer.tau.formulas import DEFAULT_THRESHOLD, REWARDS, reward_name_by_index
from tau_trainer.tau.profiles import EMBEDDING_SIZE, Profile, profile_by_index, profile_named
from tau_trainer.tau.targets import targets

BEHAVIOR = "TauAgent?team=0"
_SPLITS: tuple[SplitName, SplitName] = ("train", "evaluation")
"""Splits by the value of the environment parameter ``split``."""


def _split_by_index(index: float) -> SplitName:
    if index not in (0.0, 1.0):
        raise SettingsError(f"Environment parameter `split` is {index:g}; use 0 (train) or 1 (evaluation).")
    return _SPLITS[int(index)]


_PARAMETERS: dict[str, Callable[[float], Any]] = {
    "reward_type": reward_name_by_index,
    "columns": int,
    "threshold": float,
    "max_decisions": int,
    "reward_threshold": float,
    "faithful_terminal": bool,
    "split": _split_by_index,
}
"""Conversion of each environment parameter to the field of :class:`TauRules` (``reward_type`` is ``reward``)."""


@dataclass(frozen=True, slots=True)
class TauRules:
    """Settings that can change while the scene runs; every field is also an environment parameter (tau.md 5.4)."""

    reward: str | None = None
    """Reward formula; None: the profile's. Environment parameter ``reward_type``, by number."""
    columns: int | None = None
    """Number of leading components that count; None: all."""
    threshold: float = DEFAULT_THRESHOLD
    """Error below which a component counts as correct."""
    max_decisions: int = 2500
    """Number of decisions in an episode; it then ends as a truncation."""
    reward_threshold: float = -100.0
    """An episode ends if its reward falls to this value."""
    faithful_terminal: bool = False
    """If true, report both kinds of ends as terminal, as Tau does."""
    split: SplitName = "train"

    def updated(self, parameters: EnvironmentParameters) -> TauRules:
        """These rules, changed by the environment parameters that are set. Raises SettingsError for a wrong number."""
        set_here = {name: read for name, read in _PARAMETERS.items() if name in parameters}
        values = {name.removesuffix("_type"): read(parameters.get(name, 0.0)) for name, read in set_here.items()}
        return replace(self, **values)


class TauScene(LockstepScene):
    """Agents that answer prompts, one in each decision. Prompts are drawn with replacement, regardless of the actions.

    Observation: the prompt's embedding, 384 floats. If ``target_sensor`` is true, also the sensor ``target`` with the
    answer's vector: a trainer can compute rewards from it, and must hide it from its policy. Actions: as many numbers
    as the profile has, clipped to [-1, 1].
    """

    def __init__(
        self,
        *,
        dataset: TauDataset,
        profile: Profile,
        agents: int = 32,
        seed: int = 0,
        rules: TauRules | None = None,
        target_sensor: bool = False,
    ) -> None:
        self._settings = rules or TauRules()
        super().__init__((_spec(profile, target_sensor),), agents, seed, self._settings.max_decisions)
        self._dataset = dataset
        self._profile = profile
        self._target_sensor = target_sensor
        self._targets = targets(dataset, profile)
        self._stats = TauStats(agents, self._targets)
        self._earned = np.zeros(agents)
        self._prompt = np.zeros((agents, EMBEDDING_SIZE), np.float32)
        self._answer = np.zeros(agents, np.int32)
        self._target = np.zeros((agents, profile.action_size), np.float32)
        self._follow(self._settings)

    def update(self, parameters: EnvironmentParameters) -> None:
        """See :meth:`Scene.update`. Raises SettingsError for a wrong number."""
        self._follow(self._settings.updated(parameters))

    def begin(self, index: IndexArray) -> None:
        """Reset the counts of the episode; :meth:`turn` draws the next prompt with or without a new episode."""
        self._earned[index] = 0.0

    def turn(self) -> None:
        """Draw the next prompt of every agent, uniformly with replacement."""
        row = (self.random.uniform()[0] * len(self._rows)).astype(np.intp)
        self._prompt = self._rows.prompts[row]
        self._answer = self._rows.answer_index[row]
        self._target = self._targets[self._answer]

    def advance(self, actions: Actions) -> Played:
        """Pay every agent for its answer."""
        rules = self._rules
        output = np.minimum(np.maximum(actions.continuous, -1.0), 1.0)
        reward = self._formula(output, self._target, rules.threshold, rules.columns)
        self._earned += reward
        over: BoolArray = self._earned <= rules.reward_threshold
        if rules.faithful_terminal and self.max_decisions:
            over |= self.age + 1 >= self.max_decisions
        self._stats.add(output, self._answer, reward, rules.threshold)
        return reward.astype(np.float32), over

    def observe(self) -> Observations:
        """See the class's docstring."""
        if self._target_sensor:
            return self._target, self._prompt
        return (self._prompt,)

    def stats(self) -> list[Stat]:
        """See :meth:`Scene.stats`; keys as in tau.md 5.5."""
        return self._stats.take()

    def _follow(self, rules: TauRules) -> None:
        """Use ``rules`` from the next decision on."""
        _check(rules, self._profile)
        rules = replace(rules, threshold=self._profile.threshold(rules.threshold))
        self._rows = self._dataset.split(rules.split)
        if not len(self._rows):
            raise DataError(f"The data set {self._dataset.source} has no usable rows in its {rules.split} split.")
        self._rules = rules
        self._formula = REWARDS[rules.reward or self._profile.reward]
        self.max_decisions = rules.max_decisions


def resolve_profile(name: str, parameters: EnvironmentParameters) -> Profile:
    """The profile to play: the one of the environment parameter ``profile`` if it is set, else the one named ``name``.

    Raises SettingsError.
    """
    if "profile" in parameters:
        return profile_by_index(parameters.get("profile", 1.0))
    return profile_named(name)


def _spec(profile: Profile, target_sensor: bool) -> BehaviorSpec:
    sensors = [numbers(f"VectorSensor_size{EMBEDDING_SIZE}", EMBEDDING_SIZE)]
    if target_sensor:
        sensors.append(numbers("target", profile.action_size))
    sensors.sort(key=lambda sensor: sensor.name.lower())  # Unity's order of sensors
    return BehaviorSpec(BEHAVIOR, tuple(sensors), ActionSpec(continuous_size=profile.action_size))


def _check(rules: TauRules, profile: Profile) -> None:
    if rules.columns is not None and not 1 <= rules.columns <= profile.action_size:
        raise SettingsError(
            f"`columns` is {rules.columns}, but profile `{profile.name}` has the columns 1 to {profile.action_size}."
        )
    if not rules.threshold > 0.0:
        raise SettingsError(f"`threshold` is {rules.threshold:g}; give a number greater than 0.")
    if rules.max_decisions < 0:
        raise SettingsError(f"`max_decisions` is {rules.max_decisions}; give 0 (no limit) or more.")
