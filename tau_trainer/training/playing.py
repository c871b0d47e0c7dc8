"""Playing an environment without learning: to record demonstrations, or to see what a policy is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tau_trainer.bridge.demonstrations import Demonstration
from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Rows
from tau_trainer.envs import Environment, Parameters
from tau_trainer.errors import EngineError, EngineStoppedError, SettingsError
from tau_trainer.models import Policy
from tau_trainer.models.masks import branch_bounds, effective_mask
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    Observations,
    StepBatch,
)
from tau_trainer.training.rows import RowTable

RANDOM = "random"
"""The player that draws every action evenly."""


class Player(Protocol):
    """Decides for all agents of one behavior."""

    spec: BehaviorSpec
    """The behavior with the sensors that it sees."""

    def act(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Actions:
        """Actions of ``n`` agents, by small numbers that are theirs for their whole life."""

    def forget(self, rows: Rows) -> None:
        """Episodes of these agents ended."""


class PolicyPlayer:
    """A policy plays."""

    def __init__(self, policy: Policy, seed: int, *, deterministic: bool) -> None:
        self.spec = policy.spec
        self._actor = Actor(policy, np.random.default_rng([seed, 2]), deterministic=deterministic)
        self.forget = self._actor.forget

    def act(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Actions:
        """What the policy decides."""
        return self._actor.decide(rows, obs, mask).to_env()


class ScriptedPlayer:
    """A function plays: from observations and mask to actions. Without one, every action is drawn evenly."""

    def __init__(self, spec: BehaviorSpec, seed: int, function: Callable[..., Actions] | None = None) -> None:
        self.spec = spec
        self._function = function
        self._rng = np.random.default_rng([seed, 3])

    def act(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Actions:
        """What the function says, checked. Raises SettingsError."""
        if self._function is None:
            return evenly(self.spec.actions, len(rows), mask, self._rng)
        actions = self._function(self.spec, obs, mask)
        wanted = (len(rows), self.spec.actions.continuous_size), (len(rows), self.spec.actions.discrete_size)
        if not isinstance(actions, Actions) or (actions.continuous.shape, actions.discrete.shape) != wanted:
            raise SettingsError(
                f"the player's function must return tau_trainer.specs.Actions of shapes {list(wanted[0])} and "
                f"{list(wanted[1])}, one row for each agent"
            )
        return Actions(actions.continuous.astype(np.float32), actions.discrete.astype(np.int32))

    def forget(self, rows: Rows) -> None:
        """Nothing was remembered."""


def evenly(spec: ActionSpec, n: int, mask: BoolArray | None, rng: np.random.Generator) -> Actions:
    """Actions of ``n`` agents, drawn evenly from [-1, 1] and from what is not forbidden."""
    actions = Actions(
        rng.uniform(-1.0, 1.0, (n, spec.continuous_size)).astype(np.float32),
        np.zeros((n, spec.discrete_size), np.int32),
    )
    allowed = np.ones((n, spec.mask_size)) if mask is None else ~effective_mask(mask, spec.discrete_branches)
    scores = rng.random((n, spec.mask_size)) + allowed
    for branch, (begin, end) in enumerate(branch_bounds(spec.discrete_branches)):
        actions.discrete[:, branch] = scores[:, begin:end].argmax(axis=1)
    return actions


def scripted(name: str) -> Callable[..., Actions]:
    """The function that ``MODULE:FUNCTION`` names. Raises SettingsError."""
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Actions] = getattr(import_module(module), function)
    except Exception as error:  # whatever somebody else's module raises
        raise SettingsError(
            f"player {name}: {type(error).__name__}: {error}; give {RANDOM}, a run, or MODULE:FUNCTION of a module "
            "that Python finds"
        ) from error
    return found


class Recording:
    """What happened to all agents of one behavior, in columns.

    Args:
        spec: with the sensors that are kept.
        keep: whether observations are.
    """

    def __init__(self, spec: BehaviorSpec, *, keep: bool = True) -> None:
        self.spec = spec
        self.episodes = 0
        """That ended."""
        self.decisions = 0
        self._keep = keep
        self._life = 0
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def step(self, batch: StepBatch, obs: Observations, last: Observations, actions: Actions | None) -> None:
        """One message: the agents that asked with ``obs`` [n], and those that ended with ``last`` [m]."""
        spec, ended = self.spec.actions, batch.terminals
        if len(ended):
            none = Actions.zeros(spec, len(ended))
            self._add(ended.agent_ids, last, ended.reward + ended.group_reward, True, ended.truncated, none, None)
            self.episodes += len(ended)
        if len(batch) and actions is not None:
            going = np.zeros(len(batch), np.bool_)
            reward = batch.reward + batch.group_reward
            self._add(batch.agent_ids, obs, reward, False, going, actions, batch.action_mask)
            self.decisions += len(batch)

    def _add(
        self,
        ids: NDArray[Any],
        obs: Observations,
        reward: NDArray[Any],
        ended: bool,
        truncated: BoolArray,
        actions: Actions,
        mask: BoolArray | None,
    ) -> None:
        n = len(ids)
        nothing = np.zeros((n, self.spec.actions.mask_size), np.bool_)
        values: dict[str, NDArray[Any]] = {
            "agent": ids.astype(np.int64) + (self._life << 32),
            "reward": reward.astype(np.float32),
            "ended": np.full(n, ended),
            "truncated": truncated,
            "continuous": actions.continuous,
            "discrete": actions.discrete,
            "mask": nothing if mask is None else mask,
        }
        for i, sensor in enumerate(obs if self._keep else ()):
            values[f"obs_{i}"] = np.array(sensor)
        for name, value in values.items():
            self._parts.setdefault(name, []).append(value)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [e]: decisions of each episode that ended, in the order of :attr:`Demonstration.returns`."""
        demonstration = self.demonstration(whole=True)
        episode = np.cumsum(demonstration.begins) - 1
        return np.bincount(episode[~demonstration.ended]).astype(np.int64)

    def abandon(self) -> None:
        """The environment was lost: whoever comes begins anew."""
        self._life += 1

    def demonstration(self, *, whole: bool) -> Demonstration:
        """Everything by agent and time; ``whole``: but for episodes without an end."""
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        order = np.argsort(columns["agent"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        agent, ended = columns["agent"], columns["ended"]
        begins = np.ones(len(agent), np.bool_)
        begins[1:] = (agent[1:] != agent[:-1]) | ended[:-1]
        episode = np.cumsum(begins) - 1
        kept = ~(begins & ended)  # an end without a decision says nothing
        if whole:
            kept &= np.bincount(episode, ended)[episode] > 0
        columns = {name: values[kept] for name, values in columns.items()}
        return Demonstration(
            self.spec,
            tuple(columns[f"obs_{i}"] for i in range(len(self.spec.observations) if self._keep else 0)),
            columns["reward"],
            begins[kept],
            columns["ended"],
            columns["truncated"],
            Actions(columns["continuous"], columns["discrete"]),
            columns["mask"] if columns["mask"].any() else None,
        )


class Play:
    """One environment, played by a player for each behavior.

    Args:
        environment: not yet started.
        player_of: makes the player of a behavior.
        enough: asked after every step; whether it is over.
        keep: whether observations are recorded.
    """

    def __init__(
        self,
        environment: Environment,
        player_of: Callable[[BehaviorSpec], Player],
        enough: Callable[[Play], bool],
        *,
        keep: bool = True,
    ) -> None:
        self.recordings: dict[str, Recording] = {}
        self._environment = environment
        self._player_of = player_of
        self._enough = enough
        self._keep = keep
        self._players: dict[str, tuple[Player, RowTable, tuple[int, ...]]] = {}
        self._rows = 0

    @property
    def episodes(self) -> int:
        """That ended, of the behavior with the fewest."""
        return min((one.episodes for one in self.recordings.values()), default=0)

    @property
    def decisions(self) -> int:
        """Of all agents."""
        return sum(one.decisions for one in self.recordings.values())

    async def run(self, parameters: Parameters) -> None:
        """Play until it is enough, and close the environment. Raises TauError."""
        environment = self._environment
        try:
            batches = await environment.start(parameters)
            while True:
                actions = self._decide(batches, environment.specs)
                if self._enough(self):
                    return
                environment.answer(actions)
                try:
                    batches = await environment.next()
                except EngineStoppedError:
                    return
                except EngineError as error:
                    for recording in self.recordings.values():
                        recording.abandon()
                    for player, table, _ in self._players.values():
                        player.forget(table.rows)
                    batches = await environment.recover(error)
        finally:
            await environment.close()

    def _decide(self, batches: list[StepBatch], specs: Mapping[str, BehaviorSpec]) -> dict[str, Actions]:
        sent = {}
        for batch in batches:
            player, table, sees = self._player(specs[batch.behavior])
            if len(batch.terminals):
                player.forget(table(batch.terminals.agent_ids))
            obs, last = (tuple(part[i] for i in sees) for part in (batch.obs, batch.terminals.obs))
            actions = player.act(table(batch.agent_ids), obs, batch.action_mask) if len(batch) else None
            self.recordings[batch.behavior].step(batch, obs, last, actions)
            if actions is not None:
                sent[batch.behavior] = actions
        return sent

    def _player(self, spec: BehaviorSpec) -> tuple[Player, RowTable, tuple[int, ...]]:
        if spec.name not in self._players:
            player = self._player_of(spec)
            names = [sensor.name for sensor in player.spec.observations]
            sees = tuple(i for i, sensor in enumerate(spec.observations) if sensor.name in names)
            self._players[spec.name] = player, RowTable(self._new_rows), sees
            self.recordings[spec.name] = Recording(player.spec, keep=self._keep)
        return self._players[spec.name]

    def _new_rows(self, count: int) -> Rows:
        self._rows += count
        return np.arange(self._rows - count, self._rows)
