"""The same game with lists of points, one game at a time: the reference for the tensors.

The code is simple: a set of points is a list of lists of numbers, named coordinates are a list, and every function
returns a new list. Numbers can have any type (int, ``np.float32``, ``Fraction``); results have the same type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.contract import Played
from tau_trainer.errors import SettingsError
from tau_trainer.games.arguments import completed
from tau_trainer.games.polyhedra.env import Polyhedra

Point = Sequence[Any]
Points = list[list[Any]]


def moved(points: Sequence[Point], coords: Sequence[int], axis: int, less: int = 0) -> Points:
    """Coordinate ``axis`` of every point becomes its sum over ``coords``, minus ``less``."""
    after = []
    for point in points:
        total = point[coords[0]]
        for k in coords[1:]:
            total = total + point[k]
        after.append([total - less if k == axis else value for k, value in enumerate(point)])
    return after


def reduced(points: Sequence[Point]) -> Points:
    """The points without duplicates, and without points that are nowhere less than another one."""
    once = [list(p) for i, p in enumerate(points) if list(p) not in [list(q) for q in points[:i]]]
    return [p for p in once if not any(q is not p and _nowhere_less(p, q) for q in once)]


def _nowhere_less(p: Point, q: Point) -> bool:
    return all(a >= b for a, b in zip(p, q, strict=True))


def reduced_exactly(points: Sequence[Point]) -> Points:
    """The vertices of the Newton polyhedron, in fractions.

    ``p`` is a vertex if nonnegative weights exist for which its weighted sum is less than every other point's. Such
    weights form a cone. If any exist, the sum of the cone's edges is one of them. An edge is where all but one of its
    walls meet.
    """
    left = reduced(points)
    return [p for p in left if _is_vertex(p, [q for q in left if q is not p])]


def _is_vertex(p: Point, others: Sequence[Point]) -> bool:
    d = len(p)
    walls = [[Fraction(int(k == i)) for k in range(d)] for i in range(d)]
    walls += [[Fraction(float(a)) - Fraction(float(b)) for a, b in zip(q, p, strict=True)] for q in others]
    middle = [Fraction(0)] * d
    for chosen in combinations(walls, d - 1):
        edge = _normal(chosen)
        for sign in (1, -1):
            ray = [sign * value for value in edge]
            if any(ray) and all(_dot(wall, ray) >= 0 for wall in walls):
                middle = [a + b / sum(map(abs, ray)) for a, b in zip(middle, ray, strict=True)]
    return all(_dot(wall, middle) > 0 for wall in walls[d:])


def _normal(rows: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """The normal of d - 1 rows of d numbers: the minors, with alternating signs."""
    d = len(rows) + 1
    return [(-1) ** k * _determinant([[row[j] for j in range(d) if j != k] for row in rows]) for k in range(d)]


def _determinant(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    if not matrix:
        return Fraction(1)
    first, rest = matrix[0], matrix[1:]
    return sum(
        (
            (-1) ** k * value * _determinant([[*row[:k], *row[k + 1 :]] for row in rest])
            for k, value in enumerate(first)
        ),
        Fraction(0),
    )


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def repositioned(points: Sequence[Point]) -> Points:
    """Moved so that the least of each coordinate is 0."""
    least = [min(column) for column in zip(*points, strict=True)]
    return [[value - low for value, low in zip(point, least, strict=True)] for point in points]


def rescaled(points: Sequence[Point]) -> Points:
    """Divided by the largest entry, unless that is 0."""
    largest = max((value for point in points for value in point), default=0)
    return [[value / largest if largest > 0 else value for value in point] for point in points]


def zeillinger(points: Sequence[Point]) -> list[int]:
    """See :func:`tau_trainer.games.polyhedra.players.zeillinger`."""
    differences = [[a - b for a, b in zip(p, q, strict=True)] for p, q in combinations(points, 2)]
    if not differences:
        return [0, 1]
    best = min(differences, key=character)
    lowest, highest = best.index(min(best)), best.index(max(best))
    return sorted((lowest, highest)) if lowest != highest else [0, 1]


def character(difference: Point) -> tuple[Any, int]:
    """Greatest minus least entry, and how often both occur: (8, 2) for (5, 0, -3)."""
    values = list(difference)
    return max(values) - min(values), values.count(max(values)) + values.count(min(values))


def hitting(points: Sequence[Point]) -> list[int]:
    """See :func:`tau_trainer.games.polyhedra.players.weak_spivakovsky`."""
    used = [k for k in range(len(points[0])) if any(point[k] > 0 for point in points)]
    for size in range(2, len(used) + 1):
        for chosen in combinations(used, size):
            if all(any(point[k] > 0 for k in chosen) for point in points):
                return list(chosen)
    return [0, 1]


HOSTS: dict[str, Callable[[Points], list[int]]] = {
    "all_coord": lambda points: list(range(len(points[0]))),
    "zeillinger": zeillinger,
    "weak_spivakovsky": hitting,
}
AGENTS: dict[str, Callable[[list[int]], int]] = {"choose_first": min, "choose_last": max}


class PolyhedraTwin:
    """One copy of :class:`~tau_trainer.games.polyhedra.env.Polyhedra`; arguments are the same.

    Raises:
        SettingsError: the opponent is not in :data:`HOSTS` or :data:`AGENTS`, and is not ``random``.
    """

    def __init__(self, **arguments: Any) -> None:
        game = self._game = completed(Polyhedra, arguments)
        known = HOSTS if game.role == "agent" else AGENTS
        if game.opponent not in (*known, "random"):
            names = ", ".join((*known, "random"))
            raise SettingsError(f"polyhedra's twin has no opponent '{game.opponent}'; use {names}")
        self._subsets = [
            [k for k in range(game.dimension) if m >> k & 1] for m in range(1 << game.dimension) if m & (m - 1)
        ]

    def advance(self, state: dict[str, NDArray[Any]], actions: NDArray[Any]) -> Played:
        """One turn. The returned state has the points, weights, and the host's next coordinates."""
        points = [list(point) for point in state["points"] if point[0] >= 0]
        weights = list(state["weights"]) if "weights" in state else [np.float32(0)] * self._game.dimension
        if self._game.role == "host":
            coords = self._subsets[int(actions[0])]
            axis = self._reply(coords, weights, state)
        else:
            coords = [k for k in range(self._game.dimension) if state["coords"][k]]
            axis = int(actions[0])
        valid = axis in self._axes(coords, weights)
        after = points
        if valid and not self._over(points) and coords in self._named(points):
            after = moved(points, coords, axis, self._game.max_value if self._game.variant == "original" else 0)
            after = reduced_exactly(after) if self._game.exact else reduced(after)
            after = repositioned(after) if self._game.reposition else after
            after = rescaled(after) if self._game.scale_observation else after
            after.sort(key=lambda point: -point[0])
            if self._game.variant == "thom":
                weights = [w - weights[axis] if k in coords and k != axis else w for k, w in enumerate(weights)]
        over = self._over(after)
        late = self._game.step_threshold is not None and state["step"] >= self._game.step_threshold
        great = self._game.value_threshold is not None and any(
            value > self._game.value_threshold for point in after for value in point
        )
        cut = bool(late or great)
        reward = 0.0
        if not self._over(points):
            reward = self._paid(over, cut and not over, valid, len(points) - len(after))
        filled = np.full_like(state["points"], -1.0)
        filled[: len(after)] = after
        found = {"points": filled}
        if self._game.variant == "thom":
            found["weights"] = np.array(weights, np.float32)
        if self._game.role == "agent":
            found["coords"] = np.isin(np.arange(self._game.dimension), self._next(after, state))
        return found, np.array([reward], np.float32), np.array([over]), np.array([cut])

    def observe(self, state: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """float32 [1, size]: points, the host's coordinates, weights."""
        parts = [state["points"].ravel(), *(state[name] for name in ("coords", "weights") if name in state)]
        return np.concatenate(parts).astype(np.float32)[None]

    def _axes(self, coords: list[int], weights: list[Any]) -> list[int]:
        return [k for k in coords if weights[k] == min(weights[c] for c in coords)]

    def _named(self, points: Points) -> list[list[int]]:
        """The sets that a host may name."""
        if self._game.variant != "original":
            return self._subsets
        return [
            coords
            for coords in self._subsets
            if all(sum(point[k] for k in coords) >= self._game.max_value for point in points)
        ]

    def _over(self, points: Points) -> bool:
        if self._game.variant == "original":
            return not points or any(sum(point) <= self._game.max_value for point in points)
        return len(points) <= 1

    def _reply(self, coords: list[int], weights: list[Any], state: dict[str, NDArray[Any]]) -> int:
        axes = self._axes(coords, weights)
        return _any_of(axes, state, 2) if self._game.opponent == "random" else AGENTS[self._game.opponent](axes)

    def _next(self, points: Points, state: dict[str, NDArray[Any]]) -> list[int]:
        if self._game.opponent == "random":
            return list(_any_of(self._named(points) or self._subsets[-1:], state, 1))
        return HOSTS[self._game.opponent](points)

    def _paid(self, over: bool, cut: bool, valid: bool, gone: int) -> float:
        game = self._game
        if game.rewards == "trainer":
            return (1.0 if game.role == "host" else -1.0) * over
        if game.role == "agent":
            return float(not over) if valid else float(game.invalid_move_penalty)
        return float(over + gone * game.reward_based_on_point_reduction - (game.step_threshold or 0) * cut)


def _any_of(choices: list[Any], state: dict[str, NDArray[Any]], stream: int) -> Any:
    """A random choice with the draws of the state's copy; draws are not part of the comparison."""
    moment = [torch.tensor([int(state[name])]) for name in ("seed", "episode", "step")]
    return choices[int(Draws(*moment).uniform(stream) * len(choices))]
