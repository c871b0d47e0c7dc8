"""Sets of points as tensors: moves, reductions, shifts and scaling.

A batch of sets is ``[B, n, d]``, float32 or float64; rows that hold no point are -1 in every coordinate. All functions
are pure and never convert a tensor to a number (except :func:`reduced_exactly` on a CPU, where that is free). Sums over
coordinates are added one after another, so that a batch, one game and the twin round alike.
"""

from __future__ import annotations

from functools import cache

import torch

from tau_trainer.errors import SettingsError

PADDING = -1.0
MOST_DIMENSIONS = 16
"""Maximum dimension: a host has an action for nearly every subset of coordinates, and all are listed."""
_PIVOTS = 200
"""Maximum pivots of the simplex method in :func:`reduced_exactly`; 20 points in 3 dimensions take about 10."""


def available(points: torch.Tensor) -> torch.Tensor:
    """Bool [B, n]: rows that hold a point."""
    return points[..., 0] >= 0


def count(points: torch.Tensor) -> torch.Tensor:
    """int64 [B]: points left."""
    return available(points).sum(dim=1)


def features(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[B, n, d] in the players' order: rows by first coordinate, largest first; int64 [B, n]: their old rows."""
    order = points[..., 0].argsort(dim=1, descending=True, stable=True)  # padding is -1, so it comes last
    return points.gather(1, order[..., None].expand_as(points)), order


@cache
def subsets(dimension: int, device: torch.device) -> torch.Tensor:
    """Bool [2^d - d - 1, d]: the coordinates of each action of a host.

    Row ``id`` holds the bits (bit ``k`` is coordinate ``k``) of the ``id``-th number that is neither 0 nor a power of
    two. In three dimensions the sets are {0,1}, {0,2}, {1,2}, {0,1,2}.

    Raises SettingsError for more than :data:`MOST_DIMENSIONS`.
    """
    if dimension > MOST_DIMENSIONS:
        raise SettingsError(
            f"polyhedra: dimension is {dimension}, in which a host has 2^{dimension} choices; use at most "
            f"{MOST_DIMENSIONS}"
        )
    masks = [mask for mask in range(1 << dimension) if mask & (mask - 1)]
    rows = [[bool(mask >> k & 1) for k in range(dimension)] for mask in masks]
    return torch.tensor(rows, device=device)


def action_of(coords: torch.Tensor) -> torch.Tensor:
    """int64 [B]: the host's action for ``coords`` (bool [B, d], two or more); see :func:`subsets`."""
    powers = 1 << torch.arange(coords.shape[1], device=coords.device)
    mask = (coords * powers).sum(dim=1)
    # Below a number with this highest bit are 0 and this number of powers of two, which are not actions.
    highest = (coords * torch.arange(coords.shape[1], device=coords.device)).amax(dim=1)
    return mask - highest - 2


def sums(points: torch.Tensor, coords: torch.Tensor) -> torch.Tensor:
    """[B, n]: every point's sum over ``coords`` (bool [B, d])."""
    total = points[..., 0] * coords[:, None, 0]
    for k in range(1, points.shape[2]):
        total = total + points[..., k] * coords[:, None, k]
    return total


def moved(points: torch.Tensor, coords: torch.Tensor, axis: torch.Tensor, less: float = 0.0) -> torch.Tensor:
    """[B, n, d] whose coordinate ``axis`` (int64 [B]) is now the sum over ``coords`` (bool [B, d]), minus ``less``.

    A game whose ``axis`` is not in its ``coords`` stays unchanged.
    """
    valid = coords.gather(1, axis[:, None])
    hot = (torch.arange(points.shape[2], device=points.device) == axis[:, None]) & valid  # bool [B, d]
    here = available(points)[..., None] & hot[:, None]
    return torch.where(here, (sums(points, coords) - less)[..., None], points)


def reduced(points: torch.Tensor) -> torch.Tensor:
    """[B, n, d] without points that are nowhere less than another one; of equal points the first row stays.

    The result contains all vertices of the Newton polyhedron, and possibly more points: see :func:`reduced_exactly`.
    """
    n, here = points.shape[1], available(points)
    # Games are the last axis, so that compared values are adjacent in memory: twice as fast on a CPU.
    columns = torch.where(here[..., None], points, torch.inf).permute(2, 1, 0).contiguous()
    above = columns[0, :, None] >= columns[0, None]  # bool [n, n, B]: row i nowhere less than row j
    for column in columns[1:]:
        above &= column[:, None] >= column[None]
    earlier = torch.ones(n, n, dtype=torch.bool, device=points.device).tril(-1)  # of equal points the first stays
    gone = (above & (earlier[..., None] | ~above.transpose(0, 1))).any(dim=1)  # [n, B]
    return torch.where((here & ~gone.T)[..., None], points, PADDING)


def repositioned(points: torch.Tensor) -> torch.Tensor:
    """[B, n, d] moved so that the least of each coordinate is 0."""
    here = available(points)[..., None]
    least = torch.where(here, points, torch.inf).amin(dim=1, keepdim=True)  # [B, 1, d]
    return torch.where(here, points - least, PADDING)


def rescaled(points: torch.Tensor) -> torch.Tensor:
    """[B, n, d] divided by the largest entry of its game, unless that is 0."""
    largest = points.amax(dim=(1, 2), keepdim=True)
    return torch.where(available(points)[..., None], points / torch.where(largest > 0, largest, 1.0), PADDING)


def reduced_exactly(points: torch.Tensor) -> torch.Tensor:
    """[B, n, d]: the vertices of the Newton polyhedron, the convex hull of the points plus the positive orthant.

    Point ``p`` is not a vertex if a convex combination of others is nowhere greater. This holds if the matrix game with
    the entries ``q_k - p_k`` (one player mixes points ``q`` and minimizes, the other picks coordinate ``k`` and
    maximizes) has no positive value. Its linear program is solved for all games at once. Coordinates are compared with
    the precision of their dtype.
    """
    left = reduced(points)
    for row in range(points.shape[1]):
        here = available(left)
        others = here.clone()
        others[:, row] = False
        above = left.to(torch.float64) - left[:, row, None].to(torch.float64)  # [B, n, d]
        # Entries of about 1, so that one tolerance fits all games.
        size = torch.where(others[..., None], above.abs(), 0.0).amax(dim=(1, 2), keepdim=True)
        value = _value(above / torch.where(size > 0, size, 1.0), others)
        gone = here[:, row] & (value <= 8 * torch.finfo(points.dtype).eps)
        left[:, row] = torch.where(gone[:, None], PADDING, left[:, row])
    return left


def _value(entries: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """float64 [B]: values of matrix games, by the simplex method with Bland's rule; infinite if no row may be chosen.

    Args:
        entries: float64 [B, n, d] in -1 ... 1: payment from the player who chooses among ``n`` to the one who chooses
            among ``d``.
        columns: bool [B, n]: which may be chosen.
    """
    batch, n, d = entries.shape
    # With all entries positive: the sum of y is 1 / value where it is the greatest with (entries y)_k <= 1, y >= 0.
    lifted = torch.where(columns[..., None], entries + 2.0, 0.0).transpose(1, 2)
    slack = torch.eye(d, dtype=entries.dtype, device=entries.device).expand(batch, d, d)
    right = torch.ones_like(lifted[:, :, :1])
    goal = torch.nn.functional.pad(-columns.to(entries.dtype), (0, d + 1))
    # [B, d + 1, n + d + 1], the goal last.
    table = torch.cat((torch.cat((lifted, slack, right), dim=2), goal[:, None]), dim=1)
    basis = torch.arange(n, n + d, device=entries.device).expand(batch, d)  # the slack at first
    games = torch.arange(batch, device=entries.device)
    for _ in range(_PIVOTS):
        improving = table[:, -1, :-1] < -1e-12
        going = improving.any(dim=1)
        if entries.device.type == "cpu" and not going.any():
            break
        entering = improving.to(torch.int8).argmax(dim=1)  # Bland's rule: the first that improves, so it cannot cycle
        column = table[games, :, entering]  # [B, d + 1]
        ratio = torch.where(column[:, :-1] > 1e-12, table[:, :-1, -1] / column[:, :-1], torch.inf)
        tied = ratio <= ratio.amin(dim=1, keepdim=True) + 1e-12  # of numbers about 1
        leaving = torch.where(tied, basis, n + d).argmin(dim=1)  # of those tied the lowest number
        pivot = table[games, leaving] / column.gather(1, leaving[:, None])  # [B, n + d + 1]
        after = table - column[..., None] * pivot[:, None]
        chosen = torch.arange(d + 1, device=entries.device) == leaving[:, None]
        after = torch.where(chosen[..., None], pivot[:, None], after)
        table = torch.where(going[:, None, None], after, table)  # games that are solved stay
        basis = torch.where(going[:, None] & chosen[:, :-1], entering[:, None], basis)
    return 1.0 / table[:, -1, -1] - 2.0
