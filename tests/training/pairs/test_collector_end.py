from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tau_trainer.errors import ExportError, NonFiniteError, TauError
from tau_trainer.evaluation.candidates import Candidate, make_candidate
from tau_trainer.files import STAGED_SUFFIX
from tau_trainer.memory import Work
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.runs import run
from tau_trainer.settings import RunSettings, load_settings
from tau_trainer.specs import StepBatch, empty_terminals
from tau_trainer.tau.evaluation import TauEvaluation
from tau_trainer.tau.task import TauTask
from tau_trainer.training.learning.handles import LocalLearner
from tau_trainer.training.learning.policy_tracker import PolicyTracker
from tau_trainer.training.pairs import collector
from tau_trainer.training.stored import export_run
from tests.training.fakes import Memory, SceneEngine, Stage, begin, settings_from, tau_settings, train
from tests.waiting import HANG_S

SCORES = {"reward", "accuracy"}
STANDING = {"verdict", "p_value", "won", "lost"}


@pytest.mark.usefixtures("drawn")
def test_what_a_run_leaves(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    settings = tau_settings(tmp_path)
    report = train(settings, memory)
    names = {path.name for path in report.folder.iterdir()}
    assert names == {
        "configuration.yaml", "run.json", "log.jsonl", "checkpoints", "TauAgent.onnx", "evaluation.json",
        "learning_curve.png", "TauAgent", "run_logs",
    }  # fmt: skip
    assert [path.name for path in (report.folder / "TauAgent").iterdir()] == [f"TauAgent-{report.decisions}.onnx"]
    assert load_settings(report.folder / "configuration.yaml") == settings
    about = json.loads((report.folder / "run.json").read_text())
    assert about["seed"] == 7
    assert {"command", "versions", "git", "hardware", "started"} <= about.keys()
    assert (report.folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    evaluation = json.loads((report.folder / "evaluation.json").read_text())
    assert evaluation == json.loads(json.dumps(report.evaluation))
    assert {"accuracy", "accuracy_train", "reward", "decisions_per_second", "wall_seconds"} <= evaluation.keys()
    assert (evaluation["rows"], evaluation["rows_validation"]) == (99, 99)
    assert evaluation["exported"] == "best"
    for which in ("best", "last"):
        assert evaluation["policies"][which].keys() == {
            "decisions", "validation_accuracy", "validation_reward", *SCORES
        }  # fmt: skip
    baselines = ["zeros", "constant", "majority", "ridge", "nearest", "logistic"]
    assert list(evaluation["baselines"]) == baselines
    assert all(scores.keys() == SCORES | STANDING for scores in evaluation["baselines"].values())
    assert (evaluation["decisions"], evaluation["policy"]) == (400, "TauAgent")
    assert {pair: values["decisions"] for pair, values in evaluation["pairs"].items()} == {"0": 200, "1": 200}
    assert report.verdict is not None
    assert "of 99 test answers right" in report.verdict
    assert "Exported: the" in report.verdict
    result = memory.results[0]
    assert (result.outcome, result.decisions, result.command) == ("completed", 400, "parallel")
    assert result.score("accuracy") is not None
    assert list(result.baselines) == baselines
    assert set(result.files) == {"policy", "evaluation", "curve", "checkpoints", "log"}
    assert all(path.exists() for path in result.files.values())


def test_the_result_says_where_more_decisions_would_help(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[float] = []

    def rises(accuracies: Sequence[float]) -> bool:
        judged.extend(accuracies)
        return True

    monkeypatch.setattr(collector, "still_rises", rises)
    report = train(tau_settings(tmp_path))
    assert report.verdict is not None
    assert "rose at the end, so more decisions would help: --max-steps 800. Exported: the" in report.verdict
    assert judged
    assert all(0.0 <= accuracy <= 1.0 for accuracy in judged)


def test_independent_policies_are_all_reported_and_the_best_has_the_behaviors_name(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    made: list[Candidate] = []
    evaluate = TauTask.evaluate

    def against(task: TauTask, policy: Policy) -> TauEvaluation:
        """The better by validation, the fewer right among the test rows: these must choose nothing."""
        return replace(evaluate(task, policy), accuracy=1.0 - task.quick_scores(policy)[keys.VALIDATION_ACCURACY])

    def noted(*given: Any) -> Candidate:
        made.append(make_candidate(*given))
        return made[-1]

    monkeypatch.setattr(TauTask, "evaluate", against)
    monkeypatch.setattr(collector, "make_candidate", noted)
    report = train(tau_settings(tmp_path, tau__policy="independent", tau__pairs=3), memory)
    files = [f"TauAgent-pair{pair}.onnx" for pair in range(3)]
    assert [path.name for path in report.models] == ["TauAgent.onnx", *files]
    assert report.evaluation is not None
    ranks = {one.name: one.policies["best"].rank for one in made}
    chosen = max(ranks, key=lambda name: ranks[name])
    assert len(set(ranks.values())) == 3
    assert report.evaluation["policy"] == chosen
    assert report.evaluation["pairs"].keys() == {"0", "1", "2"}
    assert all(pair.validation_accuracy is not None for pair in report.pairs)
    best, *others = (onnx.load(path).SerializeToString() for path in report.models)
    assert [best == one for one in others] == [name == chosen for name in ranks]
    listed = {name: path.name for name, path in memory.results[0].files.items() if "polic" in name}
    assert listed == {f"policy {path.stem}": path.name for path in report.models}, "all of them"
    assert {summary.behavior for summary in memory.summaries} == {f"TauAgent-pair{pair}" for pair in range(3)}


def test_an_interrupted_run_exports_the_best_of_all(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    """Of a run that was to have a billion decisions, and whose every update makes the policy better."""
    judged: list[int] = []

    def grows(task: TauTask, policy: Policy) -> dict[str, float]:
        judged.append(policy.version)
        return {keys.VALIDATION_ACCURACY: min(1.0, policy.version / 1000), keys.VALIDATION_REWARD: 0.0}

    async def end(engine: SceneEngine) -> None:
        if engine.exchanges == 1200:
            session.cancel()

    monkeypatch.setattr(TauTask, "quick_scores", grows)
    stage.before_step = end
    settings = tau_settings(tmp_path, behaviors__TauAgent__max_steps=1_000_000_000, collection__learner="thread")
    session = begin(settings, memory)
    report = session.wait(HANG_S)
    assert report.outcome == "cancelled"
    assert report.evaluation is not None
    last = report.behaviors[0].step
    policies = report.evaluation["policies"]
    assert policies["best"]["validation_accuracy"] == policies["last"]["validation_accuracy"] == max(judged) / 1000
    assert last - 64 * 3 < policies["best"]["decisions"] <= last
    assert report.verdict is not None
    said = f"the last policy, after {policies['best']['decisions']:,} decisions, which is the best by validation too"
    assert report.verdict.endswith(f"Exported: {said}.")
    assert "more decisions would help" not in report.verdict, "it has not made those that it was given"
    assert 4 * last / 64 / 5 > len(set(judged)) > 20, "not every one of them"
    [(model, which)] = export_run(report.folder, tmp_path / "again")
    assert which == said, "the checkpoint knows it as well"
    assert model.read_bytes() == report.models[0].read_bytes()


def test_a_last_policy_that_cannot_be_validated_costs_nothing_else(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    def fails(self: PolicyTracker, policy: Policy) -> None:
        raise ValueError("no rows")

    monkeypatch.setattr(PolicyTracker, "validate_last", fails)
    report = train(tau_settings(tmp_path), memory)
    assert report.outcome == "completed"
    assert "the last policy of 'TauAgent' was not validated: ValueError: no rows" in memory.warnings
    assert list((report.folder / "checkpoints").glob("TauAgent-*"))


def test_no_evaluation_where_none_is_wanted(stage: Stage, tmp_path: Path) -> None:
    report = train(tau_settings(tmp_path, tau__evaluate=False))
    assert report.evaluation is None
    assert report.verdict == "Exported: the last policy, after 400 decisions."
    assert not (report.folder / "evaluation.json").exists()
    assert report.models[0].is_file()


@pytest.mark.parametrize(
    "overrides",
    [
        {"tau__reward__source": "engine", "tau__reward__credit": "aggregate"},
        {"tau__reward__credit": "aggregate"},
        {
            "tau__reward__predicate": "threshold",
            "tau__reward__success_threshold": 0.5,
            "tau__reward__window": 4,
            "tau__reward__aggregate": "majority",
            "tau__reward__values": "pm1",
            "tau__reward__learn_from": "aggregate",
        },
        {"tau__reward__formula": "binary", "tau__reward__columns": 2},
        {"tau__profile": "tau384", "tau__evaluate": False},
    ],
    ids=["engine", "aggregate", "window", "columns", "tau384"],
)
def test_every_kind_of_reward_trains_to_the_end(stage: Stage, tmp_path: Path, overrides: dict[str, Any]) -> None:
    report = train(tau_settings(tmp_path, **overrides))
    assert report.outcome == "completed"
    assert all(pair.mean_reward is not None for pair in report.pairs)
    assert report.models[0].is_file()


def test_what_cannot_be_written_costs_nothing_else(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_export(*_: object) -> Path:
        raise ExportError("Cannot write the model")

    def no_json(*_: object) -> None:
        raise TauError("Cannot write 'evaluation.json' (No space left on device)")

    def no_curve(*_: object) -> None:
        raise ValueError("no font")

    monkeypatch.setattr(collector, "export_onnx", no_export)
    monkeypatch.setattr(run, "atomic_write_json", no_json)
    monkeypatch.setattr(run, "plot_learning_curve", no_curve)
    memory = Memory()
    report = train(tau_settings(tmp_path), memory)
    assert report.outcome == "completed"
    assert any("Cannot write the model" in error for error in report.errors)
    assert any("No space left on device" in error for error in report.errors)
    assert any("no font" in warning for warning in memory.warnings)
    assert any((report.folder / "checkpoints").iterdir())
    assert STAGED_SUFFIX not in " ".join(path.name for path in report.folder.iterdir())


BASIC = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 100, num_epoch: 1}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 150
  Bsic: {trainer_type: ppo, max_steps: 50}
env_settings: {env_path: "headless:basic", seed: 3}
"""


def _basic(folder: Path, **overrides: Any) -> RunSettings:
    """One agent, and settings that name a behavior which nobody has."""
    return settings_from(BASIC, folder, **overrides)


ABSENT = (
    "behaviors of the settings that never appeared: 'Bsic'; those that did: 'Basic'; correct or "
    "remove the names that do not match"
)


def test_what_is_configured_and_never_appears_is_told_at_the_end(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    report = train(_basic(tmp_path), memory, "learn")
    assert report.outcome == "completed"
    assert memory.warnings == [ABSENT]


def test_a_buffer_that_was_not_filled(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    train(_basic(tmp_path, behaviors__Basic__hyperparameters__buffer_size=160), memory, "learn")
    said = "'Basic' was never updated: 150 decisions did not fill a buffer of 160; raise max_steps or lower buffer_size"
    assert memory.warnings == [said, ABSENT]


@pytest.mark.parametrize(
    ("buffer", "said"), [(100, "its only update met"), (70, "all its 2 updates met")], ids=["one", "two"]
)
def test_updates_that_were_skipped_are_why_nothing_was_learned(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch, buffer: int, said: str
) -> None:
    def fails(learner: LocalLearner, work: Work, progress: float, publish: object) -> dict[str, float]:
        work.release()
        raise NonFiniteError("the loss of 'Basic' is NaN")

    monkeypatch.setattr(LocalLearner, "submit", fails)
    chosen = {"behaviors__Basic__hyperparameters__buffer_size": buffer, "collection__learner": "thread"}
    train(_basic(tmp_path, **chosen), memory, "learn")
    assert memory.warnings[-2:] == [
        f"'Basic' was never updated: {said} NaN or infinity, and the weights were kept; the warnings say where",
        ABSENT,
    ]


def test_agents_that_vanished_are_why_nothing_was_learned(
    stage: Stage, tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = SceneEngine.next

    async def somebody_else(engine: SceneEngine) -> list[StepBatch]:
        (batch,) = await step(engine)
        batch.agent_ids = batch.agent_ids + engine.exchanges
        batch.terminals = empty_terminals(next(iter(engine.specs.values())).observations)
        return [batch]

    monkeypatch.setattr(SceneEngine, "next", somebody_else)
    train(_basic(tmp_path), memory, "learn")
    assert memory.warnings == [
        "'Basic' was never updated: 150 of 150 decisions have no outcome, because their agents vanished without an "
        "end, or their engine was lost or closed, and the others did not fill a buffer of 100; end an agent's episode "
        "before it is removed, raise max_steps or lower buffer_size",
        ABSENT,
    ]
