"""Players that decide for the agents of a behavior without learning: a policy, a function, or random actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol

import numpy as np

from tau_trainer.collection.decisions import Actor
from tau_trainer.columns import Rows
from tau_trainer.envs.faults import brief, place_of
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.models import Decision, Policy
from tau_trainer.models.distributions import branch_bounds, effective_mask
from tau_trainer.specs import Actions, ActionSpec, BehaviorSpec, BoolArray, FloatArray, IntArray, Observations

RANDOM = "random"
"""Name of the player that samples every action uniformly."""


class Player(Protocol):
    """Decides for all agents of one behavior; an :class:`~tau_trainer.collection.decisions.Actor` uses a policy."""

    @property
    def spec(self) -> BehaviorSpec:
        """The behavior with the sensors that it sees."""

    def decide(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Decision:
        """Decide for ``n`` agents, identified by small numbers that stay the same for an agent's whole life."""

    def forget(self, rows: Rows) -> None:
        """Forget these agents, whose episodes ended."""


class ScriptedPlayer:
    """Plays with a function from observations and mask to actions. Without one, samples every action uniformly."""

    def __init__(
        self, spec: BehaviorSpec, seed: int, function: Callable[..., Actions] | None = None, name: str = "of your own"
    ) -> None:
        """``name``: name for messages."""
        self.spec = spec
        self._function = function
        self._name = name
        self._rng = np.random.default_rng([seed, 3])

    def decide(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Decision:
        """The function's actions, validated. Raises SettingsError."""
        if self._function is None:
            actions = evenly(self.spec.actions, len(rows), mask, self._rng)
        else:
            try:
                actions = self._function(self.spec, obs, mask)
            except TauError:
                raise
            except Exception as error:  # a user's function may raise anything
                raise SettingsError(
                    f"player {self._name} failed: {type(error).__name__}: {error}{place_of(error)}; it is called with "
                    "the spec, the observations and the mask"
                ) from error
        continuous, discrete = self._checked(actions, len(rows))
        return Decision(continuous, discrete, 0, {}, {}, squashed=True)

    def _checked(self, actions: object, n: int) -> tuple[FloatArray, IntArray]:
        """Validate the function's result for ``n`` agents. Raises SettingsError."""
        spec = self.spec.actions
        wanted = (n, spec.continuous_size), (n, spec.discrete_size)
        if not isinstance(actions, Actions) or (np.shape(actions.continuous), np.shape(actions.discrete)) != wanted:
            raise SettingsError(
                f"player {self._name} must return tau_trainer.specs.Actions of shapes {list(wanted[0])} and "
                f"{list(wanted[1])}, one row for each agent; it returned {brief(actions)}"
            )
        continuous, discrete = np.asarray(actions.continuous), np.asarray(actions.discrete)
        numbers = continuous.dtype.kind in "biuf" and discrete.dtype.kind in "biu"
        sizes = np.array(spec.discrete_branches, np.int32)
        if not (numbers and np.isfinite(continuous).all() and ((discrete >= 0) & (discrete < sizes)).all()):
            raise SettingsError(
                f"player {self._name} must return finite numbers, and choices from 0 below {sizes.tolist()}; "
                f"it returned {brief(actions)}"
            )
        return continuous.astype(np.float32), discrete.astype(np.int32)

    def forget(self, rows: Rows) -> None:
        """Do nothing: there is no memory."""


def evenly(spec: ActionSpec, n: int, mask: BoolArray | None, rng: np.random.Generator) -> Actions:
    """Actions of ``n`` agents, sampled uniformly from [-1, 1] and from the allowed choices."""
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
    except Exception as error:  # a user's module may raise anything
        raise SettingsError(
            f"player {name}: {type(error).__name__}: {error}; name {RANDOM}, a run, or MODULE:FUNCTION of a module "
            "that Python finds"
        ) from error
    if not callable(found):
        raise SettingsError(f"player {name} is {brief(found)}, which is not a function; name one")
    return found


def make_players(
    player: str | Mapping[str, Policy], seed: int, *, deterministic: bool
) -> Callable[[BehaviorSpec], Player]:
    """Returns a function that creates the player of each behavior.

    ``player``: policies by the behavior's short name, the name of a function, or ``random``. ``deterministic``:
    policies take their most likely action; otherwise they sample. A policy that explores with noise on its best action
    has no distribution to sample, so it takes the best action. Raises SettingsError.
    """
    if not isinstance(player, str):
        return lambda spec: policy_player(player, spec, seed, deterministic=deterministic)
    function = None if player == RANDOM else scripted(player)
    return lambda spec: ScriptedPlayer(spec, seed, function, player)


def policy_player(policies: Mapping[str, Policy], spec: BehaviorSpec, seed: int, *, deterministic: bool) -> Player:
    """The player for a behavior of an environment. Raises SettingsError if there is no suitable policy."""
    policy = policies.get(spec.short_name)
    if policy is None:
        raise SettingsError(f"the run has no policy for behavior '{spec.short_name}', only for {', '.join(policies)}")
    shown = {sensor.name: sensor.shape for sensor in spec.observations}
    wanted = {sensor.name: sensor.shape for sensor in policy.spec.observations}
    if policy.spec.actions != spec.actions or any(shown.get(name) != shape for name, shape in wanted.items()):
        raise SettingsError(
            f"the run's policy for '{spec.short_name}' was trained with other sensors or actions than this environment "
            "has; name the environment that it was trained on with --env"
        )
    return Actor(policy, np.random.default_rng([seed, 2]), deterministic=deterministic or policy.explores)
