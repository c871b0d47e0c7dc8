"""The recorders of an ordinary run, ready to hand to the hub."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tau_trainer.metrics.jsonl import FILE_NAME, JsonLines
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.tensorboard import TensorBoard
from tau_trainer.metrics.terminal import TerminalMode, terminal_recorder


def run_recorders(run_dir: Path, mode: TerminalMode = "auto", *, console: Console | None = None) -> list[Recorder]:
    """``log.jsonl``, TensorBoard and the terminal, in this order: what is kept comes before what is shown."""
    return [JsonLines(run_dir / FILE_NAME), TensorBoard(run_dir), terminal_recorder(mode, console=console)]
