"""All learners of a run: one a behavior where pairs share, one a behavior and pair where they do not."""

from __future__ import annotations

import difflib
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from tau_trainer.errors import SettingsError
from tau_trainer.metrics import MetricsHub
from tau_trainer.rewards import RewardComputer
from tau_trainer.settings import RunSettings, TrainerSettings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.agent_trainer import TARGET_SENSOR
from tau_trainer.training.learner import Evaluator, Learner, LearnerOptions
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.tau_agent import TauAgent


class LearnerPool:
    """Makes learners when engines show their behaviors, and gives every pair its TauAgents and rewards."""

    def __init__(
        self,
        plan: RunPlan,
        hub: MetricsHub,
        evaluator: Evaluator | None = None,
        on_new: Callable[[Learner], None] | None = None,
    ) -> None:
        """``on_new`` is called with every learner before it is used (to restore it from a checkpoint, say)."""
        self.learners: dict[str, Learner] = {}
        self._plan = plan
        self._hub = hub
        self._evaluator = evaluator
        self._on_new = on_new or (lambda learner: None)
        # Small networks gain nothing from a second thread inside one operation. Acting happens in the caller's thread,
        # learning in the executor's, and torch keeps this number for each thread.
        torch.set_num_threads(1)
        workers = 1 if plan.shared else max(1, (os.cpu_count() or 2) - 1)
        self.executor = ThreadPoolExecutor(
            workers, thread_name_prefix="learner", initializer=torch.set_num_threads, initargs=(1,)
        )

    def of_pair(self, pair: int) -> list[Learner]:
        """The learners that ``pair`` feeds."""
        if self._plan.shared:
            return list(self.learners.values())
        return [learner for name, learner in self.learners.items() if name.endswith(f"-pair{pair}")]

    def name(self, behavior: str, pair: int) -> str:
        """A learner's key in metrics and files."""
        return behavior if self._plan.shared else f"{behavior}-pair{pair}"

    def agent(self, pair: int, spec: BehaviorSpec) -> TauAgent:
        """The TauAgent of ``pair`` for a behavior. Raises SettingsError where the settings know no such behavior."""
        name = self.name(spec.short_name, pair)
        visible = self._visible(spec)
        learner = self.learners.get(name)
        if learner is None:
            learner = self._make(name, visible, self.reward(spec).components)
            self.learners[name] = learner
        elif (learner.spec.observations, learner.spec.actions) != (visible.observations, visible.actions):
            raise SettingsError(
                f"behavior '{spec.short_name}' has other sensors or actions in engine {pair} than elsewhere; "
                "start every engine from the same build with the same arguments"
            )
        return TauAgent(learner, spec)

    def reward(self, spec: BehaviorSpec) -> RewardComputer:
        """The rewards of one pair for a behavior. Raises SettingsError where a target sensor is needed but missing."""
        tau = self._plan.tau
        if tau is None:
            return RewardComputer(source="engine", action_components=spec.actions.components)
        reward = tau.reward
        if reward.source == "trainer" and all(sensor.name != TARGET_SENSOR for sensor in spec.observations):
            raise SettingsError(
                f"tau.reward.source is trainer, but behavior '{spec.short_name}' has no sensor named "
                f"'{TARGET_SENSOR}' to compute it from; add one to the agent, or use --set tau.reward.source=engine"
            )
        return RewardComputer(
            source=reward.source,
            action_components=spec.actions.components,
            formula=reward.formula or self.formula,
            credit=reward.credit,
            threshold=reward.threshold,
            columns=reward.columns,
            predicate=reward.predicate,
            success_threshold=reward.success_threshold,
            success_distance=reward.success_distance,
            values=reward.values,
            aggregate=reward.aggregate,
            window=reward.window,
            learn_from=reward.learn_from,
        )

    @property
    def formula(self) -> str:
        """The profile's own reward formula."""
        from tau_trainer.tau.profiles import PROFILES

        assert self._plan.tau is not None
        return PROFILES[self._plan.tau.profile].reward

    def _visible(self, spec: BehaviorSpec) -> BehaviorSpec:
        """The behavior as the policy sees it: without the target sensor where the trainer knows the reward."""
        if self._plan.tau is None:
            return spec
        sensors = tuple(sensor for sensor in spec.observations if sensor.name != TARGET_SENSOR)
        return BehaviorSpec(spec.name, sensors, spec.actions)

    def _make(self, name: str, spec: BehaviorSpec, reward_components: int) -> Learner:
        settings = trainer_settings(self._plan.settings, spec.short_name)
        check_trainable(spec)
        share = 1 if self._plan.shared else self._plan.pairs
        options = LearnerOptions(
            seed=_seed_of(self._plan.seed, name),
            max_steps=-(-settings.max_steps // share),
            max_policy_age=self._plan.max_policy_age,
            reward_components=reward_components,
            deterministic_actions=settings.network_settings.deterministic,
            device=self._plan.settings.torch_settings.device or "cpu",
        )
        learner = Learner(name, spec, settings, options, self._hub, self.executor, self._evaluator)
        self._on_new(learner)
        self._hub.begin(
            name,
            step=learner.decisions,
            max_steps=learner.max_steps,
            hyperparameters=settings.model_dump(mode="json"),
        )
        return learner

    def close(self) -> None:
        """End the learners' threads; an update that runs is waited for."""
        self.executor.shutdown(wait=True, cancel_futures=True)


def trainer_settings(settings: RunSettings, behavior: str) -> TrainerSettings:
    """The settings of a behavior by its short name. Raises SettingsError with the names there are."""
    if behavior in settings.behaviors:
        return settings.behaviors[behavior]
    if settings.default_settings is not None:
        return settings.default_settings
    if not settings.behaviors:
        return TrainerSettings()
    near = difflib.get_close_matches(behavior, settings.behaviors, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"it names {_quoted(list(settings.behaviors))}."
    raise SettingsError(
        f"the engine shows behavior '{behavior}', which `behaviors` in the settings does not name; {hint} "
        "Rename one of them, or add `default_settings`."
    )


def check_trainable(spec: BehaviorSpec) -> None:
    """Raises SettingsError for a behavior that this version cannot learn."""
    if spec.actions.components == 0:
        raise SettingsError(f"behavior '{spec.short_name}' has no actions, so there is nothing to learn")
    for sensor in spec.observations:
        if len(sensor.shape) != 1:
            raise SettingsError(
                f"behavior '{spec.short_name}' has sensor '{sensor.name}' of shape {sensor.shape}; "
                "this version learns from vector observations only, remove the sensor"
            )


def _seed_of(seed: int, name: str) -> int:
    """A learner's own seed: the same for the same run seed and name, whatever order learners appear in."""
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
