"""Behaviors and agents of every kind, for property tests."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, FloatArray, ObservationSpec, ObservationType
from tests.bridge.oracle import Agent

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
IDS = st.one_of(st.sampled_from([0, 1, 127, 128, 2**14, 2**21, 2**28, 2**31 - 1]), st.integers(0, 2**31 - 1))
IMAGE = tuple(DimensionProperty(flag) for flag in (1, 2, 2))
IMAGE_SENSOR = ObservationSpec("camera", (3, 4, 5), IMAGE, dtype=np.uint8)
SHAPES = st.lists(st.integers(0, 3), max_size=5).map(tuple)
ACTIONS = st.builds(ActionSpec, st.integers(0, 3), st.lists(st.integers(1, 200), max_size=3).map(tuple))


@st.composite
def sensors(draw: st.DrawFn) -> ObservationSpec:
    name, kind = draw(st.text(max_size=8)), draw(st.sampled_from(ObservationType))
    if draw(st.booleans()):
        size = draw(st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 3)))
        return ObservationSpec(name, size, IMAGE, kind, np.uint8)
    shape = draw(SHAPES)
    if len(shape) == 3:  # what is channels last is turned around
        return ObservationSpec(name, shape, IMAGE, kind)
    flags = tuple(DimensionProperty(draw(st.integers(0, 7))) for _ in shape) if draw(st.booleans()) else ()
    return ObservationSpec(name, shape, flags, kind)


def behaviors(name: str = "B?team=0") -> st.SearchStrategy[BehaviorSpec]:
    return st.builds(BehaviorSpec, st.just(name), st.lists(sensors(), max_size=3).map(tuple), ACTIONS)


def array(draw: st.DrawFn, shape: tuple[int, ...]) -> FloatArray:
    size = math.prod(shape)
    return np.array(draw(st.lists(FLOATS, min_size=size, max_size=size)), np.float32).reshape(shape)


def image(draw: st.DrawFn, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    size = math.prod(shape)
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8).reshape(shape)


@st.composite
def agents(draw: st.DrawFn, spec: BehaviorSpec, *, unknown: bool = True) -> Agent:
    size = spec.actions.mask_size
    masks = (
        st.one_of(st.none(), st.lists(st.booleans(), min_size=size, max_size=size).map(tuple)) if size else st.none()
    )
    done = draw(st.booleans())
    return Agent(
        id=draw(IDS),
        obs=tuple(
            image(draw, sensor.shape) if sensor.dtype == np.uint8 else array(draw, sensor.shape)
            for sensor in spec.observations
        ),
        reward=draw(st.one_of(st.just(0.0), FLOATS)),
        done=done,
        interrupted=done and draw(st.booleans()),
        mask=draw(masks),
        group_id=draw(st.one_of(st.just(0), IDS)),
        group_reward=draw(st.one_of(st.just(0.0), FLOATS)),
        unknown=unknown and draw(st.booleans()),
    )


@st.composite
def steps(
    draw: st.DrawFn, name: str = "B?team=0", *, most: int = 6, unknown: bool = True
) -> tuple[BehaviorSpec, list[Agent]]:
    """A behavior and some agents of it; the same id may end and go on."""
    spec = draw(behaviors(name))
    listed = st.lists(agents(spec, unknown=unknown), max_size=most, unique_by=lambda agent: (agent.id, agent.done))
    return spec, draw(listed)
