"""A Tau data set in memory: prompts as embeddings, answers as indices into one vocabulary.

Loaded once and shared read-only in the process; every lookup uses a hash table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from tau_trainer.errors import DataError
from tau_trainer.specs import FloatArray, IntArray
from tau_trainer.tau.schema import Example, Problem, places, read_tau_file, row_list, text_key
from tau_trainer.tau.vectors import VectorTable, read_vectors, vectors_path

_Array = TypeVar("_Array", FloatArray, IntArray)
SplitName = Literal["train", "evaluation", "validation", "test"]
FEWEST_TO_DIVIDE = 8
"""With fewer evaluation rows than this, all are test rows, because three rows are too few to choose by."""
PACKAGED_DATA = Path(__file__).parent / "data" / "tau.json"
"""Our own data set, shipped with its MiniLM vectors."""


@dataclass(frozen=True, slots=True, eq=False)
class TauSplit:
    """The usable rows of one section; all arrays are read-only."""

    name: SplitName
    prompts: FloatArray
    """float32 ``[n, 384]``: prompt embeddings of unit length, the observations."""
    answer_index: IntArray
    """int32 ``[n]``: row of each right answer in :attr:`TauDataset.answers`."""
    prompt_text: tuple[str, ...]
    answer_text: tuple[str, ...]
    domain: tuple[str, ...]
    row: IntArray
    """int32 ``[n]``: row in the file's section, counted from 1."""

    def __len__(self) -> int:
        return len(self.answer_index)


@dataclass(frozen=True, slots=True, eq=False)
class TauDataset:
    """All splits with one answer vocabulary. Compared by identity, because it is loaded once."""

    source: str
    """The file's path, for messages."""
    encoder: str
    """Name of the text encoder that made the vectors."""
    answers: tuple[str, ...]
    """Vocabulary: the sorted training answers, then those of evaluation rows only."""
    answer_vectors: FloatArray
    """float32 ``[K, 384]``, unit length, read-only."""
    training_answers: int
    """Number of :attr:`answers` that occur in training; these are first."""
    train: TauSplit
    evaluation: TauSplit
    validation: TauSplit
    """The half of ``evaluation`` for choosing between policies; empty if there are too few rows."""
    test: TauSplit
    """The other half, only for reporting."""
    skipped: tuple[Problem, ...]
    """Every skipped row, with its number and the reason."""

    def split(self, name: SplitName) -> TauSplit:
        """The split of that name, which may be empty. Raises ValueError for any other name."""
        known = {"train": self.train, "evaluation": self.evaluation, "validation": self.validation, "test": self.test}
        if name not in known:
            raise ValueError(f"no split {name!r}; use {', '.join(map(repr, known))}")
        return known[name]

    def digest(self) -> str:
        """SHA-256 of all data for learning and evaluation, independent of the file's path."""
        digest = hashlib.sha256("\0".join(self.answers).encode())
        digest.update(self.answer_vectors.tobytes())
        for split in (self.train, self.evaluation):
            digest.update(split.prompts.tobytes())
            digest.update(split.answer_index.tobytes())
        return digest.hexdigest()

    def undivided_sentence(self) -> str | None:
        """One sentence if there are no validation rows to choose by; otherwise ``None``."""
        if len(self.validation):
            return None
        return (
            f"{self.source} has {len(self.evaluation)} usable evaluation rows, fewer than {FEWEST_TO_DIVIDE}, so all "
            "of them are test rows and the newest policy counts as the best; add rows to `evaluation_data` to choose"
        )

    def skipped_sentence(self) -> str | None:
        """One sentence on skipped rows, with their numbers and the remedy; ``None`` if all are used."""
        if not self.skipped:
            return None
        count = len({(problem.section, problem.row) for problem in self.skipped})
        rows = f"{count} row{'s' if count != 1 else ''} of {self.source} left out ({places(self.skipped)})"
        return f"{rows}; {_remedy(self.source, self.skipped)}"


def load_dataset(path: str | Path | None = None) -> TauDataset:
    """The data set in the Tau JSON file ``path`` with the vectors next to it; ``None`` = the packaged one.

    Rows that are malformed, repeat a prompt or have no embedding are skipped and listed in ``skipped``. The same
    unchanged file is parsed once per process.

    Raises:
        DataError: the file cannot be read, its vectors are damaged, or no training row is left.
    """
    resolved = (PACKAGED_DATA if path is None else Path(path)).expanduser()
    return _load(resolved, _stamp(resolved), _stamp(vectors_path(resolved)))


def _stamp(path: Path) -> tuple[int, int] | None:
    """Time and size of a file, which change when it is edited, so that an edited file is not served from memory."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def _load(path: Path, _json_stamp: tuple[int, int] | None, _vector_stamp: tuple[int, int] | None) -> TauDataset:
    *sections, skipped = read_tau_file(path).unique_pairs()
    table = read_vectors(vectors_path(path))
    training, evaluation = (_with_embedding(pairs, table, skipped) for pairs in sections)
    if not training:
        raise DataError(_nothing_left(str(path), skipped))
    answers, known = _vocabulary(training, evaluation)
    index = {text_key(answer): position for position, answer in enumerate(answers)}
    vectors = _read_only(table.vectors[table.rows(answers)])
    chosen_by = _validation_rows(evaluation, {text_key(answer) for answer in answers[:known]})
    splits = (
        _split("train", training, table, index),
        _split("evaluation", evaluation, table, index),
        _split("validation", [pair for pair in evaluation if text_key(pair.prompt) in chosen_by], table, index),
        _split("test", [pair for pair in evaluation if text_key(pair.prompt) not in chosen_by], table, index),
    )
    return TauDataset(str(path), table.encoder, answers, vectors, known, *splits, tuple(skipped))


def _with_embedding(pairs: Sequence[Example], table: VectorTable, skipped: list[Problem]) -> list[Example]:
    usable = []
    for pair in pairs:
        missing = [text for text in (pair.prompt, pair.answer) if text not in table]
        if missing:
            named = " and ".join(repr(text) for text in missing)
            verb = "has" if len(missing) == 1 else "have"
            skipped.append(Problem(pair.section, pair.row, "missing", f"{named} {verb} no embedding"))
        else:
            usable.append(pair)
    return usable


def _vocabulary(training: Sequence[Example], evaluation: Sequence[Example]) -> tuple[tuple[str, ...], int]:
    """Distinct answers as first written, training answers first; punctuation and blanks inside stay as they are."""
    seen = {text_key(pair.answer): pair.answer for pair in reversed(training)}
    later = {text_key(pair.answer): pair.answer for pair in reversed(evaluation)}
    known = [seen[key] for key in sorted(seen)]
    unseen = [later[key] for key in sorted(later.keys() - seen.keys())]
    return (*known, *unseen), len(known)


def _validation_rows(evaluation: Sequence[Example], known: Set[str]) -> set[str]:
    """Keys of the validation prompts: half of those whose answer is ``known``, and half of the others.

    It is the half with the smaller SHA-256, so that an additional row moves at most one other row.
    """
    if len(evaluation) < FEWEST_TO_DIVIDE:
        return set()
    chosen = set[str]()
    for answerable in (True, False):
        prompts = [text_key(pair.prompt) for pair in evaluation if (text_key(pair.answer) in known) is answerable]
        chosen.update(sorted(prompts, key=lambda key: hashlib.sha256(key.encode()).digest())[: len(prompts) // 2])
    return chosen


def _split(name: SplitName, pairs: Sequence[Example], table: VectorTable, index: dict[str, int]) -> TauSplit:
    prompt_text = tuple(pair.prompt for pair in pairs)
    return TauSplit(
        name,
        _read_only(table.vectors[table.rows(prompt_text)]),
        _read_only(np.array([index[text_key(pair.answer)] for pair in pairs], np.int32)),
        prompt_text,
        tuple(pair.answer for pair in pairs),
        tuple(pair.domain for pair in pairs),
        _read_only(np.array([pair.row for pair in pairs], np.int32)),
    )


def _read_only(array: _Array) -> _Array:
    array.setflags(write=False)
    return array


def _remedy(source: str, problems: Sequence[Problem]) -> str:
    if any(problem.kind == "missing" for problem in problems):
        return f"run `tau-train data embed {source}` for the missing embeddings."
    return f"run `tau-train data audit {source}` for the reasons."


def _nothing_left(source: str, problems: Sequence[Problem]) -> str:
    training = [problem for problem in problems if problem.section == "training_data"]
    if not training:
        return f"The data file {source} has no rows in `training_data`; add some."
    missing = [problem for problem in training if problem.kind == "missing"]
    reason = "have no embedding" if missing else f"is the first fault ({training[0].reason})"
    listed = missing or training[:1]
    return (
        f"No row of `training_data` in {source} can be used: {row_list(problem.row for problem in listed)} {reason}; "
        f"{_remedy(source, problems)}"
    )
