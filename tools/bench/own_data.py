"""Tau on data like a user's, with 26, 80 and 240 answers, compared with the strongest baselines.

    python -m tools.bench own_data [--answers 26 80 240] [--seeds 1 2 3] [--tuning] [--set KEY=VALUE ...]

A question consists of an opening, a wording and a subject. Openings and wordings of held-out rows are never trained,
nor is one subject of each answer with three or more. Frequent answers have more rows than rare ones, the k-th about 1 /
sqrt(k) of the first's. The number of a set is the seed of its run.

Choose settings with --tuning only: there held-out rows have openings and wordings that no other set has.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from tau_trainer.tau.data import embed
from tau_trainer.tau.encoder import TextEncoder, get_encoder
from tau_trainer.tau.standing import Standing
from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import tail
from tools.bench import tables, trainers
from tools.bench.own_data_rules import (
    REPORTED,
    REPORTED_OPENINGS,
    TOPICS,
    TRAINED,
    TRAINED_OPENINGS,
    TUNING,
    TUNING_OPENINGS,
    Topic,
)
from tools.bench.running import RunFailedError

_ROWS = 16
"""Training rows for each answer, on average, if it can be asked for in this number of ways."""
_FEWEST = 4
"""Training rows for each answer, at least."""
_BASELINES = ("nearest", "logistic")
Row = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    answers: int
    seed: int
    rows: int
    """Test rows."""
    decisions: int
    accuracy: dict[str, float]
    """Accuracy of the exported ``policy``, the ``last`` one, and baselines."""
    rival: str
    """The strongest baseline on these rows."""
    standing: Standing
    """The policy compared with it, row by row."""
    seconds: float

    @property
    def difference(self) -> float:
        """Accuracy of the policy minus that of the strongest baseline, -1 to 1."""
        return (self.standing.won - self.standing.lost) / self.rows

    @property
    def error(self) -> float:
        """The standard error of :attr:`difference` if both are equally good: only rows where they differ count."""
        return float((self.standing.won + self.standing.lost) ** 0.5 / self.rows)


def main() -> int:
    """Trains on every set and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, nargs="+", default=[26, 80, 240])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tuning", action="store_true", help="hold out the wordings for choosing settings")
    parser.add_argument("--encoder", choices=("minilm", "hashing"), default="minilm")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for tau-train parallel")
    tables.add_output(parser)
    arguments = parser.parse_args()
    words = [word for pair in arguments.set for word in ("--set", pair)]
    encoder, outcomes = get_encoder(arguments.encoder), []
    for answers in arguments.answers:
        for seed in arguments.seeds:
            outcomes.append(run(answers, seed, encoder, words, arguments.tuning))
            print(outcomes[-1], flush=True)
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "own_data", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0


def run(answers: int, seed: int, encoder: TextEncoder, words: Sequence[str] = (), tuning: bool = False) -> Outcome:
    """Train on one set; ``words``: additional words for the command line.

    Raises:
        RunFailedError: training failed; with the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="tau-own-data-") as name:
        folder, log = Path(name), Path(name) / "program.log"
        data = folder / "own.json"
        data.write_text(json.dumps(dataset(answers, seed, tuning)), "utf-8")
        embed(data, encoder)
        command = [trainers.Ours().tau_train(), "parallel", *words, "--data", str(data), "--seed", str(seed)]
        command += ["--quiet", "--run-id", "run", "--results-dir", str(folder)]
        with log.open("wb") as stream:
            done = subprocess.run(command, stdout=stream, stderr=stream, env=child_environment(), check=False)
        if done.returncode != 0:
            raise RunFailedError(f"exit code {done.returncode}:\n{tail(log)}")
        return outcome_of(answers, seed, json.loads((folder / "run" / "evaluation.json").read_text("utf-8")))


def outcome_of(answers: int, seed: int, found: dict[str, Any]) -> Outcome:
    """The outcome in a run's evaluation.json."""
    accuracy = {name: found["baselines"][name]["accuracy"] for name in _BASELINES}
    accuracy |= {"policy": found["accuracy"], "last": found["policies"]["last"]["accuracy"]}
    decisions = found["policies"]["last"]["decisions"]
    rival = max(_BASELINES, key=accuracy.__getitem__)
    standing = Standing(found["baselines"][rival]["won"], found["baselines"][rival]["lost"])
    return Outcome(answers, seed, found["rows"], decisions, accuracy, rival, standing, found["wall_seconds"])


def dataset(answers: int, seed: int, tuning: bool = False) -> dict[str, Any]:
    """A data set in Tau's form with ``answers`` answers, the same on every machine.

    ``tuning``: its held-out rows can be used to choose settings, because they share no wording with those of a set
    without it.

    Raises:
        ValueError: there are not that many answers.
    """
    every = [(topic, answer, subjects) for topic in TOPICS for answer, subjects in topic.subjects().items()]
    if not 1 < answers <= len(every):
        raise ValueError(f"{answers} answers: there are 2 to {len(every)}")
    openings, wordings = (TUNING_OPENINGS, TUNING) if tuning else (REPORTED_OPENINGS, REPORTED)
    training: list[Row] = []
    held_out: list[Row] = []
    for rank, (topic, answer, subjects) in enumerate(_shuffled(every, seed, lambda found: found[1])[:answers]):
        order = _shuffled(subjects, seed, str)
        known = order[: max(len(order) - 1, 2)]
        count = max(_FEWEST, round(_ROWS * answers**0.5 / (2 * (rank + 1) ** 0.5)))
        asked = _prompts(TRAINED_OPENINGS, topic.wordings[TRAINED], known)
        training += [_row(topic, prompt, answer) for prompt in _shuffled(asked, seed, str)[:count]]
        asked = _prompts(openings, topic.wordings[wordings], order)
        held_out += [_row(topic, prompt, answer) for prompt in asked]
    return {
        "version": "1.0.0",
        "model_name": f"own-data-{answers}-{seed}{'-tuning' if tuning else ''}",
        "organization": "Tau Trainer",
        "training_data": _shuffled(training, seed, prompt_of),
        "evaluation_data": _shuffled(held_out, seed, prompt_of),
    }


def prompt_of(row: Row) -> str:
    """The question of a row."""
    return str(row["turns"][0]["message"])


def _prompts(openings: Iterable[str], wordings: Sequence[str], subjects: Sequence[str]) -> list[str]:
    asked = product(openings, wordings, subjects)
    return [opening + wording.replace("{x}", subject) for opening, wording, subject in asked]


def _row(topic: Topic, prompt: str, answer: str) -> Row:
    turns = [{"role": "User", "message": prompt[0].upper() + prompt[1:]}, {"role": "Agent", "message": answer}]
    return {"domain": topic.domain, "context": "", "system": "", "turns": turns}


def _shuffled(values: Iterable[_T], seed: int, name: Callable[[_T], str]) -> list[_T]:
    """Values in the order of hashes, which are equal in every version of Python."""
    return sorted(values, key=lambda value: hashlib.sha256(f"{seed}|{name(value)}".encode()).digest())


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown: each run's accuracy on test rows, and how it stands to the strongest baseline on the same rows."""
    rows = []
    for found in outcomes:
        scores = [f"{100 * found.accuracy[name]:.1f}" for name in ("policy", "last", *_BASELINES)]
        pairs = f"{100 * found.difference:+.1f} ± {100 * found.error:.1f}"
        alone = [str(found.standing.won), f"{found.rival} {found.standing.lost}"]
        sizes = [str(found.answers), str(found.seed), f"{found.rows:,}", f"{found.decisions:,}"]
        rows.append([*sizes, *scores, *alone, pairs, f"{found.standing.p_value:.2g}", f"{found.seconds:.0f}"])
    header = ["answers", "seed", "test rows", "decisions", "policy, %", "last, %", "nearest, %", "logistic, %"]
    header += ["right alone: policy", "right alone: strongest baseline", "difference, points", "p", "seconds"]
    return tables.markdown(header, rows)
