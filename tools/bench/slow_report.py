"""Results of the runs of `slow_games`: JSON, tables, and curves."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tau_trainer.metrics.charts import Chart, Line
from tau_trainer.metrics.history import Curve
from tau_trainer.metrics.plot import COLORS, decisions_along, draw_line, finish, new_figure, save_figure
from tools.bench import tables
from tools.bench.episodes import MANY, Falls
from tools.bench.slow_tasks import INCUMBENT, TASKS


@dataclass(frozen=True, slots=True)
class Run:
    """A run and its result."""

    task: str
    learner: str
    seed: int
    step_ms: float
    agents: int
    most: int
    """Maximum number of its decisions."""
    decisions: float = math.inf
    """Decisions until the mark; infinite: it was not reached."""
    begun: float = math.inf
    """Decisions at the start of the window that reached the mark."""
    seconds: float = math.inf
    """Seconds from the command to the mark."""
    played: float = 0.0
    """Decisions of the whole run."""
    whole: float = math.nan
    """Seconds of it."""
    end: float = math.nan
    """Mean return of the newest episodes at its end."""
    rate: float = math.nan
    """Decisions a second during play."""
    falls: Falls | None = None
    """Falls of a run that continues after its mark."""
    curve: list[tuple[float, float, float]] = field(default_factory=list)
    """(decisions, seconds, mean return of the newest episodes)."""
    failure: str = ""

    @property
    def game(self) -> tuple[str, float, int]:
        """A game in which learners are compared."""
        return self.task, self.step_ms, self.agents

    @property
    def label(self) -> str:
        """Name for tables and files."""
        return f"{game_label(self.game)}-{self.learner}-{self.seed}"


Game = tuple[str, float, int]


def game_label(game: Game) -> str:
    """Name for tables and files."""
    task, step_ms, agents = game
    parts = [task] + ([f"{agents}agents"] if TASKS[task].scene else []) + ([f"{step_ms:g}ms"] if step_ms else [])
    return "-".join(parts)


def line(run: Run) -> str:
    """One line for each run during the benchmark."""
    if run.failure:
        return f"{run.label}: {run.failure}"
    fallen = "" if run.falls is None else f"; {run.falls.low} low summaries, most lost {run.falls.most}"
    said = f"{run.end:.4g} after {run.played:,.0f} decisions and {run.whole:.0f} s{fallen}"
    if math.isfinite(run.decisions):
        said = f"mark after {run.decisions:,.0f} ({run.begun:,.0f}) decisions, {run.seconds:.1f} s; {said}"
    return f"{run.label}: {said}"


def document(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Values for a JSON file; NaN and infinity become null."""
    told: list[dict[str, Any]] = json.loads(
        json.dumps([asdict(run) for run in runs]), parse_constant=lambda _constant: None
    )
    return told


def read(path: Path) -> list[Run]:
    """The runs in such a file."""
    absent: dict[str, Any] = {item.name: item.default for item in fields(Run)}
    found = []
    for told in json.loads(path.read_text(encoding="utf-8"))["runs"]:
        falls = told.pop("falls")
        told["curve"] = [tuple(point) for point in told["curve"]]
        values = {key: absent[key] if value is None else value for key, value in told.items()}
        found.append(Run(**values, falls=None if falls is None else Falls(**falls)))
    return found


def report(runs: Sequence[Run]) -> str:
    """All tables, and the failed runs."""
    good = [run for run in runs if not run.failure]
    parts = [marks_table([run for run in good if TASKS[run.task].mark is not None])]
    ends = [run for run in good if TASKS[run.task].mark is None]
    parts += [ends_table(ends)] if ends else []
    parts += [ratios_table(good)] if any(run.learner == "sac_ln" for run in good) else []
    fallen = [run for run in good if run.falls is not None]
    parts += [falls_table(fallen)] if fallen else []
    failures = [f"- {line(run)}" for run in runs if run.failure]
    return "\n\n".join(parts + (["### Failed\n\n" + "\n".join(failures)] if failures else []))


def _cells(runs: Iterable[Run]) -> Iterator[tuple[Game, str, list[Run]]]:
    """Runs of a game by a learner, in the order of the tasks."""
    order = list(TASKS)

    def key(run: Run) -> tuple[int, Game, str]:
        return order.index(run.task), run.game, run.learner

    for (_, game, learner), group in itertools.groupby(sorted(runs, key=key), key):
        yield game, learner, list(group)


def _game_columns(game: Game) -> list[str]:
    task, step_ms, agents = game
    return [f"`{task}`", str(agents), f"{step_ms:g}"]


def marks_table(runs: Sequence[Run]) -> str:
    """Decisions and seconds to the marks."""
    rows = []
    for game, learner, group in _cells(runs):
        rows.append(
            [
                *_game_columns(game),
                f"`{learner}`",
                f"{TASKS[game[0]].mark:g}",
                f"{sum(math.isfinite(run.decisions) for run in group)} of {len(group)}",
                *(tables.spread([getattr(run, name) for run in group]) for name in ("decisions", "begun")),
                tables.spread([run.seconds for run in group], 1),
                tables.spread([run.rate for run in group]),
            ]
        )
    header = ["task", "agents", "ms a step", "learner", "mark", "reached", "decisions", "window off", "seconds"]
    title = "### Decisions to the mark: median (lowest-highest) of the runs that reached it"
    return f"{title}\n\n{tables.markdown([*header, 'decisions/s'], rows)}"


def ends_table(runs: Sequence[Run]) -> str:
    """Returns at the end, of tasks without a mark."""
    rows = []
    for game, learner, group in _cells(runs):
        ends = [run.end for run in group]
        error = f"{statistics.stdev(ends) / len(ends) ** 0.5:,.0f}" if len(ends) > 1 else "-"
        row = [*_game_columns(game), f"`{learner}`", str(len(group)), f"{statistics.mean(ends):,.0f}", error]
        rows.append([*row, tables.spread([run.played for run in group]), tables.spread([run.whole for run in group])])
    header = ["task", "agents", "ms a step", "learner", "runs", "mean return at the end", "standard error"]
    return f"### Returns at the end\n\n{tables.markdown([*header, 'decisions', 'seconds'], rows)}"


def falls_table(runs: Sequence[Run]) -> str:
    """Table of the runs that continued after their mark."""
    rows = []
    for game, learner, group in _cells(runs):
        fallen = [run.falls for run in group if run.falls is not None]
        decisions = sum(one.decisions for one in fallen)
        rate = f"{100_000 * sum(one.falls for one in fallen) / decisions:.2f}" if decisions else "-"
        counts = [sum(one.low for one in fallen), sum(one.falls for one in fallen)]
        safe = f"{sum(one.safe for one in fallen)} of {len(fallen)}"
        most = ", ".join(str(one.most) for one in fallen)
        rows.append([*_game_columns(game), f"`{learner}`", safe, f"{decisions:,.0f}", *map(str, counts), rate, most])
    header = ["task", "agents", "ms a step", "learner", "safe runs", "decisions after the first summary at 90"]
    header += ["summaries below 80", "falls", "falls in 100,000", "most lost in 12,000 decisions, by run"]
    note = f"Safe: no summary below 80 and no 12,000 decisions that lost {MANY} balls. "
    note += "A fall: a stretch that lost so many, after three that lost fewer."
    return f"### After success\n\n{note}\n\n{tables.markdown(header, rows)}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Decisions of `sac_ln` divided by another learner's, window off; ``below``: the other did not reach the mark."""

    value: float
    below: bool = False

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "-" if math.isnan(self.value) else "not reached"
        return f"{'< ' if self.below else ''}{self.value:.2f}"


def ratio(runs: Sequence[Run], others: Sequence[str]) -> Ratio:
    """Ratio of the medians in one game: `sac_ln` over the best of ``others``; missing ones do not count."""
    medians = {learner: statistics.median(run.begun for run in group) for _, learner, group in _cells(runs)}
    known = [medians[learner] for learner in others if learner in medians]
    if not known or "sac_ln" not in medians:
        return Ratio(math.nan)
    best = min(known)
    if math.isfinite(best):
        return Ratio(medians["sac_ln"] / best)
    return Ratio(medians["sac_ln"] / max(run.most for run in runs), below=True)


def rivals(learners: Iterable[str]) -> tuple[str, ...]:
    """PPO and SAC: the incumbent's if it played, otherwise ours."""
    theirs = tuple(learner for learner in INCUMBENT if learner in set(learners))
    return theirs or ("sac", "ppo")


def ratios_table(runs: Sequence[Run]) -> str:
    """Comparison of `sac_ln` with the others, for each game and in total."""
    marked = [run for run in runs if TASKS[run.task].mark is not None]
    games = {game: [run for run in marked if run.game == game] for game, _, _ in _cells(marked)}
    columns: list[Callable[[list[Run]], Ratio]] = [
        lambda group: ratio(group, rivals(run.learner for run in group)),
        lambda group: ratio(group, ("sac-equal",)),
        lambda group: ratio(group, ("sac-tuned",)),
    ]
    found = [[column(group) for group in games.values()] for column in columns]
    rows = [[*_game_columns(game), *(str(column[number]) for column in found)] for number, game in enumerate(games)]
    for name, of in (("median", statistics.median), ("most", max)):
        values = [[one.value for one in column if not math.isnan(one.value)] for column in found]
        rows.append([name, "", "", *(str(Ratio(of(some))) if some else "-" for some in values)])
    header = ["task", "agents", "ms a step", "over the better of PPO and SAC", "over `sac`, as many gradient steps"]
    return "### `sac_ln`: share of the decisions, window off, medians\n\n" + tables.markdown(
        [*header, "over `sac`, tuned for few decisions"], rows
    )


def draw_all(runs: Sequence[Run], folder: Path) -> list[Path]:
    """A picture for each game: reward over decisions, and over minutes if a step costs time."""
    drawn = []
    shown = [run for run in runs if run.curve]
    for game in dict.fromkeys(game for game, _, _ in _cells(shown)):
        group = [run for run in shown if run.game == game]
        drawn.append(_draw(game, group, folder / f"{game_label(game)}-decisions.png", by=0))
        if game[1]:
            drawn.append(_draw(game, group, folder / f"{game_label(game)}-minutes.png", by=1))
    return drawn


def _draw(game: Game, runs: Sequence[Run], path: Path, by: int) -> Path:
    """``by``: 0 decisions, 1 minutes."""
    task, step_ms, _ = game
    figure, (axes,) = new_figure(f"{task}, {step_ms:g} ms a step" if step_ms else task, 1)
    for number, (_, learner, group) in enumerate(_cells(runs)):
        color = COLORS[number % len(COLORS)]
        curves = [
            Curve([point[by] / (60 if by else 1) for point in run.curve], [point[2] for point in run.curve])
            for run in group
        ]
        for member in curves[1:]:
            axes.plot(member.x, member.y, color=color, linewidth=1.6)
        draw_line(axes, Line(learner, curves[0], color=number))
    mark = TASKS[task].mark
    window = f"newest {TASKS[task].window} episodes"
    finish(axes, Chart("mean return", (), unit=window, levels={} if mark is None else {"mark": mark}))
    if by == 0:
        decisions_along(axes)
    else:
        axes.set_xlim(left=0.0)
        axes.set_xlabel("minutes", fontsize=10)
    return save_figure(figure, path)
