"""A stand-in for training that notes what it was asked to do, so that the command line is tested alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.settings import RunSettings

Refused = Callable[[str | Sequence[str]], str]


@dataclass
class FakeReport:
    exit_code: int = 0
    errors: tuple[str, ...] = ()


@dataclass
class FakeScore:
    reward: float
    accuracy: float


@dataclass
class FakeEvaluation(FakeScore):
    baselines: dict[str, FakeScore] = field(default_factory=lambda: {"zeros": FakeScore(0.1, 0.2)})

    def sentence(self) -> str:
        return "The policy beats the baselines."

    def to_dict(self) -> dict[str, Any]:
        return {"reward": self.reward, "accuracy": self.accuracy}


@dataclass
class FakeCandidate:
    evaluation: FakeEvaluation

    def sentence(self) -> str:
        return "Exported: the last policy."

    def to_dict(self) -> dict[str, Any]:
        return self.evaluation.to_dict()


@dataclass
class FakeTraining:
    """What the commands called, and with what."""

    calls: list[tuple[str, RunSettings | Path, dict[str, Any]]] = field(default_factory=list)
    report: FakeReport = field(default_factory=FakeReport)
    error: BaseException | None = None

    @property
    def settings(self) -> RunSettings:
        settings = self.calls[-1][1]
        assert isinstance(settings, RunSettings)
        return settings

    def _run(self, settings: RunSettings, command: str, *, terminal: str, command_line: list[str]) -> FakeReport:
        self.calls.append((command, settings, {"terminal": terminal, "command_line": command_line}))
        if self.error is not None:
            raise self.error
        return self.report

    def modules(self) -> dict[str, ModuleType]:
        """What stands in for the modules that the commands import."""
        api, stored = (ModuleType(f"tau_trainer.training.{name}") for name in ("api", "stored"))

        def evaluate_run(folder: Path, export: str | None = None) -> FakeCandidate:
            self.calls.append(("evaluate", folder, {"export": export}))
            return FakeCandidate(FakeEvaluation(0.5, 0.9))

        def export_run(
            folder: Path, output: Path | None = None, export: str | None = None, form: str | None = None
        ) -> list[tuple[Path, str]]:
            self.calls.append(("export", folder, {"output": output, "export": export, "form": form}))
            return [(output or folder / "TauAgent.onnx", f"the {export or 'best'} policy")]

        vars(api).update(train=self._run)
        others = {"evaluate_copies": lambda folder, export: None}
        vars(stored).update(evaluate_run=evaluate_run, export_run=export_run, **others)
        return {module.__name__: module for module in (api, stored)}


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeTraining:
    """Training replaced by a note of the call, in an empty folder."""
    fake = FakeTraining()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command line that is refused in one sentence, and returns this with ``/`` in paths."""

    def run(words: str | Sequence[str]) -> str:
        assert main(words.split() if isinstance(words, str) else [*words]) == 2
        out, err = capsys.readouterr()
        errors = [line for line in err.replace("\\", "/").splitlines() if line.startswith("error: ")]
        assert (out, len(errors), "Traceback" in err) == ("", 1, False)
        return errors[0]

    return run


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As wide as terminals are."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def run() -> Path:
    """A run of which nothing but its settings is there."""
    folder = Path("results", "tau3")
    folder.mkdir(parents=True)
    (folder / "configuration.yaml").write_text("behaviors: {}")
    return folder
