"""Pictures of the game: a resolution tree as text or as a PNG or SVG file; one position as an image."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import SettingsError
from tau_trainer.files import atomic_write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tau_trainer.games.polyhedra.search import TreeNode

_FORMATS = (".png", ".svg")
_LONGEST = 60
"""Maximum number of characters of a node's points in text."""


def as_text(root: TreeNode) -> str:
    """One line for each node: the agent's coordinate, the remaining points, and the host's coordinates."""
    return "\n".join(_lines(root, "", ""))


def draw(root: TreeNode, path: Path) -> Path:
    """Write the tree as a picture in the format of the file's suffix; returns the path.

    Raises:
        SettingsError: the suffix is not a picture format.
        TauError: the file cannot be written.
    """
    picture = io.BytesIO()
    figure(root).savefig(picture, format=picture_format(path), dpi=120)
    return atomic_write_bytes(path, picture.getvalue())


def picture_format(path: Path) -> str:
    """The picture format of a file's suffix. Raises SettingsError."""
    if path.suffix.lower() not in _FORMATS:
        raise SettingsError(f"a tree cannot be drawn as '{path.name}'; end its name with {' or '.join(_FORMATS)}")
    return path.suffix[1:].lower()


def figure(root: TreeNode) -> Figure:
    """The tree from left to right; labels give the number of remaining points and the host's coordinates.

    Gray nodes continue, green ones are over, red ones have lost the distinguished point, hollow ones were cut.
    """
    from matplotlib.figure import Figure

    places = _places(root)
    depth, height = (max(column) for column in zip(*places.values(), strict=True))
    picture = Figure(figsize=(3 + 1.6 * depth, 1.2 + 0.28 * height), layout="constrained")
    axes = picture.subplots()
    axes.axis("off")
    labelled = len(places) <= 200  # more labels would overlap
    for node in root.walk():
        x, y = places[id(node)]
        for child in node.children:
            a, b = places[id(child)]
            axes.plot([x, a], [y, b], color="0.75", linewidth=0.8, zorder=1)
            if labelled:
                axes.annotate(str(child.axis), ((x + a) / 2, (y + b) / 2), fontsize=6, color="0.4", ha="center")
        lost = node.over and len(node.points) > 1
        color = "tab:red" if lost else "tab:green" if node.over else "0.5"
        axes.scatter([x], [y], s=24, color="none" if node.cut else color, edgecolors=color, zorder=2)
        if labelled:
            words = "{" + ",".join(map(str, node.coords)) + "}" if node.coords else ""
            axes.annotate(f"{len(node.points)} {words}".strip(), (x, y), (4, 3), textcoords="offset points", fontsize=7)
    axes.invert_yaxis()
    return picture


def frame(points: Sequence[Sequence[float]], dimension: int, coords: Sequence[int] = ()) -> NDArray[np.uint8]:
    """[360, 360, 3]: the first two or three coordinates of the points, those that the host named in bold."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = Figure(figsize=(3.6, 3.6), dpi=100)
    canvas, solid = FigureCanvasAgg(picture), dimension >= 3
    axes = picture.add_subplot(projection="3d" if solid else None)
    picture.subplots_adjust(left=0.02 if solid else 0.12, right=0.88, bottom=0.12, top=0.92)
    axes.scatter(*([point[k] for point in points] for k in range(3 if solid else 2)), color="tab:blue")
    names = [axes.xaxis, axes.yaxis, *([axes.zaxis] if solid else [])]  # type: ignore[attr-defined]
    for k, name in enumerate(names):
        name.set_label_text(f"x{k}", fontweight="bold" if k in coords else "normal")
    axes.set_title(f"{len(points)} point{'' if len(points) == 1 else 's'}", fontsize=9)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _lines(node: TreeNode, before: str, beneath: str) -> list[str]:
    came = "" if node.axis is None else f"{node.axis}: "
    points = " ".join("(" + ",".join(f"{value:g}" for value in point) + ")" for point in node.points)
    if len(points) > _LONGEST:
        points = f"{points[:_LONGEST].rsplit(' ', 1)[0]} ... of {len(node.points)}"
    if node.coords:
        points += " {" + ",".join(map(str, node.coords)) + "}"
    if node.over and len(node.points) > 1:
        points += " over: the distinguished point is lost" if node.distinguished is None else " over"
    if node.cut:
        points += " ... cut here"
    lines = [f"{before}{came}{points}"]
    for child in node.children:
        last = child is node.children[-1]
        lines += _lines(child, beneath + ("└── " if last else "├── "), beneath + ("    " if last else "│   "))
    return lines


def _places(root: TreeNode) -> dict[int, tuple[float, float]]:
    """Node positions: x is the depth; leaves are stacked, and each parent is in the middle of its children."""
    places: dict[int, tuple[float, float]] = {}
    leaves = 0

    def put(node: TreeNode, depth: int) -> float:
        nonlocal leaves
        if node.children:
            heights = [put(child, depth + 1) for child in node.children]
            height = (heights[0] + heights[-1]) / 2
        else:
            height, leaves = float(leaves), leaves + 1
        places[id(node)] = depth, height
        return height

    put(root, 0)
    return places
