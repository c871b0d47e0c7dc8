"""Origin of a run: all settings with their defaults, command, source, machine and versions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tau_trainer.metrics.history import mapping, number
from tau_trainer.report.cells import MOST_ROWS, NOTHING, cut, of_run, places, setting_value, values_of
from tau_trainer.report.configuration import Setting
from tau_trainer.report.html import Markup, element, join, row_of, table
from tau_trainer.report.numbers import size, when
from tau_trainer.report.records import RunRecord, Runs


def settings(runs: Runs) -> Markup:
    """All settings; those that are not the default, or differ between runs, are marked."""
    sections: dict[str, list[Markup]] = {}
    changed = 0
    for place in places(runs):
        known = [setting for run in runs if (setting := run.configuration.settings.get(place)) is not None]
        marked = any(setting.changed for setting in known)
        changed += marked
        sections.setdefault(_section_of(place), []).append(
            _setting(place, known, dict.fromkeys(values_of(runs, place)), marked)
        )
    if not sections:
        return NOTHING
    folds = [
        element(
            "details", element("summary", name), table(("key", "value", "default"), rows, class_="settings"), open=""
        )
        for name, rows in sections.items()
    ]
    lead = f"{changed:,} of {len(places(runs)):,} settings are not the default; they are marked."
    return join([element("p", lead), element("div", *folds, class_="columns")])


def _setting(place: str, known: Sequence[Setting], values: Iterable[str], marked: bool) -> Markup:
    key = place.removeprefix(f"{_section_of(place)}.")
    cells = (key, ", ".join(values), setting_value(known[0].default) if marked else "")
    return row_of(cells, class_="changed" if marked else None)


def _section_of(place: str) -> str:
    parts = place.split(".")
    if len(parts) == 1:
        return "general"
    return ".".join(parts[:2]) if parts[0] == "behaviors" and len(parts) > 2 else parts[0]


def use(runs: Runs) -> Markup:
    """Where the trained policies are, and the command that resumes each run."""
    rows = [
        (f"{of_run(runs, run)}{name}", value)
        for run in runs[:MOST_ROWS]
        for name, value in (*_models(run), *_resume(run))
    ]
    return table((), rows, class_="use") if rows else NOTHING


def _models(run: RunRecord) -> Iterator[tuple[str, object]]:
    """The ONNX files of the run's folder, or how to get one."""
    for path in run.models[:MOST_ROWS]:
        yield "trained policy (ONNX)", element("code", path.as_posix())
    if run.models:
        yield "in Unity", "Drag the file into the project, then onto Model in the agent's Behavior Parameters."
    elif run.checkpoints:
        command = element("code", shlex.join(["tau-train", "export", run.folder.as_posix()]))
        yield "trained policy (ONNX)", join(["not exported yet: ", command])


def _resume(run: RunRecord) -> Iterator[tuple[str, object]]:
    """The command that resumes the run; empty if there is no checkpoint.

    All settings come from the run's folder, so no flag of the recorded command is repeated: another machine may have
    written it.
    """
    if not run.checkpoints:
        return
    words = run.provenance.get("command")
    program, command = [str(word) for word in [*words, "", ""][:2]] if isinstance(words, list) else ["", ""]
    if Path(program).stem != "tau-train" or command not in ("learn", "parallel", "batch"):
        yield "resume", "Start the run as before, with the same run-id, and ask for it to be resumed."
        return
    given = ["--run-id", run.folder.name, "--results-dir", run.folder.parent.as_posix()]
    further = ", with a larger --max-steps" if run.outcome == "completed" else None
    yield "resume", join([element("code", shlex.join(["tau-train", command, "--resume", *given])), further])


def provenance(runs: Runs) -> Markup:
    """Command, source, machine and versions of each run; equal ones are shown once."""
    blocks: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        if run.provenance:
            blocks.setdefault(tuple(_facts(run)), []).append(run.name)
    parts = []
    for facts, names in blocks.items():
        parts.append(element("div", element("h3", ", ".join(names)) if len(runs) > 1 else None, table((), facts)))
    return element("div", *parts[:MOST_ROWS]) if parts else NOTHING


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    facts, machine = run.provenance, mapping(run.provenance.get("hardware"))
    command = facts.get("command")
    git = mapping(facts.get("git"))
    source = f"{git.get('commit')}{', with uncommitted changes' if git.get('dirty') else ''}" if git else None
    memory = number(machine.get("memory_bytes"))
    cores, usable = machine.get("cores"), machine.get("usable_cores")
    gpus = machine.get("gpus")
    yield from (
        (name, cut(value))
        for name, value in (
            ("started", when(facts.get("started"))),
            ("command", " ".join(map(str, command)) if isinstance(command, list) else command),
            ("seed", facts.get("seed")),
            ("source", source),
            ("processor", machine.get("cpu")),
            ("cores", f"{cores}, of which {usable} could be used" if cores != usable and usable else cores),
            ("memory", size(memory) if memory is not None else None),
            ("graphics", ", ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else "none used"),
            ("system", machine.get("system")),
            *((str(name), version) for name, version in mapping(facts.get("versions")).items()),
        )
        if value is not None
    )
