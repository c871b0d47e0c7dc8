"""Write ``tests/unity/vectors.json``: the one file of test vectors that the Python side and the C# core both read.

Run in the checkout's root::

    python -m tools.tau_vectors            # write the file
    python -m tools.tau_vectors --check    # only say whether it is up to date

What must come out was worked out by hand, or by plain Python in ``tools/_vectors`` that shares no code with what it
tests and needs no library: every machine writes the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools._vectors.dataset import dataset_section
from tools._vectors.projection import project, read_archive
from tools._vectors.rewards import (
    FORMULAS,
    component_cases,
    episode_cases,
    nearest_cases,
    predicate_cases,
    reward_cases,
    window_cases,
)
from tools._vectors.streams import Case, random_cases
from tools._vectors.texts import json_cases, text_section

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "unity" / "vectors.json"
DATA = ROOT / "tau_trainer" / "tau" / "data" / "tau.json"


def build() -> dict[str, Any]:
    """All sections by name."""
    return {
        "reward_types": FORMULAS,
        "rewards": reward_cases(),
        "components": component_cases(),
        "predicates": predicate_cases(),
        "windows": window_cases(),
        "episodes": episode_cases(),
        "random": random_cases(),
        "text_keys": text_section(),
        "json": json_cases(),
        "nearest": nearest_cases(),
        "targets": packaged_targets(DATA),
        "dataset": dataset_section(),
    }


def packaged_targets(path: Path) -> Case:
    """Answers of the packaged data set in order, and the target of each in profile ``tau3``, in single precision."""
    file = json.loads(path.read_text(encoding="utf-8"))
    answers: dict[str, str] = {}
    for row in file["training_data"]:
        text = row["turns"][1]["message"]
        answers.setdefault(" ".join(text.lower().split()), text)
    table = read_archive(path.with_name(f"{path.stem}.vectors.npz"))
    embedded = [table[key] for key in sorted(answers)]
    return {
        "profile": "tau3",
        "answers": [answers[key] for key in sorted(answers)],
        "train": len(file["training_data"]),
        "evaluation": len(file["evaluation_data"]),
        "values": project(embedded, embedded),
    }


def render(sections: Mapping[str, Any]) -> str:
    """JSON with one case a line, ASCII only."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {_block(value)}" for name, value in sections.items()) + "\n}\n"


def _block(value: Any) -> str:
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {_line(part)}" for key, part in value.items()) + "\n}"
    return "[\n" + ",\n".join(_line(case) for case in value) + "\n]"


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def main(arguments: Sequence[str] | None = None, path: Path = VECTORS) -> int:
    """Write or check the file; 0 where it is as it should be, 2 where a check found it old or missing."""
    parser = argparse.ArgumentParser(prog="tau_vectors", description="Test vectors for the Python side and the C# core")
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the file is up to date")
    options = parser.parse_args(arguments)
    text = render(build())
    if not options.check:
        path.write_text(text, encoding="ascii", newline="\n")
        print(f"{path}: {len(text) // 1000} kB")
        return 0
    if path.is_file() and path.read_bytes() == text.encode("ascii"):
        print(f"{path} is up to date.")
        return 0
    print(f"{path} is missing or not what the tool writes; run `python -m tools.tau_vectors`.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
