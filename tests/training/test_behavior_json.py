from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.specs import ActionSpec, BehaviorSpec, DimensionProperty, NamedAction, ObservationSpec, ObservationType
from tau_trainer.training.behavior_json import from_json, to_json

SENSORS = st.builds(
    ObservationSpec,
    st.text(max_size=8),
    st.lists(st.integers(1, 99), min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from([DimensionProperty.NONE, DimensionProperty(6)]), max_size=3).map(tuple),
    st.sampled_from(list(ObservationType)),
    st.sampled_from([np.float32, np.uint8]),
    st.booleans(),
)
ACTIONS = st.builds(ActionSpec, st.integers(0, 400), st.lists(st.integers(1, 9), max_size=3).map(tuple))


@settings(max_examples=30)
@given(st.builds(BehaviorSpec, st.text(max_size=12), st.lists(SENSORS, max_size=3).map(tuple), ACTIONS))
def test_round_trip_through_json(spec: BehaviorSpec) -> None:
    assert from_json(json.loads(json.dumps(to_json(spec)))) == spec


def test_a_godot_games_actions_are_kept_if_they_are_the_behaviors() -> None:
    named = NamedAction("jump", 2, True), NamedAction("move", 3, False)
    written = to_json(BehaviorSpec("Agent", (), ActionSpec(3, (2,), named)))
    assert from_json(json.loads(json.dumps(written))).actions.named == named
    with pytest.raises(ValueError, match="named actions"):
        from_json(written | {"named_actions": [["jump", 9, True], ["move", 3, False]]})
    del written["named_actions"]
    assert from_json(written).actions.named == ()


def test_a_checkpoint_of_before_sensors_had_a_type() -> None:
    written = to_json(BehaviorSpec("Agent", (ObservationSpec("sensor", (3,)),), ActionSpec(1)))
    del written["observations"][0]["dtype"], written["observations"][0]["hidden"]
    assert from_json(written).observations[0].dtype == np.float32
