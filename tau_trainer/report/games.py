"""Results of self-play: a table by opponent, and the score against each snapshot by its age."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError

from tau_trainer.metrics.charts import Chart, Line
from tau_trainer.metrics.games import HEADINGS, Games
from tau_trainer.metrics.history import Curve, mapping, number
from tau_trainer.report.cells import NOTHING, of_run
from tau_trainer.report.chart import Detail, draw
from tau_trainer.report.html import Markup, element, join, note, row_of, table
from tau_trainer.report.records import RunRecord, Runs
from tau_trainer.specs import Json

_ABOUT = (
    "Score: share of the points, a draw counts half, with Wilson's interval of 95 %. Games are those that the "
    "behavior's policies of then played; to compare policies of now, play them: tau-train match."
)


def games(runs: Runs, last: float, detail: Detail) -> Markup:
    """``last``: decisions at the right edge of the charts."""
    found = [(of_run(runs, run), behavior) for run in runs for behavior in _behaviors(run)]
    if not found:
        return NOTHING
    parts = [part for name, behavior in found for part in _behavior(name, behavior, last, detail)]
    return join([*parts, note(_ABOUT)])


def _behaviors(run: RunRecord) -> Iterator[Json]:
    known = run.result.get("behaviors")
    for behavior in map(mapping, known if isinstance(known, list) else []):
        if behavior.get("games"):
            yield behavior


def _behavior(name: str, behavior: Json, last: float, detail: Detail) -> Iterator[Markup]:
    found = [_games(mapping(row)) for row in behavior["games"]]
    results = [games for games in found if games is not None and games.played]
    elo = number(behavior.get("elo"))
    rating = f", Elo {elo:.1f}" if elo is not None else None
    yield element("h3", name, behavior.get("name", ""), rating)
    yield table(HEADINGS, map(_row, results), class_="figures")
    kept = sorted((games for games in results if games.made is not None), key=_made)
    if kept:
        intervals = [games.interval for games in kept]
        line = Line(
            "score",
            Curve(
                [float(_made(games)) for games in kept],
                [games.score or 0.0 for games in kept],
            ),
            [low for low, _ in intervals],
            [high for _, high in intervals],
            dotted=True,
        )
        title = "Score against snapshots, by the decisions behind them"
        chart = Chart(title, (line,), "interval of 95 %", share=True)
        yield element("div", draw(chart, max(last, 1.0), detail), class_="charts")


def _made(games: Games) -> int:
    return games.made or 0


def _row(games: Games) -> Markup:
    head, *cells = games.cells
    numbers = [element("td", cell, class_="number") for cell in cells]
    return row_of((head, *numbers))


def _games(row: Json) -> Games | None:
    """None if the file was changed and is not valid."""
    known = {name: value for name, value in row.items() if name != "made" or number(value) is not None}
    try:
        games = TypeAdapter(Games).validate_python(known)
    except ValidationError:
        return None
    return games if min(games.won, games.drawn, games.lost) >= 0 else None
