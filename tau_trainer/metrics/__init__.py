"""Metrics: the hub where every number arrives, and the recorders that show and keep them. Imports no torch."""

from __future__ import annotations

from tau_trainer.metrics.hub import MetricsHub
from tau_trainer.metrics.jsonl import JsonLines, JsonStream, read_log
from tau_trainer.metrics.keys import TaskKeys
from tau_trainer.metrics.plot import plot_learning_curve
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.recorders import run_recorders
from tau_trainer.metrics.report import render_result, result_lines
from tau_trainer.metrics.snapshot import BaselineScore, BehaviorSnapshot, PairSnapshot, RunResult, RunSnapshot
from tau_trainer.metrics.summary import Aggregation, Event, Statistics, Summary
from tau_trainer.metrics.table import render
from tau_trainer.metrics.tensorboard import TensorBoard
from tau_trainer.metrics.terminal import LiveTable, PlainLines, QuietLines, TerminalMode, terminal_recorder
from tau_trainer.metrics.timing import RateMeter, eta_seconds, format_seconds

__all__ = [
    "Aggregation",
    "BaselineScore",
    "BehaviorSnapshot",
    "Event",
    "JsonLines",
    "JsonStream",
    "LiveTable",
    "MetricsHub",
    "PairSnapshot",
    "PlainLines",
    "QuietLines",
    "RateMeter",
    "Recorder",
    "RunResult",
    "RunSnapshot",
    "Statistics",
    "Summary",
    "TaskKeys",
    "TensorBoard",
    "TerminalMode",
    "eta_seconds",
    "format_seconds",
    "plot_learning_curve",
    "read_log",
    "render",
    "render_result",
    "result_lines",
    "run_recorders",
    "terminal_recorder",
]
