"""The scores: head of the page, several runs side by side, and the policy with its baselines.

Each section is made from the records of one or several runs, and empty if there is nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tau_trainer.metrics import keys
from tau_trainer.metrics.format import format_percent
from tau_trainer.metrics.history import mapping, number
from tau_trainer.report.cells import NOTHING, cut, figures, or_dash, places, plural, values_of, with_deviation
from tau_trainer.report.chart import bar
from tau_trainer.report.html import Markup, element, join, note, row_of, table
from tau_trainer.report.numbers import Shown, duration
from tau_trainer.report.numbers import reward as signed
from tau_trainer.report.records import BROKEN_OFF, IN_PROGRESS, RunRecord, Runs

_KINDS = {"completed": "good", IN_PROGRESS: "running", "failed": "bad", BROKEN_OFF: "bad"}


def title(runs: Runs) -> str:
    """Title of the browser's window."""
    return runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more"


def header(runs: Runs) -> Iterator[Markup]:
    """Title, outcome, the sentence of the evaluation, and the most important numbers."""
    first = runs[0]
    kinds = list(dict.fromkeys(run.outcome for run in runs))
    yield element(
        "h1", title(runs), *(element("span", kind, class_=f"outcome {_KINDS.get(kind, 'other')}") for kind in kinds)
    )
    subject = [first.result.get("command"), first.configuration.environment, *_trainers(first)]
    if len(runs) > 1:
        subject.append(f"{len(runs)} runs")
    yield element("p", " · ".join(cut(part) for part in subject if part), class_="subject")
    for run in runs:
        verdict = run.result.get("verdict")
        if verdict:
            yield element("p", element("b", f"{run.name}: ") if len(runs) > 1 else None, verdict, class_="verdict")
        elif run.outcome == BROKEN_OFF:
            text = f"{run.name} ended without a result: it was killed, or its machine went down."
            yield element("p", text, class_="verdict bad")
    yield element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in _tiles(runs)))


def _trainers(run: RunRecord) -> Iterator[str]:
    for name, kind in list(run.configuration.trainers.items())[:4]:
        yield f"{name}: {kind}"


def _tiles(runs: Runs) -> Iterator[tuple[str, object]]:
    yield "decisions", f"{sum(run.decisions for run in runs):,}"
    for name in _MEASURES:
        if (text := _measured(runs, name)) != "-":
            yield name, text
    yield "time", duration(sum(run.seconds for run in runs))
    faults = sum(sum(run.faults.values()) for run in runs)
    yield "faults", f"{faults:,}" if faults else "none"


def final_reward(run: RunRecord) -> float | None:
    """Mean reward of the first behavior in its last summary that has one: of a decision, or of an episode."""
    return last_of(run, run.history.reward_key)


def last_of(run: RunRecord, key: str) -> float | None:
    """Last value of a scalar of the first behavior; None if there is none."""
    return next((curve.y[-1] for curve in run.history.overall(key).values()), None)


def _speed(run: RunRecord) -> float | None:
    speed = number(run.result.get("decisions_per_second"))
    return last_of(run, keys.DECISIONS_PER_SECOND) if speed is None else speed


_MEASURES: dict[str, tuple[Callable[[RunRecord], float | None], Shown]] = {
    "test accuracy": (lambda run: number(run.evaluation.get("accuracy")), format_percent),
    "test reward": (lambda run: number(run.evaluation.get("reward")), signed),
    "reward of the last summary": (final_reward, signed),
    "group reward of the last summary": (lambda run: last_of(run, keys.GROUP_CUMULATIVE_REWARD), signed),
    "decisions a second": (_speed, lambda speed: f"{speed:,.0f}"),
}
"""A run's numbers, each with its format."""


def _measured(runs: Runs, name: str) -> str:
    """Mean and deviation of a measure over the runs that have it; a dash if none has."""
    measure, text = _MEASURES[name]
    values = [value for run in runs if (value := measure(run)) is not None]
    return with_deviation(values, text) if values else "-"


def runs(runs: Runs) -> Markup:
    """Several runs side by side, with mean and deviation, and the settings that differ."""
    if len(runs) == 1:
        return NOTHING
    names = ("reward of the last summary", "test accuracy", "decisions a second")
    rows: list[Sequence[object]] = [
        (
            run.name,
            run.outcome,
            run.provenance.get("seed", "-"),
            f"{run.decisions:,}",
            *(_measured([run], name) for name in names),
            duration(run.seconds),
        )
        for run in runs
    ]
    summed = ("mean ± standard deviation", "", "", "", *(_measured(runs, name) for name in names), "")
    head = ("run", "outcome", "seed", "decisions", "last reward", "test accuracy", "decisions/s", "time")
    body = figures(head, [*rows, summed], [len(rows)])
    return join([body, _differences(runs)])


def _differences(runs: Runs) -> Markup:
    """Each setting that differs, with its value in each run; folded if there are many."""
    found = {place: values_of(runs, place) for place in places(runs) if place not in _OWN}
    differing = {place: values for place, values in found.items() if len(set(values)) > 1}
    if not differing:
        return note("These runs have the same settings, except for seed and name.")
    rows = [(place, *values) for place, values in differing.items()]
    count = f"{len(rows):,} {plural('setting', len(rows))}"
    return element(
        "details",
        element("summary", f"These runs differ in more than their seed: in {count}.", class_="warn"),
        table(("key", *(run.name for run in runs)), rows, class_="settings differing"),
        open="" if len(rows) <= _OPEN_ROWS else None,
    )


_OPEN_ROWS = 8
"""Number of differences above which the table is folded."""
_OWN = ("checkpoint_settings.run_id", "checkpoint_settings.results_dir", "env_settings.seed", "env_settings.base_port")
"""Settings that always differ between runs."""


def evaluation(runs: Runs) -> Markup:
    """Policies and the baselines of the first run on test rows, worst first."""
    scored = [run for run in runs if number(run.evaluation.get("accuracy")) is not None]
    if not scored:
        return NOTHING
    first = scored[0].evaluation
    entries = [(str(name), mapping(scores), False) for name, scores in mapping(first.get("baselines")).items()]
    several = len(runs) > 1
    entries += [(f"policy of {run.name}" if several else "policy", run.evaluation, True) for run in scored]
    found = [(name, number(known.get("accuracy")), number(known.get("reward")), ours) for name, known, ours in entries]
    rewards = [reward for _, _, reward, _ in found if reward is not None]
    low, high = min([0.0, *rewards]), max([1e-9, *rewards])
    rows = list[Markup]()
    for name, accuracy, reward, ours in sorted(found, key=lambda row: (row[1] or 0.0, row[2] or 0.0)):
        strongest = name == first.get("strongest") and not ours
        mark = element("span", "strongest baseline", class_="tag") if strongest else None
        kind = "own" if ours else "other"
        cells = (
            join([name, mark]),
            element("td", format_percent(accuracy), class_="number"),
            element("td", bar(accuracy or 0.0, 0.0, 1.0, kind), class_="bars"),
            element("td", or_dash(reward, signed), class_="number"),
            element("td", bar(reward or 0.0, low, high, kind), class_="bars"),
        )
        rows.append(row_of(cells, class_="sum" if ours else None))
    body = table(("on test rows", "accuracy", "", "reward", ""), rows, class_="scores")
    return join([body, *_evaluation_notes(scored)])


def _evaluation_notes(scored: Sequence[RunRecord]) -> Iterator[Markup]:
    evaluation = scored[0].evaluation
    counts = [(number(evaluation.get(name)), text) for name, text in _ROWS.items()]
    rows = [f"{int(count):,} {text}" for count, text in counts if count is not None]
    if rows:
        yield note("Rows: " + ", ".join(rows) + ".")
    for run in scored:
        domains = mapping(run.evaluation.get("accuracy_by_domain"))
        shares = [(name, number(share)) for name, share in domains.items()]
        parts = [f"{cut(name)} {format_percent(share)}" for name, share in shares if share is not None]
        if parts:
            name = f" of {run.name}" if len(scored) > 1 else ""
            yield note(f"Accuracy by domain{name}: {', '.join(parts)}.")


_ROWS = {
    "rows": "are tested and choose nothing",
    "rows_validation": "chose the policy",
    "rows_train": "were learned from",
}
