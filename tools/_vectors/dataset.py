"""A made-up data set with every kind of unusable row, and by hand what must come out of it."""

from __future__ import annotations

import json
from typing import Any

from tools._vectors.projection import project, unit
from tools._vectors.streams import Case, Stream

WIDTH = 384
ENCODER = "made-up"
SMILE = "\U0001f600"
PROMPTS = (
    "what is the colour of grass?", "and of the sky?", "and snow?", "nil?", "and of blood?", "coal?", "ink?", "face?",
    "sign?", "sun?", "lemon?", "snow again?", "plum?",
)  # fmt: skip
ANSWERS = ("green", "blue", "white", "red", "black", SMILE, "\ufffd", "dark yellow", "yellow", "violet")
ZERO = "nothing"
"""Has a vector, but one of length zero: that is no embedding."""


def _row(*texts: str, **labels: Any) -> dict[str, Any]:
    turns = [{"role": ("User", "Agent")[place % 2], "message": text} for place, text in enumerate(texts)]
    return {"domain": "Colours", "context": "c", "system": "s", "turns": turns} | labels


def _role(role: object) -> dict[str, Any]:
    return _row() | {"turns": [{"role": role, "message": "x"}, {"role": "Agent", "message": "y"}]}


TRAINING: list[Any] = [
    _row(" What is the colour of grass? ", "Green", domain=" Colours\u2003"),
    _row("And of the sky?", "blue", "and snow?", "white"),
    _row("WHAT is the\u00a0colour  of GRASS?", "green"),
    _role("user"),
    _row("Odd?", "yes", "no?"),
    _row("Blank?", " \t"),
    "just a text",
    _row("Five?", "5", domain=5),
    _role({"a": [1, 2.5, 1e-7, True, None], "b": "it's"}),
    _row() | {"turns": ["it's", "not"]},
    _row("Who?", "green"),
    _row("Why\n\u200b?", "because"),
    _row("Nil?", "nothing"),
    _row("And of blood?", "Red", "what is the COLOUR of grass?", "green"),
    _row("Coal?", "BLACK"),
    _row("Ink?", "black"),
    _row("Face?", SMILE),
    _row("Sign?", "\ufffd"),
    _row() | {"turns": []},
    _row("Sun?", "Dark  yellow", domain="Sky"),
    _role(12),
]
EVALUATION: list[Any] = [
    _row("and of the SKY?", "blue"),
    _row("Lemon?", "yellow", domain="Fruit"),
    _row("lemon?", "yellow"),
    _row("Snow again?", "White"),
    _row("Plum?", "violet", "Pear?", "green"),
]
ROLE = "turn 1 must have role `User`, not "
SKIPPED: list[tuple[str, int, str, str]] = [
    ("training_data", 4, "malformed", ROLE + "'user'"),
    ("training_data", 5, "malformed", "has 3 turns, but every User turn needs an Agent turn"),
    ("training_data", 6, "malformed", "turn 2 has no `message` text"),
    ("training_data", 7, "malformed", "is not an object"),
    ("training_data", 8, "malformed", "`domain` is not a text"),
    ("training_data", 9, "malformed", ROLE + "{'a': [1, 2.5, 1e-07, True, None], 'b': \"it's\"}"),
    ("training_data", 10, "malformed", ROLE + '"it\'s"'),
    ("training_data", 19, "malformed", "`turns` is not a list with at least two turns"),
    ("training_data", 21, "malformed", ROLE + "12"),
    ("training_data", 3, "duplicate", "'WHAT is the\\xa0colour  of GRASS?' repeats an earlier prompt"),
    ("training_data", 14, "duplicate", "'what is the COLOUR of grass?' repeats an earlier prompt"),
    ("evaluation_data", 1, "leak", "'and of the SKY?' is a training prompt too"),
    ("evaluation_data", 3, "duplicate", "'lemon?' repeats an earlier prompt"),
    ("training_data", 11, "missing", "'Who?' has no embedding"),
    ("training_data", 12, "missing", "'Why\\n\\u200b?' and 'because' have no embedding"),
    ("training_data", 13, "missing", "'nothing' has no embedding"),
    ("evaluation_data", 5, "missing", "'Pear?' has no embedding"),
]
SENTENCE = (
    "17 rows of {source} left out (training_data rows 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 and 2 more and "
    "evaluation_data rows 1, 3, 5); run `tau-train data embed {source}` for the missing embeddings."
)
VOCABULARY = ("BLACK", "blue", "Dark  yellow", "Green", "Red", "white", "\ufffd", SMILE, "violet", "yellow")
KNOWN = 8
TRAIN_ROWS: list[tuple[str, str, int, int, str]] = [
    ("What is the colour of grass?", "Green", 3, 1, "Colours"),
    ("And of the sky?", "blue", 1, 2, "Colours"),
    ("and snow?", "white", 5, 2, "Colours"),
    ("And of blood?", "Red", 4, 14, "Colours"),
    ("Coal?", "BLACK", 0, 15, "Colours"),
    ("Ink?", "black", 0, 16, "Colours"),
    ("Face?", SMILE, 7, 17, "Colours"),
    ("Sign?", "\ufffd", 6, 18, "Colours"),
    ("Sun?", "Dark  yellow", 2, 20, "Sky"),
]
EVALUATION_ROWS: list[tuple[str, str, int, int, str]] = [
    ("Lemon?", "yellow", 9, 2, "Fruit"),
    ("Snow again?", "White", 5, 4, "Colours"),
    ("Plum?", "violet", 8, 5, "Colours"),
]
_LOST = [_row(f"Unknown {number}?", "green") for number in range(1, 15)]
_REMEDIES = (
    "run `tau-train data audit {source}` for the reasons.",
    "run `tau-train data embed {source}` for the missing embeddings.",
)
ERRORS: list[tuple[str, str]] = [
    ("[1]", "The data file {source} holds no JSON object; it needs `training_data` and `evaluation_data`."),
    ("{}", "The data file {source} has no list `training_data`; add it in Tau's JSON form."),
    (
        '{"training_data": [], "evaluation_data": null}',
        "The data file {source} has no list `evaluation_data`; add it in Tau's JSON form.",
    ),
    ('{"training_data": []}', "The data file {source} has no rows in `training_data`; add some."),
    (
        '{"training_data": [',
        "The data file {source} is not JSON (Expecting value: line 1 column 20 (char 19)); correct it there.",
    ),
    (
        '{"training_data": [7]}',
        "No row of `training_data` in {source} can be used: row 1 is the first fault (is not an object); "
        + _REMEDIES[0],
    ),
    (
        json.dumps({"training_data": _LOST}),
        "No row of `training_data` in {source} can be used: rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more "
        "have no embedding; " + _REMEDIES[1],
    ),
]
"""Text of a file and why nothing can be made of it; {source} stands for its name."""


def vectors() -> dict[str, list[int]]:
    """An embedding for every text, of whole numbers; scaled to unit length when they are read."""
    texts = (*PROMPTS, *ANSWERS)
    table = {}
    for number, text in enumerate(texts):
        stream = Stream(76, number)
        table[text] = [stream.below(19) - 9 for _ in range(WIDTH)]
    return table | {ZERO: [0] * WIDTH}


def dataset_section() -> Case:
    """Input and expected outcome of the made-up data set."""
    table = vectors()
    keys = [" ".join(answer.lower().split()) for answer in VOCABULARY]
    embedded = [unit(table[key]) for key in keys]
    return {
        "json": json.dumps({"version": "9", "training_data": TRAINING, "evaluation_data": EVALUATION}),
        "encoder": ENCODER,
        "vectors": table,
        "answers": VOCABULARY,
        "training_answers": KNOWN,
        "train": [_as_case(*row) for row in TRAIN_ROWS],
        "evaluation": [_as_case(*row) for row in EVALUATION_ROWS],
        "skipped": [dict(zip(("section", "row", "kind", "reason"), entry, strict=True)) for entry in SKIPPED],
        "sentence": SENTENCE,
        "tau3": project(embedded[:KNOWN], embedded),
        "errors": [{"json": text, "error": error} for text, error in ERRORS],
    }


def _as_case(prompt: str, answer: str, index: int, row: int, domain: str) -> Case:
    return {"prompt": prompt, "answer": answer, "index": index, "row": row, "domain": domain}
