"""``tau-train sweep``: run many trials with different settings on a Ray cluster, and stop weak ones early."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau_trainer.cli.flags import overrides_of
from tau_trainer.cli.messages import show_json, show_lines, show_status
from tau_trainer.cli.options import Config, LearnFlags, SweepFlags, TrialFlags
from tau_trainer.cli.progress import ProgressBar, stoppable
from tau_trainer.cli.running import check_least, prepare
from tau_trainer.cli.train.find import show_table
from tau_trainer.errors import SettingsError, TauError

if TYPE_CHECKING:
    from tau_trainer.cli.resolving import ConfigArgs
    from tau_trainer.search.member import TrialReport
    from tau_trainer.search.sweep_record import SweepRecord


def sweep_command(
    config: Config = None, /, *, given: SweepFlags = SweepFlags(), trial: TrialFlags = TrialFlags()
) -> int:
    """Hyperparameter sweep: run many trials, stop weak ones early.

    The sweep section of the file names the settings to search and a scheduler of Ray Tune: successive halving,
    population-based training, or none. Trials are runs in results/sweep-NAME; the best settings are written there too.
    Ctrl-C saves the trials. Resume with --resume, even after the process was killed.
    """
    from tau_trainer.search.sweep_record import SweepRecord

    prepare(trial.output)
    check_least(1, jobs=given.jobs)
    _check_installed()
    if given.resume:
        found = SweepRecord(given.output or _newest(_name(config), _request(config, given, trial)))
        if found.complete:
            raise SettingsError(f"the sweep in '{found.folder}' is complete; start a new one without --resume")
    else:
        from tau_trainer.search.results import check_folder, results_folder

        check_folder(given.output)
        settings = _settings(_request(config, given, trial))
        folder = results_folder(_name(config), Path(settings.checkpoint_settings.results_dir), given.output)
        found = SweepRecord.begin(folder, settings)
    try:
        _run(found, given, silent=trial.output.quiet or trial.output.json)
    except BaseException:
        if not (given.resume or found.trials):
            shutil.rmtree(found.folder, ignore_errors=True)
        raise
    return _finish(found, trial)


def _check_installed() -> None:
    """Raises SettingsError."""
    missing = [name for name in ("ray", "pandas", "pyarrow", "tensorboardX") if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"tau-train sweep needs Ray Tune, and {missing[0]} is missing; install it with: "
            "pip install 'tau-trainer[sweep]'"
        )


def _name(config: str | None) -> str:
    return f"sweep-{Path(config or 'ppo').stem}"


def _newest(name: str, request: ConfigArgs) -> Path:
    from tau_trainer.runs.folder import numbered

    results = Path(request.load().checkpoint_settings.results_dir)
    there = numbered(results, name)
    return results / (there[-1][1] if there else name)


def _request(config: str | None, given: SweepFlags, trial: TrialFlags) -> ConfigArgs:
    """The request of the command line: like `learn`, or like `parallel` if the file has pairs."""
    from tau_trainer.cli.resolving import learn_request

    request = learn_request(config, LearnFlags(run=given.of_run(given.set), **vars(trial)))
    overrides, flags = overrides_of(given)
    request.overrides |= overrides
    request.flags |= flags
    return request


def _settings(request: ConfigArgs) -> Any:
    """Settings of the sweep; the extreme values of its space must be trainable. Raises SettingsError."""
    from tau_trainer.cli.resolving import DEFAULT_ENV, learn_settings, space_problems
    from tau_trainer.search.member import sweep_of
    from tau_trainer.settings.document import Document
    from tau_trainer.settings.problems import Problems
    from tau_trainer.training.elsewhere import playable

    settings = learn_settings(request)
    if settings.tau is not None and settings.env_settings.env_path is None:
        request.overrides["env_settings.env_path"] = DEFAULT_ENV
        settings = learn_settings(request)
    sweep_of(settings)
    settings = playable(settings)
    Problems(Document("", {}), sentences=space_problems(request, settings)).raise_if_any()
    return settings


def _run(found: SweepRecord, given: SweepFlags, *, silent: bool) -> None:
    """Run the sweep; the first Ctrl-C saves and stops, the second quits at once."""
    from tau_trainer.training.elsewhere import build_of, connected

    most = max(trainer.max_steps for trainer in found.settings.trainers)
    begun = False

    def stop() -> None:
        if not begun:
            raise KeyboardInterrupt
        tuning.interrupt()

    def say(sentence: str) -> None:
        if not silent:
            show_status(f"{found.folder}: {sentence}")

    def hear(name: str, values: Mapping[str, Any], report: TrialReport) -> None:
        value = f"{found.asked.metric} {report.value(found.asked.metric):.4g}"
        progress.tell(name, report.decisions / most, report.error or value)

    with (
        stoppable(stop, "trials are saved, continue with --resume"),
        ProgressBar(silent=silent, after_s=0.0) as progress,
        connected(found.asked.cluster, say) as connection,
    ):
        connection.check(build_of(found.settings))
        from tau_trainer.search import tuning

        say(f"{found.asked.trials} trials ({found.asked.scheduler}) on {connection.described}")
        begun = True
        tuning.run_trials(found, connection, hear, jobs=given.jobs, resume=given.resume)


def _finish(found: SweepRecord, trial: TrialFlags) -> int:
    """Write and show the results; returns the exit code."""
    from tau_trainer.search.member import STATE

    if found.trials and all(tried.report.error is not None for tried in found.trials.values()):
        raise TauError(f"every trial failed, the first with: {next(iter(found.trials.values())).report.error}")
    files, shown = found.write(), trial.output
    if found.complete:
        shutil.rmtree(found.folder / STATE, ignore_errors=True)
    if shown.json:
        show_json({**found.to_dict(), "files": [str(file) for file in files]})
    elif not shown.quiet:
        show_table(found.table())
        show_lines(["", *sentences(found), *(f"written: {file}" for file in files)])
    return 0


def sentences(found: SweepRecord) -> list[str]:
    """The result in sentences."""
    said = []
    if found.best is None:
        said.append(f"No trial is best: none has a {found.asked.metric} yet.")
    else:
        metric = "mean reward" if found.asked.metric == "reward" else "accuracy"
        command = "learn" if found.settings.tau is None else "parallel"
        said.append(
            f"Best by {metric}: {found.best.name}; to train with its settings, run: "
            f"tau-train {command} {found.folder / 'best.yaml'}"
        )
    if not found.complete:
        said.append("The sweep is not complete; continue it with --resume.")
    return said
