"""PettingZoo environments, played like a game: in parallel if the environment supports it, else in turns."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from tau_trainer.envs.checked import check_keys, check_observation
from tau_trainer.envs.contract import OnEvent, OnStat
from tau_trainer.envs.faults import STEP, check_info, check_number, keyed, parts_of, require
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.envs.spaces import action_spec, arrays, open_ended, sensors, to_space
from tau_trainer.envs.threaded import Agents, ThreadedEnvironment, made, named_arguments, step_batch
from tau_trainer.errors import EngineError, EnvironmentFaultError, SettingsError
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, Json, Observations, StepBatch

PREFIX = "pettingzoo:"


class PettingZooSource:
    """Makes the environments of ``--env pettingzoo:MODULE``, ``env_settings.num_areas`` copies in each.

    The module has ``parallel_env`` or ``env``, like PettingZoo's modules; ``--env-args`` are that function's arguments.
    """

    invitation: str | None = None

    def __init__(self, settings: RunSettings, count: int, log_folder: Path) -> None:
        """Raises SettingsError if the module does not exist or does not make a PettingZoo environment."""
        env = settings.env_settings
        self._env = env
        module = _module((env.env_path or "").removeprefix(PREFIX))
        self._kind, function = _PARALLEL if hasattr(module, _PARALLEL[1]) else _TURNS
        if not hasattr(module, function):
            raise SettingsError(
                f"--env {env.env_path}: {module.__name__} has neither `parallel_env` nor `env`; name a module that "
                "makes a PettingZoo environment"
            )
        self._function: Callable[..., Any] = getattr(module, function)
        self._arguments = named_arguments(env.env_args or (), f"{module.__name__}.{function}")
        self.warnings: tuple[str, ...] = ()
        if settings.environment_parameters:
            self.warnings = ("environment_parameters are for engines; PettingZoo environments ignore them",)

    def make(self, index: int, on_stat: OnStat, on_event: OnEvent) -> PettingZooEnvironment:
        """The environment of pair ``index``, not yet started."""
        env = self._env
        return PettingZooEnvironment(
            index, self._make, env.seed + index * env.num_areas, RestartBudget.of(env, on_event)
        )

    def _make(self) -> Copies:
        copies = range(self._env.num_areas)
        return Copies([self._kind(made(self._function, arguments=self._arguments, whose="it")) for _ in copies])


def _module(name: str) -> Any:
    """A module by its full name or its name within PettingZoo (``butterfly.pistonball_v6``). Raises SettingsError."""
    if not name:
        raise SettingsError(f"--env {PREFIX}: the module's name is missing, as in {PREFIX}mpe2.simple_spread_v3")
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        wrong: Exception = error
    try:
        return importlib.import_module(f"pettingzoo.{name}")
    except (ImportError, ValueError):
        raise SettingsError(
            f"--env {PREFIX}{name}: {wrong}; check the name, or install its package "
            "(pip install 'tau-trainer[pettingzoo]' installs pettingzoo and mpe2)"
        ) from wrong


@dataclass(frozen=True, slots=True)
class Heard:
    """Data of one agent of one copy: its observation, and whether it needs an action or its episode ended."""

    agent: str
    obs: Any
    reward: float
    info: Json
    ended: bool = False
    truncated: bool = False


class Copy(Protocol):
    """One PettingZoo environment. A step can report an agent twice: its episode ended, and its next one starts."""

    env: Any

    def begin(self, seed: int | None) -> list[Heard]:
        """Start an episode; returns the agents that need an action."""

    def advance(self, actions: Json) -> list[Heard]:
        """Act for all agents that asked. If no agent is left, the next episode starts at once."""


class Parallel:
    """All agents act at the same time."""

    def __init__(self, env: Any) -> None:
        """Raises EnvironmentFaultError if ``env`` is not a parallel environment."""
        self.env = require(
            env, "`parallel_env`", "ParallelEnv of PettingZoo", ("reset", "step", "observation_space", "action_space")
        )

    def begin(self, seed: int | None) -> list[Heard]:
        """See :class:`Copy`."""
        who = f"{_name(self.env)}.reset()"
        obs, infos = (keyed(part, who) for part in parts_of(self.env.reset(seed=seed), who, ("observations", "infos")))
        if not self.env.agents or (silent := set(self.env.agents) - obs.keys()):
            left = f"no observation of agents {sorted(silent)}" if self.env.agents else "no agent"
            raise EnvironmentFaultError(
                f"{who} left {left}; `agents` must name those that play from the start, and each needs an observation"
            )
        return [self._heard(who, agent, obs[agent], 0.0, infos) for agent in self.env.agents]

    def advance(self, actions: Json) -> list[Heard]:
        """See :class:`Copy`."""
        who = f"{_name(self.env)}.step()"
        found = parts_of(self.env.step(dict(actions)), who, _PARALLEL_STEP)
        obs, rewards, terminations, truncations, infos = (keyed(part, who) for part in found)
        here = set(self.env.agents)
        heard = []
        for agent in obs:
            flags = terminations.get(agent, False), truncations.get(agent, False)
            for what, flag in zip(("termination", "truncation"), flags, strict=True):
                check_number(flag, who, f"{what} of '{agent}'")
            # An agent that disappears without a flag was removed, which is not a real end.
            ended = any(map(bool, flags)) or agent not in here
            one_agent = self._heard(who, agent, obs[agent], rewards.get(agent, 0.0), infos)
            heard.append(replace(one_agent, ended=ended, truncated=ended and not flags[0]))
        return heard if any(not agent.ended for agent in heard) else heard + self.begin(None)

    def _heard(self, who: str, agent: str, obs: Any, reward: Any, infos: Json) -> Heard:
        return _heard(self.env, who, agent, obs, reward, infos.get(agent, {}))


class Turns:
    """Agents act one after the other; each gets its reward at its next turn."""

    def __init__(self, env: Any) -> None:
        """Raises EnvironmentFaultError if ``env`` is not a turn-based (AEC) environment."""
        self.env = require(
            env, "`env`", "AECEnv of PettingZoo", ("reset", "step", "last", "observation_space", "action_space")
        )

    def begin(self, seed: int | None) -> list[Heard]:
        """See :class:`Copy`."""
        self.env.reset(seed=seed)
        return self._turn()

    def advance(self, actions: Json) -> list[Heard]:
        """See :class:`Copy`."""
        ((_, action),) = actions.items()
        self.env.step(action)
        return self._turn()

    def _turn(self) -> list[Heard]:
        """The agents whose episode ended, and the agent whose turn is next."""
        heard = []
        while True:
            if not self.env.agents:
                self.env.reset()
                if not self.env.agents:
                    raise EnvironmentFaultError(f"{_name(self.env)}.reset() left no agent; `agents` must name some")
            agent, who = self.env.agent_selection, f"{_name(self.env)}.last()"
            obs, reward, terminated, truncated, info = parts_of(self.env.last(), who, STEP)
            check_number(terminated, who, "terminated")
            check_number(truncated, who, "truncated")
            ended = bool(terminated or truncated)
            one_agent = _heard(self.env, who, agent, obs, reward, info)
            heard.append(replace(one_agent, ended=ended, truncated=ended and not terminated))
            if not ended:
                return heard
            self.env.step(None)


def _heard(env: Any, who: str, agent: str, obs: Any, reward: Any, info: Any) -> Heard:
    """The values that a method returned for an agent. Raises EnvironmentFaultError if they have the wrong form."""
    whole = env.observation_space(agent)
    space = _seen_space(whole)
    if space is not whole:  # masks are checked where they are used
        check_keys(whole, obs, f"{who}, for '{agent}',")
    check_observation(space, obs if space is whole else obs["observation"], f"{who}, for '{agent}',")
    check_number(reward, who, f"reward of '{agent}'", "a number")
    check_info(info, f"{who}, for '{agent}',")
    return Heard(agent, obs, float(reward), info)


def _name(env: Any) -> str:
    return type(getattr(env, "unwrapped", env)).__name__


_PARALLEL_STEP = ("observations", "rewards", "terminations", "truncations", "infos")
_PARALLEL: tuple[Callable[[Any], Copy], str] = (Parallel, "parallel_env")
_TURNS: tuple[Callable[[Any], Copy], str] = (Turns, "env")


class Copies(list[Copy]):
    """Environments that step together."""

    def close(self) -> None:
        """Close all of them."""
        for copy in self:
            copy.env.close()


class PettingZooEnvironment(ThreadedEnvironment[Copies]):
    """Copies of a PettingZoo environment behind :class:`~tau_trainer.envs.contract.Environment`.

    Agents with the same spaces whose names differ only in a number at the end are one behavior, named by the part
    before the number (``adversary_0``, ``adversary_1``: ``adversary``). Each other agent is its own behavior. Copy
    ``i`` gets ``seed + i``, and its agents are group ``i + 1``.
    """

    def _opened(self, env: Copies) -> None:
        self._behaviors: dict[str, str] = {}
        self._ids: dict[tuple[int, str], int] = {}
        self._names: list[tuple[int, str]] = []
        """Copy and agent of each ID."""
        self._asked: dict[str, list[int]] = {}
        """IDs of the agents that need actions, by behavior, in the order in which actions are expected."""
        self.specs = {}

    def _begin(self, seed: int | None) -> list[StepBatch]:
        return self._batches([copy.begin(None if seed is None else seed + i) for i, copy in enumerate(self._playing)])

    def _advance(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        copies = self._playing
        chosen: list[dict[str, Any]] = [{} for _ in copies]
        for behavior, asked in self._asked.items():
            first, agent = self._names[asked[0]]
            space: spaces.Space[Any] = copies[first].env.action_space(agent)
            given = to_space(space, actions[behavior])
            for row, number in enumerate(asked):
                copy, agent = self._names[number]
                chosen[copy][agent] = given[row]
        return self._batches([copy.advance(acts) for copy, acts in zip(copies, chosen, strict=True)])

    def _batches(self, heard: Sequence[Sequence[Heard]]) -> list[StepBatch]:
        """The data of all copies, by behavior."""
        parts: dict[str, tuple[list[tuple[int, Heard]], list[tuple[int, Heard]]]] = {}
        for copy, said in enumerate(heard):
            for agent in said:
                asking, ended = parts.setdefault(self._behavior(copy, agent.agent), ([], []))
                (ended if agent.ended else asking).append((self._id(copy, agent.agent), agent))
        self._asked = {name: [number for number, _ in asking] for name, (asking, _) in parts.items() if asking}
        return [self._batch(name, *part) for name, part in sorted(parts.items())]

    def _behavior(self, copy: int, agent: str) -> str:
        """The behavior of an agent, created for the first agent of its kind. Raises SettingsError for its spaces."""
        if agent not in self._behaviors:
            env = self._playing[copy].env
            seen = tuple(sensors(_seen_space(env.observation_space(agent))))
            acts = action_spec(env.action_space(agent))
            for name in (re.sub(r"[_-]?\d+$", "", agent) or agent, agent):
                known = self.specs.setdefault(name, BehaviorSpec(name, seen, acts))
                if (known.observations, known.actions) == (seen, acts):
                    self._behaviors[agent] = name
                    break
            if said := open_ended(env.action_space(agent)):
                self._note(f"behavior '{self._behaviors[agent]}': {said}")
        return self._behaviors[agent]

    def _id(self, copy: int, agent: str) -> int:
        if (copy, agent) not in self._ids:
            self._ids[copy, agent] = len(self._names)
            self._names.append((copy, agent))
        return self._ids[copy, agent]

    def _batch(self, name: str, asking: list[tuple[int, Heard]], ended: list[tuple[int, Heard]]) -> StepBatch:
        truncated = np.array([agent.truncated for _, agent in ended], np.bool_)
        mask = _forbidden([agent for _, agent in asking], self.specs[name].actions.mask_size)
        return step_batch(name, self._rows(name, asking), self._rows(name, ended), truncated, mask)

    def _rows(self, name: str, heard: list[tuple[int, Heard]]) -> Agents:
        ids, agents = [number for number, _ in heard], [agent for _, agent in heard]
        reward = np.array([agent.reward for agent in agents], np.float32)
        groups = np.array([self._names[number][0] + 1 for number in ids], np.int32)
        return np.array(ids, np.int32), self._seen(name, agents), reward, groups

    def _seen(self, name: str, heard: Sequence[Heard]) -> Observations:
        """Observations of agents of one behavior: one array [n, ...] for each sensor."""
        if not heard:
            return tuple(np.zeros((0, *sensor.shape), sensor.dtype) for sensor in self.specs[name].observations)
        whole = self._playing[0].env.observation_space(heard[0].agent)
        space = _seen_space(whole)
        values = [agent.obs["observation"] if space is not whole else agent.obs for agent in heard]
        room: Any = create_empty_array(space, len(values))
        return tuple(arrays(space, concatenate(space, values, room)))


def _seen_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space of the observation itself, without an ``action_mask`` next to it."""
    masked = isinstance(space, spaces.Dict) and set(space) == {"observation", "action_mask"}
    return space["observation"] if masked else space  # type: ignore[index]


def _forbidden(asked: Sequence[Heard], size: int) -> BoolArray | None:
    """Masks bool [n, size], True = forbidden (PettingZoo's 1 is allowed); None if no agent has a mask.

    Masks are in observations or infos. Raises EngineError if one has the wrong size.
    """
    found = [_mask(heard) for heard in asked]
    if not size or all(mask is None for mask in found):
        return None
    table = np.zeros((len(asked), size), np.bool_)
    for row, mask in enumerate(found):
        if mask is not None:
            if mask.size != size:
                raise EngineError(
                    f"agent '{asked[row].agent}' has {size} choices and an action_mask of {mask.size}; one bit for each"
                )
            table[row] = mask == 0
    return table


def _mask(heard: Heard) -> NDArray[Any] | None:
    mask = heard.info.get("action_mask")
    if isinstance(heard.obs, Mapping) and "action_mask" in heard.obs:
        mask = heard.obs["action_mask"]
    if mask is None:
        return None
    return np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple | list) else np.ravel(mask)
