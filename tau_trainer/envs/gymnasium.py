"""Gymnasium environments: a vector environment is played like a game with one agent for each copy."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from tau_trainer.envs.checked import checked
from tau_trainer.envs.contract import OnEvent, OnStat
from tau_trainer.envs.goals import GymnasiumGoals
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.envs.spaces import action_spec, arrays, open_ended, sensors, to_space
from tau_trainer.envs.threaded import ThreadedEnvironment, made, named_arguments, step_batch
from tau_trainer.errors import EngineError, SettingsError
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, Json, Observations, StepBatch

PREFIX = "gym:"


class GymnasiumSource:
    """Makes the environments of ``--env gym:ID``, ``env_settings.num_areas`` copies in each.

    ``--env-args`` are arguments of :func:`gymnasium.make`, for example ``continuous=true``.
    """

    invitation: str | None = None

    def __init__(self, settings: RunSettings, count: int, log_folder: Path) -> None:
        """Raises SettingsError if Gymnasium does not know the environment."""
        env = settings.env_settings
        self._env = env
        self._id = (env.env_path or "").removeprefix(PREFIX)
        module, _, name = self._id.rpartition(":")
        if not name:
            raise SettingsError(f"--env {env.env_path}: the environment's name is missing, as in gym:CartPole-v1")
        try:
            if module:  # MODULE:ID, where the module registers it
                importlib.import_module(module)
            gymnasium.spec(name)
        except (gymnasium.error.Error, ImportError) as error:
            which = "its package" if module else "its package and write gym:MODULE:ID"
            raise SettingsError(
                f"--env {env.env_path}: {str(error).rstrip('.')}; check the name, or install {which}"
            ) from error
        self._arguments = named_arguments(env.env_args or (), "gymnasium.make")
        self.warnings: tuple[str, ...] = ()
        if settings.environment_parameters:
            self.warnings = ("environment_parameters are for engines; Gymnasium environments ignore them",)

    @staticmethod
    def goals(path: str, *arguments: str) -> GymnasiumGoals:
        """The rewards for goals of the environment of ``--env`` and ``--env-args``. Raises SettingsError."""
        return GymnasiumGoals(gymnasium.make(path.removeprefix(PREFIX), **named_arguments(arguments, "gymnasium.make")))

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> GymnasiumEnvironment:
        """The environment of pair ``index``, not yet started."""
        env = self._env
        return GymnasiumEnvironment(
            index, self._make, env.seed + index * env.num_areas, RestartBudget.of(env, on_event)
        )

    def _make(self) -> VectorEnv[Any, Any, Any]:
        mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
        how: dict[str, Any] = {"vectorization_mode": "sync", "vector_kwargs": mode}
        copies = self._env.num_areas
        return made(gymnasium.make_vec, self._id, copies, arguments=self._arguments, whose=self._id, **how)


class GymnasiumEnvironment(ThreadedEnvironment[VectorEnv[Any, Any, Any]]):
    """A vector environment behind :class:`~tau_trainer.envs.contract.Environment`; its copies are agents 0, 1, 2, ...

    It must reset copies in the step in which they end (``AutoresetMode.SAME_STEP``): the end is reported, and the copy
    asks again with the first observation of its next episode. Copy ``i`` gets ``seed + i``. ``info["action_mask"]`` is
    obeyed: a 1 for each value of each branch that is allowed (Taxi-v3 has one).
    """

    def _opened(self, env: VectorEnv[Any, Any, Any]) -> None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        spec = BehaviorSpec(name, tuple(sensors(env.single_observation_space)), action_spec(env.single_action_space))
        self.specs = {name: spec}
        if said := open_ended(env.single_action_space):
            self._note(said)
        known = env.spec is not None and str(env.spec.entry_point).startswith("gymnasium.envs.")
        if isinstance(env, SyncVectorEnv) and not known:
            env.envs = [checked(copy) for copy in env.envs]
        self.harmless = known and env.render_mode is None

    def _begin(self, seed: int | None) -> list[StepBatch]:
        env = self._playing
        obs, infos = env.reset(seed=seed)
        nobody = np.zeros(env.num_envs, np.bool_)
        return [self._batch(obs, np.zeros(env.num_envs), nobody, nobody, infos)]

    def _advance(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        env, (chosen,) = self._playing, actions.values()
        return [self._batch(*env.step(to_space(env.single_action_space, chosen)))]

    def _batch(
        self, obs: Any, reward: NDArray[Any], terminated: BoolArray, truncated: BoolArray, infos: Json
    ) -> StepBatch:
        """One step as arrays."""
        (name,) = self.specs
        ended, seen = terminated | truncated, self._seen(obs)
        final = tuple(values[:0] for values in seen)
        if ended.any():
            last, space = infos["final_obs"][ended], self._playing.single_observation_space
            room: Any = create_empty_array(space, len(last))
            final = self._seen(concatenate(space, last, room))
        ids = np.arange(len(ended), dtype=np.int32)
        alone = np.zeros(len(ended), np.int32)
        paid = reward.astype(np.float32)
        asking = ids, seen, np.where(ended, np.float32(0), paid), alone
        over = ids[ended], final, paid[ended], alone[ended]
        return step_batch(name, asking, over, ~terminated[ended], self._mask_of(infos))

    def _mask_of(self, infos: Json) -> BoolArray | None:
        """Forbidden actions by all copies' infos, bool [n, sum of branches]; without a mask, a copy may choose any."""
        (spec,) = self.specs.values()
        masks = infos.get("action_mask")
        if masks is None or not spec.actions.discrete_size:
            return None
        known = np.flatnonzero(infos.get("_action_mask", np.ones(len(masks), np.bool_)))
        forbidden = np.zeros((len(masks), spec.actions.mask_size), np.bool_)
        try:
            forbidden[known] = np.array([np.concatenate([np.ravel(part) for part in masks[i]]) for i in known]) == 0
        except (TypeError, ValueError) as error:
            raise EngineError(
                f"info['action_mask'] of {spec.name} must have {spec.actions.mask_size} numbers, for its branches "
                f"{list(spec.actions.discrete_branches)}"
            ) from error
        return forbidden

    def _seen(self, obs: Any) -> Observations:
        return tuple(arrays(self._playing.single_observation_space, obs))
