"""Consoles that show no control characters."""

from __future__ import annotations

import io

from tau_trainer.metrics.report import ResultView
from tests.training.hostile import RESULT, SNAPSHOT, clean


def test_a_console_of_somebody_else_gets_clean_tables_too() -> None:
    """Whoever draws our views with a console of rich's own is as safe."""
    from rich.console import Console as Plain

    from tau_trainer.metrics.table import RunView

    file = io.StringIO()
    console = Plain(file=file, force_terminal=True, width=200, height=60)
    console.print(RunView(SNAPSHOT), ResultView(RESULT))
    text = clean(file.getvalue(), colours=True)
    assert text.count("[red]x[/red]") >= 5
