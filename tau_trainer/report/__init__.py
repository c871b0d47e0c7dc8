"""One HTML file about one run, or about several runs of one thing. Imports no torch, needs no network."""

from __future__ import annotations

from tau_trainer.report.page import REPORT_NAME, render
from tau_trainer.report.records import RunRecord

__all__ = ["REPORT_NAME", "RunRecord", "render"]
