"""The tables of a report, each made from the records of one or several runs; empty where there is nothing to tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tau_trainer.metrics import keys
from tau_trainer.report.chart import MOST_COLORS, bar, stack
from tau_trainer.report.configuration import Setting
from tau_trainer.report.html import Markup, cell, element, join, table
from tau_trainer.report.numbers import duration, mean_and_deviation, percent, size
from tau_trainer.report.numbers import reward as signed
from tau_trainer.report.records import BROKEN_OFF, FAULTS, IN_PROGRESS, RunRecord, SavedPolicy, mapping, number

MOST_ROWS = 100
"""Of a table that may grow without end; what is beyond is counted."""
_MOST_LETTERS = 400
_NOTHING = Markup()
_KINDS = {"completed": "good", IN_PROGRESS: "running", "failed": "bad", BROKEN_OFF: "bad"}


def title(runs: Sequence[RunRecord]) -> str:
    """What stands on the window."""
    return runs[0].name if len(runs) == 1 else f"{runs[0].name} and {len(runs) - 1} more"


def header(runs: Sequence[RunRecord]) -> Iterator[Markup]:
    """Title, outcome, the sentence of the evaluation, and the numbers that count."""
    first = runs[0]
    kinds = list(dict.fromkeys(run.outcome for run in runs))
    yield element(
        "h1", title(runs), *(element("span", one, class_=f"outcome {_KINDS.get(one, 'other')}") for one in kinds)
    )
    subject = [first.result.get("command"), first.configuration.environment, *_trainers(first)]
    if len(runs) > 1:
        subject.append(f"{len(runs)} runs")
    yield element("p", " · ".join(_cut(one) for one in subject if one), class_="subject")
    for run in runs:
        verdict = run.result.get("verdict")
        if verdict:
            yield element("p", element("b", f"{run.name}: ") if len(runs) > 1 else None, verdict, class_="verdict")
        elif run.outcome == BROKEN_OFF:
            text = f"{run.name} ended without a last word: it was killed, or its machine went down."
            yield element("p", text, class_="verdict bad")
    yield element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in _tiles(runs)))


def _trainers(run: RunRecord) -> Iterator[str]:
    for name, kind in list(run.configuration.trainers.items())[:4]:
        yield f"{name}: {kind}"


def _tiles(runs: Sequence[RunRecord]) -> Iterator[tuple[str, object]]:
    yield "decisions", f"{sum(run.decisions for run in runs):,}"
    for name, found in (("test accuracy", _scores(runs, "accuracy")), ("test reward", _scores(runs, "reward"))):
        if found:
            yield name, _with_deviation(found, percent if name == "test accuracy" else signed)
    final = [reward for run in runs if (reward := final_reward(run)) is not None]
    if final:
        yield "reward of the last summary", _with_deviation(final, signed)
    speeds = [speed for run in runs if (speed := _speed(run)) is not None]
    if speeds:
        yield "decisions a second", _with_deviation(speeds, lambda one: f"{one:,.0f}")
    yield "time", duration(sum(run.seconds for run in runs))
    faults = sum(sum(run.faults.values()) for run in runs)
    yield "faults", f"{faults:,}" if faults else "none"


def _with_deviation(values: Sequence[float], text: Any) -> str:
    mean, deviation = mean_and_deviation(values)
    return f"{text(mean)} ± {text(deviation).lstrip('+')}" if len(values) > 1 else str(text(mean))


def _scores(runs: Sequence[RunRecord], name: str) -> list[float]:
    return [score for run in runs if (score := number(run.evaluation.get(name))) is not None]


def final_reward(run: RunRecord) -> float | None:
    """Mean reward in the last summary that has one, of its first behavior: of an episode, or of a decision."""
    for key in (run.history.task.get("reward", ""), keys.CUMULATIVE_REWARD, keys.GROUP_CUMULATIVE_REWARD):
        for curve in run.history.overall(key).values():
            return curve.y[-1]
    return None


def _speed(run: RunRecord) -> float | None:
    told = number(run.result.get("decisions_per_second"))
    if told is not None:
        return told
    for curve in run.history.overall(keys.DECISIONS_PER_SECOND).values():
        return curve.y[-1]
    return None


def runs(runs: Sequence[RunRecord]) -> Markup:
    """Several runs beside each other, their mean and deviation, and in which settings they differ."""
    if len(runs) == 1:
        return _NOTHING
    rows: list[Sequence[object]] = [
        (
            element("th", run.name, scope="row"),
            run.outcome,
            run.provenance.get("seed", "-"),
            f"{run.decisions:,}",
            _or_dash(final_reward(run), signed),
            _or_dash(number(run.evaluation.get("accuracy")), percent),
            _or_dash(_speed(run), lambda one: f"{one:,.0f}"),
            duration(run.seconds),
        )
        for run in runs
    ]
    final = [reward for run in runs if (reward := final_reward(run)) is not None]
    accuracy, speed = _scores(runs, "accuracy"), [one for run in runs if (one := _speed(run)) is not None]
    summed: list[object] = [element("th", "mean ± standard deviation", scope="row"), "", "", ""]
    summed += [
        _with_deviation(values, text) if values else "-" for values, text in ((final, signed), (accuracy, percent))
    ]
    summed += [_with_deviation(speed, lambda one: f"{one:,.0f}") if speed else "-", ""]
    head = ("run", "outcome", "seed", "decisions", "last reward", "test accuracy", "decisions/s", "time")
    body = _figures(head, [*rows, summed], [len(rows)])
    differing = [place for place in _places(runs) if place not in _OWN and len(_values(runs, place)) > 1]
    if differing:
        names = ", ".join(differing[:MOST_ROWS])
        note = element("p", f"These runs differ in more than their seed: {names}.", class_="note warn")
        return join([body, note])
    return join(
        [body, element("p", "These runs have the same settings but for their seed and their name.", class_="note")]
    )


_OWN = ("checkpoint_settings.run_id", "checkpoint_settings.results_dir", "env_settings.seed", "env_settings.base_port")
"""Settings in which runs of one thing differ."""


def _places(runs: Sequence[RunRecord]) -> list[str]:
    return list(dict.fromkeys(place for run in runs for place in run.configuration.settings))


def _values(runs: Sequence[RunRecord], place: str) -> list[str]:
    """The different values of a setting, as text."""
    found = [run.configuration.settings.get(place) for run in runs]
    return list(dict.fromkeys("absent" if one is None else _value(one.value) for one in found))


def evaluation(runs: Sequence[RunRecord]) -> Markup:
    """Policies between the baselines of the first run, worst first, on test rows."""
    scored = [run for run in runs if number(run.evaluation.get("accuracy")) is not None]
    if not scored:
        return _NOTHING
    first = scored[0].evaluation
    entries = [(str(name), mapping(scores), False) for name, scores in mapping(first.get("baselines")).items()]
    several = len(runs) > 1
    entries += [(f"policy of {run.name}" if several else "policy", run.evaluation, True) for run in scored]
    found = [(name, number(one.get("accuracy")), number(one.get("reward")), own) for name, one, own in entries]
    rewards = [reward for _, _, reward, _ in found if reward is not None]
    low, high = min([0.0, *rewards]), max([1e-9, *rewards])
    rows = list[Markup]()
    for name, accuracy, reward, own in sorted(found, key=lambda row: (row[1] or 0.0, row[2] or 0.0)):
        strongest = name == first.get("strongest") and not own
        mark = element("span", "strongest baseline", class_="tag") if strongest else None
        kind = "own" if own else "other"
        cells = (
            element("th", name, mark, scope="row"),
            element("td", _or_dash(accuracy, percent), class_="number"),
            element("td", bar(accuracy or 0.0, 0.0, 1.0, kind), class_="bars"),
            element("td", _or_dash(reward, signed), class_="number"),
            element("td", bar(reward or 0.0, low, high, kind), class_="bars"),
        )
        rows.append(element("tr", *cells, class_="sum" if own else None))
    body = table(("on test rows", "accuracy", "", "reward", ""), rows, class_="scores")
    return join([body, *_evaluation_notes(scored)])


def _evaluation_notes(scored: Sequence[RunRecord]) -> Iterator[Markup]:
    told = scored[0].evaluation
    rows = [f"{int(count):,} {text}" for name, text in _ROWS.items() if (count := number(told.get(name))) is not None]
    if rows:
        yield element("p", "Rows: " + ", ".join(rows) + ".", class_="note")
    for run in scored:
        domains = mapping(run.evaluation.get("accuracy_by_domain"))
        parts = [
            f"{_cut(name)} {percent(share)}" for name, one in domains.items() if (share := number(one)) is not None
        ]
        if parts:
            name = f" of {run.name}" if len(scored) > 1 else ""
            yield element("p", f"Accuracy by domain{name}: {', '.join(parts)}.", class_="note")


_ROWS = {
    "rows": "are tested and choose nothing",
    "rows_validation": "chose the policy",
    "rows_train": "were learned from",
}


def lessons(runs: Sequence[RunRecord]) -> Markup:
    """When which lesson began."""
    told = [(run, one) for run in runs for one in run.happenings if one.kind == "lesson"]
    items = [element("li", f"{_run(runs, run)}{duration(one.elapsed)}: {_cut(one.text)}") for run, one in told]
    return join([element("ul", *items[:MOST_ROWS], class_="plain"), _more(items)]) if items else _NOTHING


def pairs(runs: Sequence[RunRecord]) -> Markup:
    """What became of every pair, where there are several."""
    rows = []
    for run in runs:
        reward = run.history.task.get("reward") or keys.CUMULATIVE_REWARD
        curves = {pair: curve for (_, pair), curve in run.history.pairs(reward).items()}
        told = mapping(run.evaluation.get("pairs"))
        for name, pair in run.pairs.items() if len(run.pairs) > 1 else ():
            # Independent pairs are called after their learner.
            curve = curves.get(name) or next(
                (one for key, one in curves.items() if str(key).endswith(f"-pair{name}")), None
            )
            own = mapping(told.get(name))
            rows.append(
                (
                    element("th", f"{_run(runs, run)}pair {name}", scope="row"),
                    pair.state,
                    _or_dash(number(own.get("decisions")), lambda one: f"{one:,.0f}"),
                    _or_dash(curve.y[-1] if curve else None, signed),
                    _or_dash(number(own.get("validation_accuracy")), percent),
                    f"{pair.restarts:,}",
                )
            )
    head = ("pair", "state", "decisions", "last reward", "validation accuracy", "engine restarts")
    return join([_figures(head, rows[:MOST_ROWS]), _more(rows)]) if rows else _NOTHING


def checkpoints(runs: Sequence[RunRecord]) -> Markup:
    """What is saved, the best of each learner marked: by validation accuracy, else by the reward of its time."""
    rows, marked = list[Sequence[object]](), set[int]()
    for run in runs:
        by_learner: dict[str, list[SavedPolicy]] = {}
        for one in run.checkpoints:
            by_learner.setdefault(one.learner, []).append(one)
        for learner, saved in by_learner.items():
            ranks = [_rank(run, one) for one in saved]
            best = max((rank for rank in ranks if rank is not None), default=None)
            for one, rank in zip(saved, ranks, strict=True):
                first = rank is not None and rank == best and len(saved) > 1
                tag = element("span", "best", class_="tag") if first else None
                cells = (
                    element("th", f"{_run(runs, run)}{learner}-{one.step}", tag, scope="row"),
                    f"{one.step:,}",
                    _or_dash(_reward_at(run, one), signed),
                    _or_dash(one.accuracy, percent),
                    "-" if one.best is None else f"of decision {one.best:,}",
                    _when(one.created),
                    size(one.size),
                )
                marked |= {len(rows)} if first else set()
                rows.append(cells)
    if not rows:
        return _NOTHING
    head = (
        "checkpoint",
        "decisions",
        "reward at that time",
        "validation accuracy",
        "best policy in it",
        "written",
        "size",
    )
    return join([_figures(head, rows[:MOST_ROWS], marked), _more(rows)])


def _rank(run: RunRecord, one: SavedPolicy) -> float | None:
    return one.accuracy if one.accuracy is not None else _reward_at(run, one)


def _reward_at(run: RunRecord, one: SavedPolicy) -> float | None:
    """Mean reward of training in the last summary before a checkpoint."""
    for key in (run.history.task.get("reward", ""), keys.CUMULATIVE_REWARD, keys.GROUP_CUMULATIVE_REWARD):
        curves = run.history.overall(key)
        curve = (
            curves.get(one.learner) or next(iter(curves.values()), None)
            if len(curves) == 1
            else curves.get(one.learner)
        )
        if curve is not None:
            before = [y for x, y in zip(curve.x, curve.y, strict=True) if x <= one.step]
            return before[-1] if before else None
    return None


def time(runs: Sequence[RunRecord]) -> Markup:
    """How long was started, trained and finished; and what of the training was spent in updates and in waiting."""
    rows, parts = list[tuple[object, ...]](), list[Markup]()
    for run in runs:
        starting = sum(_starting(one) for one in run.sessions)
        training = sum(_training(one) for one in run.sessions)
        rest = max(0.0, run.seconds - starting - training)
        split = [("starting engines", starting), ("training", training), ("evaluating, saving, exporting", rest)]
        update, held = (sum(getattr(one, name) for one in run.sessions) for name in ("update_seconds", "held_seconds"))
        updates = sum(one.updates for one in run.sessions)
        parts.append(stack(split, duration))
        amounts = [duration(amount) for _, amount in split]
        rows.append(
            (
                element("th", run.name, scope="row"),
                duration(run.seconds),
                *amounts,
                f"{updates:,}",
                duration(update),
                duration(update / updates if updates else None),
                duration(held),
            )
        )
    legend = [element("li", name, class_=f"piece c{i % MOST_COLORS}") for i, name in enumerate(_SPLIT)]
    head = ("run", "all", *_SPLIT, "updates", "in updates", "an update", "held for learning")
    note = "Updates run beside acting, so their time is no loss; held is the time for which engines waited for them."
    return join(
        [
            element("ul", *legend, class_="legend"),
            *parts,
            _figures(head, rows),
            element("p", note, class_="note"),
        ]
    )


_SPLIT = ("starting engines", "training", "evaluating, saving, exporting")


def _starting(session: Any) -> float:
    return float(session.training if session.training is not None else session.ended)


def _training(session: Any) -> float:
    if session.training is None:
        return 0.0
    return max(0.0, float(session.trained if session.trained is not None else session.ended) - float(session.training))


def happenings(runs: Sequence[RunRecord]) -> Markup:
    """Counts of what went wrong, then every message, the same ones told once."""
    counted = [f"{count:,} {_plural(kind, count)}" for kind, count in _all_faults(runs).items()]
    non_finite = sum(run.non_finite for run in runs)
    if non_finite:
        counted.append(
            f"{non_finite:,} {_plural('value', non_finite)} that {'was' if non_finite == 1 else 'were'} no number"
        )
    lead = element(
        "p", ", ".join(counted) + "." if counted else "Nothing went wrong.", class_=None if counted else "good"
    )
    told: dict[tuple[str, str, str], list[float | None]] = {}
    for run in runs:
        for one in run.happenings:
            if one.kind != "lesson":
                told.setdefault((_run(runs, run), one.kind, one.text), []).append(one.elapsed)
    rows = [
        element(
            "tr",
            *map(
                cell, (duration(times[0]), element("span", kind, class_="tag"), f"{run}{_cut(text)}", f"{len(times):,}")
            ),
            class_="fault" if kind in FAULTS else None,
        )
        for (run, kind, text), times in sorted(told.items(), key=lambda item: item[0][1] not in FAULTS)
    ]
    if not rows:
        return lead
    return join([lead, table(("after", "what", "message", "times"), rows[:MOST_ROWS], class_="messages"), _more(rows)])


def _all_faults(runs: Sequence[RunRecord]) -> dict[str, int]:
    return {kind: count for kind in FAULTS if (count := sum(run.faults.get(kind, 0) for run in runs))}


def settings(runs: Sequence[RunRecord]) -> Markup:
    """Every setting; those that are not the default, or not the same in all runs, marked."""
    sections: dict[str, list[Markup]] = {}
    changed = 0
    for place in _places(runs):
        known = [one for run in runs if (one := run.configuration.settings.get(place)) is not None]
        marked = any(one.changed for one in known)
        changed += marked
        sections.setdefault(_section_of(place), []).append(_setting(place, known, _values(runs, place), marked))
    if not sections:
        return _NOTHING
    folds = [
        element(
            "details", element("summary", name), table(("key", "value", "default"), rows, class_="settings"), open=""
        )
        for name, rows in sections.items()
    ]
    lead = f"{changed:,} of {len(_places(runs)):,} settings are not the default; they are marked."
    return join([element("p", lead), element("div", *folds, class_="columns")])


def _setting(place: str, known: Sequence[Setting], values: Sequence[str], marked: bool) -> Markup:
    key = place.removeprefix(f"{_section_of(place)}.")
    cells = (element("th", key, scope="row"), ", ".join(values), _value(known[0].default) if marked else "")
    return element("tr", *map(cell, cells), class_="changed" if marked else None)


def _section_of(place: str) -> str:
    parts = place.split(".")
    if len(parts) == 1:
        return "general"
    return ".".join(parts[:2]) if parts[0] == "behaviors" and len(parts) > 2 else parts[0]


def provenance(runs: Sequence[RunRecord]) -> Markup:
    """Command, source, machine and versions of each run; runs that say the same are told once."""
    blocks: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        if run.provenance:
            blocks.setdefault(tuple(_facts(run)), []).append(run.name)
    parts = []
    for facts, names in blocks.items():
        rows = [(element("th", name, scope="row"), value) for name, value in facts]
        parts.append(element("div", element("h3", ", ".join(names)) if len(runs) > 1 else None, table((), rows)))
    return element("div", *parts[:MOST_ROWS]) if parts else _NOTHING


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    told, machine = run.provenance, mapping(run.provenance.get("hardware"))
    command = told.get("command")
    git = mapping(told.get("git"))
    source = f"{git.get('commit')}{', with uncommitted changes' if git.get('dirty') else ''}" if git else None
    memory = number(machine.get("memory_bytes"))
    cores, usable = machine.get("cores"), machine.get("usable_cores")
    gpus = machine.get("gpus")
    yield from (
        (name, _cut(value))
        for name, value in (
            ("started", _when(told.get("started"))),
            ("command", " ".join(map(str, command)) if isinstance(command, list) else command),
            ("seed", told.get("seed")),
            ("source", source),
            ("processor", machine.get("cpu")),
            ("cores", f"{cores}, of which {usable} could be used" if cores != usable and usable else cores),
            ("memory", size(memory) if memory is not None else None),
            ("graphics", ", ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else "none used"),
            ("system", machine.get("system")),
            *((str(name), version) for name, version in mapping(told.get("versions")).items()),
        )
        if value is not None
    )


def _when(text: object) -> str:
    """``2026-11-22 10:36:05 UTC`` from ISO 8601."""
    said = str(text)
    return said[:19].replace("T", " ") + " UTC" if said.endswith("+00:00") else said


def _run(runs: Sequence[RunRecord], run: RunRecord) -> str:
    return f"{run.name}: " if len(runs) > 1 else ""


def _figures(head: Sequence[str], rows: Sequence[Sequence[object]], marked: Collection[int] = ()) -> Markup:
    """A table of figures without the columns that nobody has a value for; ``marked`` rows stand out."""
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] not in ("-", "") for row in rows)]
    lines = [
        element("tr", *(cell(row[i]) for i in kept), class_="sum" if number in marked else None)
        for number, row in enumerate(rows)
    ]
    return table((head[i] for i in kept), lines, class_="figures")


def _more(rows: Sequence[object]) -> Markup | None:
    more = len(rows) - MOST_ROWS
    return element("p", f"{more:,} more are left out here.", class_="note") if more > 0 else None


def _plural(what: str, count: int) -> str:
    return what if count == 1 else f"{what}s"


def _or_dash(value: float | None, text: Any) -> str:
    return "-" if value is None else str(text(value))


def _value(value: object) -> str:
    """A setting as YAML would have it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return _cut(f"{value:g}" if isinstance(value, float) else value)


def _cut(text: object) -> str:
    said = str(text)
    return said if len(said) <= _MOST_LETTERS else f"{said[:_MOST_LETTERS]}…"
