"""The course of a run: lessons, pairs, checkpoints, time, and messages.

Each section is made from the records of one or several runs, and empty if there is nothing to show.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tau_trainer.metrics import keys
from tau_trainer.metrics.format import format_percent
from tau_trainer.metrics.history import mapping, number
from tau_trainer.report.cells import MOST_ROWS, NOTHING, cut, figures, more, of_run, or_dash, plural
from tau_trainer.report.chart import MOST_COLORS, stack
from tau_trainer.report.html import Markup, cell, element, join, note, table
from tau_trainer.report.numbers import duration, size, when
from tau_trainer.report.numbers import reward as signed
from tau_trainer.report.records import FAULTS, RunRecord, Runs, SavedPolicy, SessionRecord


def lessons(runs: Runs) -> Markup:
    """Start of each lesson."""
    begun = [(run, lesson) for run in runs for lesson in run.happenings if lesson.kind == "lesson"]
    items = [element("li", f"{of_run(runs, run)}{duration(said.elapsed)}: {cut(said.text)}") for run, said in begun]
    return join([element("ul", *items[:MOST_ROWS], class_="plain"), more(items)]) if items else NOTHING


def pairs(runs: Runs) -> Markup:
    """Final state of each pair, if there are several."""
    rows = []
    for run in runs:
        curves = {pair: curve for (_, pair), curve in run.history.pairs(run.history.reward_key).items()}
        by_pair = mapping(run.evaluation.get("pairs"))
        for name, pair in run.pairs.items() if len(run.pairs) > 1 else ():
            curve = curves.get(name)
            facts = mapping(by_pair.get(name))
            rows.append(
                (
                    f"{of_run(runs, run)}{run.history.part} {name}",
                    pair.state,
                    or_dash(number(facts.get("decisions")), lambda count: f"{count:,.0f}"),
                    or_dash(curve.y[-1] if curve else None, signed),
                    format_percent(number(facts.get("validation_accuracy"))),
                    f"{pair.restarts:,}",
                )
            )
    head = (runs[0].history.part, "state", "decisions", "last reward", "validation accuracy", "engine restarts")
    return join([figures(head, rows[:MOST_ROWS]), more(rows)]) if rows else NOTHING


def checkpoints(runs: Runs) -> Markup:
    """The checkpoints, with each learner's best one marked: by validation accuracy, otherwise by reward."""
    rows, marked = list[Sequence[object]](), set[int]()
    for run in runs:
        for learner, policies in itertools.groupby(run.checkpoints, lambda policy: policy.learner):
            saved = [*policies]
            ranks = [_rank(run, policy) for policy in saved]
            best = max((rank for rank in ranks if rank is not None), default=None)
            for policy, rank in zip(saved, ranks, strict=True):
                first = rank is not None and rank == best and len(saved) > 1
                tag = element("span", "best", class_="tag") if first else None
                cells = (
                    join([f"{of_run(runs, run)}{learner}-{policy.step}", tag]),
                    f"{policy.step:,}",
                    or_dash(_at(run, policy, run.history.reward_key), signed),
                    or_dash(_at(run, policy, keys.GROUP_CUMULATIVE_REWARD), signed),
                    format_percent(policy.accuracy),
                    "-" if policy.best is None else f"after {policy.best:,} decisions",
                    when(policy.created),
                    size(policy.size),
                )
                marked |= {len(rows)} if first else set()
                rows.append(cells)
    if not rows:
        return NOTHING
    head = (
        "checkpoint",
        "decisions",
        "reward at that time",
        "group reward at that time",
        "validation accuracy",
        "best policy in it",
        "written",
        "size",
    )
    return join([figures(head, rows[:MOST_ROWS], marked), more(rows)])


def _rank(run: RunRecord, saved: SavedPolicy) -> float | None:
    """Rank by accuracy, otherwise by the reward of an agent and its group."""
    rewards = (_at(run, saved, key) for key in (run.history.reward_key, keys.GROUP_CUMULATIVE_REWARD))
    earned = [reward for reward in rewards if reward is not None]
    return saved.accuracy if saved.accuracy is not None else sum(earned) if earned else None


def _at(run: RunRecord, saved: SavedPolicy, key: str) -> float | None:
    """A scalar in the last summary before a checkpoint, of its learner or of the only behavior."""
    curves = run.history.overall(key)
    curve = curves.get(saved.learner) or (next(iter(curves.values())) if len(curves) == 1 else None)
    before = [y for x, y in zip(curve.x, curve.y, strict=True) if x <= saved.step] if curve is not None else []
    return before[-1] if before else None


def time(runs: Runs) -> Markup:
    """Time of start, training and end, and the shares of training for updates and for waiting."""
    rows, parts = list[tuple[object, ...]](), list[Markup]()
    for run in runs:
        starting = sum(_starting(session) for session in run.sessions)
        training = sum(_training(session) for session in run.sessions)
        rest = max(0.0, run.seconds - starting - training)
        amounts = (starting, training, rest)
        update, held, updates = (
            sum(getattr(session, name) for session in run.sessions)
            for name in ("update_seconds", "held_seconds", "updates")
        )
        parts.append(stack([*zip(_SPLIT, amounts, strict=True)], duration))
        rows.append(
            (
                run.name,
                duration(run.seconds),
                *map(duration, amounts),
                f"{updates:,}",
                duration(update),
                duration(update / updates if updates else None),
                duration(held),
            )
        )
    legend = [element("li", name, class_=f"piece c{i % MOST_COLORS}") for i, name in enumerate(_SPLIT)]
    head = ("run", "all", *_SPLIT, "updates", "in updates", "an update", "held for learning")
    said = "Updates run while agents act, so their time is no loss. Held for learning: engines waited for an update."
    return join(
        [
            element("ul", *legend, class_="legend"),
            *parts,
            figures(head, rows),
            note(said),
            *(_phases(runs, who) for who in ("pairs", "learners")),
        ]
    )


def _phases(runs: Runs, who: str) -> Markup | None:
    """Time of the last session by activity, of all pairs or learners together; None: unknown."""
    rows, head = list[tuple[object, ...]](), list[str]()
    found = []
    for run in runs:
        spent: dict[str, float] = {}
        for owner in mapping(mapping(mapping(run.timers.get("children")).get(who)).get("children")).values():
            for name, lap in mapping(mapping(owner).get("children")).items():
                spent[name] = spent.get(name, 0.0) + (number(mapping(lap).get("total")) or 0.0)
        if total := sum(spent.values()):
            found.append((run, spent, total))
            head += [name for name in spent if name not in head]
    for run, spent, total in found:
        shares = (format_percent(spent[name] / total) if name in spent else "-" for name in head)
        rows.append((run.name, *shares))
    return figures((f"time of the {who}", *head), rows) if rows else None


_SPLIT = ("starting engines", "training", "evaluating, saving, exporting")


def _starting(session: SessionRecord) -> float:
    return float(session.training if session.training is not None else session.ended)


def _training(session: SessionRecord) -> float:
    if session.training is None:
        return 0.0
    return max(0.0, float(session.trained if session.trained is not None else session.ended) - float(session.training))


def happenings(runs: Runs) -> Markup:
    """Counts of faults, then all messages; equal ones are shown once."""
    counted = [f"{count:,} {plural(kind, count)}" for kind, count in _all_faults(runs).items()]
    non_finite = sum(run.non_finite for run in runs)
    if non_finite:
        counted.append(
            f"{non_finite:,} {plural('value', non_finite)} that {'was' if non_finite == 1 else 'were'} no number"
        )
    lead = element(
        "p", ", ".join(counted) + "." if counted else "Nothing went wrong.", class_=None if counted else "good"
    )
    messages: dict[tuple[str, str, str], list[float | None]] = {}
    for run in runs:
        for happening in run.happenings:
            if happening.kind != "lesson":
                messages.setdefault((of_run(runs, run), happening.kind, happening.text), []).append(happening.elapsed)
    rows = [
        element(
            "tr",
            *map(
                cell, (duration(times[0]), element("span", kind, class_="tag"), f"{run}{cut(text)}", f"{len(times):,}")
            ),
            class_="fault" if kind in FAULTS else None,
        )
        for (run, kind, text), times in sorted(messages.items(), key=lambda item: item[0][1] not in FAULTS)
    ]
    if not rows:
        return lead
    return join([lead, table(("after", "what", "message", "times"), rows[:MOST_ROWS], class_="messages"), more(rows)])


def _all_faults(runs: Runs) -> dict[str, int]:
    return {kind: count for kind in FAULTS if (count := sum(run.faults.get(kind, 0) for run in runs))}
