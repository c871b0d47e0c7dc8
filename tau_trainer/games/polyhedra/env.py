"""One side of the polyhedra game as a batched environment; the other side is a player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.batched import BatchedEnv, Draws, Outcome, State
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.players import Player, Role, View, found, observation, view_of
from tau_trainer.games.polyhedra.points import count, subsets
from tau_trainer.games.polyhedra.rules import (
    Position,
    Rules,
    Variant,
    allowed_axes,
    allowed_subsets,
    drawn,
    ordered,
    over,
    played,
)
from tau_trainer.settings.problems import did_you_mean

Rewards = Literal["trainer", "gym"]


class Polyhedra(BatchedEnv):
    """The polyhedra game, played by one agent named ``host`` or ``agent``.

    Observations are points, the largest first coordinate first, rows without
    a point -1; an agent also sees which coordinates the host named (0 or 1). Actions of a host are numbers of
    :func:`~tau_trainer.games.polyhedra.points.subsets`, those of an agent coordinates, and the mask allows those named.
    Starts are drawn uniformly from 0 ... ``max_value`` and reduced; a few (1 in 100 with 20 points in 3
    dimensions) are already over; they end with their first step, which has reward 0.

    Args:
        num_envs: copies.
        role: the side whose actions the trainer chooses.
        opponent: the other side: a name of :data:`HOSTS` or :data:`AGENTS`, or any player.
        dimension: ``d``, at least 2.
        max_num_points: ``n``, at the start.
        max_value: greatest entry at the start; in the variant ``original`` it means 1, and all entries are fractions
            with this denominator.
        scale_observation: whether the largest entry is made 1 at the start and after every turn.
        reposition: whether the least of each coordinate is then made 0.
        exact: whether to remove all points that are not vertices of the Newton polyhedron (slow), or only those that
            are nowhere less than another point.
        variant: see :mod:`tau_trainer.games.polyhedra.rules`.
        weights: at the start, one for each coordinate; only for ``thom``, where the default is 1 for all.
        rewards: ``trainer``: when the host wins, it gets 1 and the agent -1. ``gym``: when the host wins, it gets 1;
            the agent gets 1 for every turn after which the game continues, or ``invalid_move_penalty`` for an invalid
            turn; the host gets ``-step_threshold`` when a game is cut.
        reward_based_on_point_reduction: whether the host also gets 1 for every removed point, with ``gym``.
        invalid_move_penalty: with ``gym``.
        step_threshold: turns after which a game is cut; None: never.
        value_threshold: an entry above this also cuts a game; None: never.
        options: options of every :class:`BatchedEnv`.

    Raises:
        SettingsError: a name or number is invalid.
    """

    name = "polyhedra"
    truncates = True

    def __init__(
        self,
        num_envs: int,
        *,
        role: Role = "host",
        opponent: str | Player = "random",
        dimension: int = 3,
        max_num_points: int = 20,
        max_value: int = 20,
        scale_observation: bool = True,
        reposition: bool = False,
        exact: bool = False,
        variant: Variant = "basic",
        weights: Sequence[int] | None = None,
        rewards: Rewards = "trainer",
        reward_based_on_point_reduction: bool = False,
        invalid_move_penalty: float = -1e-3,
        step_threshold: int | None = 1000,
        value_threshold: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_envs, **options)
        for key, word, known in (("role", role, Role), ("variant", variant, Variant), ("rewards", rewards, Rewards)):
            if word not in get_args(known):
                raise SettingsError(f"polyhedra: {key} is '{word}'; {did_you_mean(word, get_args(known))}")
        for key, number, least in (
            ("dimension", dimension, 2),
            ("max_num_points", max_num_points, 1),
            ("max_value", max_value, 1),
            ("step_threshold", step_threshold, 1),
        ):
            if number is not None and number < least:
                raise SettingsError(f"polyhedra: {key} is {number}; at least {least} is needed")
        if variant == "original" and scale_observation:
            raise SettingsError(
                "polyhedra: the variant 'original' needs unscaled points; set scale_observation to false"
            )
        if weights is not None and (variant != "thom" or len(weights) != dimension):
            raise SettingsError(f"polyhedra: weights are for the variant 'thom', {dimension} of them, one a coordinate")
        self.role: Role = role
        self.agents = (role,)
        self.rules = Rules(variant, reposition, scale_observation, exact, float(max_value))
        self.dimension, self.max_num_points, self.max_value = dimension, max_num_points, max_value
        self._pays = rewards, reward_based_on_point_reduction, invalid_move_penalty
        self._step_threshold, self._value_threshold = step_threshold, value_threshold
        self._weights = None
        if variant == "thom":
            self._weights = torch.tensor(weights or [1] * dimension, dtype=torch.float32, device=self.device)
        self._subsets = subsets(dimension, self.device)
        size = max_num_points * dimension + dimension * ((role == "agent") + (variant == "thom"))
        self.observation_space = spaces.Box(-1.0, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(len(self._subsets) if role == "host" else dimension)
        self.opponent = opponent

    @property
    def opponent(self) -> Player:
        """The other side. You can replace it at any time, also by a name."""
        return self._opponent

    @opponent.setter
    def opponent(self, player: str | Player) -> None:
        self._opponent = found("agent" if self.role == "host" else "host", player)

    def begin(self, draws: Draws) -> State:
        """Random points; for an agent, also the coordinates that the host names first."""
        size = self.dimension, self.max_num_points, self.max_value
        return self._state(drawn(draws, *size, self.rules, self._weights), draws)

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """Play a turn; for an agent, the host also names its next coordinates."""
        position, chosen = _position(state), actions[:, 0]
        if self.role == "host":
            coords = self._subsets[chosen]  # bool [E, d]
            valid = None
            axis = self._opponent(view_of(position, draws, coords, self.rules))
        else:
            coords, axis = state["coords"], chosen
            valid = allowed_axes(position, coords, self.rules).gather(1, axis[:, None])[:, 0]
        after = ordered(played(position, coords, axis, self.rules))
        was, ended = over(position, self.rules), over(after, self.rules)  # a start can already be over
        cut = torch.zeros_like(ended)
        if self._step_threshold is not None:
            cut |= state["step"] >= self._step_threshold
        if self._value_threshold is not None:
            cut |= (after.points > self._value_threshold).any(dim=(1, 2))
        rewards = self._paid(position, after, was, ended, cut & ~ended, valid)
        return Outcome(self._state(after, draws), rewards[:, None], ended[:, None], cut[:, None])

    def observe(self, state: State) -> torch.Tensor:
        """:func:`observation` of the state."""
        return observation(state["points"], state.get("coords"), state.get("weights"))[:, None]

    def allowed(self, state: State) -> torch.Tensor | None:
        """For an agent the coordinates that the host named; for a host the sets that the variant allows."""
        if self.role == "host":
            allowed = allowed_subsets(_position(state), None, self.rules)
        else:
            allowed = allowed_axes(_position(state), state["coords"], self.rules)
        return None if allowed is None else allowed[:, None]

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """[360, 360, 3]: the points in their first coordinates, and which the host named."""
        from tau_trainer.games.polyhedra.drawing import frame

        points = row["points"]
        return frame(
            points[points[:, 0] >= 0].tolist(), self.dimension, row.get("coords", points[:0]).nonzero()[0].tolist()
        )

    def view(self) -> View:
        """The current view of a player in this environment's role; its draws are those of the next step."""
        state = self.state
        draws = Draws(state["seed"], state["episode"], state["step"] + 1)
        return view_of(_position(state), draws, state.get("coords"), self.rules)

    def _state(self, position: Position, draws: Draws) -> State:
        state = {"points": position.points}
        if position.weights is not None:
            state["weights"] = position.weights
        if self.role == "agent":
            state["coords"] = self._subsets[self._opponent(view_of(position, draws, None, self.rules))]
        return state

    def _paid(
        self,
        before: Position,
        after: Position,
        was: torch.Tensor,
        ended: torch.Tensor,
        cut: torch.Tensor,
        valid: torch.Tensor | None,
    ) -> torch.Tensor:
        """Rewards float32 [E]; 0 if the game was over before."""
        won = ended.to(torch.float32)
        rewards, pays_reduction, invalid = self._pays
        if rewards == "trainer":
            paid = won if self.role == "host" else -won
        elif self.role == "host":
            paid = won
            if pays_reduction:
                paid = paid + (count(before.points) - count(after.points))
            if self._step_threshold is not None:
                paid = paid - cut * float(self._step_threshold)
        else:
            paid = 1.0 - won
            if valid is not None:
                paid = torch.where(valid, paid, invalid)
        return paid * ~was  # games that were over have reward 0


def _position(state: State) -> Position:
    return Position(state["points"], state.get("weights"))
