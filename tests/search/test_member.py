"""A run that stops at each report: what it tells, where it goes on from, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.bridge.protocol import BASE_PORT
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.search.member import BASE, Member, TrialReport, interval_of, sweep_of, trial_settings
from tau_trainer.settings import RunSettings, dump_settings, load_settings
from tests.search.conftest import quick

SPACE = {"hyperparameters.learning_rate": {"loguniform": [1e-5, 1e-2]}}
RATE = "hyperparameters.learning_rate"
Make = Callable[..., Member]


def swept(**given: Any) -> RunSettings:
    given = {"interval": 250, "space": SPACE} | given
    changes: dict[str, Any] = {f"sweep__{name}": value for name, value in given.items()}
    return quick(**{"behaviors__*__max_steps": 900} | changes)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Member] = []

    def member(name: str = "trial-1", rate: float = 1e-3, **given: Any) -> Member:
        if not (tmp_path / BASE).exists():
            (tmp_path / BASE).write_text(dump_settings(swept(**given)))
        made.append(Member(tmp_path / BASE, name, {RATE: rate}))
        return made[-1]

    yield member
    for one in made:
        one.end()


def all_of(member: Member) -> list[TrialReport]:
    reports = [member.next()]
    while not reports[-1].ended:
        reports.append(member.next())
    return reports


def test_it_reports_and_waits_at_each_interval(make: Make, tmp_path: Path) -> None:
    member = make()
    first = member.next()
    assert 250 <= first.decisions < 400
    assert first.reward is not None
    assert first.reward > 5.0
    assert member._returns == [], "the next report is of the episodes that follow"
    folder = tmp_path / "trial-1"
    before = (folder / "sweep.json").read_bytes()
    assert member._session is not None
    assert not member._session._ended.wait(0.3), "nobody has told it to go on"
    assert (folder / "sweep.json").read_bytes() == before
    rest = all_of(member)
    assert [one.error for one in rest] == [None] * len(rest)
    assert [one.ended for one in rest] == [False] * (len(rest) - 1) + [True]
    assert rest[-1].decisions >= 900
    assert (folder / "CartPole-v1.onnx").is_file()
    written = load_settings(folder / "configuration.yaml")
    assert written.behaviors["CartPole-v1"].hyperparameters.learning_rate == 1e-3
    assert written.sweep is None
    assert make().next() == TrialReport(rest[-1].decisions, rest[-1].reward, None, ended=True), "there is nothing to do"


def test_one_that_was_stopped_goes_on_and_what_was_saved_is_anybodys(make: Make, tmp_path: Path) -> None:
    first = make(scheduler="pbt")
    assert first.next().decisions >= 250
    first.save(tmp_path / "kept")
    first.end()
    resumed = all_of(make())
    assert resumed[0].decisions > 250
    assert resumed[-1].decisions >= 900
    other = make("trial-2", rate=2e-3)
    (tmp_path / "trial-2" / "checkpoints" / "of-its-own").mkdir(parents=True)
    other.load(tmp_path / "kept")
    assert not (tmp_path / "trial-2" / "checkpoints" / "of-its-own").exists(), "it might be newer"
    report = other.next()
    assert 500 <= report.decisions < 900, "not from its beginning"
    written = load_settings(tmp_path / "trial-2" / "configuration.yaml")
    assert written.behaviors["CartPole-v1"].hyperparameters.learning_rate == 2e-3
    assert written.behaviors["CartPole-v1"].checkpoint_interval == 250


def test_what_was_killed_before_it_saved_anything_begins_anew(make: Make, tmp_path: Path) -> None:
    (tmp_path / "trial-1" / "run_logs").mkdir(parents=True)
    assert make().next().decisions >= 250


def test_why_it_cannot_be_run_is_a_report(make: Make) -> None:
    report = make(rate=-1.0).next()
    assert report.ended
    assert report.error is not None
    assert "learning_rate must be above 0" in report.error


def test_accuracy_is_that_of_the_newest_policy_that_was_validated(make: Make) -> None:
    member = make()
    member.on_evaluation_end(EvaluationInfo("Tau", 1, 10, {"Validation/Accuracy": 0.5}))
    member.on_evaluation_end(EvaluationInfo("Tau", 2, 20, {"Validation/Reward": 0.7}))
    report = member.next()
    assert (report.accuracy, report.value("accuracy")) == (0.5, 0.5)
    assert report.value("reward") == report.reward
    assert TrialReport().value("reward") != TrialReport().value("reward"), "NaN"


def test_settings_of_a_trial_are_its_own(tmp_path: Path) -> None:
    base = tmp_path / BASE
    named = swept().env_settings.model_copy(update={"base_port": 6100})
    base.write_text(dump_settings(swept().model_copy(update={"debug": True, "env_settings": named})))
    settings = trial_settings(base, {RATE: 0.5}, tmp_path / "trial-7")
    chosen = settings.checkpoint_settings
    assert (chosen.run_id, chosen.results_dir) == ("trial-7", str(tmp_path))
    assert settings.behaviors["CartPole-v1"].hyperparameters.learning_rate == 0.5
    assert trial_settings(base, {}).checkpoint_settings.run_id != "trial-7"
    assert settings.env_settings.base_port == BASE_PORT, "another trial may have those of the file"
    assert trial_settings(base, {}).env_settings.base_port == 6100


def test_reports_come_with_the_summaries_unless_told_otherwise() -> None:
    assert interval_of(swept()) == 250
    assert interval_of(swept(interval=None)) == 10_000


def test_what_cannot_be_swept() -> None:
    with pytest.raises(SettingsError, match=r"^there is no section sweep in these settings; add sweep.space"):
        sweep_of(quick())
    with pytest.raises(SettingsError, match=r"^a sweep starts its environments itself"):
        sweep_of(load_settings("3DBall", {"sweep.space": SPACE}))
    with pytest.raises(SettingsError, match=r"^sweep.metric accuracy needs the Tau task"):
        sweep_of(swept(metric="accuracy"))
    with pytest.raises(SettingsError, match=r"^each trial runs on one machine; set sweep.cluster"):
        sweep_of(quick(cluster__address="local", sweep__space=SPACE))


def test_a_machine_that_does_not_see_the_sweep_says_so(tmp_path: Path) -> None:
    with pytest.raises(TauError, match=r"sweep.yaml: is not on this machine; choose --output, or --results-dir, on"):
        Member(tmp_path / BASE, "trial-1", {})
