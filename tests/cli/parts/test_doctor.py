"""`tau-train doctor`: what it finds, and a remedy for each problem."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tau_trainer.bridge import ports
from tau_trainer.cli import main
from tau_trainer.runs import provenance


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs on this machine."""
    monkeypatch.setattr(ports, "is_free", lambda port: True)


def test_a_machine_without_problems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--results-dir", str(tmp_path / "new" / "results")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "no problem found"
    assert {line.split()[0] for line in lines[:-1]} == {"ok"}
    ports = [f"port {port}: free" for port in (5004, 11008, 5005)]
    for name in ("python: ", "tau-trainer: ", "torch: ", *ports, "results: "):
        assert any(name in line for line in lines), name
    assert list(tmp_path.iterdir()) == []


def test_every_problem_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(ports, "is_free", lambda port: False)
    monkeypatch.setattr(ports, "holder", lambda port: "other, process 7" if port == 5004 else None)
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "no-such-package"))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["doctor", "--json", "--results-dir", str(tmp_path / "file" / "results")]) == 1
    found = json.loads(capsys.readouterr().out)
    checks = {check["name"]: (check["found"], check["remedy"]) for check in found["checks"]}
    assert not found["ok"]
    pip = f'"{sys.executable}" -m pip install'
    assert checks["no-such-package"] == ("is not installed", f"install it: {pip} no-such-package")
    assert checks["torch"][0].startswith("cannot be loaded (")
    assert checks["torch"][1] == f"install it again: {pip} --force-reinstall torch"
    assert checks["port 5004"][0] == "taken by other, process 7 (where the Unity editor connects)"
    assert checks["port 5004"][1] == "end it: it may be another trainer that waits"
    assert checks["port 5005"][0].startswith("taken by a program that the system does not name (")
    assert checks["port 5005"][1] is None
    assert checks["results"][0].endswith("cannot be written (Not a directory)")
    assert main(["doctor", "--results-dir", str(tmp_path / "file" / "results")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "4 problems found"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have programs that list sockets")
def test_the_holder_of_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        name, _, number = str(ports.holder(port)).rpartition(", process ")
        assert name
        assert number == str(os.getpid())
    assert ports.holder(port) is None
