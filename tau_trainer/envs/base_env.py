"""Adapter that plays any ``BaseEnv`` of mlagents-envs' low-level API, theirs or ours, like an engine."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tau_trainer.bridge.side_channels import ENVIRONMENT_PARAMETERS, STATS, Sampler, SamplerKind, Stat
from tau_trainer.envs.contract import OnEvent, OnStat, Parameters
from tau_trainer.envs.faults import keyed, parts_of, require
from tau_trainer.envs.mlagents.base_env import ActionTuple
from tau_trainer.envs.mlagents.side_channel.side_channel_manager import channels_of
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.envs.threaded import ThreadedEnvironment, named_arguments
from tau_trainer.errors import SettingsError
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    Aggregation,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    StepBatch,
    Terminals,
)

if TYPE_CHECKING:
    from tau_trainer.settings import RunSettings

PREFIX = "mlagents:"
_STEPS = ("agent_id", "obs", "reward", "group_id", "group_reward")
"""Attributes that decision steps and terminal steps share."""


class BaseEnvSource:
    """Makes each environment by calling the function of ``--env mlagents:MODULE:FUNCTION`` with a worker's number.

    The function returns a new environment each time. ``--env-args`` are its other arguments. MODULE can be
    ``__main__``.
    """

    invitation: str | None = None
    warnings: tuple[str, ...] = ()

    def __init__(self, settings: RunSettings, count: int, log_folder: Path) -> None:
        """Raises SettingsError if the function does not exist."""
        self._env = env = settings.env_settings
        place = (env.env_path or "").removeprefix(PREFIX)
        module, _, name = place.partition(":")
        try:
            self._function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise SettingsError(
                f"--env {env.env_path}: {error}; name a function that makes an environment, as {PREFIX}MODULE:FUNCTION"
            ) from error
        self._arguments = named_arguments(env.env_args or (), place)

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> BaseEnvEnvironment:
        """The environment of pair ``index``, not yet started."""
        env = self._env
        budget = RestartBudget.of(env, on_event)
        return BaseEnvEnvironment(index, partial(self._function, index, **self._arguments), None, budget, on_stat)


class BaseEnvEnvironment(ThreadedEnvironment[Any]):
    """A ``BaseEnv`` behind :class:`~tau_trainer.envs.contract.Environment`.

    Parameters are sent through its environment parameters channel, if it has one. Values that its stats channel
    collects are recorded.
    """

    def __init__(self, index: int, make: Any, seed: int | None, budget: RestartBudget, on_stat: OnStat) -> None:
        super().__init__(index, make, seed, budget)
        self._on_stat = on_stat
        self._parameters_sent: Parameters = {}
        self._stats: list[Stat] = []

    def _opened(self, env: Any) -> None:
        require(
            env,
            "the function that --env names",
            "BaseEnv",
            ("reset", "step", "behavior_specs", "get_steps", "set_actions"),
        )
        self.specs, self._parameters_sent = {}, {}

    def tell(self, parameters: Parameters) -> None:
        """Send changed parameters with the next step."""
        self._parameters = parameters
        self._send()

    async def next(self) -> list[StepBatch]:
        """Return the results of the step. Raises EngineError."""
        batches = await super().next()
        stats, self._stats = self._stats, []
        for stat in stats:
            self._on_stat(stat)
        return batches

    def _begin(self, seed: int | None) -> list[StepBatch]:
        self._parameters_sent = {}
        self._send()
        self._playing.reset()
        return self._heard()

    def _advance(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        env = self._playing
        for name, chosen in actions.items():
            env.set_actions(name, ActionTuple(chosen.continuous, chosen.discrete))
        env.step()
        return self._heard()

    def _send(self) -> None:
        changed = {name: value for name, value in self._parameters.items() if self._parameters_sent.get(name) != value}
        channel: Any = channels_of(self._playing).get(ENVIRONMENT_PARAMETERS)
        self._parameters_sent = self._parameters
        for name, value in changed.items() if channel is not None else ():
            if not isinstance(value, Sampler):
                channel.set_float_parameter(name, value)
            elif value.kind is SamplerKind.MULTI_RANGE_UNIFORM:
                ranges = list(zip(value.values[::2], value.values[1::2], strict=True))
                channel.set_multirangeuniform_sampler_parameters(name, ranges, value.seed)
            else:
                uniform = value.kind is SamplerKind.UNIFORM
                send = channel.set_uniform_sampler_parameters if uniform else channel.set_gaussian_sampler_parameters
                send(name, *value.values, value.seed)

    def _heard(self) -> list[StepBatch]:
        """The results of the last step."""
        stats = channels_of(self._playing).get(STATS)
        if stats is not None:
            for key, values in stats.get_and_reset_stats().items():
                self._stats += [Stat(key, value, Aggregation(kind.value)) for value, kind in values]
        batches = []
        who = type(self._playing).__name__
        for name, spec in keyed(self._playing.behavior_specs, f"{who}.behavior_specs").items():
            if name not in self.specs:
                require(spec, f"{who}.behavior_specs", "BehaviorSpec", ("observation_specs", "action_spec"))
                self.specs[name] = _spec(name, spec)
            method = f"{who}.get_steps({name!r})"
            found = parts_of(self._playing.get_steps(name), method, ("decision steps", "terminal steps"))
            decisions = require(found[0], method, "DecisionSteps", (*_STEPS, "action_mask"))
            terminals = require(found[1], method, "TerminalSteps", (*_STEPS, "interrupted"))
            if len(decisions) or len(terminals):
                batches.append(_batch(name, decisions, terminals))
        return batches


def _spec(name: str, spec: Any) -> BehaviorSpec:
    sensors = tuple(
        ObservationSpec(
            sensor.name,
            tuple(sensor.shape),
            tuple(DimensionProperty(int(flags)) for flags in sensor.dimension_property),
            ObservationType(sensor.observation_type.value),
        )
        for sensor in spec.observation_specs
    )
    actions = spec.action_spec
    return BehaviorSpec(name, sensors, ActionSpec(actions.continuous_size, tuple(actions.discrete_branches)))


def _batch(name: str, decisions: Any, terminals: Any) -> StepBatch:
    masks = decisions.action_mask
    return StepBatch(
        behavior=name,
        agent_ids=np.asarray(decisions.agent_id, np.int32),
        obs=tuple(map(np.asarray, decisions.obs)),
        reward=np.asarray(decisions.reward),
        group_id=np.asarray(decisions.group_id, np.int32),
        group_reward=np.asarray(decisions.group_reward, np.float32),
        terminals=Terminals(
            agent_ids=np.asarray(terminals.agent_id, np.int32),
            obs=tuple(map(np.asarray, terminals.obs)),
            reward=np.asarray(terminals.reward),
            truncated=np.asarray(terminals.interrupted, np.bool_),
            group_id=np.asarray(terminals.group_id, np.int32),
            group_reward=np.asarray(terminals.group_reward, np.float32),
        ),
        action_mask=np.concatenate(masks, axis=1) if masks else None,
    )
