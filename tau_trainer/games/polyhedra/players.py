"""Fixed players of both sides, by name; any function from a :class:`View` to actions is a player too.

A host's action is a number of :func:`tau_trainer.games.polyhedra.points.subsets`, an agent's a coordinate. In games
that are over, nothing can be chosen, so the returned action is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import torch

from tau_trainer.envs.batched import Draws
from tau_trainer.errors import SettingsError
from tau_trainer.games.polyhedra.points import action_of, available, features, subsets
from tau_trainer.games.polyhedra.rules import Position, Rules, allowed_axes, allowed_subsets
from tau_trainer.settings.problems import did_you_mean

Role = Literal["host", "agent"]
_STREAMS = {"host": 1, "agent": 2}
"""Stream numbers of :class:`Draws`; starts use 0."""
_NEARLY = 1e-3
"""Tolerance in :func:`spivakovsky`: after its divisions, a sum of 1 can be less by this much."""


class View(NamedTuple):
    """A player's view of all games when it is its turn."""

    points: torch.Tensor
    """[B, n, d], rows in any order."""
    draws: Draws
    coords: torch.Tensor | None = None
    """bool [B, d]: the host's coordinates; None: it is the host's turn."""
    weights: torch.Tensor | None = None
    """[B, d], in the variant ``thom``."""
    choices: torch.Tensor | None = None
    """bool [B, k]: allowed actions; None: all."""
    unit: float = 1.0
    """See :class:`Rules`."""

    def observation(self) -> torch.Tensor:
        """:func:`observation` of this view, with ordered points."""
        return observation(features(self.points)[0], self.coords, self.weights)


def observation(points: torch.Tensor, coords: torch.Tensor | None, weights: torch.Tensor | None) -> torch.Tensor:
    """float32 [B, n * d (+ d) (+ d)]: ordered points, the host's coordinates, weights."""
    parts = [points.flatten(1), *(part for part in (coords, weights) if part is not None)]
    return torch.cat([part.to(torch.float32) for part in parts], dim=1)


def view_of(position: Position, draws: Draws, coords: torch.Tensor | None, rules: Rules) -> View:
    """The view of these games for an agent, or for a host if ``coords`` is None."""
    choices = allowed_subsets(position, None, rules) if coords is None else allowed_axes(position, coords, rules)
    return View(position.points, draws, coords, position.weights, choices, rules.unit)


Player: TypeAlias = Callable[[View], torch.Tensor]
"""Maps a :class:`View` to int64 [B]; a network, for example, takes the best of ``view.choices``."""


def found(role: Role, player: str | Player) -> Player:
    """The player with this name; a player is returned unchanged. Raises SettingsError."""
    if not isinstance(player, str):
        return player
    known = HOSTS if role == "host" else AGENTS
    if player not in known:
        raise SettingsError(f"there is no {role} named '{player}'; {did_you_mean(player, known)}")
    return known[player]


# Hosts.


def random_host(view: View) -> torch.Tensor:
    """Any action, all equally likely."""
    return _one_of(_all_choices(view), view, "host")


def random_pair(view: View) -> torch.Tensor:
    """Any two coordinates."""
    pairs = subsets(view.points.shape[2], view.points.device).sum(dim=1) == 2
    return _one_of(_all_choices(view) & pairs, view, "host")


def all_coord(view: View) -> torch.Tensor:
    """All coordinates."""
    d = view.points.shape[2]
    return torch.full((len(view.points),), 2**d - d - 2, device=view.points.device)


def zeillinger(view: View) -> torch.Tensor:
    """The coordinates where two points differ least and most, for the first pair with the least character.

    The character of a difference is its greatest minus its least entry and then how often both occur (Zeillinger 2006).
    """
    lowest, highest, best = _differences(view.points)
    pair = best.to(torch.int8).argmax(dim=1, keepdim=True)
    return _pair_action(lowest.gather(1, pair)[:, 0], highest.gather(1, pair)[:, 0], view.points.shape[2])


def zeillinger_lex(view: View) -> torch.Tensor:
    """Like :func:`zeillinger`, but of all pairs with that character it takes the one with the first coordinates."""
    d = view.points.shape[2]
    lowest, highest, best = _differences(view.points)
    # [B]: both coordinates as one number, so that the least comes first.
    code = torch.where(best, lowest * d + highest, d * d).amin(dim=1)
    return _pair_action(code // d, code % d, d)


def spivakovsky(view: View) -> torch.Tensor:
    """Spivakovsky's strategy for the original game (1983).

    Shift the polyhedron to the coordinate planes, take the coordinates of its points with the least sum, and project
    the points below that sum from there. Repeat with the remaining coordinates until no point is left or the polyhedron
    is a shifted orthant. Then add the fewest coordinates that sum to 1 or more in every point: in the variant
    ``original`` every point of the polyhedron, else every remaining point.
    """
    points, d = view.points.to(torch.float64) / view.unit, view.points.shape[2]  # float64: sums are compared with 1
    here = available(view.points)
    inside = torch.ones_like(points[:, 0], dtype=torch.bool)  # bool [B, d]: coordinates that are left
    chosen = torch.zeros_like(inside)
    going = here.sum(dim=1) >= 2  # bool [B]
    for _ in range(d):
        least = torch.where(here[..., None], points, torch.inf).amin(dim=1, keepdim=True)
        shifted = torch.where(here[..., None] & inside[:, None], points - least, 0.0)  # [B, n, d]
        total = torch.where(here, shifted.sum(dim=2), torch.inf)
        nearest = total.amin(dim=1, keepdim=True)
        going = going & here.any(dim=1) & (nearest[:, 0] > 1e-9)
        nearest = torch.where(going[:, None], nearest, 1.0)  # nothing is divided by 0
        taken = ((total <= nearest * (1 + 1e-9))[..., None] & (shifted > 0)).any(dim=1) & going[:, None]  # bool [B, d]
        chosen |= taken
        shifted = shifted / nearest[..., None]
        part = (shifted * taken[:, None]).sum(dim=2)  # [B, n]: from 1 on it is not projected
        below = here & (part < 1 - _NEARLY)
        projected = torch.where((inside & ~taken)[:, None], shifted, 0.0) / torch.where(below, 1 - part, 1.0)[..., None]
        here = torch.where(going[:, None], below, here)
        inside = inside & ~taken
        points = torch.where(going[:, None, None], projected, points)
    if view.choices is None:
        every = _small_first(d, points.device)
        # bool [B, n, sets].
        enough = (torch.einsum("bnd,md->bnm", points, every.to(points.dtype)) > 1 - _NEARLY) | ~here[..., None]
        fits = enough.all(dim=1) & ~(every & ~inside[:, None]).any(dim=2)  # bool [B, sets], the smallest first
        last = every[fits.to(torch.int8).argmax(dim=1)]
        chosen |= last & here.any(dim=1, keepdim=True)
    masks = subsets(d, points.device)
    # bool [B, k]: sets that hold all that was chosen.
    more = _all_choices(view) & ~(chosen[:, None] & ~masks).any(dim=2)
    return torch.where(more, masks.sum(dim=1), d + 1).argmin(dim=1)


def weak_spivakovsky(view: View) -> torch.Tensor:
    """The smallest set of coordinates in which every point has a nonzero one; in a tie, the first in list order."""
    hits, masks = _hitting(view.points)
    used = (view.points > 0).any(dim=1)
    hits &= ~(masks & ~used[:, None]).any(dim=2)  # a coordinate that is 0 everywhere is useless
    order = _small_first_as_lists(masks.shape[1], masks.device)
    return order[hits[:, order].to(torch.int8).argmax(dim=1)]


def weak_spivakovsky_min_hitting(view: View) -> torch.Tensor:
    """Like :func:`weak_spivakovsky`, but in a tie the set whose bits are the least number."""
    hits, masks = _hitting(view.points)
    order = masks.sum(dim=1).argsort(stable=True)
    return order[hits[:, order].to(torch.int8).argmax(dim=1)]


def random_spivakovsky(view: View) -> torch.Tensor:
    """Like :func:`weak_spivakovsky`, but in a tie a random set."""
    hits, masks = _hitting(view.points)
    size = torch.where(hits, masks.sum(dim=1), masks.shape[1] + 1)
    return _one_of(size == size.amin(dim=1, keepdim=True), view, "host")


# Agents.


def random_agent(view: View) -> torch.Tensor:
    """Any coordinate that the host named."""
    return _one_of(_all_choices(view), view, "agent")


def choose_first(view: View) -> torch.Tensor:
    """The first coordinate that the host named."""
    return _all_choices(view).to(torch.int8).argmax(dim=1)


def choose_last(view: View) -> torch.Tensor:
    """The last coordinate that the host named."""
    return view.points.shape[2] - 1 - _all_choices(view).flip(1).to(torch.int8).argmax(dim=1)


def morin(view: View) -> torch.Tensor:
    """The named coordinate with the least weight; in a tie, a random one. Raises SettingsError without weights."""
    if view.weights is None:
        raise SettingsError("the agent 'morin' needs weights; play the variant 'thom'")
    return _one_of(_all_choices(view), view, "agent")


HOSTS: Mapping[str, Player] = {
    "random": random_host,
    "random_pair": random_pair,
    "all_coord": all_coord,
    "zeillinger": zeillinger,
    "zeillinger_lex": zeillinger_lex,
    "spivakovsky": spivakovsky,
    "weak_spivakovsky": weak_spivakovsky,
    "random_spivakovsky": random_spivakovsky,
    "weak_spivakovsky_min_hitting": weak_spivakovsky_min_hitting,
}
AGENTS: Mapping[str, Player] = {
    "random": random_agent,
    "choose_first": choose_first,
    "choose_last": choose_last,
    "morin": morin,
}


@cache
def _small_first(dimension: int, device: torch.device) -> torch.Tensor:
    """Bool [2^d - 1, d]: all nonempty sets of coordinates, by size and then as numbers."""
    masks = sorted(range(1, 1 << dimension), key=int.bit_count)
    return torch.tensor([[bool(mask >> k & 1) for k in range(dimension)] for mask in masks], device=device)


@cache
def _small_first_as_lists(dimension: int, device: torch.device) -> torch.Tensor:
    """int64 [2^d - d - 1]: hosts' actions, by the size of their sets and then in list order."""
    lists = [[k for k in range(dimension) if mask >> k & 1] for mask in range(1 << dimension) if mask & (mask - 1)]
    return torch.tensor(sorted(range(len(lists)), key=lambda i: (len(lists[i]), lists[i])), device=device)


def _all_choices(view: View) -> torch.Tensor:
    """Bool [B, k]."""
    if view.choices is not None:
        return view.choices
    if view.coords is not None:
        return view.coords
    d = view.points.shape[2]
    return torch.ones(len(view.points), 2**d - d - 1, dtype=torch.bool, device=view.points.device)


def _one_of(choices: torch.Tensor, view: View, role: Role) -> torch.Tensor:
    """int64 [B]: one of each row's (bool [B, k]), all equally likely."""
    so_far = choices.cumsum(dim=1)  # [B, k]
    which = (view.draws.uniform(_STREAMS[role])[:, None] * so_far[:, -1:]).floor()  # [B, 1], 0 ... allowed - 1
    return (so_far <= which).sum(dim=1).clamp(max=choices.shape[1] - 1)


def _differences(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For pairs of rows: where they differ least and most (int64 [B, P] each), and whether the character is least.

    Both are 0 if a row holds no point; such pairs are used only if there is no other.
    """
    n = points.shape[1]
    first, second = torch.triu_indices(n, n, min(1, n - 1), device=points.device)
    here = available(points)
    both = here[:, first] & here[:, second]  # bool [B, P]
    difference = points[:, first] - points[:, second]  # [B, P, d]
    greatest, least = difference.amax(dim=2), difference.amin(dim=2)
    spread = torch.where(both, greatest - least, torch.inf)  # [B, P]
    # How often the greatest and the least entry occur.
    often = (difference == greatest[..., None]).sum(dim=2) + (difference == least[..., None]).sum(dim=2)
    close = spread == spread.amin(dim=1, keepdim=True)
    often = torch.where(close, often, 2 * points.shape[2] + 1)
    best = close & (often == often.amin(dim=1, keepdim=True))
    lowest, highest = difference.argmin(dim=2), difference.argmax(dim=2)
    return torch.where(both, lowest, 0), torch.where(both, highest, 0), best


def _pair_action(first: torch.Tensor, second: torch.Tensor, d: int) -> torch.Tensor:
    """int64 [B]: the host's action for these two coordinates; {0, 1} if both are the same."""
    first, second = torch.where(first == second, 0, first), torch.where(first == second, 1, second)
    coordinates = torch.arange(d, device=first.device)
    return action_of((coordinates == first[:, None]) | (coordinates == second[:, None]))


def _hitting(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bool [B, k]: hosts' actions in whose coordinates every point has a nonzero one; and :func:`subsets`."""
    masks = subsets(points.shape[2], points.device)
    missed = (points[:, :, None] > 0).logical_and(masks).any(dim=3).logical_not()  # bool [B, n, k]
    return ~(missed & available(points)[..., None]).any(dim=1), masks
