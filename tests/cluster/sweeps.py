"""Sweeps, whose trials Ray Tune runs on nodes. Collected by test_connection.py, which has the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tau_trainer.cluster.connection import Cluster
from tau_trainer.errors import SettingsError
from tau_trainer.search import AgentFinder
from tau_trainer.search.member import TrialReport
from tau_trainer.search.sweep_record import SweepRecord
from tau_trainer.settings import Distribution, RunSettings
from tests.search.conftest import quick

RATE = "hyperparameters.learning_rate"
STEPS, INTERVAL = 1600, 400


def swept(**given: Any) -> RunSettings:
    space = {RATE: {"loguniform": [1e-4, 1e-2]}}
    given = {"space": space, "interval": INTERVAL, "trials": 2} | given
    changes: Any = {f"sweep__{name}": value for name, value in given.items()}
    return quick(**{"behaviors__*__max_steps": STEPS, "env_settings__seed": 1} | changes)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_population_exploits_its_best_is_stopped_and_goes_on(connection: Cluster, tmp_path: Path) -> None:
    """Stopped by what Ctrl-C does. Trials have checkpoints of each other, and other values from there on."""
    from tau_trainer.search import tuning

    begun = SweepRecord.begin(tmp_path, swept(scheduler="pbt", quantile=0.5, synch=True))
    told: list[tuple[str, float, TrialReport]] = []

    def tell(name: str, values: Mapping[str, Any], report: TrialReport) -> None:
        told.append((name, values[RATE], report))
        if len(told) == 3:
            tuning.interrupt()

    tuning.run_trials(begun, connection, tell)
    assert not begun.complete
    assert {trial.report.error for trial in begun.trials.values()} == {None}
    before = len(told)
    goes_on = SweepRecord(tmp_path)
    tuning.run_trials(goes_on, connection, tell, resume=True)
    assert goes_on.complete
    assert {trial.ending for trial in goes_on.trials.values()} == {"finished"}
    assert {trial.report.decisions >= STEPS for trial in goes_on.trials.values()} == {True}
    assert min(report.decisions for _, _, report in told[before:]) > INTERVAL, "nobody began anew"
    first = {name: rate for name, rate, _ in reversed(told)}
    assert sorted(first) == ["trial-1", "trial-2"]
    changed = [(rate, first[name]) for name, rate, _ in told if rate != first[name]]
    assert changed, "who was behind went on from who was ahead, with another rate"
    assert all(1e-4 <= rate <= 1e-2 for rate, _ in changed)
    assert (tmp_path / "trial-2" / "CartPole-v1.onnx").is_file()


def test_who_is_behind_is_stopped_and_what_fails_stops_nobody(connection: Cluster, tmp_path: Path) -> None:
    """Of three rates two are beyond all reason: those trials end by NaN, or are behind."""
    from tau_trainer.search import tuning

    space = {RATE: {"loguniform": [1e-6, 1e10]}}
    sweep = SweepRecord.begin(tmp_path, swept(trials=3, space=space, grace=INTERVAL, reduction_factor=2))
    tuning.run_trials(sweep, connection, jobs=1)
    assert sweep.complete
    assert sorted(sweep.trials) == ["trial-1", "trial-2", "trial-3"]
    assert {trial.ending for trial in sweep.ranked() if trial.values[RATE] > 1e6} <= {"failed", "stopped"}
    assert sweep.best is not None
    assert sweep.best.values[RATE] < 1e-2
    assert sweep.best.ending == "finished"


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [
        ({"uniform": [1, 2]}, 1, 2),
        ({"loguniform": [1e-5, 1e-3]}, 1e-5, 1e-3),
        ({"quniform": [1, 2, 0.5]}, 1, 2),
        ({"randint": [1, 4]}, 1, 3),
        ({"lograndint": [1, 4]}, 1, 3),
        ({"qrandint": [32, 96, 32]}, 32, 96),
        ({"choice": [1, 5]}, 1, 5),
    ],
)
def test_distributions_are_ray_tunes(connection: Cluster, given: Any, least: float, most: float) -> None:
    from tau_trainer.search import tuning

    distribution = Distribution.model_validate(given)
    drawn = [tuning.plain({"x": tuning.domain(distribution).sample()})["x"] for _ in range(200)]
    assert all(least <= value <= most for value in drawn)
    assert len(set(drawn)) > 1
    assert {type(value) for value in drawn} <= {int, float}
    ends = distribution.extremes
    assert (min(ends), max(ends)) == (least, most)
    if distribution.kind in ("randint", "lograndint", "qrandint", "choice"):
        assert {min(drawn), max(drawn)} == set(ends)


def test_schedulers_judge_by_decisions(connection: Cluster) -> None:
    from tau_trainer.search import tuning

    asha = tuning._scheduler(swept(scheduler="asha"))
    assert (asha._time_attr, asha._max_t, asha._reduction_factor) == ("decisions", STEPS, 4)
    [bracket] = asha._brackets
    assert min(milestone for milestone, _ in bracket._rungs) == INTERVAL, "at least one interval"
    assert type(tuning._scheduler(swept(scheduler="none"))).__name__ == "FIFOScheduler"
    pbt = tuning._scheduler(swept(scheduler="pbt"))
    assert (pbt._time_attr, pbt._perturbation_interval, pbt._quantile_fraction) == ("decisions", INTERVAL, 0.25)
    assert pbt._custom_explore_fn({RATE: 5.0, "other": 7}) == {RATE: 1e-2, "other": 7}


def test_a_report_that_cannot_be_kept_ends_it_in_its_own_words(
    connection: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune makes an error of its own, with a traceback as its text, of whatever a listener raises."""
    from ray.tune.error import TuneError

    from tau_trainer.search import tuning

    def fit() -> None:
        try:
            raise SettingsError("the disk is full")
        except SettingsError:
            raise TuneError("Traceback")  # noqa: B904

    monkeypatch.setattr(tuning, "_tuner", lambda *_: SimpleNamespace(fit=fit))
    with pytest.raises(SettingsError, match="the disk is full"):
        tuning.run_trials(SweepRecord.begin(tmp_path, swept()), connection)


def test_who_died_too_often_says_of_what(connection: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tau_trainer.search import tuning

    class Trial:
        def __init__(self) -> None:
            self.config = {RATE: 1e-3}

        def __str__(self) -> str:
            return "trial-1"

        def get_error(self) -> str:
            return "Failure # 4\nTraceback ...\nTauError: sweep.yaml: is not on this machine\n"

    sweep = SweepRecord.begin(tmp_path, swept())
    monkeypatch.setattr(tuning, "_listening", [(sweep, lambda *_: None)])
    tuning._Listener().on_trial_error(1, [], Trial())
    [trial] = sweep.trials.values()
    assert trial.report.error == "its process ended 4 times (TauError: sweep.yaml: is not on this machine)"
    assert trial.over


def test_nobody_is_interrupted_where_nothing_runs(connection: Cluster) -> None:
    from tau_trainer.search import tuning

    with pytest.raises(KeyboardInterrupt):
        tuning.interrupt()


def test_trials_of_find_run_on_nodes_as_they_do_here(connection: Cluster) -> None:
    """The same episodes; a trial that cannot be run costs itself."""
    fast = quick("CartPole", learning_rate=3e-3)
    broken = fast.model_copy(update={"env_settings": fast.env_settings.model_copy(update={"env_path": "gym:No-v0"})})
    candidates = {"broken": broken, "slow": quick("CartPole", learning_rate=1e-5), "fast": fast}
    found = AgentFinder(candidates).find(decisions=512, jobs=3, place=connection.place(0, 0))
    here = AgentFinder(candidates).find(decisions=512, jobs=1)
    assert [(trial.name, trial.outcome) for trial in found.tried] == [
        (trial.name, trial.outcome) for trial in here.tried
    ]
    best, _, last = found.tried
    assert len(best.outcome.rewards) > 5
    assert last.name == "broken"
    assert "No-v0" in str(last.error)
