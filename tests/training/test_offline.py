"""Runs that learn from recordings: their folder, exact resume, evaluation, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tau_trainer.algorithms.offline import base as algorithms_offline
from tau_trainer.algorithms.offline.base import Offline
from tau_trainer.bridge.demonstrations import Demonstration, read_demonstrations
from tau_trainer.bridge.package import RECORDED, ImageOrder
from tau_trainer.errors import DataError, SettingsError
from tau_trainer.metrics import RunReport, keys, read_log
from tau_trainer.settings import load_settings
from tau_trainer.training import offline
from tau_trainer.training.api import train
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.offline import RecordingsCollector
from tau_trainer.training.stored import export_run
from tests.algorithms.demonstrations import CARTPOLE, balance, demo_file, played
from tests.training.fakes import newest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    demo = demo_file(tmp_path, played(CARTPOLE, balance, copies=4))
    path = tmp_path / "bc.yaml"
    path.write_text(
        f"""
behaviors:
  CartPole-v1:
    trainer_type: bc
    demo_path: {demo}
    hyperparameters: {{batch_size: 32, learning_rate: 1.0e-3}}
    network_settings: {{hidden_units: 16, normalize: true}}
    max_steps: 400
    checkpoint_interval: 200
    summary_freq: 100
    evaluation_episodes: 2
checkpoint_settings: {{results_dir: {tmp_path / "results"}}}
env_settings: {{seed: 3}}
"""
    )
    return path


def learn(file: Path, run_id: str, **more: Any) -> RunReport:
    overrides = {"checkpoint_settings.run_id": run_id} | {key.replace("__", "."): value for key, value in more.items()}
    return train(load_settings(file, overrides), terminal="quiet")


def warnings_of(report: RunReport) -> list[str]:
    log = read_log(report.folder / "log.jsonl")
    return [one["fields"]["message"] for one in log if one.get("kind") == "warning"]


def cut(file: Path, after: int) -> RunReport:
    """A run that somebody ends after so many gradient steps."""
    learn_on, make, runs = Offline.update, RecordingsCollector.__init__, list[RecordingsCollector]()

    def end(self: Offline, *given: Any) -> dict[str, float]:
        stats: dict[str, float] = learn_on(self, *given)
        if self.steps == after:
            runs[0].run.asked.set()
        return stats

    def noted(self: RecordingsCollector, *given: Any) -> None:
        runs.append(self)
        make(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Offline, "update", end)
        patch.setattr(RecordingsCollector, "__init__", noted)
        return learn(file, "cut")


def test_a_run_leaves_the_folder_of_any_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = {"checkpoint_settings.run_id": "first"}
    session = ParallelTrainerManager().start(load_settings(file, overrides), "learn", terminal="plain")
    report = session.wait()
    assert (report.outcome, report.decisions, report.unit, report.exit_code) == ("completed", 400, "gradient steps", 0)
    assert session.status().unit == "gradient steps"
    printed = "".join(capsys.readouterr())
    assert " Gradient Steps/s: " in printed
    assert "Decisions/s" not in printed
    names = {path.name for path in report.folder.iterdir()}
    assert names >= {"CartPole-v1.onnx", "checkpoints", "configuration.yaml", "log.jsonl", "run.json", "run_logs"}
    assert "learning_curve.png" in names
    assert sorted(path.name for path in (report.folder / "CartPole-v1").glob("*.onnx")) == [
        "CartPole-v1-200.onnx",
        "CartPole-v1-400.onnx",
    ]
    log = (report.folder / "log.jsonl").read_text()
    assert "Validation/Policy Loss" in log
    status = json.loads((report.folder / "run_logs" / "training_status.json").read_text())
    assert [one["steps"] for one in status["CartPole-v1"]["checkpoints"]] == [200, 400]
    best, final = (
        newest(report.folder, "CartPole-v1").manifest["learner"]["best"],
        status["CartPole-v1"]["final_checkpoint"],
    )
    assert (final["steps"], final["reward"]) == (best["decisions"], None), "nobody knows its reward"
    assert report.verdict == (
        f"Exported: the best policy, of gradient step {best['decisions']:,} of 400, with a loss of "
        f"{-best['rank'][1]:.4g} on the set-aside recordings."
    )
    again = learn(report.folder / "configuration.yaml", "again")
    np.testing.assert_equal(newest(again.folder, "CartPole-v1").tensors, newest(report.folder, "CartPole-v1").tensors)


def test_a_resumed_run_is_equal_to_one_that_was_never_interrupted(file: Path) -> None:
    straight = learn(file, "straight")
    # Schedules are constant, so how far it was to go does not matter.
    first = cut(file, after=300)
    assert (first.outcome, first.decisions) == ("cancelled", 300)
    best = newest(first.folder, "CartPole-v1").manifest["learner"]["best"]
    assert best["decisions"] == 300, "a clone becomes better with every step, and ends between two checkpoints"
    resumed = learn(file, "cut", checkpoint_settings__resume=True)
    assert (resumed.outcome, resumed.decisions) == ("completed", 400)
    one, other = newest(straight.folder, "CartPole-v1"), newest(resumed.folder, "CartPole-v1")
    np.testing.assert_equal(one.tensors, other.tensors)
    assert one.manifest["learner"] == other.manifest["learner"]


def test_with_an_environment_the_best_by_its_return_is_exported(file: Path) -> None:
    report = learn(file, "judged", env_settings__env_path="gym:CartPole-v1", env_settings__num_areas=2)
    (behavior,) = report.behaviors
    assert behavior.episodes == 6  # two at the begin and at each of two checkpoints
    assert behavior.mean_reward is not None
    assert 8.0 <= behavior.mean_reward <= 500.0
    best = newest(report.folder, "CartPole-v1").manifest["learner"]["best"]
    assert best["rank"][1] >= behavior.mean_reward
    assert "Environment/Cumulative Reward" in (report.folder / "log.jsonl").read_text()


def test_recordings_are_read_in_the_order_of_the_settings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the run, and by the algorithm that it makes."""
    asked: list[ImageOrder] = []

    def read(paths: Any, spec: Any = None, images: ImageOrder = RECORDED) -> Demonstration:
        asked.append(images)
        if spec is not None:
            raise DataError("that will do")
        return read_demonstrations(paths)

    monkeypatch.setattr(offline, "read_demonstrations", read)
    monkeypatch.setattr(algorithms_offline, "read_demonstrations", read)
    with pytest.raises(DataError, match="that will do"):
        learn(file, "chosen", collection__image_order="channels_last", collection__flat_sensors=["heat"])
    assert asked == [ImageOrder(written_last=True, flat=("heat",))] * 2


def test_an_environment_of_other_agents_is_refused(file: Path) -> None:
    with pytest.raises(SettingsError, match="the run has no policy for behavior 'Pendulum-v1', only for CartPole-v1"):
        learn(file, "judged", env_settings__env_path="gym:Pendulum-v1", **{"behaviors.*.checkpoint_interval": 100})


def test_what_cannot_begin_leaves_nothing_behind(file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no demonstration"):
        learn(file, "first", **{"behaviors.*.demo_path": "gone.demo"})
    (tmp_path / "bad.demo").write_bytes(b"no demonstration at all")
    with pytest.raises(DataError, match="is damaged or invalid"):
        learn(file, "first", **{"behaviors.*.demo_path": str(tmp_path / "bad.demo")})
    assert not (tmp_path / "results").exists()


def test_a_run_begins_with_what_another_has_learned(file: Path) -> None:
    learn(file, "first")
    report = learn(file, "second", checkpoint_settings__initialize_from="first", **{"behaviors.*.max_steps": 1})
    fresh = learn(file, "third", **{"behaviors.*.max_steps": 1})
    name = "model.action.weight"
    one, other = (newest(run.folder, "CartPole-v1").tensors[name] for run in (report, fresh))
    first = newest(report.folder.parent / "first", "CartPole-v1")
    assert np.abs(one - first.tensors[name]).max() < np.abs(one - other).max()


def test_the_name_may_be_the_recordings(file: Path) -> None:
    text = file.read_text().replace("behaviors:\n  CartPole-v1:\n", "default_settings:\n")
    file.write_text(text)
    assert (learn(file, "named").folder / "CartPole-v1.onnx").is_file()


def test_a_behavior_that_never_began_is_not_saved(file: Path) -> None:
    """Behaviors are learned one after the other, and this run is ended while it is at the first; then it goes on."""
    values = yaml.safe_load(file.read_text())
    values["behaviors"] = dict.fromkeys(("A", "B"), values["behaviors"]["CartPole-v1"])
    file.write_text(yaml.safe_dump(values))
    report = cut(file, after=100)
    assert [path.name for path in (report.folder / "checkpoints").iterdir()] == ["A-100"]
    resumed = learn(file, "cut", checkpoint_settings__resume=True)
    assert resumed.decisions == 800
    told = warnings_of(report)
    assert told == ["'B' starts from scratch: the run that is resumed saved nothing of it"]


def test_parameters_alone_may_be_kept(file: Path) -> None:
    report = learn(file, "lean", **{"behaviors.*.save_param_only": True})
    assert not any(name.startswith(("optimizer.", "random.")) for name in newest(report.folder, "CartPole-v1").tensors)
    assert export_run(report.folder)
    more = {"behaviors.*.save_param_only": True, "behaviors.*.max_steps": 500}
    assert learn(file, "lean", checkpoint_settings__resume=True, **more).decisions == 500
    told = warnings_of(report)
    assert len(told) == 1
    assert "has only parameters" in told[0]


def test_the_best_alone_may_be_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the loss on the set-aside recordings: a checkpoint that is no better is skipped, and that is told."""
    losses = iter([2.0, 3.0, 1.0, 1.0])

    def assess(self: Offline) -> dict[str, float]:
        return {keys.held_out(keys.POLICY_LOSS): next(losses)}

    monkeypatch.setattr(Offline, "assess", assess)
    report = learn(file, "best", **{"behaviors.*.save_best_only": True, "behaviors.*.checkpoint_interval": 100})
    assert sorted(path.name for path in (report.folder / "checkpoints").iterdir()) == [
        "CartPole-v1-100",
        "CartPole-v1-300",
    ]
    saved = [one["fields"] for one in read_log(report.folder / "log.jsonl") if one.get("kind") == "checkpoint"]
    assert [one["step"] for one in saved if "no better" in (one.get("message") or "")] == [200, 400]


@pytest.mark.parametrize("failures", [1, 3])
def test_an_update_that_met_nan_is_made_again_and_the_third_in_a_row_ends_the_run(file: Path, failures: int) -> None:
    learn_on, calls = Offline.learn, list[int]()

    def infinite(self: Offline, *given: Any) -> Any:
        calls.append(self.steps)
        numbers = learn_on(self, *given)
        return numbers / 0.0 if self.steps == 100 and calls.count(100) <= 2 * failures else numbers  # two blocks each

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Offline, "learn", infinite)
        report = learn(file, "nan")
    log = list(read_log(report.folder / "log.jsonl"))
    told = [one["fields"] for one in log if one.get("kind") == "warning" and "skipped" in one["fields"]]
    steps = [one["step"] for one in log if one["type"] == "summary"]
    assert len(steps) == len(set(steps)), "what was skipped is not judged again"
    assert [entry["skipped"] for entry in told] == list(range(1, len(told) + 1))
    assert all("an update was skipped and the weights kept: Behavior 'CartPole" in entry["message"] for entry in told)
    if failures == 1:
        assert (report.outcome, report.decisions, len(told)) == ("completed", 400, 1)
    else:
        assert (report.outcome, report.exit_code, len(told)) == ("failed", 2, 3)
        assert "became NaN or infinite in update 2; the weights from before it are kept" in report.errors[0]
