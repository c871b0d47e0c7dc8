"""Numbers and truth values as people write them in YAML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tau_trainer.settings.engines import Int32
from tau_trainer.settings.kinds import Bool, Float, Fraction, Int, PositiveInt

WHOLE = TypeAdapter[int](Int)
REAL = TypeAdapter[float](Float)
TRUTH = TypeAdapter[bool](Bool)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(64, 64), ("64", 64), ("1e4", 10000), ("1.0e4", 10000), (1e4, 10000), ("5E5", 500000), (" 7 ", 7), ("-3", -3)],
)
def test_a_whole_number_may_be_written_in_many_ways(written: object, meant: int) -> None:
    value = WHOLE.validate_python(written)
    assert value == meant
    assert type(value) is int


@pytest.mark.parametrize("written", ["1.5", 1.5, "many", True, None, [], "nan", "inf", ""])
def test_what_is_no_whole_number_is_refused(written: object) -> None:
    with pytest.raises(ValidationError, match="must be a whole number"):
        WHOLE.validate_python(written)


@pytest.mark.parametrize("written", [2**63, "1e400", "1e999999999", 10**40])
def test_a_number_that_is_too_large_is_told_the_largest(written: object) -> None:
    with pytest.raises(ValidationError, match=str(2**63 - 1)):
        WHOLE.validate_python(written)
    with pytest.raises(ValidationError, match=str(2**31 - 1)):
        TypeAdapter[int](Int32).validate_python(written)


@pytest.mark.parametrize(
    ("kind", "texts", "said"),
    [
        (REAL, ["nan", float("inf"), "-inf", "1e999"], "finite"),
        (REAL, [False, "many", None, {}, [1.0]], "must be a number"),
        (TRUTH, ["maybe", 2, None, [], ""], "must be true or false"),
        (TypeAdapter[int](PositiveInt), ["0"], "greater than"),
        (TypeAdapter[float](Fraction), ["1.01"], "less than"),
    ],
)
def test_what_is_refused(kind: TypeAdapter[Any], texts: list[object], said: str) -> None:
    for written in texts:
        with pytest.raises(ValidationError, match=said):
            kind.validate_python(written)


def test_truths_may_be_written_in_many_ways() -> None:
    assert {TRUTH.validate_python(written) for written in (False, "false", "False", "no", "off", "0", 0)} == {False}
    assert {TRUTH.validate_python(written) for written in (True, "true", "YES", "on", "1", 1)} == {True}


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**62), 2**62))
def test_every_number_survives_being_written_as_text(real: float, whole: int) -> None:
    assert [REAL.validate_python(repr(real)), WHOLE.validate_python(str(whole))] == [real, whole]
    value = REAL.validate_python(whole)
    assert (type(value), value) == (float, float(whole))
