"""Work on a user's own Tau files, for ``tau-train data``: embed, audit, concat, targets.

Every function returns a :class:`DataReport`. Files are written completely or not at all. A bad row is reported by its
number, and the work continues.
"""

from __future__ import annotations

import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.errors import DataError
from tau_trainer.files import atomic_write_text
from tau_trainer.specs import FloatArray
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.encoder import TextEncoder
from tau_trainer.tau.profiles import Profile
from tau_trainer.tau.schema import Conversation, Example, Problem, Prompts, TauFile, places, read_tau_file, text_key
from tau_trainer.tau.targets import targets
from tau_trainer.tau.vectors import read_vectors, vectors_path, write_vectors


@dataclass(frozen=True, slots=True)
class DataReport(ABC):
    """Report on the work on a file."""

    path: Path

    @abstractmethod
    def sentence(self) -> str:
        """One sentence for people."""

    def lines(self) -> list[str]:
        """One line for each finding, to show before the sentence."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """The report in JSON types."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True, slots=True)
class EmbedReport(DataReport):
    """Report of :func:`embed`; ``path``: the vector file."""

    encoder: str
    texts: int
    """Distinct texts in the file, all of which have a vector now."""
    encoded: int
    """Number of newly encoded texts."""

    @override
    def sentence(self) -> str:
        return f"{self.path} holds {self.texts} texts embedded by {self.encoder}, {self.encoded} of them new."


@dataclass(frozen=True, slots=True)
class AuditReport(DataReport):
    """Report of :func:`audit`: every fault of the file, not only the first."""

    encoder: str
    """Name of the encoder that made the vectors; empty if there are none."""
    training_rows: int
    evaluation_rows: int
    training_usable: int
    """Training pairs that a run would use."""
    evaluation_usable: int
    answers: int
    """Distinct answers among usable pairs."""
    unseen_answers: int
    """Number of answers that occur only in evaluation."""
    problems: tuple[Problem, ...]
    conflicts: tuple[str, ...]
    """A sentence for each prompt with several answers."""

    @property
    def clean(self) -> bool:
        """Whether every row can be used."""
        return not self.problems

    @override
    def sentence(self) -> str:
        usable = f"{self.training_usable} training and {self.evaluation_usable} evaluation pairs can be used"
        if self.clean:
            return f"{self.path} is clean: {usable}."
        kinds = ("malformed", "missing", "duplicate", "leak", "near-leak")
        rows = {kind: places(problem for problem in self.problems if problem.kind == kind) for kind in kinds}
        found = "; ".join(f"{kind}: {named}" for kind, named in rows.items() if named)
        remedy = f" Make the missing vectors with: tau-train data embed {self.path}" if rows["missing"] else ""
        return f"{self.path} has rows that cannot be used ({found}); {usable}.{remedy}"

    @override
    def lines(self) -> list[str]:
        more = len(self.conflicts) - _MOST_LINES
        ending = [f"{more} prompts more have several answers"] if more > 0 else []
        found = [*_grouped(self.problems), *self.conflicts[:_MOST_LINES], *ending]
        return [f"{self.path}: {line}" for line in found]

    @override
    def to_dict(self) -> dict[str, Any]:
        return {**DataReport.to_dict(self), "clean": self.clean}


@dataclass(frozen=True, slots=True)
class ConcatReport(DataReport):
    """Report of :func:`concat`."""

    training: int
    """Messages written to ``training_data``."""
    evaluation: int
    vectors: int
    """Number of embeddings copied from the source files."""
    problems: tuple[tuple[str, Problem], ...]
    """(source file, problem) for every row that was left out."""

    @override
    def lines(self) -> list[str]:
        sources = dict.fromkeys(source for source, _ in self.problems)
        of = {source: [problem for origin, problem in self.problems if origin == source] for source in sources}
        return [f"{source}: left out {line}" for source in sources for line in _grouped(of[source])]

    @override
    def sentence(self) -> str:
        left = f", {len(self.problems)} rows left out" if self.problems else ""
        remedy = "" if self.vectors else f" It has no vectors; make them with: tau-train data embed {self.path}"
        return f"{self.path} holds {self.training} training and {self.evaluation} evaluation messages{left}.{remedy}"


@dataclass(frozen=True, slots=True)
class TargetsReport(DataReport):
    """Report of :func:`build_targets`."""

    profile: str
    answers: int
    closest: float
    """Smallest distance between two answers' targets; a policy's error must stay well below it."""

    @override
    def sentence(self) -> str:
        return (
            f"{self.path} holds the {self.profile} targets of {self.answers} answers, "
            f"the closest two {self.closest:.3f} apart."
        )


def embed(
    path: Path,
    encoder: TextEncoder,
    *,
    batch_size: int = 64,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> EmbedReport:
    """Write the embeddings of all texts of a Tau file next to it, encoding only texts without a vector.

    If the vectors are from another encoder, or the vector file cannot be read, all texts are encoded again. Malformed
    rows are left out. ``on_progress``: called after each batch with the number of finished texts, and of all texts.

    Raises:
        TauError: the file cannot be read or the vectors cannot be written.
    """
    texts = list(dict.fromkeys(text_key(text) for text in _texts(read_tau_file(path))))
    known = dict[str, FloatArray]()
    with contextlib.suppress(DataError):
        present = read_vectors(vectors_path(path))
        known = present.as_dict() if present.encoder == encoder.name else {}
    encoded = 0
    for start in range(0, len(texts), batch_size):
        fresh = [text for text in texts[start : start + batch_size] if text not in known]
        if fresh:
            known.update(zip(fresh, encoder.encode(fresh), strict=True))
            encoded += len(fresh)
        on_progress(min(start + batch_size, len(texts)), len(texts))
    write_vectors(vectors_path(path), {text: known[text] for text in texts}, encoder.name)
    return EmbedReport(vectors_path(path), encoder.name, len(texts), encoded)


def audit(path: Path) -> AuditReport:
    """Read a Tau file and its vectors like a run, and report every row that a run would leave out.

    Nothing is written. A file without usable rows is reported, too.

    Raises:
        DataError: the file is missing or not a Tau file, or its vector file is damaged.
    """
    file = read_tau_file(path)
    table = read_vectors(vectors_path(path))
    *sections, problems = file.unique_pairs()
    usable = []
    for pairs in sections:
        kept = [pair for pair in pairs if pair.prompt in table and pair.answer in table]
        for pair in pairs:
            missing = [text for text in (pair.prompt, pair.answer) if text not in table]
            problems += [Problem(pair.section, pair.row, "missing", f"{text!r} has no embedding") for text in missing]
        usable.append(kept)
    known, later = ({text_key(pair.answer) for pair in pairs} for pairs in usable)
    ordered = sorted(problems, key=lambda problem: (problem.section != "training_data", problem.row))
    counts = (len(usable[0]), len(usable[1]), len(known | later), len(later - known))
    return AuditReport(path, table.encoder, *file.rows, *counts, tuple(ordered), tuple(_conflicts(file)))


def concat(paths: Sequence[Path], output: Path, *, seed: int = 0) -> ConcatReport:
    """Join Tau files into one, without repeated prompts, as in a run, and with rows shuffled by ``seed``.

    The header is the first file's. Vectors are copied if the same encoder embedded all files.

    Raises:
        TauError: no file is given, one cannot be read, or ``output`` cannot be written.
    """
    if not paths:
        raise DataError("There is nothing to concatenate; name at least one Tau file.")
    files = [read_tau_file(path) for path in paths]
    problems = [(str(path), problem) for path, file in zip(paths, files, strict=True) for problem in file.problems]
    generator = np.random.default_rng(seed)
    prompts = Prompts()
    training = _joined(paths, [file.training for file in files], prompts, problems, generator)
    evaluation = _joined(paths, [file.evaluation for file in files], prompts, problems, generator)
    joined = replace(
        files[0], training=training, evaluation=evaluation, rows=(len(training), len(evaluation)), problems=()
    )
    vectors = _join_vectors(paths, joined, output)
    atomic_write_text(output, json.dumps(joined.to_json(), ensure_ascii=False, indent=1) + "\n")
    return ConcatReport(output, len(training), len(evaluation), vectors, tuple(problems))


def build_targets(path: Path | None, profile: Profile, output: Path) -> TargetsReport:
    """Write every answer's target for ``profile`` in the format of Tau's ``tokens.json`` (``Name``, ``Vector``).

    Raises:
        TauError: the data set cannot be used, or ``output`` cannot be written.
    """
    dataset = load_dataset(path)
    vectors = targets(dataset, profile)
    tokens = [
        {"Name": answer, "Vector": [round(float(value), 6) for value in vector]}
        for answer, vector in zip(dataset.answers, vectors, strict=True)
    ]
    header = {"version": "0.1.0", "model_name": dataset.encoder, "organization": "Tau", "profile": profile.name}
    content = {**header, "total_tokens": len(tokens), "tokens": tokens}
    atomic_write_text(output, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return TargetsReport(output, profile.name, len(tokens), _closest(vectors.astype(np.float64)))


def _conflicts(file: TauFile) -> Iterator[str]:
    """Prompts with more than one answer, in the order of the file, each answer with its first place."""
    answers: dict[str, dict[str, Example]] = {}
    for message in file.training + file.evaluation:
        for pair in message.pairs():
            answers.setdefault(text_key(pair.prompt), {}).setdefault(text_key(pair.answer), pair)
    for known in answers.values():
        if len(known) > 1:
            first, *others = known.values()
            listed = " and ".join(f"{pair.answer!r} ({pair.section} row {pair.row})" for pair in (first, *others))
            yield f"{first.prompt!r} has {len(known)} answers, {listed}; the first counts"


def _grouped(problems: Iterable[Problem]) -> list[str]:
    """A line for each kind of problem in each section: the rows, and the first of them in full."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.section, _QUOTED.sub("", problem.reason)), []).append(problem)
    shown = list(groups.values())[:_MOST_LINES]
    lines = [f"{places(group)}: {group[0].reason}{' (the first of them)' * (len(group) > 1)}" for group in shown]
    return [*lines, f"{len(groups) - len(shown)} more kinds of problems"] if len(groups) > len(shown) else lines


_MOST_LINES = 20
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d+""")
"""Parts that differ between similar problems."""


def _texts(file: TauFile) -> list[str]:
    return [text for message in file.training + file.evaluation for couple in message.turns for text in couple]


def _joined(
    paths: Sequence[Path],
    parts: Sequence[Sequence[Conversation]],
    prompts: Prompts,
    problems: list[tuple[str, Problem]],
    generator: np.random.Generator,
) -> tuple[Conversation, ...]:
    """Messages of one section of all files without repeated prompts, in shuffled order."""
    kept = []
    for path, messages in zip(paths, parts, strict=True):
        for message in messages:
            found: list[Problem] = []
            pairs = prompts.unique_pairs([message], found)
            problems += [(str(path), problem) for problem in found]
            if pairs:
                turns = tuple((pair.prompt, pair.answer) for pair in pairs)
                kept.append(replace(message, turns=turns))
    order = generator.permutation(len(kept))
    return tuple(kept[position] for position in order)


def _join_vectors(paths: Sequence[Path], joined: TauFile, output: Path) -> int:
    tables = [table for table in (read_vectors(vectors_path(path)) for path in paths) if len(table)]
    if len({table.encoder for table in tables}) != 1:
        vectors_path(output).unlink(missing_ok=True)
        return 0
    known = {text: vector for table in tables for text, vector in table.as_dict().items()}
    wanted = {text_key(text) for text in _texts(joined)}
    carried = {text: vector for text, vector in known.items() if text in wanted}
    write_vectors(vectors_path(output), carried, tables[0].encoder)
    return len(carried)


def _closest(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    if len(vectors) < 2:
        return float("inf")
    squares = np.einsum("ka,ka->k", vectors, vectors)
    distances = squares[:, None] + squares[None, :] - 2.0 * vectors @ vectors.T
    np.fill_diagonal(distances, np.inf)
    return float(np.sqrt(max(float(distances.min()), 0.0)))
