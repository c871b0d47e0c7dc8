"""Tau's JSON schema, read without stopping at the first fault (tau.md 1.5).

A file holds ``version``, ``model_name``, ``organization``, ``training_data`` and ``evaluation_data``; the last two are
lists of messages with ``domain``, ``context``, ``system`` and ``turns``, strictly User then Agent. Rows are counted
from 1 within their section. A malformed row becomes a :class:`Problem` and is left out; only a file that is no Tau
file at all raises.
"""

from __future__ import annotations

import contextlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tau_trainer.errors import DataError
from tau_trainer.files import reason

SectionName = Literal["training_data", "evaluation_data"]
SECTIONS: tuple[SectionName, SectionName] = ("training_data", "evaluation_data")
ProblemKind = Literal["malformed", "missing", "duplicate", "leak", "near-leak"]
_ROLES = ("User", "Agent")
_MEANT = frozenset("-/*%&#@\\_")
"""Unicode punctuation that can change the meaning of a question: 3 - 2 is not 3 / 2."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One unusable row, or one text in it without an embedding."""

    section: SectionName
    row: int
    """Position in its section, counted from 1."""
    kind: ProblemKind
    """``malformed``; ``missing`` (no embedding); ``duplicate`` (prompt seen before); ``leak`` (evaluation prompt in
    training); ``near-leak`` (the same but for punctuation)."""
    reason: str
    """What is wrong, as the rest of a sentence."""

    def __str__(self) -> str:
        return f"{self.section} row {self.row}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Example:
    """One user text and the answer to it."""

    prompt: str
    answer: str
    domain: str
    section: SectionName
    row: int
    """Row of the message that holds the pair, counted from 1."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One well-formed conversation: couples of user text and answer."""

    domain: str
    context: str
    system: str
    turns: tuple[tuple[str, str], ...]
    """(user text, agent text) couples, at least one, texts without surrounding blanks."""
    section: SectionName
    row: int

    def pairs(self) -> tuple[Example, ...]:
        """One :class:`Example` for every couple of turns."""
        return tuple(Example(user, agent, self.domain, self.section, self.row) for user, agent in self.turns)

    def to_json(self) -> dict[str, Any]:
        """The message in Tau's format."""
        texts = [text for couple in self.turns for text in couple]
        turns = [{"role": _ROLES[position % 2], "message": text} for position, text in enumerate(texts)]
        return {"domain": self.domain, "context": self.context, "system": self.system, "turns": turns}


@dataclass(frozen=True, slots=True)
class TauFile:
    """A parsed file: its header, its well-formed messages, and the problems of the others."""

    header: Mapping[str, str]
    """``version``, ``model_name`` and ``organization``."""
    training: tuple[Conversation, ...]
    evaluation: tuple[Conversation, ...]
    rows: tuple[int, int]
    """Number of rows in ``training_data`` and ``evaluation_data``, malformed ones included."""
    problems: tuple[Problem, ...]

    def unique_pairs(self) -> tuple[list[Example], list[Example], list[Problem]]:
        """Training and evaluation pairs without repeated prompts, and every fault, those of the rows included."""
        problems, prompts = list(self.problems), Prompts()
        training = prompts.unique_pairs(self.training, problems)
        return training, prompts.unique_pairs(self.evaluation, problems), problems

    def to_json(self) -> dict[str, Any]:
        """The file in Tau's format, without malformed rows."""
        return {
            **self.header,
            "training_data": [message.to_json() for message in self.training],
            "evaluation_data": [message.to_json() for message in self.evaluation],
        }


def text_key(text: str) -> str:
    """Key of a text: lower case, with collapsed blanks. The encoder ignores the same differences."""
    return " ".join(text.lower().split())


def near_key(text: str) -> str:
    """Key shared by texts that differ only in punctuation: :func:`text_key` with punctuation trimmed off every word.

    Punctuation inside a word is kept (3.5, it's), and so are signs (-, /, *, %).
    """
    return " ".join(word for word in map(_trimmed, text_key(text).split()) if word)


def _trimmed(word: str) -> str:
    first, last = 0, len(word)
    while first < last and _punctuates(word[first]):
        first += 1
    while last > first and _punctuates(word[last - 1]):
        last -= 1
    return word[first:last]


def _punctuates(character: str) -> bool:
    return unicodedata.category(character).startswith("P") and character not in _MEANT


def read_tau_file(path: Path) -> TauFile:
    """Parse the Tau file at ``path``; the name is used as written, never lower-cased.

    Raises:
        DataError: the file is missing, is not JSON, or holds no list ``training_data``.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no data file {path}{_similar_name(path)}; check the path.") from None
    except UnicodeDecodeError:
        raise DataError(f"The data file {path} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise DataError(
            f"The data file {path} cannot be read ({reason(error)}); name a file in Tau's JSON form."
        ) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"The data file {path} is not valid JSON ({error}); correct it there.") from None
    except (ValueError, RecursionError):  # for example, a number with thousands of digits
        raise DataError(
            f"The data file {path} is nested too deeply, or holds a number of thousands of digits; correct it."
        ) from None
    return parse_tau(data, str(path))


def parse_tau(data: object, source: str) -> TauFile:
    """Parse an already decoded file; ``source`` names it in messages.

    Raises:
        DataError: the top level is not an object, or a section is not a list.
    """
    if not isinstance(data, dict):
        raise DataError(f"The data file {source} holds no JSON object; it needs `training_data` and `evaluation_data`.")
    problems: list[Problem] = []
    sections = [_parse_section(data, section, source, problems) for section in SECTIONS]
    header = {key: str(given) if _is_text(given := data.get(key)) else _HEADER[key] for key in _HEADER}
    (training, training_rows), (evaluation, evaluation_rows) = sections
    return TauFile(header, training, evaluation, (training_rows, evaluation_rows), tuple(problems))


_HEADER = {"version": "0.1.0", "model_name": "Tau-LLM", "organization": "Tau"}


def _parse_section(
    data: dict[Any, Any], section: SectionName, source: str, problems: list[Problem]
) -> tuple[tuple[Conversation, ...], int]:
    rows = data.get(section, None if section == "training_data" else [])
    if not isinstance(rows, list):
        raise DataError(f"The data file {source} has no list `{section}`; add it in Tau's JSON form.")
    messages = []
    for row, entry in enumerate(rows, start=1):
        result = _parse_message(entry, section, row)
        if isinstance(result, Conversation):
            messages.append(result)
        else:
            problems.append(Problem(section, row, "malformed", result))
    return tuple(messages), len(rows)


def _parse_message(entry: object, section: SectionName, row: int) -> Conversation | str:
    """The message, or why it is malformed."""
    if not isinstance(entry, dict):
        return "is not an object"
    labels = [entry.get(key, "") for key in ("domain", "context", "system")]
    for key, label in zip(("domain", "context", "system"), labels, strict=True):
        if not _is_text(label):
            return f"`{key}` is not a text"
    texts = _parse_turns(entry.get("turns"))
    if isinstance(texts, str):
        return texts
    couples = tuple(zip(texts[::2], texts[1::2], strict=True))
    return Conversation(labels[0].strip(), labels[1].strip(), labels[2].strip(), couples, section, row)


def _parse_turns(turns: object) -> list[str] | str:
    """Texts of the turns in order, or why they are malformed."""
    if not isinstance(turns, list) or not turns:
        return "`turns` is not a list with at least two turns"
    if len(turns) % 2:
        return f"has {len(turns)} turns, but every User turn needs an Agent turn"
    texts = []
    for position, turn in enumerate(turns, start=1):
        expected = _ROLES[(position - 1) % 2]
        if not isinstance(turn, dict) or turn.get("role") != expected:
            found = turn.get("role") if isinstance(turn, dict) else turn
            return f"turn {position} must have role `{expected}`, not {found!r}"
        message = turn.get("message")
        if not isinstance(message, str) or not message.strip():
            return f"turn {position} has no `message` text"
        if not _is_text(message):
            return f"turn {position} holds half a surrogate pair, which is no text"
        texts.append(message.strip())
    return texts


def _is_text(value: object) -> bool:
    """Whether it is a text that can be encoded; JSON allows half a surrogate pair."""
    if isinstance(value, str):
        with contextlib.suppress(UnicodeEncodeError):
            value.encode()
            return True
    return False


@dataclass(slots=True)
class Prompts:
    """The prompts so far, of one file or of several that are joined: training first, then evaluation.

    They are compared by :func:`text_key`. Tau compares case-sensitively, but its encoder ignores case, so such prompts
    are the same observation and would leak from training into evaluation. A prompt that differs from a training prompt
    only in punctuation is almost the same observation, so it is removed from evaluation, too.
    """

    seen: dict[str, SectionName] = field(default_factory=dict)
    """Section in which each :func:`text_key` appeared first."""
    near: set[str] = field(default_factory=set)
    """The :func:`near_key` of every training prompt."""

    def unique_pairs(self, messages: Iterable[Conversation], problems: list[Problem]) -> list[Example]:
        """Pairs of ``messages`` whose prompts are new; adds a problem for every row that lost one.

        A message whose first user text repeats is dropped as a whole, as Tau does; a repeated later text is dropped
        with its answer.
        """
        pairs: list[Example] = []
        for message in messages:
            for position, pair in enumerate(message.pairs()):
                fault = self._fault(pair)
                if fault is None:
                    self._add(pair)
                    pairs.append(pair)
                    continue
                if not problems or (problems[-1].section, problems[-1].row) != (pair.section, pair.row):
                    problems.append(Problem(pair.section, pair.row, fault[0], f"{pair.prompt!r} {fault[1]}"))
                if position == 0:
                    break
        return pairs

    def _fault(self, pair: Example) -> tuple[ProblemKind, str] | None:
        key = text_key(pair.prompt)
        if key in self.seen:
            leak = pair.section == "evaluation_data" and self.seen[key] == "training_data"
            return ("leak", "is a training prompt too") if leak else ("duplicate", "repeats an earlier prompt")
        if pair.section == "evaluation_data" and near_key(key) in self.near:
            return "near-leak", "is a training prompt but for punctuation"
        return None

    def _add(self, pair: Example) -> None:
        self.seen[text_key(pair.prompt)] = pair.section
        if pair.section == "training_data":
            self.near.add(near_key(pair.prompt))


def row_list(rows: Iterable[int], limit: int = 12) -> str:
    """``row 4`` or ``rows 4, 7, 9 and 3 more``, in order and without repetition."""
    numbers = sorted(set(rows))
    shown = ", ".join(str(number) for number in numbers[:limit])
    more = f" and {len(numbers) - limit} more" if len(numbers) > limit else ""
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{more}"


def places(problems: Iterable[Problem]) -> str:
    """``training_data rows 4, 7 and evaluation_data row 2``; empty if there is no problem."""
    rows: dict[str, list[int]] = {}
    for problem in problems:
        rows.setdefault(problem.section, []).append(problem.row)
    return " and ".join(f"{section} {row_list(numbers)}" for section, numbers in rows.items())


def _similar_name(path: Path) -> str:
    """A hint if the folder has the same name in another case."""
    folder = path.parent
    if not folder.is_dir():
        return ""
    for other in sorted(folder.iterdir()):
        if other.name.lower() == path.name.lower():
            return f" (there is {other.name}; upper and lower case matter)"
    return ""
