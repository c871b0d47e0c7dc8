"""Both sides of the polyhedra game at once, each in its own games against the other side's current player."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from typing_extensions import override

from tau_trainer.envs.batched import BatchedEnv, BatchedStep, Draws, Outcome, State
from tau_trainer.envs.batched.draws import mixed, seeds_of
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.env import Polyhedra
from tau_trainer.games.polyhedra.players import Player, Role, View
from tau_trainer.games.polyhedra.points import PADDING, repositioned, rescaled
from tau_trainer.games.polyhedra.rules import Rules


class Hironaka(BatchedEnv):
    """Agents ``host`` and ``agent`` in separate games: in every copy, each plays one game against a player.

    :meth:`meet` sets that player, for example the other side's network. Its moves are not recorded, so only the side
    that a game belongs to explores in it. Each game ends and restarts independently.

    Observations are those of :class:`Polyhedra`; a host's end with zeros in place of the named coordinates that an
    agent sees. Actions are Discrete with room for both sides; the mask allows the side's own.

    Args:
        num_envs: copies.
        dimension: of the points.
        max_num_points: at the start.
        max_value: greatest entry at the start.
        scale_observation: whether the largest entry is made 1 at the start and after every turn.
        reposition: whether the least of each coordinate is then made 0.
        step_threshold: turns after which a game is cut.
        sides: the sides that play.
        options: options of every :class:`BatchedEnv`.

    Raises:
        SettingsError: a number is invalid.
    """

    name = "hironaka"
    truncates = True

    def __init__(
        self,
        num_envs: int,
        *,
        dimension: int,
        max_num_points: int,
        max_value: int,
        scale_observation: bool,
        reposition: bool,
        step_threshold: int,
        sides: Sequence[Role] = ("host", "agent"),
        **options: Any,
    ) -> None:
        super().__init__(num_envs, **options)
        if not sides or not set(sides) <= {"host", "agent"}:
            raise SettingsError("hironaka: sides are host and agent, or one of them")
        self.agents = tuple(sides)
        seed = options.get("seed", 0)
        seeds = seed if isinstance(seed, torch.Tensor) else seeds_of(seed, num_envs)
        self.sides: dict[Role, Polyhedra] = {}
        for number, role in enumerate(sides):
            self.sides[role] = Polyhedra(
                num_envs,
                role=role,
                dimension=dimension,
                max_num_points=max_num_points,
                max_value=max_value,
                scale_observation=scale_observation,
                reposition=reposition,
                step_threshold=step_threshold,
                **{**options, "seed": mixed(seeds + number)},
            )
        self._rules = Rules(reposition=reposition, rescale=scale_observation)
        self.dimension, self.max_num_points, self.max_value = dimension, max_num_points, max_value
        self._numbers = max(map(self.actions_of, ("host", "agent")))
        self.observation_space = spaces.Box(-1.0, np.inf, ((max_num_points + 1) * dimension,), np.float32)
        self.action_space = spaces.Discrete(self._numbers)

    def meet(self, role: str, player: Player) -> None:
        """Set the player of ``role`` in the games of the other side."""
        for other, side in self.sides.items():
            if other != role:
                side.opponent = player

    def actions_of(self, role: str) -> int:
        """Number of actions of a side; they come first."""
        return 2**self.dimension - self.dimension - 1 if role == "host" else self.dimension

    def seen(self, view: View) -> tuple[torch.Tensor, torch.Tensor]:
        """A player's view as an observation [B, D] of these spaces, and its allowed actions, bool [B, k].

        Points are shifted and scaled as in the games here, and can be fewer. The view can come from games with other
        rules: that does not change the outcome of a turn.
        """
        role: Role = "host" if view.coords is None else "agent"
        missing = self.max_num_points - view.points.shape[1]
        view = view._replace(points=torch.nn.functional.pad(view.points, (0, 0, 0, missing), value=PADDING))
        if self._rules.reposition:
            view = view._replace(points=repositioned(view.points))
        if self._rules.rescale:
            view = view._replace(points=rescaled(view.points))
        return self._padded(view.observation()), self._choices(role, view.choices, len(view.points))

    @override
    def reset(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is not None:
            raise NotImplementedError("each game restarts by itself here")
        for side in self.sides.values():
            side.reset()
        self.state = self._joined({role: side.state for role, side in self.sides.items()})
        return self.observe(self.state)

    @override
    def transition(self, state: State, actions: torch.Tensor) -> tuple[State, BatchedStep]:
        after: dict[Role, State] = {}
        steps = []
        for number, (role, side) in enumerate(self.sides.items()):
            next_state, step = side.transition(self._of(state, role), actions[:, number : number + 1])
            after[role] = next_state
            steps.append(step)
        both = BatchedStep(
            observations=torch.cat([self._padded(step.observations) for step in steps], dim=1),
            rewards=torch.cat([step.rewards for step in steps], dim=1),
            terminated=torch.cat([step.terminated for step in steps], dim=1),
            truncated=torch.cat([step.truncated for step in steps], dim=1),
            final_observations=torch.cat([self._padded(step.final_observations) for step in steps], dim=1),
            over=torch.stack([step.over for step in steps]).all(dim=0),
        )
        return self._joined(after), both

    @override
    def observe(self, state: State) -> torch.Tensor:
        seen = [side.observe(self._of(state, role)) for role, side in self.sides.items()]
        return torch.cat([self._padded(rows) for rows in seen], dim=1)

    @override
    def allowed(self, state: State) -> torch.Tensor:
        rows = []
        for role, side in self.sides.items():
            choices = side.allowed(self._of(state, role))
            rows.append(self._choices(role, None if choices is None else choices[:, 0], self.num_envs))
        return torch.stack(rows, dim=1)

    @override
    def begin(self, draws: Draws) -> State:
        raise NotImplementedError("each side starts its own games")

    @override
    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        raise NotImplementedError("each side advances its own games")

    def _padded(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(rows, (0, self.observation_space.shape[0] - rows.shape[-1]))

    def _choices(self, role: Role, allowed: torch.Tensor | None, rows: int) -> torch.Tensor:
        """Bool [rows, k]; a side can have fewer actions than the space."""
        if allowed is None:
            allowed = torch.ones(rows, self.actions_of(role), dtype=torch.bool, device=self.device)
        return torch.nn.functional.pad(allowed, (0, self._numbers - allowed.shape[1]))

    def _of(self, state: State, role: Role) -> State:
        return {name.removeprefix(f"{role}."): values for name, values in state.items() if name.startswith(f"{role}.")}

    def _joined(self, states: dict[Role, State]) -> State:
        """Both states as one, with the clock of the first side and all agents present."""
        joined = {f"{role}.{name}": values for role, state in states.items() for name, values in state.items()}
        clock = next(iter(states.values()))
        present = torch.ones(self.num_envs, len(states), dtype=torch.bool, device=self.device)
        return joined | {name: clock[name] for name in ("seed", "episode", "step")} | {"present": present}
