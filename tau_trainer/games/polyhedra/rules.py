"""The game and its variants: turns, allowed choices, and the end of a game.

Host and agent take turns: the host names two or more coordinates and the agent one of them. In every point, that
coordinate becomes the sum over the named ones. Then only the Newton polyhedron's vertices stay. The host wants the game
to end, the agent wants it to continue.

- ``basic`` (Hauser's): as above; it is over when at most one point is left.
- ``original`` (Hironaka's): the sum minus 1; the host names only coordinates that sum to at least 1 in every point; it
  is over when some point's coordinates sum to at most 1.
- ``thom`` (Berczi's): coordinates have weights; the agent names one of the least weight of those that the host named,
  and the others' weights fall by it. It is over as ``basic`` is, and when the distinguished point is lost.

Sources: H. Hironaka, "Characteristic polyhedra of singularities", 1967; M. Spivakovsky, "A solution to Hironaka's
polyhedra game", 1983; H. Hauser's and D. Zeillinger's version in Zeillinger's thesis, 2006; G. Berczi, "Non-reductive
GIT and Thom polynomials", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from tau_trainer.envs.batched import Draws
from tau_trainer.games.polyhedra.points import (
    PADDING,
    available,
    count,
    features,
    moved,
    reduced,
    reduced_exactly,
    repositioned,
    rescaled,
    subsets,
    sums,
)

Variant = Literal["basic", "original", "thom"]
_STREAM = 0
"""Stream number of :class:`Draws`; players use 1 (hosts) and 2 (agents)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a game."""

    variant: Variant = "basic"
    reposition: bool = False
    """Whether points are shifted after every turn so that the least of each coordinate is 0."""
    rescale: bool = False
    """Whether points are scaled after every turn so that the largest entry is 1."""
    exact: bool = False
    """Whether to remove all points that are not vertices, or only those that are nowhere less than another point."""
    unit: float = 1.0
    """Value that means 1 in ``original``: with ``N``, whole numbers are exact fractions with that denominator."""
    freeze: bool = True
    """Whether games that are over stay unchanged by further turns."""


class Position(NamedTuple):
    """The current state of games."""

    points: torch.Tensor
    """[B, n, d]."""
    weights: torch.Tensor | None = None
    """[B, d], in ``thom``."""
    distinguished: torch.Tensor | None = None
    """int64 [B]: the row of the distinguished point; -1: it is lost."""


def drawn(
    draws: Draws, dimension: int, max_num_points: int, max_value: int, rules: Rules, weights: torch.Tensor | None = None
) -> Position:
    """Start positions with uniform entries 0 ... ``max_value``, ordered; ``weights`` float32 [d]."""
    entries = draws.integers(_STREAM, 0, max_value + 1, max_num_points, dimension)
    points = begun(entries.to(torch.float32), rules)
    return ordered(Position(points, None if weights is None else weights.expand(len(points), -1)))


def begun(points: torch.Tensor, rules: Rules) -> torch.Tensor:
    """[B, n, d]: the start position of a game with ``points``."""
    if rules.variant == "original":
        everywhere = torch.ones_like(points[:, 0], dtype=torch.bool)
        points = torch.where((sums(points, everywhere) > rules.unit)[..., None], points, PADDING)
    return _settled(points, rules)


def played(position: Position, coords: torch.Tensor, axis: torch.Tensor, rules: Rules) -> Position:
    """The games after one turn with ``coords`` (bool [B, d]) and ``axis`` (int64 [B]).

    An invalid turn changes nothing. Points stay in their rows.
    """
    valid = coords.sum(dim=1) >= 2
    allowed = allowed_subsets(position, coords[:, None], rules)
    if allowed is not None:
        valid &= allowed[:, 0]
    if rules.freeze:
        valid &= ~over(position, rules)
    coords = coords & valid[:, None]  # none: then nothing moves
    if position.weights is not None:
        coords = coords & allowed_axes(position, coords, rules).gather(1, axis[:, None])
    points, weights, distinguished = position
    points = _settled(moved(points, coords, axis, rules.unit if rules.variant == "original" else 0.0), rules)
    if weights is not None:
        others = coords & (torch.arange(coords.shape[1], device=coords.device) != axis[:, None])
        # Subtract the named axis' weight from the others.
        weights = torch.where(others, weights - weights.gather(1, axis[:, None]), weights)
    if distinguished is not None:
        here = available(points).gather(1, distinguished.clamp(min=0)[:, None])[:, 0]
        distinguished = torch.where(here & (distinguished >= 0), distinguished, -1)
    return Position(points, weights, distinguished)


def ordered(position: Position) -> Position:
    """The position with rows in the players' order: by first coordinate, largest first, empty rows last."""
    points, order = features(position.points)
    distinguished = position.distinguished
    if distinguished is not None:
        row = (order == distinguished[:, None]).to(torch.int8).argmax(dim=1)  # the new row of its point
        distinguished = torch.where(distinguished >= 0, row, -1)
    return Position(points, position.weights, distinguished)


def over(position: Position, rules: Rules) -> torch.Tensor:
    """Bool [B]: games that the host has won."""
    if rules.variant == "original":
        here = available(position.points)
        everywhere = torch.ones_like(position.points[:, 0], dtype=torch.bool)
        return ~(here.any(dim=1) & ((sums(position.points, everywhere) > rules.unit) | ~here).all(dim=1))
    ended = count(position.points) <= 1
    return ended if position.distinguished is None else ended | (position.distinguished < 0)


def allowed_subsets(position: Position, coords: torch.Tensor | None, rules: Rules) -> torch.Tensor | None:
    """Bool [B, k]: which of ``coords`` (bool [B, k, d]; None: all hosts' actions) are allowed; None: all of them."""
    if rules.variant != "original":
        return None
    points = position.points
    if coords is None:
        coords = subsets(points.shape[2], points.device).expand(len(points), -1, -1)
    totals = points @ coords.to(points.dtype).transpose(1, 2)  # [B, n, k]
    return ((totals >= rules.unit) | ~available(points)[..., None]).all(dim=1)


def allowed_axes(position: Position, coords: torch.Tensor, rules: Rules) -> torch.Tensor:
    """Bool [B, d]: the coordinates that the agent may name after the host named ``coords``."""
    if position.weights is None:
        return coords
    weights = torch.where(coords, position.weights, torch.inf)
    return coords & (weights == weights.amin(dim=1, keepdim=True))


def _settled(points: torch.Tensor, rules: Rules) -> torch.Tensor:
    points = reduced_exactly(points) if rules.exact else reduced(points)
    if rules.reposition:
        points = repositioned(points)
    return rescaled(points) if rules.rescale else points
