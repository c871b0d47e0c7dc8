"""Common parts of a report's tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tau_trainer.report.html import Markup, note, row_of, table
from tau_trainer.report.numbers import Shown, mean_and_deviation
from tau_trainer.report.records import RunRecord, Runs

MOST_ROWS = 100
"""Maximum number of rows of a table that may grow without limit; further rows are only counted."""
MOST_LETTERS = 400
"""Maximum length of a text in a table, in characters."""
NOTHING = Markup()
"""An empty section, which is left out."""


def figures(head: Sequence[str], rows: Sequence[Sequence[object]], marked: Collection[int] = ()) -> Markup:
    """A table of figures without its empty columns; ``marked`` rows are highlighted."""
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] not in ("-", "") for row in rows)]
    lines = [
        row_of((row[i] for i in kept), class_="sum" if number in marked else None) for number, row in enumerate(rows)
    ]
    return table((head[i] for i in kept), lines, class_="figures")


def more(rows: Sequence[object]) -> Markup | None:
    """A note with the number of rows that were left out."""
    count = len(rows) - MOST_ROWS
    return note(f"{count:,} more are left out here.") if count > 0 else None


def or_dash(value: float | None, text: Shown) -> str:
    """``text(value)``; a dash for None."""
    return "-" if value is None else str(text(value))


def with_deviation(values: Sequence[float], text: Shown) -> str:
    """Mean of the values and, if there are several, their standard deviation."""
    mean, deviation = mean_and_deviation(values)
    return f"{text(mean)} ± {text(deviation).lstrip('+')}" if len(values) > 1 else str(text(mean))


def setting_value(value: object) -> str:
    """A setting in YAML's notation."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return cut(f"{value:g}" if isinstance(value, float) else value)


def cut(text: object) -> str:
    """``text``, cut at :data:`MOST_LETTERS`."""
    said = str(text)
    return said if len(said) <= MOST_LETTERS else f"{said[:MOST_LETTERS]}…"


def plural(what: str, count: int) -> str:
    """``what`` in the singular or plural."""
    return what if count == 1 else f"{what}s"


def of_run(runs: Runs, run: RunRecord) -> str:
    """The run of a row, if there are several runs; otherwise empty."""
    return f"{run.name}: " if len(runs) > 1 else ""


def places(runs: Runs) -> list[str]:
    """The dotted keys of all settings of these runs, once each."""
    return list(dict.fromkeys(place for run in runs for place in run.configuration.settings))


def values_of(runs: Runs, place: str) -> list[str]:
    """The values of a setting as text, one for each run."""
    found = [run.configuration.settings.get(place) for run in runs]
    return ["absent" if setting is None else setting_value(setting.value) for setting in found]
