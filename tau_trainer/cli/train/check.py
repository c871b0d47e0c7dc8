"""``tau-train check``: validate a config and show what ``tau-train learn`` would do with the same arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tau_trainer.cli.messages import show_error, show_json, show_lines
from tau_trainer.cli.options import Config, LearnFlags
from tau_trainer.cli.resolving import ConfigArgs, learn_request, space_problems
from tau_trainer.cli.running import prepare
from tau_trainer.console import Console
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.runs.folder import RunFolder
from tau_trainer.settings import (
    Curriculum,
    OfflineTrainerSettings,
    OffPolicyHyperparameters,
    PPOTrainerSettings,
    RunSettings,
    TrainerSettings,
    shared_out,
)
from tau_trainer.settings.gathering import Finding
from tau_trainer.settings.outlook import Outlook, pace, untrainable
from tau_trainer.settings.parameters import AnyParameter, Lesson
from tau_trainer.settings.problems import Problems
from tau_trainer.settings.schedules import described
from tau_trainer.shown import shown
from tau_trainer.training.plan import make_plan, plan_problems

Rows = list[tuple[str, str]]
"""Label and text of each row."""


@dataclass(slots=True)
class CheckReport:
    """The findings."""

    settings: RunSettings | None = None
    """None if the file cannot be read."""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def check(config: Config = None, /, *, flags: LearnFlags = LearnFlags()) -> int:
    """Validate a config and show what it would train.

    Accepts the flags of learn and starts nothing. Shows what would run on which engines, what differs from
    mlagents-learn, keys without effect, and every mistake with its line. Exit code: 0 if it would run, 2 if not.
    """
    prepare(flags.output)
    try:
        report = examine(learn_request(config, flags))
    except SettingsError as error:
        report = CheckReport(problems=list(error.problems))
    if flags.output.json:
        show_json(_plain(report))
    elif flags.output.quiet:
        for problem in report.problems:
            show_error(problem)
    else:
        _show(report)
    return 2 if report.problems else 0


def examine(request: ConfigArgs) -> CheckReport:
    """All findings that need nothing to start. Raises SettingsError if the settings cannot be read."""
    report = CheckReport()
    settings, read = request.read(report.warnings.append)
    outlook = Outlook(settings, read)
    report.settings = settings
    report.problems += _sentences(read, untrainable(settings))
    report.warnings += _sentences(read, outlook.warnings())
    report.without_effect += _sentences(read, outlook.without_effect())
    report.differences += _sentences(read, outlook.differences())
    try:
        report.settings = request.named(settings)
        chosen = report.settings.checkpoint_settings
        folder = Path(chosen.results_dir), chosen.run_id
        if chosen.inference:
            RunFolder.look(*folder)
        else:
            RunFolder.check(*folder, resume=chosen.resume, force=chosen.force)
    except TauError as error:
        report.problems.append(str(error))
    report.problems += [problem for problem in space_problems(request, settings) if problem not in report.problems]
    found = plan_problems(report.settings)
    try:
        plan = make_plan("learn", report.settings, Path())
        report.warnings += plan.warnings
    except TauError as error:
        found = found or [str(error)]
    report.problems += found
    return report


def _sentences(read: Problems, findings: Iterable[Finding]) -> list[str]:
    found = Problems(read.document, read.flags)
    for location, text in findings:
        if location:
            found.add(location, text)
        else:
            found.sentences.append(text)
    return found.sentences


def _plain(report: CheckReport) -> dict[str, Any]:
    settings = report.settings
    findings = {name: getattr(report, name) for name in ("problems", "warnings", "without_effect", "differences")}
    trainers = dict(_trainers(settings)) if settings else {}
    return {
        "runs": not report.problems,
        **findings,
        "learning": {name: pace(trainer) for name, trainer in trainers.items()},
        "settings": settings.model_dump(mode="json") if settings else None,
    }


def _show(report: CheckReport) -> None:
    show_sections(_sections(report))
    count = len(report.problems)
    verdict = f"It would not run: {count} problem{'s' if count > 1 else ''}." if count else "It would run."
    show_lines(["", verdict])


def show_sections(sections: Iterable[tuple[str, Rows]]) -> None:
    """Print sections as two columns on a terminal; otherwise as one line per row, without wrapping."""
    console = Console()
    for title, rows in sections:
        if not console.is_terminal:
            show_lines(["", title, *(f"  {label}: {text}" if label else f"  - {text}" for label, text in rows)])
            continue
        table = Table.grid(padding=(0, 2))
        for label, text in rows:
            table.add_row(Text(f"  {shown(label)}" if label else "  -", style="dim"), Text(shown(text)))
        console.print(Text(f"\n{shown(title)}", style="bold red" if title == "Problems" else "bold"))
        console.print(table)


def _sections(report: CheckReport) -> Iterator[tuple[str, Rows]]:
    if report.settings is not None:
        for name, trainer in _trainers(report.settings):
            yield name, list(_trainer_rows(trainer))
        yield "Run", list(_run_rows(report.settings))
    for title, sentences in (
        ("Different from mlagents-learn", report.differences),
        ("Without effect, or with another effect", report.without_effect),
        ("Warnings", report.warnings),
        ("Problems", report.problems),
    ):
        if sentences:
            yield title, [("", sentence) for sentence in sentences]


def _trainers(settings: RunSettings) -> Iterator[tuple[str, TrainerSettings]]:
    found = dict[str, TrainerSettings](settings.behaviors)
    other = settings.default_settings or (None if settings.behaviors else PPOTrainerSettings())
    if other is not None:
        found["any other behavior" if settings.behaviors else "every behavior"] = other
    for name, trainer in found.items():
        yield name, shared_out(trainer, settings.devices) if settings.strategy == "parameter_server" else trainer


def _trainer_rows(trainer: TrainerSettings) -> Iterator[tuple[str, str]]:
    hyper, network, facts = trainer.hyperparameters, trainer.network_settings, pace(trainer)
    many = f"{trainer.max_steps:,} decisions, trajectories of {trainer.time_horizon:,}"
    if isinstance(trainer, OfflineTrainerSettings):
        many = f"{trainer.max_steps:,} gradient steps from {trainer.demo_path}"
    elif hyper.replays:
        many = f"{trainer.max_steps:,} decisions"
    yield "trainer", f"{trainer.trainer_type}, {many}"
    layers = f"{network.num_layers} x {network.hidden_units:,} hidden units"
    extras = {
        "normalized vectors": network.normalize,
        f"image encoder {network.vis_encode_type}": network.vis_encode_type != "simple",
        f"memory of {network.memory.memory_size if network.memory else 0}": network.memory,
        f"{network.action_levels} levels per action": network.action_levels,
        "deterministic": network.deterministic,
    }
    yield "network", ", ".join([layers, *(text for text, given in extras.items() if given)])
    signals = trainer.reward_signals.items()
    yield (
        "rewards",
        ", ".join(f"{name} (gamma {signal.gamma:g}, strength {signal.strength:g})" for name, signal in signals),
    )
    buffer = hyper.buffer_size or getattr(hyper, "rollout_size", 0)  # a2c has no fixed size
    yield "memory", f"buffer_size {buffer:,}, batch_size {hyper.batch_size:,}"
    if facts:
        new = facts.get("new_decisions_per_update")
        each = f", one for every {new:,} new decisions" if new else ""
        each = f" to {facts['most_updates']:,}, as time allows" if "most_updates" in facts else each
        yield "updates", f"{facts['updates']:,}{each}, of {facts['minibatches_per_update']:,} minibatches each"
    if isinstance(hyper, OffPolicyHyperparameters) and hyper.auto:
        every = f"steps_per_update: {hyper.decisions_per_step[1]:g}"
        yield "again", f"steps_per_update: auto depends on timing; for a reproducible run, set {every} and a seed"
    scheduled = [name.removesuffix("_schedule") for name in type(hyper).model_fields if name.endswith("_schedule")]
    values = [f"{name} {described(getattr(hyper, name), getattr(hyper, f'{name}_schedule'))}" for name in scheduled]
    yield "schedules", ", ".join(values)
    kept = f"the newest {trainer.keep_checkpoints}" if trainer.keep_checkpoints > 0 else "all"
    summary, checkpoint = trainer.summary_every(trainer.max_steps), trainer.checkpoint_every
    better = " if it is better" if trainer.save_best_only else ""
    alone = ", parameters only" if trainer.save_param_only else ""
    writes = f"a summary every {summary:,}, a checkpoint every {checkpoint:,} decisions{better}{alone}"
    yield "writes", f"{writes}; {kept} are kept"
    if trainer.criterion is not None:
        yield "ends", f"once {trainer.trial_count:,} episodes have a mean reward of {trainer.criterion:g}"


def _run_rows(settings: RunSettings) -> Iterator[tuple[str, str]]:
    env, engine, chosen = settings.env_settings, settings.engine_settings, settings.checkpoint_settings
    offline = any(isinstance(trainer, OfflineTrainerSettings) for _, trainer in _trainers(settings))
    actors = settings.async_trainer.actors if settings.execution == "async" and not chosen.inference else None
    where = "" if settings.cluster is None else f" on cluster {settings.cluster.address}"
    if where and "actors" not in settings.async_trainer.model_fields_set:
        where = f" or more, as many as fit{where}"
    count = f"{actors} actors{where}, each" if actors else f"{env.num_envs} x"
    plays = "the editor, when Play is pressed"
    if env.attached:
        plays = f"engines that connect, at most {env.engines:,}"
    elif env.place is not None:
        plays = f"{env.env_path}, to evaluate" if offline else f"{count} {env.env_path}"
    yield "plays", "nothing: it learns from recordings" if offline and env.env_path is None else plays
    yield "areas", f"{env.num_areas} in each, seed {env.seed if env.seed >= 0 else 'random'}"
    yield (
        "engine",
        f"time_scale {engine.time_scale:g}, {engine.width} x {engine.height}, quality {engine.quality_level}",
    )
    for name, value in (settings.environment_parameters or {}).items():
        yield name, _parameter(value)
    beginning = (
        "plays" if chosen.inference else "resumes" if chosen.resume else "replaces" if chosen.force else "creates"
    )
    yield "results", f"{beginning} {Path(chosen.results_dir, chosen.run_id)}"
    learns = settings.device
    if settings.devices > 1:
        served = f"a parameter server, staleness at most {settings.staleness_bound}"
        learns += f", {settings.devices} processes: " + ("mirrored" if settings.strategy == "mirrored" else served)
    yield "learns on", learns


def _parameter(value: AnyParameter) -> str:
    if isinstance(value, float | int):
        return f"{value:g}"
    if isinstance(value, Curriculum):
        return "; ".join(map(_lesson, value.curriculum))
    drawn = value.sampler_parameters.model_dump(exclude={"seed"}, mode="json")
    return " ".join([value.sampler_type, *(f"{name} {number}" for name, number in drawn.items())])


def _lesson(lesson: Lesson) -> str:
    end = lesson.completion_criteria
    until = f" until {end.measure} of {end.behavior} is above {end.threshold:g}" if end is not None else ""
    return f"{lesson.name}: {_parameter(lesson.value)}{until}"
