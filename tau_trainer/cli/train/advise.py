"""``tau-train advise``: measure a game for a minute; recommend an algorithm, a number of engines and a duration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tau_trainer.cli.flags import output_to
from tau_trainer.cli.messages import show_json, show_lines
from tau_trainer.cli.options import SEARCH, LearnFlags, RunFlags, Set, TrialFlags
from tau_trainer.cli.running import check_seconds, prepare, told, writable
from tau_trainer.cli.train.check import Rows, show_sections
from tau_trainer.cli.train.find import watched
from tau_trainer.errors import SettingsError
from tau_trainer.metrics.format import format_milliseconds
from tau_trainer.settings import OfflineTrainerSettings
from tau_trainer.settings.loading import apply_overrides, read_file
from tau_trainer.settings.upgrading import dumped
from tau_trainer.training.advice import HEADING, LEAST_STEPS, rewritten, trainers_of

if TYPE_CHECKING:
    from tau_trainer.cli.resolving import ConfigArgs
    from tau_trainer.search.advice import Advice, Measured
    from tau_trainer.search.scaling import Scaling
    from tau_trainer.settings import RunSettings


def advise(
    config: Annotated[str, Parameter(help="ML-Agents YAML file, or the name of a shipped one.")],
    /,
    *,
    seconds: Annotated[
        float, Parameter(group=SEARCH, help="Seconds of play and learning to measure. [default: 60]", metavar="S")
    ] = 60.0,
    to: Annotated[Path | None, output_to("File to write. [default: print it]"), Parameter(group=SEARCH)] = None,
    overwrite: Annotated[bool, Parameter(name="--force", help="Overwrite the file.", group=SEARCH)] = False,
    assignments: Annotated[Set, Parameter(name="--set", group=SEARCH)] = (),
    trial: TrialFlags = TrialFlags(),
) -> int:
    """Measure a game and recommend an algorithm and a number of engines.

    Plays and learns for a minute to measure the time of a game step, the time of a gradient step on this machine, and
    whether more engines or a higher time scale help. Prints the recommended settings file, or writes it to --output. A
    minute is too short to measure how many decisions the task needs. If you press Ctrl-C, the results so far are kept.
    """
    from tau_trainer.cli.resolving import learn_request, learn_settings
    from tau_trainer.files import atomic_write_text
    from tau_trainer.search.advice import Adviser, candidates_of

    output = trial.output
    prepare(output)
    check_seconds(seconds)
    if to is not None:
        writable(to, overwrite)
    request = learn_request(config, LearnFlags(run=RunFlags(set=assignments), **vars(trial)))
    settings = learn_settings(request)
    _check(config, settings)
    data = _data(request)
    candidates, refused = candidates_of(data, settings, config)
    # With the editor, the user must see when to press Play, even if --quiet or --json is given.
    say = told(output, always=settings.env_settings.awaited)
    adviser = Adviser(settings, candidates, refused, seconds, say)
    measured = watched(lambda progress: adviser.run(progress.tell), adviser.stop, output)
    advice = adviser.advice()
    text = dumped(rewritten(data, settings, advice.trainer, _changes(settings, advice)), HEADING.format(config))
    if to is not None:
        atomic_write_text(to, text)
    if output.json:
        show_json(
            {**asdict(advice), "measured": asdict(measured), "file": None if to is None else str(to), "yaml": text}
        )
    elif not output.quiet:
        show_sections(_sections(settings, measured, advice))
        show_lines(["", *([f"{to} is written; train with it: tau-train learn {to}"] if to else text.splitlines())])
    return 0


def _check(config: str, settings: RunSettings) -> None:
    """Raises SettingsError if there is nothing to advise on."""
    trainers = trainers_of(settings)
    if not trainers:
        raise SettingsError(f"{config}: has no behaviors, so there is nothing to advise on; add `behaviors:`")
    if any(isinstance(trainer, OfflineTrainerSettings) for trainer in trainers):
        raise SettingsError(f"{config}: learns only from recordings, so there is no game to measure; use `learn`")
    if settings.cluster is not None:
        raise SettingsError("advise measures the game on this machine; leave cluster (--cluster) out")


def _data(request: ConfigArgs) -> dict[str, Any]:
    """The file's content with the flags applied; numbers, which flags hold as texts, become numbers."""
    assert request.config is not None
    data, _ = apply_overrides(
        read_file(request.config).data, {key: _value(given) for key, given in request.overrides.items()}
    )
    return data


def _value(given: Any) -> Any:
    import yaml

    if isinstance(given, tuple):
        return list(given)
    read = yaml.safe_load(given) if isinstance(given, str) else given
    return read if isinstance(read, int | float) else given


def _changes(settings: RunSettings, advice: Advice) -> dict[str, Any]:
    """The settings that the advice changes, except the algorithm, by dotted key."""
    from tau_trainer.search.advice import engines_of

    changes: dict[str, Any] = {}
    if advice.engines != engines_of(settings):
        changes["env_settings.num_envs"] = advice.engines
        changes |= {"async_trainer.actors": advice.engines} if settings.execution == "async" else {}
    if advice.areas != settings.env_settings.num_areas:
        changes["env_settings.num_areas"] = advice.areas
    return changes


def _sections(settings: RunSettings, measured: Measured, advice: Advice) -> Iterator[tuple[str, Rows]]:
    """Sections of the output: the measurements, and the advice."""
    yield "The game", list(_game_rows(settings, measured))
    yield "A gradient step", list(_cost_rows(measured, advice))
    yield "Advice", list(_advice_rows(settings, advice))


def _game_rows(settings: RunSettings, measured: Measured) -> Iterator[tuple[str, str]]:
    from tau_trainer.search.advice import GAIN

    game, env = measured.game, settings.env_settings
    many = f"{game.engines} x " if game.engines > 1 else ""
    yield "plays", f"{many}{env.env_path or 'the editor'}, {game.agents:,.3g} decisions in each exchange"
    yield "speed", f"{format_milliseconds(game.exchange_s)} an exchange, {game.rate:,.0f} decisions a second"
    if env.awaited:
        yield (
            "engines",
            "not started by this command, so more engines and time scales were not tried; use a build (--env)",
        )
        return
    yield "engines", _tried(measured.engines, game.rate, game.engines, "more were not tried")
    yield (
        "areas",
        _tried(measured.areas, game.rate, env.num_areas, "the game does not support them, or more were not tried"),
    )
    if measured.quicker is not None:
        helps = measured.quicker >= 1.0 + GAIN
        look = f"; check that it plays right with --time-scale {measured.time_scale:g}" if helps else ", no help"
        yield "time scale", f"{measured.time_scale:g} is {measured.quicker:.2f} times as fast{look}"


def _tried(tried: Scaling | None, rate: float, first: int, otherwise: str) -> str:
    """The speed of the other sizes, relative to the first."""
    if tried is None:
        return otherwise
    others = [probe for probe in tried.curve if probe.size != first and not probe.failure]
    return "times as fast: " + ", ".join(f"{probe.rate / rate:.2f} with {probe.size}" for probe in others)


def _cost_rows(measured: Measured, advice: Advice) -> Iterator[tuple[str, str]]:
    from tau_trainer.search.advice import FILE

    for name, costs in measured.costs.items():
        several = ", ".join(f"{format_milliseconds(cost)} ({behavior})" for behavior, cost in costs.items())
        yield "as in the file" if name == FILE else name, several
    for name, why in measured.refused.items():
        yield name, why
    if advice.room is not None:
        text = f"{advice.room:.2g} a decision fit into the time of the game; {LEAST_STEPS:g} are enough"
        yield "room", text


def _advice_rows(settings: RunSettings, advice: Advice) -> Iterator[tuple[str, str]]:
    kinds = sorted({trainer.trainer_type for trainer in trainers_of(settings)})
    yield "algorithm", f"{advice.trainer or ', '.join(kinds)}: {advice.why}"
    yield "engines", f"{advice.engines}, with {advice.areas} area{'s' if advice.areas > 1 else ''} each"
    if advice.hours is not None:
        then = "" if advice.hours_of_file is None else f"; as the file is, {_hours(advice.hours_of_file)}"
        yield "time", f"{_hours(advice.hours)} for max_steps, if all are needed{then}"


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1.0 else f"{60 * hours:.1f} minutes"
