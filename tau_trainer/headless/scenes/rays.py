"""Rays among boxes on a plane, and their values in the format of ML-Agents' RayPerceptionSensor.

Positions are (x, z) in metres. A heading of 0 points along z; headings increase clockwise, to the right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import Float64Array, FloatArray, IndexArray


def fan(per_direction: int, most_degrees: float) -> Float64Array:
    """Angles of rays to the heading, radians, float64 [1 + 2 * per_direction]: ahead, then right and left, outwards."""
    right = np.deg2rad(most_degrees) / per_direction * np.arange(1, per_direction + 1)
    return np.concatenate([[0.0], np.stack([right, -right], axis=1).ravel()])


def forward(heading: NDArray[np.floating]) -> Float64Array:
    """Unit vectors [..., 2] along ``heading`` [...]."""
    return np.stack([np.sin(heading), np.cos(heading)], axis=-1)


def distances(start: Float64Array, direction: Float64Array, low: Float64Array, high: Float64Array) -> Float64Array:
    """Length of each ray until it enters each box: float64 [n, rays, boxes], inf if it never does.

    ``start`` [n, 2], ``direction`` [n, rays, 2], corners ``low`` and ``high`` [n or 1, boxes, 2]. Slab method: the ray
    is between the box's two x lines on one stretch, between its two z lines on another, and in the box on both.
    """
    way = direction[:, :, None, :]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)  # parallel to the lines: always or never between them
    near = (low - start[:, None, :])[:, None] / way
    far = (high - start[:, None, :])[:, None] / way
    enter = np.minimum(near, far).max(axis=-1)
    leave = np.maximum(near, far).min(axis=-1)
    return np.where((leave >= enter) & (leave >= 0.0), np.maximum(enter, 0.0), np.inf)


def ray_values(distance: Float64Array, tag: IndexArray, tags: int, length: float) -> FloatArray:
    """The values of a RayPerceptionSensor with rays of ``length``: float32 [n, rays * (tags + 2)].

    ``distance`` [n, rays, boxes]; ``tag`` [n or 1, boxes] is the kind of each box, -1 if it has no tag. For each ray:
    the tag of the nearest hit, one-hot; 1 if there is no hit; the hit's share of the length (1 if there is no hit).
    """
    nearest = distance.argmin(axis=-1)
    way = np.take_along_axis(distance, nearest[..., None], axis=-1)[..., 0]
    hit = way <= length
    kind = np.take_along_axis(np.broadcast_to(tag, (len(distance), tag.shape[1])), nearest, axis=1)
    values = np.zeros((*way.shape, tags + 2), np.float32)
    values[..., :tags] = (kind[..., None] == np.arange(tags)) & hit[..., None]
    values[..., tags] = ~hit
    values[..., tags + 1] = np.minimum(way / length, 1.0)
    return values.reshape(len(distance), -1)
