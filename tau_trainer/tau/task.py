"""The Tau task for a run: engine flags, rewards, scores on held-out rows, the evaluation at the end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tau_trainer.errors import SettingsError
from tau_trainer.metrics import BaselineScore, TaskKeys, keys
from tau_trainer.settings import RunSettings, TauSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tau_trainer.tau.baselines import Act, ConfiguredFormula, baselines, require_evaluation, score
from tau_trainer.tau.dataset import PACKAGED_DATA, TauDataset, load_dataset
from tau_trainer.tau.evaluation import TauEvaluation, evaluate
from tau_trainer.tau.profiles import EMBEDDING_SIZE, PROFILES, profile_named
from tau_trainer.tau.rewarder import RewardComputer
from tau_trainer.tau.sizing import size_sentence, sized

if TYPE_CHECKING:
    from torch import Tensor

    from tau_trainer.envs.batched import BatchedEnv
    from tau_trainer.models import Policy

TARGET_SENSOR = "target"
"""The sensor from which an AgentTrainer computes rewards; the policy never sees it."""

_SAID_BY = {
    "--tau-profile": ("tau.profile", "--tau-profile"),
    "--tau-agents": ("tau.agents", "--tau-agents", "--tau-pairs", "--agents"),
    "--tau-data": ("tau.data", "--tau-data"),
}
"""Engine flags that this task sets: the setting of each, and all names that engines accept for it."""


def acting(policy: Policy) -> Act:
    """A policy's deterministic action, as the engine gets it: prompts [n, 384] to [n, A] in [-1, 1]."""
    rng = np.random.default_rng(0)  # a deterministic action does not use it
    return lambda prompts: policy.act((prompts,), None, rng, deterministic=True).to_env().continuous


class TauTask:
    """Implements :class:`tau_trainer.training.task.Task`; the data set is loaded once for all pairs."""

    keys = TaskKeys("Tau/Mean Reward", "Tau/Success Rate", "Tau/Aggregated Reward")
    columns: tuple[str, ...] = ("success", "validation")
    batched = "tau"

    sized = staticmethod(sized)

    def __init__(self, settings: TauSettings) -> None:
        """Raises DataError (also if there is nothing to evaluate on), SettingsError."""
        self.pairs = settings.pairs
        self.max_concurrent = settings.max_concurrent
        self.shared = settings.policy == "shared"
        self.copies = settings.agents
        self.evaluates = settings.evaluate
        self.subject = f"data {(settings.data or PACKAGED_DATA).name}"
        self.profile = profile_named(settings.profile or "tau3")
        self._settings = settings
        threshold = self.profile.threshold(settings.reward.threshold)
        self._reward = settings.reward.model_copy(update={"threshold": threshold})
        self.formula = ConfiguredFormula(
            self._reward.formula or self.profile.reward, self._reward.threshold, self._reward.columns
        )
        if self.evaluates:
            require_evaluation(self.dataset)

    @cached_property
    def dataset(self) -> TauDataset:
        """The data set for training and evaluation."""
        return load_dataset(self._settings.data)

    def engine_args(self, given: Sequence[str]) -> tuple[str, ...]:
        """Flags for profile, number of agents, data, and whether to show the target.

        Raises SettingsError if ``given``, the user's own flags, contradict them.
        """
        args = ["--tau-profile", self.profile.name, "--tau-agents", str(self._settings.agents)]
        if self._settings.data is not None:
            args += ["--tau-data", str(Path(self._settings.data).resolve())]
        if self._reward.source == "trainer":
            args.append("--tau-target-sensor")
        for flag, value in itertools.pairwise(args):
            _refuse_another(flag, value, given)
        return tuple(args)

    @property
    def editor_parameters(self) -> Mapping[str, float]:
        """The same values without the data, which are in the editor's project."""
        return {
            "profile": float(self.profile.index),
            "num_agents": float(self._settings.agents),
            "target_sensor": float(self._reward.source == "trainer"),
        }

    @property
    def identity(self) -> Mapping[str, str]:
        """The data set's digest if policies are evaluated on it; otherwise only the engine knows its data."""
        return {"data set": self.dataset.digest()} if self.evaluates else {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about unusable rows of the data set, and about too few rows to choose by."""
        if not self.evaluates:
            return ()
        sentences = (self.dataset.skipped_sentence(), self.dataset.undivided_sentence())
        return tuple(sentence for sentence in sentences if sentence is not None)

    def size(self, settings: RunSettings) -> str:
        """The size of the task, in a line."""
        return size_sentence(self.dataset, self.profile, settings)

    def visible(self, spec: BehaviorSpec) -> BehaviorSpec:
        """The behavior without the target, which is only for the AgentTrainer."""
        sensors = tuple(sensor for sensor in spec.observations if sensor.name != TARGET_SENSOR)
        return BehaviorSpec(spec.name, sensors, spec.actions)

    @property
    def batched_spec(self) -> BehaviorSpec:
        """The behavior of the headless scene."""
        size, shows = self.profile.action_size, self._reward.source == "trainer"
        target = (ObservationSpec(TARGET_SENSOR, (size,)),) if shows else ()
        prompt = ObservationSpec(f"VectorSensor_size{EMBEDDING_SIZE}", (EMBEDDING_SIZE,))
        return BehaviorSpec("TauAgent?team=0", (*target, prompt), ActionSpec(continuous_size=size))

    def batched_env(self, seed: Tensor, device: str) -> BatchedEnv:
        """The same scene as tensors."""
        from tau_trainer.tau.batched import TauBatched  # with torch, which engines' runs load later

        return TauBatched(len(seed), seed=seed, device=device, profile=self.profile.name, data=self._settings.data)

    def batched_target(self, env: BatchedEnv) -> Tensor:
        """The vectors of the right answers."""
        from tau_trainer.tau.batched import TauBatched

        assert isinstance(env, TauBatched)
        return env.target(env.state)

    def rewarder(self, spec: BehaviorSpec) -> RewardComputer:
        """The reward of the settings. Raises SettingsError if a target sensor is needed but missing."""
        self._check_size(spec)
        reward, sensors = self._reward, [sensor.name for sensor in spec.observations]
        if reward.source == "trainer" and TARGET_SENSOR not in sensors:
            raise SettingsError(
                f"tau.reward.source is trainer, but behavior '{spec.short_name}' has no sensor named "
                f"'{TARGET_SENSOR}' to compute it from; add one to the agent, or use --set tau.reward.source=engine"
            )
        target = sensors.index(TARGET_SENSOR) if TARGET_SENSOR in sensors else 0
        return RewardComputer(reward, self.formula.name, spec.actions.components, target)

    def check(self, spec: BehaviorSpec) -> None:
        """Raises SettingsError for a behavior that cannot be evaluated on held-out rows."""
        self._check_size(spec)
        shapes, actions = [sensor.shape for sensor in spec.observations], spec.actions
        wanted = self.profile.action_size
        if shapes != [(EMBEDDING_SIZE,)] or actions != ActionSpec(continuous_size=wanted):
            raise SettingsError(
                f"behavior '{spec.short_name}' does not take a prompt of {EMBEDDING_SIZE} numbers and answer with "
                f"{wanted}, so it cannot be evaluated on held-out prompts; add --no-evaluate, or use `tau-train learn`"
            )

    def _check_size(self, spec: BehaviorSpec) -> None:
        """Raises SettingsError for a build of another profile, since its number of actions is fixed."""
        found, wanted = spec.actions.continuous_size, self.profile.action_size
        other = next((known.name for known in PROFILES.values() if known.action_size == found), None)
        if found != wanted and other is not None:
            raise SettingsError(
                f"behavior '{spec.short_name}' answers with {found} numbers, and the profile {self.profile.name} "
                f"has {wanted}; an engine's own number is fixed, so use --set tau.profile={other}, or headless:tau"
            )

    @cached_property
    def baselines(self) -> Mapping[str, BaselineScore]:
        """Scores of baselines without input, and of supervised learners, on the validation rows."""
        return baselines(self.dataset, self.profile, self.formula, "validation")

    def quick_scores(self, policy: Policy) -> Mapping[str, float]:
        """Accuracy and reward on the validation rows."""
        rows = self.dataset.validation
        if not len(rows):
            return {}
        found = score(acting(policy), self.dataset, self.profile, self.formula, rows)
        return {keys.VALIDATION_ACCURACY: found.accuracy, keys.VALIDATION_REWARD: found.reward}

    def evaluate(self, policy: Policy) -> TauEvaluation:
        """Evaluate every test row once, with the deterministic action, and compare with the baselines."""
        return evaluate(acting(policy), self.dataset, self.profile, self.formula)


def _refuse_another(flag: str, value: str, given: Sequence[str]) -> None:
    """Raise SettingsError if ``given`` has ``flag``, under any of its names, with another value than ``value``."""
    setting, *names = _SAID_BY.get(flag, ("",))
    for name, said in itertools.pairwise(word for argument in given for word in argument.split("=", 1)):
        if name in names and said != value:
            raise SettingsError(
                f"--env-args has `{name} {said}`, but this run starts the engine with `{flag} {value}`; "
                f"leave it out of --env-args, and set {setting}"
            )
