"""Tau on data as a user's looks: 167 training rows, 113 held-out prompts, 26 of whose answers are never trained.

    python tools/bench/few_rows.py [--profiles tau3 tau384 --sets 3 --max-steps 300000 --set KEY=VALUE ...]

The rows are drawn from those of the package: 26 of the answers are trained, some often and some rarely, with half of
what can be asked about each ("half of a cake", "0.5 as a fraction"); held out are questions about the other half, and
about the answers that are left. Every set has other answers, and its number is the seed of its run. 57 rows are test
rows: take many sets. 23 % of them cannot be right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tau_trainer.tau.dataset import PACKAGED_DATA
from tau_trainer.tau.schema import text_key
from tau_trainer.tau.vectors import read_vectors, vectors_path, write_vectors
from tools._bootstrap.environment import child_environment
from tools._bootstrap.progress import tail
from tools.bench import tables
from tools.bench.trainers import Ours
from tools.tau_data_rules import TOPICS

TRAINING, HELD_OUT, UNANSWERABLE, ANSWERS = 167, 113, 26, 26
SCORES = ("policy", "last", "nearest", "logistic", "ridge")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    profile: str
    number: int
    accuracy: dict[str, float]
    """On test rows, by :data:`SCORES`; ``policy`` is the best by validation."""
    seconds: float


def main() -> int:
    """Trains every profile on every set and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", nargs="+", default=["tau3", "tau384"])
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--max-steps", type=int, help="instead of the configuration's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for tau-train parallel")
    tables.add_output(parser)
    arguments = parser.parse_args()
    more = [word for pair in arguments.set for word in ("--set", pair)]
    if arguments.max_steps:
        more += ["--max-steps", str(arguments.max_steps)]
    outcomes = []
    for profile in arguments.profiles:
        for number in range(arguments.sets):
            outcomes.append(run(profile, number, more))
            print(outcomes[-1], flush=True)
    text = table(outcomes)
    print("\n" + text)
    tables.write(arguments, "few_rows", text, {"outcomes": [asdict(outcome) for outcome in outcomes]})
    return 0


def run(profile: str, number: int, more: list[str]) -> Outcome:
    """Train on one set. Raises RuntimeError with the end of the log where that fails."""
    with tempfile.TemporaryDirectory(prefix="tau-few-rows-") as name:
        folder, log = Path(name), Path(name) / "program.log"
        data = write_set(folder / "few.json", number)
        command = [Ours().tau_train(), "parallel", profile, "--data", str(data), "--seed", str(number), "--quiet"]
        command += ["--run-id", "run", "--results-dir", str(folder), *more]
        with log.open("wb") as stream:
            code = subprocess.run(
                command, stdout=stream, stderr=subprocess.STDOUT, env=child_environment(), check=False
            ).returncode
        if code != 0:
            raise RuntimeError(f"exit code {code}:\n{tail(log)}")
        found = json.loads((folder / "run" / "evaluation.json").read_text("utf-8"))
    scores = {name: found["baselines"][name]["accuracy"] for name in SCORES[2:]}
    policies = {"policy": found["policies"]["best"]["accuracy"], "last": found["policies"]["last"]["accuracy"]}
    return Outcome(profile, number, policies | scores, found["wall_seconds"])


def write_set(path: Path, number: int) -> Path:
    """The set of that number, with its vectors beside it."""
    content = json.loads(PACKAGED_DATA.read_text("utf-8"))
    rows = content["training_data"] + content["evaluation_data"]
    answers = _shuffled({_answer(row) for row in rows}, number)
    trained, rest = answers[:ANSWERS], set(answers[ANSWERS:])
    facts = {answer: topic.instances(answer) for topic in TOPICS for answer in topic.facts}
    shown = {fact for answer in trained for fact in _shuffled(facts[answer], number)[: len(facts[answer]) // 2]}
    rows = sorted(rows, key=lambda row: _hash(_prompt(row), number))
    of_shown = {id(row) for row in rows if _fact(row, facts[_answer(row)]) in shown}
    content["training_data"] = [
        row
        for answer, count in zip(trained, _counts(), strict=True)
        for row in [one for one in rows if _answer(one) == answer and id(one) in of_shown][:count]
    ]
    unanswerable = [row for row in rows if _answer(row) in rest][:UNANSWERABLE]
    others = [row for row in rows if _answer(row) not in rest and id(row) not in of_shown]
    content["evaluation_data"] = unanswerable + others[: HELD_OUT - UNANSWERABLE]
    path.write_text(json.dumps(content), "utf-8")
    vectors = read_vectors(vectors_path(PACKAGED_DATA))
    kept = content["training_data"] + content["evaluation_data"]
    texts = {text_key(turn["message"]) for row in kept for turn in row["turns"]}
    known = vectors.as_dict()
    write_vectors(vectors_path(path), {text: known[text] for text in sorted(texts)}, vectors.encoder)
    return path


def _counts() -> list[int]:
    """Training rows of each answer: the k-th has about 1 / sqrt(k) of the first's."""
    weights = [(rank + 1) ** -0.5 for rank in range(ANSWERS)]
    counts = [max(1, int(TRAINING * weight / sum(weights))) for weight in weights]
    return [count + (rank < TRAINING - sum(counts)) for rank, count in enumerate(counts)]


def _fact(row: Row, facts: tuple[str, ...]) -> str:
    """What the row asks about: the longest of ``facts`` that it mentions."""
    prompt = _prompt(row).lower()
    return max((fact for fact in facts if fact.lower() in prompt), key=len)


def _prompt(row: Row) -> str:
    return str(row["turns"][0]["message"])


def _answer(row: Row) -> str:
    return str(row["turns"][1]["message"])


def _shuffled(texts: Any, number: int) -> list[str]:
    return sorted(texts, key=lambda text: _hash(text, number))


def _hash(text: str, number: int) -> bytes:
    return hashlib.sha256(f"{number}|{text}".encode()).digest()


def table(outcomes: list[Outcome]) -> str:
    """Markdown: test accuracy, median and range over sets."""
    rows = []
    for profile in dict.fromkeys(outcome.profile for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.profile == profile]
        scores = [tables.spread([100 * one.accuracy[name] for one in runs], 1) for name in SCORES]
        rows.append([profile, str(len(runs)), *scores, tables.spread([one.seconds for one in runs])])
    return tables.markdown(["profile", "sets", *(f"{name}, %" for name in SCORES), "seconds"], rows)


if __name__ == "__main__":
    sys.exit(main())
