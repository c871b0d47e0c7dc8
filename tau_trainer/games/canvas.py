"""Small pictures of games: lines, polygons and discs on white, in the game's own coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Point = tuple[float, float]
_FINER = 3
"""Drawn pixels for each shown pixel along each axis (oversampling smooths edges)."""


class Canvas:
    """A white rectangle.

    Args:
        x: least and greatest x, at the left and right edge.
        y: least and greatest y, at the bottom and top edge.
        height: in pixels; the width follows from it.
    """

    def __init__(self, x: Point, y: Point, height: int) -> None:
        self._scale = height * _FINER / (y[1] - y[0])
        self._left, self._top = x[0], y[1]
        self._size = round((x[1] - x[0]) * height / (y[1] - y[0])), height
        self._image = Image.new("RGB", (self._size[0] * _FINER, height * _FINER), "white")
        self._draw = ImageDraw.Draw(self._image)

    def line(self, points: Sequence[Point], colour: str, width: float) -> None:
        """Draw a line through ``points``, with round ends."""
        self._draw.line([self._at(point) for point in points], colour, max(1, round(width * self._scale)), "curve")
        for end in (points[0], points[-1]):
            self.disc(end, width / 2, colour)

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        """Draw a polygon with ``points`` as corners."""
        self._draw.polygon([self._at(point) for point in points], colour)

    def disc(self, centre: Point, radius: float, colour: str) -> None:
        """Draw a disc around ``centre``."""
        x, y = self._at(centre)
        r = radius * self._scale
        self._draw.ellipse((x - r, y - r, x + r, y + r), colour)

    def pixels(self) -> NDArray[np.uint8]:
        """The picture, uint8 [H, W, 3]."""
        return np.asarray(self._image.resize(self._size, Image.Resampling.BOX))

    def _at(self, point: Point) -> Point:
        return (point[0] - self._left) * self._scale, (self._top - point[1]) * self._scale
