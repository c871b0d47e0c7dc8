"""The page: its sections, the most important first, with everything that they need in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from tau_trainer import __version__
from tau_trainer.metrics.charts import ACCURACY, LESSONS, REWARD, Chart, charts
from tau_trainer.report import course, scores, setup
from tau_trainer.report.chart import Detail, Width, band_sentence, draw, widths
from tau_trainer.report.games import games
from tau_trainer.report.html import Markup, element, join, note
from tau_trainer.report.records import Runs

REPORT_NAME = "report.html"
MOST_BYTES = 1_000_000
"""Maximum size; a larger page is drawn again with fewer points."""
MOST_CHARTS = 60
"""Maximum number of charts in a group; further scalars of a game are only counted."""


def render(runs: Runs) -> str:
    """The report as one HTML document. ``runs``: one, or several with different seeds."""
    drawn = charts([run.history for run in runs])
    detail = Detail()
    while True:
        text = _document(runs, drawn, detail)
        if detail.coarsest or len(text.encode()) <= MOST_BYTES:
            return text
        detail = detail.coarser


def _document(runs: Runs, drawn: Mapping[str, Sequence[Chart]], detail: Detail) -> str:
    style, script = _part("report.css"), _part("report.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    title = scores.title(runs)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"Tau Trainer {__version__}"),
        element("title", title),
        element("style", Markup(style)),
    )
    parts = [(name, content) for name, content in _sections(runs, drawn, detail) if content]
    names = element("nav", *(element("a", name, href=f"#{_anchor(name)}") for name, _ in parts))
    body = element(
        "body",
        element("header", *scores.header(runs)),
        names,
        element("main", *(_section(name, content) for name, content in parts)),
        element(
            "footer",
            f"Written by Tau Trainer {__version__} from the files of {'these runs' if runs[1:] else 'this run'}.",
        ),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(runs: Runs, drawn: Mapping[str, Sequence[Chart]], detail: Detail) -> Iterator[tuple[str, Markup]]:
    yield "Runs", scores.runs(runs)
    yield "Evaluation", scores.evaluation(runs)
    yield "Use and resume", setup.use(runs)
    left, last = (
        MOST_CHARTS,
        max((float(step) for run in runs for step in run.history.steps.values()), default=1.0) or 1.0,
    )
    yield "Games", games(runs, last, detail)
    if not drawn:
        yield "Curves", element("p", "No value has been logged yet.")
    for group, those in drawn.items():
        large: list[Width] = ["large"] if group in (REWARD, ACCURACY) else []
        bands = {chart.band for chart in those if chart.band}
        across = "Across: agent decisions. " if left == MOST_CHARTS else ""
        common = bands if len(bands) == 1 else ()
        room = those[:left]
        shares = [*large, *widths(len(room) - len(large))] if room else []
        figures = [
            draw(chart, last, detail, width=width, band_told=bool(common))
            for chart, width in zip(room, shares, strict=True)
        ]
        above = note(across, *map(band_sentence, common)) if across or common else None
        more = len(those) - len(figures)
        left -= len(figures)
        rest = note(f"{more:,} scalars more are in log.jsonl and in TensorBoard.") if more else None
        lessons = course.lessons(runs) if group == LESSONS else None
        if figures or rest:
            yield group, join([above, element("div", *figures, class_="charts"), lessons, rest])
    yield "Pairs" if any(run.history.part == "pair" for run in runs) else "Engines", course.pairs(runs)
    yield "Checkpoints", course.checkpoints(runs)
    yield "Time", course.time(runs)
    yield "Faults", course.happenings(runs)
    yield "Settings", setup.settings(runs)
    yield "Machine", setup.provenance(runs)


def _section(name: str, content: Markup) -> Markup:
    return element("section", element("h2", name), content, id=_anchor(name))


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _part(name: str) -> str:
    return resources.files("tau_trainer.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """Hash of an inline part for the content security policy, which then permits no other script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
