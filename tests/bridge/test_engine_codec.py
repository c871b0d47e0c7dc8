"""Lists of actions, for engines and for trainers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.codec import ActionEncoder
from tau_trainer.bridge.engine_codec import ActionDecoder
from tau_trainer.bridge.records import delimited
from tau_trainer.errors import DecodeError
from tau_trainer.specs import Actions, ActionSpec
from tests.bridge.strategies import ACTIONS

FLOATS = np.array([0.5, -1.0], "<f4").tobytes()


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    spec, n = data.draw(ACTIONS), data.draw(st.integers(0, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    discrete = rng.integers(0, spec.discrete_branches, (n, spec.discrete_size), np.int32)
    actions = Actions(rng.normal(size=(n, spec.continuous_size)).astype(np.float32), discrete)
    for legacy in (False, True):
        found = ActionDecoder(spec).decode(ActionEncoder(spec, legacy=legacy).encode(actions))
        np.testing.assert_array_equal(found.continuous, actions.continuous, strict=True)
        np.testing.assert_array_equal(found.discrete, actions.discrete, strict=True)


def test_no_agents_are_no_bytes() -> None:
    spec = ActionSpec(2)
    assert ActionEncoder(spec).encode(Actions.zeros(spec, 0)) == b""
    assert len(ActionDecoder(spec).decode(b"")) == 0


def test_what_is_left_out_is_zero() -> None:
    decoder = ActionDecoder(ActionSpec(2, (3,)))
    payload = delimited(1, b"") + delimited(1, delimited(6, FLOATS)) + delimited(1, delimited(7, b"\x02"))
    found = decoder.decode(payload)
    assert found.continuous.tolist() == [[0.0, 0.0], [0.5, -1.0], [0.0, 0.0]]
    assert found.discrete.tolist() == [[0], [0], [2]]


def test_branches_of_one_and_of_two_bytes_in_one_message() -> None:
    decoder = ActionDecoder(ActionSpec(0, (3, 300)))
    payload = delimited(1, delimited(7, b"\x02\x05")) + delimited(1, delimited(7, b"\x01\xab\x02"))
    assert decoder.decode(payload).discrete.tolist() == [[2, 5], [1, 299]]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (delimited(6, FLOATS[:4]), "1 continuous values and 0 branches; this behavior takes 2 and 1"),
        (delimited(6, FLOATS + FLOATS), "4 continuous values"),
        (delimited(7, b"\x01\x01"), "2 branches"),
        (delimited(6, FLOATS[:5]), "not a multiple of 4"),
        (delimited(7, b"\x81"), "varint"),
    ],
)
def test_actions_that_do_not_fit(record: bytes, sentence: str) -> None:
    with pytest.raises(DecodeError, match=sentence):
        ActionDecoder(ActionSpec(2, (3,))).decode(delimited(1, record))


def test_the_deprecated_copy_stands_first_and_holds_both_kinds() -> None:
    spec = ActionSpec(1, (300,))
    data = ActionEncoder(spec, legacy=True).encode(Actions(np.array([[0.5]], np.float32), np.array([[2]], np.int32)))
    floats = np.array([0.5, 2.0], "<f4").tobytes()
    assert data == delimited(1, delimited(1, floats) + delimited(6, FLOATS[:4]) + delimited(7, b"\x82\x00"))
