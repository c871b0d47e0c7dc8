"""A run from its first decision to its report. Read this first."""

from __future__ import annotations

from dataclasses import replace

from tau_trainer.metrics import RunReport
from tau_trainer.training.finish import (
    draw_curve,
    evaluate_policies,
    export_policies,
    make_report,
    save,
    tell_of_models,
    write_evaluation,
)
from tau_trainer.training.run import TrainingRun
from tau_trainer.training.run_folder import RunFolder


def _played(run: TrainingRun, folder: RunFolder) -> RunReport:
    """A saved run was played: nothing to save. Raises TauError where nothing could be."""
    if run.first_error is not None and not run.decisions:
        raise run.first_error
    report = replace(make_report(run, folder, [], None, [], run.hub.losses), files={})
    run.hub.snapshot(run.snapshot())
    run.hub.result(report)
    run.hub.drain(10.0)
    return report


async def run_to_end(run: TrainingRun, folder: RunFolder) -> RunReport:
    """Train, save, evaluate, export, report.

    Where nothing was learned the folder is still to be discarded: after an error, and where the report is of a run
    that is not completed.

    Raises:
        TauError: nothing could be trained.
    """
    run.callbacks.begin()
    run.announce()
    run.callbacks.tell("on_train_begin", run.told())
    # Pairs play side by side and hand their experience to learners, which learn beside them, until all are done.
    await run.collect_and_learn()
    if run.plan.inference:
        return _played(run, folder)
    if run.nothing_learned:
        if run.first_error is not None:
            raise run.first_error
        report = make_report(run, folder, [], None, [], run.hub.losses)
        if report.outcome != "completed":  # ended early: there is nothing worth keeping, and nothing to replace
            run.hub.warning("the run ended before anything was learned, so nothing is kept")
            report = replace(report, files={})
            run.hub.result(report)
            run.hub.drain(10.0)
            return report
    folder.commit()  # from here on this run replaces what it was told to replace

    unsaved = await save(run)
    candidates = await evaluate_policies(run)
    models, unexported = await export_policies(run, folder, candidates)
    await tell_of_models(run, folder, candidates)
    evaluation, unwritten = write_evaluation(run, folder, candidates)
    run.hub.snapshot(run.snapshot())
    draw_curve(run, folder)
    lost = [*unsaved, *unexported, *unwritten, *run.hub.losses]
    report = make_report(run, folder, candidates, evaluation, models, lost)
    error = run.error
    run.callbacks.tell("on_train_end", run.told(report))
    if run.error is not error:  # it failed just now
        report = make_report(run, folder, candidates, evaluation, models, lost)
    run.hub.result(report)
    run.hub.drain(10.0)
    return report
