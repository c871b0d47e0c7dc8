"""Small Tau files with stand-in vectors, for tests that need a file of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.tau.data import embed
from tau_trainer.tau.encoder import HashingEncoder

MakeFile = Callable[..., Path]


def message(prompt: str, answer: str, domain: str = "Basic Math") -> dict[str, Any]:
    """One well-formed row in Tau's JSON form."""
    turns = [{"role": "User", "message": prompt}, {"role": "Agent", "message": answer}]
    return {"domain": domain, "context": "Test", "system": "Tester", "turns": turns}


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    """Writes a Tau file from rows (dictionaries, or (prompt, answer) couples) and embeds it unless told not to."""

    def make(
        training: Sequence[Any], evaluation: Sequence[Any] = (), *, name: str = "set.json", embedded: bool = True
    ) -> Path:
        path = tmp_path / name
        rows = [[message(*row) if isinstance(row, tuple) else row for row in part] for part in (training, evaluation)]
        content = {"version": "0.1.0", "model_name": "m", "organization": "o"}
        path.write_text(json.dumps({**content, "training_data": rows[0], "evaluation_data": rows[1]}), "utf-8")
        if embedded:
            embed(path, HashingEncoder())
        return path

    return make
