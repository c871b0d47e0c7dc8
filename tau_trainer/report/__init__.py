"""One HTML file about one run, or about several runs with different seeds. Needs neither torch nor a network."""

from __future__ import annotations

from tau_trainer.report.page import REPORT_NAME, render
from tau_trainer.report.records import RunRecord

__all__ = ["REPORT_NAME", "RunRecord", "render"]
