"""Numbers and truth values as people write them in YAML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tau_trainer.settings.engines import Int32
from tau_trainer.settings.kinds import Bool, Float, Int

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


@pytest.mark.parametrize(("written", "meant"), [("3e-4", 3e-4), (3, 3.0), ("0.5", 0.5), ("1.0e7", 1e7)])
def test_a_number_may_be_written_as_text(written: object, meant: float) -> None:
    value = REAL.validate_python(written)
    assert value == meant
    assert type(value) is float


@pytest.mark.parametrize("written", ["nan", float("inf"), "-inf", "1e999"])
def test_a_number_must_be_finite(written: object) -> None:
    with pytest.raises(ValidationError, match="finite"):
        REAL.validate_python(written)


@pytest.mark.parametrize("written", [False, "many", None, {}, [1.0]])
def test_what_is_no_number_is_refused(written: object) -> None:
    with pytest.raises(ValidationError, match="must be a number"):
        REAL.validate_python(written)


@pytest.mark.parametrize("written", [False, "false", "False", "no", "off", "0", 0])
def test_the_text_false_is_false(written: object) -> None:
    assert TRUTH.validate_python(written) is False


@pytest.mark.parametrize("written", [True, "true", "YES", "on", "1", 1])
def test_the_text_true_is_true(written: object) -> None:
    assert TRUTH.validate_python(written) is True


@pytest.mark.parametrize("written", ["maybe", 2, None, [], ""])
def test_what_is_neither_true_nor_false_is_refused(written: object) -> None:
    with pytest.raises(ValidationError, match="must be true or false"):
        TRUTH.validate_python(written)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_survives_being_written_as_text(value: float) -> None:
    assert REAL.validate_python(repr(value)) == value


@given(st.integers(-(2**62), 2**62))
def test_every_int_survives_being_written_as_text(value: int) -> None:
    assert WHOLE.validate_python(str(value)) == value
