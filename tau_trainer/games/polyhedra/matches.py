"""Scores of players at Hironaka's game: games per turn (rho), and games in a match.

A high rho is good for the host, a low one for the agent. The results stay on the device; only reading the numbers waits
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.games.polyhedra.env import Polyhedra
from tau_trainer.games.polyhedra.players import Player, found, view_of
from tau_trainer.games.polyhedra.points import subsets
from tau_trainer.games.polyhedra.rules import Position, Rules, drawn, ordered, over, played

_RESCALED = Rules(rescale=True)


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """Rules and length of games. The defaults are those of hironaka's trainer."""

    dimension: int = 3
    max_num_points: int = 20
    max_value: int = 20
    """Largest coordinate at the start."""
    max_steps: int = 100
    """Turns after which an unfinished game ends; it counts as a game of this length."""
    rules: Rules = _RESCALED


JAX = MatchSettings(max_num_points=5, max_value=19, max_steps=39, rules=Rules(reposition=True))
"""The games of hironaka's JAX trainer, whose rho is a different number."""


class Rho(NamedTuple):
    """An estimate: tensors [], or [H, A] of every host against every agent."""

    rho: torch.Tensor
    """Games per turn, without games that were over before their first turn."""
    error: torch.Tensor
    """One standard error of rho."""
    unfinished: torch.Tensor
    """Share of games that were cut."""


class Turn(NamedTuple):
    """The choices of both players, and their result, in every game."""

    coords: torch.Tensor
    """bool [B, d]: the host's coordinates."""
    axis: torch.Tensor
    """int64 [B]: the agent's coordinate."""
    position: Position
    """Points in their rows; unchanged in games that were over."""


def take_turn(position: Position, host: Player, agent: Player, draws: Draws, rules: Rules) -> Turn:
    """One turn of every game."""
    coords = subsets(position.points.shape[2], position.points.device)[host(view_of(position, draws, None, rules))]
    axis = agent(view_of(position, draws, coords, rules))
    return Turn(coords, axis, played(position, coords, axis, rules))


@torch.no_grad()
def get_rho_for_pair(
    host: str | Player,
    agent: str | Player,
    num_samples: int = 100,
    setting: MatchSettings = MatchSettings(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Rho:
    """``(n - already over) / turns`` in ``n = num_samples`` games.

    Raises:
        SettingsError: there is no such player.
    """
    host, agent, rules = found("host", host), found("agent", agent), setting.rules
    seeds = seeds_of(seed, num_samples, device)
    zeros = torch.zeros_like(seeds)
    position = drawn(Draws(seeds, zeros, zeros), setting.dimension, setting.max_num_points, setting.max_value, rules)
    going = ~over(position, rules)
    turns = torch.zeros(num_samples, dtype=torch.float64, device=seeds.device)
    for step in range(1, setting.max_steps + 1):
        turns += going
        position = ordered(take_turn(position, host, agent, Draws(seeds, zeros, zeros + step), rules).position)
        going = ~over(position, rules)
        if going.device.type == "cpu" and not going.any():  # elsewhere looking would be waiting
            break
    counted = turns > 0
    games = counted.sum()
    mean = turns.sum() / games
    spread = (((turns - mean) ** 2) * counted).sum() / (games - 1)
    return Rho(1 / mean, (spread / games).sqrt() / mean**2, going.sum() / games)


def rho_matrix(
    hosts: Mapping[str, str | Player],
    agents: Mapping[str, str | Player],
    num_samples: int = 100,
    setting: MatchSettings = MatchSettings(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Rho:
    """Every host (rows) against every agent (columns), all from the same starts. Raises SettingsError."""
    pairs = [
        [get_rho_for_pair(host, agent, num_samples, setting, seed=seed, device=device) for agent in agents.values()]
        for host in hosts.values()
    ]
    rows = [[torch.stack(column) for column in zip(*row, strict=True)] for row in pairs]
    return Rho(*(torch.stack(column) for column in zip(*rows, strict=True)))


@torch.no_grad()
def match(
    host: str | Player,
    agent: str | Player,
    num_steps: int = 10_000,
    copies: int = 1,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_turn: Callable[[int], None] = lambda turn: None,
    **arguments: object,
) -> torch.Tensor:
    """int64 [copies]: number of games started in ``num_steps`` consecutive turns, including the last one (a playoff).

    ``on_turn``: called with each turn, from 1. ``arguments`` are those of :class:`Polyhedra`. A game that is over at
    its start counts as one turn; a game cut after ``step_threshold`` turns counts too. Raises SettingsError.
    """
    host = found("host", host)
    env = Polyhedra(copies, role="host", opponent=agent, seed=seed, device=device, **arguments)  # type: ignore[arg-type]
    env.reset()
    games = torch.ones(copies, dtype=torch.int64, device=device)
    for turn in range(1, num_steps + 1):
        games += env.step(host(env.view())[:, None]).over
        on_turn(turn)
    return games
