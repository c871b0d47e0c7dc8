"""Draws the field on which tag is played."""

from __future__ import annotations

from tau_trainer.games.canvas import Canvas

TAGGER, RUNNER, REACH, OUT, INK = "#d64541", "#2d74be", "#f7d9d7", "#deded8", "#26282e"


def pitch(length: float, time: float) -> Canvas:
    """A square from (0, 0) to (``length``, ``length``), with a bar below it for the elapsed share ``time``."""
    unit = length / 100
    canvas = Canvas((-2 * unit, length + 2 * unit), (-6 * unit, length + 2 * unit), 432)
    corners = [(0.0, 0.0), (0.0, length), (length, length), (length, 0.0), (0.0, 0.0)]
    canvas.line(corners, INK, 0.4 * unit)
    canvas.line([(0.0, -4 * unit), (length, -4 * unit)], OUT, 1.5 * unit)
    if time > 0:
        canvas.line([(0.0, -4 * unit), (length * min(time, 1.0), -4 * unit)], INK, 1.5 * unit)
    return canvas
