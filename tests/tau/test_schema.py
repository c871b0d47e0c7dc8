"""Tau's JSON schema: what is accepted, and what is reported without stopping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.errors import DataError
from tau_trainer.tau.schema import (
    SECTIONS,
    Problem,
    Prompts,
    TauFile,
    near_key,
    parse_tau,
    read_tau_file,
    row_list,
    text_key,
)
from tests.tau.conftest import message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() == text)
GOOD = st.builds(
    lambda couples, domain: {
        "domain": domain,
        "context": "c",
        "system": "s",
        "turns": [
            {"role": role, "message": text}
            for couple in couples
            for role, text in zip(("User", "Agent"), couple, strict=True)
        ],
    },
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3),
    st.just("d"),
)


def _turns(*roles: str) -> dict[str, Any]:
    return {"turns": [{"role": role, "message": f"{role} {n}"} for n, role in enumerate(roles)]}


def _parse(*rows: object) -> TauFile:
    return parse_tau({"training_data": list(rows), "evaluation_data": []}, "test.json")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("text", "is not an object"),
        ({}, "at least two turns"),
        ({"turns": []}, "at least two turns"),
        (_turns("User"), "has 1 turns"),
        (_turns("Agent", "User"), "turn 1 must have role `User`, not 'Agent'"),
        (_turns("User", "User"), "turn 2 must have role `Agent`, not 'User'"),
        (_turns("user", "agent"), "turn 1 must have role `User`, not 'user'"),
        ({"turns": [{"role": "User", "message": " "}, {"role": "Agent", "message": "x"}]}, "turn 1 has no `message`"),
        ({"turns": [{"role": "User", "message": "x"}, {"role": "Agent", "message": 5}]}, "turn 2 has no `message`"),
        ({**_turns("User", "Agent"), "domain": 3}, "`domain` is not a text"),
        ({**_turns("User", "Agent"), "context": "\ud800"}, "`context` is not a text"),
        (
            {"turns": [{"role": "User", "message": "\udfff"}, {"role": "Agent", "message": "x"}]},
            "half a surrogate pair",
        ),
    ],
)
def test_a_malformed_row_is_named_and_skipped(row: object, reason: str) -> None:
    file = _parse(_turns("User", "Agent"), row, _turns("User", "Agent", "User", "Agent"))
    assert [message.row for message in file.training] == [1, 3]
    assert len(file.problems) == 1
    assert (file.problems[0].row, file.problems[0].kind) == (2, "malformed")
    assert reason in file.problems[0].reason
    assert str(file.problems[0]).startswith("training_data row 2: ")


@given(st.lists(GOOD, max_size=4), st.lists(GOOD, max_size=4))
def test_well_formed_files_survive_a_round_trip(training: list[Any], evaluation: list[Any]) -> None:
    data = {"version": "1", "model_name": "m", "organization": "o"}
    data |= {"training_data": training, "evaluation_data": evaluation}  # type: ignore[dict-item]
    file = parse_tau(data, "x")
    assert not file.problems
    assert file.to_json() == data


@given(st.lists(JSON | GOOD, max_size=6))
def test_every_row_is_either_used_or_reported(rows: list[Any]) -> None:
    file = _parse(*rows)
    numbers = sorted([message.row for message in file.training] + [problem.row for problem in file.problems])
    assert numbers == list(range(1, len(rows) + 1))


@given(JSON)
def test_any_json_parses_or_raises_a_data_error(data: object) -> None:
    if isinstance(data, dict) and all(isinstance(data.get(key, []), list) for key in SECTIONS) and SECTIONS[0] in data:
        assert parse_tau(data, "some.json").rows[0] == len(data["training_data"])
    else:
        with pytest.raises(DataError, match=r"some\.json"):
            parse_tau(data, "some.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "no JSON object"),
        ("{", "is not valid JSON"),
        ("{}", "`training_data`"),
        ('{"training_data": 1}', "no list"),
    ],
)
def test_files_that_are_no_tau_files(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, "utf-8")
    with pytest.raises(DataError, match=said) as caught:
        read_tau_file(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data file"):
        read_tau_file(tmp_path / "x.json")
    (tmp_path / "y.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(DataError, match="is not UTF-8 text; save it as UTF-8"):
        read_tau_file(tmp_path / "y.json")
    with pytest.raises(DataError, match=r"cannot be read \((Is a directory|Permission denied)\)"):
        read_tau_file(tmp_path)


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"training_data": []}), "utf-8-sig")
    assert read_tau_file(path).rows == (0, 0)


def test_repeated_prompts_are_dropped_with_their_row() -> None:
    file = _parse(_turns("User", "Agent"), _turns("User", "Agent", "User", "Agent"))
    problems: list[Problem] = []
    pairs = Prompts().unique_pairs(file.training, problems)
    assert [pair.row for pair in pairs] == [1]
    assert [(problem.row, problem.kind) for problem in problems] == [(2, "duplicate")]


def test_repeated_later_turn_drops_only_its_couple() -> None:
    later = _turns("User", "Agent", "User", "Agent")
    later["turns"][0]["message"], later["turns"][2]["message"] = "new", "User 0"
    rows = [_turns("User", "Agent"), later]
    problems: list[Problem] = []
    pairs = Prompts().unique_pairs(_parse(*rows).training, problems)
    assert [pair.prompt for pair in pairs] == ["User 0", "new"]
    assert [problem.row for problem in problems] == [2]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is 'foot'?", "what is foot", True),
        ("Well... (really)!", "“Well” really", True),
        ("How much is 3 - 2?", "How much is 3 / 2?", False),
        ("Is 3.5 more?", "Is 35 more?", False),
        ("Its or it's?", "Its or its?", False),
        ("half of 8 ?", "half of 8", True),
        ("5%", "5", False),
    ],
)
def test_what_differs_in_punctuation_only_is_near(one: str, other: str, same: bool) -> None:
    assert (near_key(one) == near_key(other)) is same
    assert near_key(near_key(one)) == near_key(one)


def test_near_training_prompts_leave_the_evaluation_and_nothing_else() -> None:
    def rows(*prompts: str) -> list[Any]:
        return [message(prompt, "yes") for prompt in prompts]

    data = {"training_data": rows("Is it so?", "Is it so"), "evaluation_data": rows("IS IT SO!", "Is it?", "is it.")}
    training, evaluation, problems = parse_tau(data, "x").unique_pairs()
    assert [pair.row for pair in training] == [1, 2], "training rows are nobody's leak"
    assert [pair.row for pair in evaluation] == [2, 3], "nor are evaluation rows among themselves"
    assert [str(problem) for problem in problems] == [
        "evaluation_data row 1: 'IS IT SO!' is a training prompt but for punctuation"
    ]
    assert problems[0].kind == "near-leak"


def test_row_lists_read_well() -> None:
    assert row_list([4]) == "row 4"
    assert row_list([9, 4, 4]) == "rows 4, 9"
    assert row_list(range(1, 20), limit=3) == "rows 1, 2, 3 and 16 more"


@given(st.text(max_size=20))
def test_keys_are_stable(text: str) -> None:
    assert text_key(text_key(text)) == text_key(text)
    assert text_key(f"  {text}\n") == text_key(text)
