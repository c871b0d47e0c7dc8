"""`tau-train cluster`: what is said, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.cluster import machines
from tau_trainer.cluster.inventory import MachinesSettings
from tau_trainer.cluster.machines import Answer, State

FILE = "name: lab\nhead: node1\nworkers: [node2]\n"


@pytest.fixture(autouse=True)
def _file(elsewhere: Path) -> None:
    Path("lab.yaml").write_text(FILE)


def answering(monkeypatch: pytest.MonkeyPatch, name: str, *states: State) -> None:
    def answers(settings: MachinesSettings, home: Path | None = None) -> list[Answer]:
        return [Answer(*each, "why") for each in zip((settings.head, *settings.workers), states, strict=True)]

    monkeypatch.setattr(machines, name, answers)


def test_up_says_how_to_train_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, "up", "running", "running")
    assert main(["cluster", "up", "lab.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "node1: running",
        "node2: running",
        "on node1: RAY_AUTH_TOKEN_PATH=~/.tau-train/clusters/lab/node1/token RAY_ADDRESS=node1:6379 "
        "tau-train learn ... --cluster RAY_ADDRESS",
    ]


def test_status_has_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, "status", "running", "died")
    assert main(["cluster", "status", "lab.yaml"]) == 1
    assert capsys.readouterr().out == "node1: running\nnode2: died: why\n"
    answering(monkeypatch, "status", "running", "running")
    assert main(["cluster", "status", "lab.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machines"][1] == {"host": "node2", "state": "running", "text": "why"}


def test_down_says_what_has_ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, "down", "ended", "absent")
    assert main(["cluster", "down", "lab.yaml"]) == 0
    assert capsys.readouterr().out == "node1: ended\nnode2: absent\n"
