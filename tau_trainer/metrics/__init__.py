"""Metrics: the hub where every number arrives, and the recorders that show and keep them. Imports no torch."""

from __future__ import annotations

from tau_trainer.metrics.hub import MetricsHub
from tau_trainer.metrics.jsonl import JsonLines, JsonStream, read_log
from tau_trainer.metrics.keys import TaskKeys
from tau_trainer.metrics.plot import plot_learning_curve
from tau_trainer.metrics.recorder import Recorder
from tau_trainer.metrics.report import ResultView, result_lines
from tau_trainer.metrics.snapshot import BaselineScore, BehaviorSnapshot, PairMetrics, PairState, RunReport, RunSnapshot
from tau_trainer.metrics.status import StatusFile
from tau_trainer.metrics.summary import Event, Summary
from tau_trainer.metrics.table import RunView
from tau_trainer.metrics.tensorboard import TensorBoard
from tau_trainer.metrics.terminal import LiveTable, PlainLines, QuietLines, TerminalMode, terminal_recorder
from tau_trainer.metrics.timers import PhaseTimer, RateMeter, Timer, TimersFile

__all__ = [
    "BaselineScore",
    "BehaviorSnapshot",
    "Event",
    "JsonLines",
    "JsonStream",
    "LiveTable",
    "MetricsHub",
    "PairMetrics",
    "PairState",
    "PhaseTimer",
    "PlainLines",
    "QuietLines",
    "RateMeter",
    "Recorder",
    "ResultView",
    "RunReport",
    "RunSnapshot",
    "RunView",
    "StatusFile",
    "Summary",
    "TaskKeys",
    "TensorBoard",
    "TerminalMode",
    "Timer",
    "TimersFile",
    "plot_learning_curve",
    "read_log",
    "result_lines",
    "terminal_recorder",
]
