"""Errors in words."""

from __future__ import annotations

from tau_trainer.errors import DataError, sentence_of


def test_errors_in_one_sentence() -> None:
    assert sentence_of(DataError("row 3 has no answer")) == "row 3 has no answer"
    assert sentence_of(KeyError("x")) == "internal error: KeyError: 'x'"
