"""All possible replies of agents to a host: the longest game, and the tree of all games.

A node has one child for each coordinate that the agent may name. All positions of one depth are one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from tau_trainer.envs.batched import Draws
from tau_trainer.errors import TauError
from tau_trainer.games.polyhedra.players import Player, found, view_of
from tau_trainer.games.polyhedra.points import available, subsets
from tau_trainer.games.polyhedra.rules import Position, Rules, allowed_axes, over, played

_BASIC = Rules()
_DEEPEST = 10_000
_WIDEST = 1_000_000


@dataclass(slots=True)
class TreeNode:
    """A position in a tree, and the move that led to it."""

    points: list[list[float]]
    axis: int | None = None
    """The agent's last coordinate; None: the root."""
    weights: list[float] | None = None
    distinguished: int | None = None
    """Index in :attr:`points`; None: there is none, or it is lost."""
    over: bool = False
    coords: tuple[int, ...] = ()
    """The host's coordinates here; empty if the game is over."""
    children: list[TreeNode] = field(default_factory=list)
    cut: bool = False
    """Whether its children were left out because the tree was too large."""

    def walk(self) -> Iterator[TreeNode]:
        """This node and all below it; parents before children, in the order of coordinates."""
        yield self
        for child in self.children:
            yield from child.walk()


def position_of(
    points: Sequence[Sequence[float]], weights: Sequence[float] | None = None, distinguished: int | None = None
) -> Position:
    """One game in float64, exact for whole numbers below 2^53; ``distinguished`` is the number of a point."""
    return Position(
        torch.tensor([list(map(list, points))], dtype=torch.float64),
        None if weights is None else torch.tensor([list(weights)], dtype=torch.float64),
        None if distinguished is None else torch.tensor([distinguished]),
    )


@torch.no_grad()
def search_depth(position: Position, host: str | Player, rules: Rules = _BASIC) -> int:
    """Turns in the longest game that an agent can make of one position.

    Raises:
        TauError: an agent can last 10,000 turns, or there are more than a million positions after some turn.
        SettingsError: the host is unknown.
    """
    host, going = found("host", host), ~over(position, rules)
    for depth in range(_DEEPEST):
        if not going.any():
            return depth
        position = _unique(_rows(position, going))  # games that are over have no replies
        if len(position.points) > _WIDEST:
            raise TauError(f"after {depth} turns there are over {_WIDEST:,} positions; name another host")
        _, position, _, _ = _replies(position, host, rules)
        going = ~over(position, rules)
    raise TauError(f"an agent can last {_DEEPEST:,} turns; name another host")


@torch.no_grad()
def search_tree(position: Position, host: str | Player, rules: Rules = _BASIC, max_size: int = 10_000) -> TreeNode:
    """All games from one position. Nodes are added depth by depth, up to ``max_size``.

    Raises:
        SettingsError: the host is unknown.
    """
    host = found("host", host)
    root = _nodes(position, rules)[0]
    size, level = 1, [root]
    while True:
        going = torch.tensor([not node.over for node in level])
        parents = [node for node in level if not node.over]
        if not parents:
            return root
        if size >= max_size:
            for node in parents:
                node.cut = True
            return root
        named, position, owners, axes = _replies(_rows(position, going), host, rules)
        for node, coords in zip(parents, named.tolist(), strict=True):
            node.coords = tuple(k for k, chosen in enumerate(coords) if chosen)
        level = _nodes(position, rules)
        for node, owner, axis in zip(level, owners.tolist(), axes.tolist(), strict=True):
            node.axis = axis
            parents[owner].children.append(node)
        size += len(level)


def _replies(
    position: Position, host: Player, rules: Rules
) -> tuple[torch.Tensor, Position, torch.Tensor, torch.Tensor]:
    """The host's coordinates (bool [B, d]); for each reply: its position, its parent's row, its axis (int64 each)."""
    zeros = torch.zeros(len(position.points), dtype=torch.int64)
    draws = Draws(zeros, zeros, zeros)  # random hosts draw the same for all positions of a depth
    coords = subsets(position.points.shape[2], position.points.device)[host(view_of(position, draws, None, rules))]
    owners, axes = allowed_axes(position, coords, rules).nonzero(as_tuple=True)  # [replies] each, positions in order
    return coords, played(_rows(position, owners), coords[owners], axes, rules), owners, axes


def _rows(position: Position, which: torch.Tensor) -> Position:
    return Position(*(None if values is None else values[which] for values in position))  # type: ignore[arg-type]


def _unique(position: Position) -> Position:
    """The position without duplicates: equal positions have equal continuations."""
    flat = torch.cat([part.flatten(1).double() for part in position if part is not None and part.dim() > 1], dim=1)
    if position.distinguished is not None:
        flat = torch.cat((flat, position.distinguished[:, None].double()), dim=1)
    _, inverse = torch.unique(flat, dim=0, return_inverse=True)
    # The first row of each kind, so that positions keep their order.
    first = torch.full((int(inverse.max()) + 1,), len(flat)).scatter_reduce(0, inverse, torch.arange(len(flat)), "amin")
    return _rows(position, first)


def _nodes(position: Position, rules: Rules) -> list[TreeNode]:
    here, ended = available(position.points), over(position, rules).tolist()
    nodes = []
    for i, rows in enumerate(here):
        node = TreeNode(position.points[i, rows].tolist(), over=ended[i])
        if position.weights is not None:
            node.weights = position.weights[i].tolist()
        if position.distinguished is not None and position.distinguished[i] >= 0:
            node.distinguished = int(rows[: int(position.distinguished[i])].sum())
        nodes.append(node)
    return nodes
