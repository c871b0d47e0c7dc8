"""Pairs as one computation leave what pairs with engines leave; neither others nor interruptions change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms.batched.population import Population
from tau_trainer.envs.batched import BatchedEnv, Draws, Outcome, State
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics import PairState, RunReport, keys, read_log
from tau_trainer.specs import FloatArray
from tau_trainer.tau.batched import TauBatched
from tau_trainer.tau.task import TauTask
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.manager import ParallelTrainerManager
from tau_trainer.training.plan import make_plan
from tau_trainer.training.stored import evaluate_run, export_run
from tests.training.fakes import Memory, begin, sac_settings, train
from tests.training.pairs.populations import STEPS, assert_same, newest, settings
from tests.waiting import HANG_S


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    """A run of three pairs that nothing disturbed."""
    return train(settings(tmp_path_factory.mktemp("three"), tau__pairs=3))


def test_pairs_leave_what_pairs_leave(tmp_path: Path, memory: Memory) -> None:
    report = train(settings(tmp_path), memory)
    assert (report.outcome, report.errors, report.decisions) == ("completed", (), 2 * STEPS)
    assert [pair.state for pair in report.pairs] == [PairState.COMPLETED] * 2
    assert [pair.decisions for pair in report.pairs] == [STEPS] * 2, "max_steps is each pair's own"
    assert all(pair.validation_accuracy is not None and pair.mean_reward is not None for pair in report.pairs)
    assert all(pair.success_rate is not None for pair in report.pairs)
    assert report.verdict is not None
    assert report.baselines
    models = [path.name for path in report.models]
    assert models == ["TauAgent.onnx", "TauAgent-pair0.onnx", "TauAgent-pair1.onnx"]
    assert (report.folder / "learning_curve.png").is_file()
    for pair in range(2):
        curves = [one for one in memory.summaries if one.behavior == f"TauAgent-pair{pair}"]
        assert [one.step for one in curves][:3] == [64, 128, 192]
        assert {"Tau/Mean Reward", keys.POLICY_LOSS, keys.VALIDATION_ACCURACY} <= curves[1].statistics.keys()
        assert "Tau/Mean Reward" in curves[1].pairs[str(pair)]
        assert (report.folder / f"TauAgent-pair{pair}").is_dir()
        rates = [one.statistics[keys.LEARNING_RATE].mean for one in curves if keys.LEARNING_RATE in one.statistics]
        assert rates[:2] == pytest.approx([1e-3 * (1 - 64 / STEPS), 1e-3 * (1 - 128 / STEPS)], rel=1e-5)
    losses = [one.statistics[keys.POLICY_LOSS].mean for one in memory.summaries if one.step == 128]
    assert len(set(losses)) == 2, "each has its own"
    assert memory.states(1) == ["Preparing", "Training", "Evaluating", "Completed"]
    written = json.loads((report.folder / "evaluation.json").read_text("utf-8"))
    assert evaluate_run(report.folder).to_dict()["accuracy"] == written["accuracy"]
    assert len(export_run(report.folder, tmp_path)) == 3
    assert read_log(report.folder / "log.jsonl")


def test_a_pair_does_not_depend_on_how_many_there_are(tmp_path: Path, three: RunReport) -> None:
    alone = train(settings(tmp_path, tau__pairs=1))
    assert_same(newest(three, 0), newest(alone, 0), 1e-4)
    first, second = newest(three, 0).tensors, newest(three, 1).tensors
    assert (first["model.action.weight"] != second["model.action.weight"]).any()
    assert (first["world.row"] != second["world.row"]).any(), "every pair has prompts of its own"


@pytest.mark.parametrize("reward", [{}, {"tau__reward__source": "engine", "tau__reward__credit": "aggregate"}])
def test_a_resumed_run_is_the_one_that_was_never_interrupted(
    tmp_path: Path, memory: Memory, reward: dict[str, Any]
) -> None:
    """Asked to end in the middle of a rollout, which is given up; episodes end on the way."""
    more: dict[str, Any] = {"behaviors__TauAgent__reward_signals__extrinsic__gamma": 0.5, **reward}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TauTask, "batched_env", _short_episodes)
        whole = train(settings(tmp_path, "whole", **more))
        act = Population.act

        def interrupt(self: Population, *args: Any, **named: Any) -> Any:
            if self.steps == 70:
                session.cancel()
            return act(self, *args, **named)

        patch.setattr(Population, "act", interrupt)
        session = begin(settings(tmp_path, "resumed", **more))
        first = session.wait(HANG_S)
        patch.setattr(Population, "act", act)
        assert first.outcome == "cancelled"
        assert first.decisions == 2 * 4 * 64
        assert all(pair.state is PairState.CANCELLED for pair in first.pairs)
        resumed = train(settings(tmp_path, "resumed", checkpoint_settings__resume=True, **more), memory)
    assert resumed.decisions == whole.decisions
    for pair in range(2):
        assert_same(newest(resumed, pair), newest(whole, pair))
        assert newest(resumed, pair).manifest["learner"]["best"] == newest(whole, pair).manifest["learner"]["best"]
    assert any(keys.CUMULATIVE_REWARD in one.statistics for one in memory.summaries)


def _short_episodes(self: TauTask, seed: torch.Tensor, device: str) -> BatchedEnv:
    return TauBatched(len(seed), seed=seed, device=device, max_decisions=11)


def test_a_pair_that_meets_nan_is_named_and_the_others_go_on(tmp_path: Path, memory: Memory, three: RunReport) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TauTask, "batched_env", _spoiled)
        report = train(settings(tmp_path, tau__pairs=3), memory)
        learned = [newest(report, pair) for pair in range(3)]
        more: dict[str, Any] = {"checkpoint_settings__resume": True, "behaviors__TauAgent__max_steps": STEPS + 200}
        resumed = train(settings(tmp_path, tau__pairs=3, **more), memory)
    for one in (report, resumed):
        assert [pair.state for pair in one.pairs] == [PairState.COMPLETED, PairState.FAILED, PairState.COMPLETED]
        assert one.exit_code == 1
        [error] = one.errors
        assert error.startswith("pair 1: 'TauAgent-pair1' met NaN or infinity")
    assert report.pairs[1].decisions < STEPS
    assert any("pair 1 failed" in sentence for sentence in memory.warnings)
    for pair in (0, 2):
        assert_same(learned[pair], newest(three, pair), 1e-5)


class _Spoiled(TauBatched):
    """The second pair's first copy is paid NaN from its 40th step on."""

    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        found = super().advance(state, actions, draws)
        wrong = (torch.arange(self.num_envs) == 4) & (state["step"] > 40)
        return found._replace(rewards=torch.where(wrong[:, None], torch.nan, found.rewards))


def _spoiled(self: TauTask, seed: torch.Tensor, device: str) -> BatchedEnv:
    return _Spoiled(len(seed), seed=seed, device=device)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tau__policy": "shared"}, "add --policy independent"),
        ({"tau__max_concurrent": 2}, "remove --max-concurrent"),
        (
            {"behaviors": {name: {"trainer_type": "ppo"} for name in ("TauAgent", "Other")}},
            "has one behavior, but the settings name 2",
        ),
        ({"env_settings__env_path": "batched:cartpole"}, "play batched:tau; `tau-train batch`"),
        ({"env_settings__env_args": ["--step-ms", "1"]}, "starts none; remove it"),
        ({"environment_parameters": {"split": 1.0}}, "environment_parameters is not used by --env batched:tau"),
        ({"devices": 2}, r"trains all pairs in one; remove it \(--devices\)"),
        (
            {"behaviors__TauAgent__reward_signals": {"extrinsic": {}, "curiosity": {}}},
            "learns only from its own reward; remove behavioral_cloning and all signals except extrinsic",
        ),
    ],
)
def test_what_no_population_does_is_refused_at_once(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        make_plan("parallel", settings(tmp_path, **more), tmp_path)
    assert "\n" not in str(caught.value)


def test_other_trainers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"TauAgent\.trainer_type is sac, but --env batched:tau trains only with ppo"
    ):
        sac_settings(tmp_path, env_settings__env_path="batched:tau", tau__policy="independent")


def test_what_its_learning_cannot_do_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    session = begin(settings(tmp_path, behaviors__TauAgent__hyperparameters__updates_per_buffer=2))
    with pytest.raises(SettingsError, match=r"cannot be a population: updates_per_buffer must be 1"):
        session.wait(HANG_S)
    assert not (tmp_path / "run").exists()


def test_other_commands_send_batched_environments_to_theirs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="tau-train parallel --policy independent --env batched:tau"):
        ParallelTrainerManager().start(settings(tmp_path), "learn")
    assert not (tmp_path / "run").exists()


def test_pairs_that_stand_elsewhere_do_not_go_on_together(tmp_path: Path) -> None:
    train(settings(tmp_path))
    again: dict[str, Any] = {"checkpoint_settings__resume": True, "behaviors__TauAgent__max_steps": 2 * STEPS}
    with pytest.raises(CheckpointError, match="learn in step, but these made 0 and 800 decisions"):
        train(settings(tmp_path, tau__pairs=3, **again))
    assert train(settings(tmp_path, tau__pairs=1, **again)).pairs[0].decisions == 2 * STEPS


def test_pairs_of_engines_do_not_become_a_population_but_may_begin_one(tmp_path: Path, stage: object) -> None:
    train(settings(tmp_path, "engines", env_settings__env_path="headless:tau", behaviors__TauAgent__max_steps=400))
    with pytest.raises(CheckpointError, match="of pairs with engines"):
        train(settings(tmp_path, "engines", checkpoint_settings__resume=True))
    begun = train(settings(tmp_path, "begun", checkpoint_settings__initialize_from="engines"))
    assert begun.outcome == "completed"


def test_a_pair_that_has_learned_enough_stands_elsewhere_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, restore = Learner.ended, Learner.restore

    def enough(self: Learner, returns: FloatArray) -> None:
        ended(self, returns)
        if self.name.endswith("pair0") and len(returns):
            self.stopped = True

    def restored(self: Learner, *given: Any) -> None:
        restore(self, *given)
        self.stopped = self.name.endswith("pair0")

    monkeypatch.setattr(TauTask, "batched_env", _short_episodes)
    monkeypatch.setattr(Learner, "ended", enough)
    first = train(settings(tmp_path))
    assert all(pair.episodes for pair in first.pairs)
    stood = [newest(first, pair) for pair in (0, 1)]
    assert stood[0].manifest["learner"]["decisions"] < stood[1].manifest["learner"]["decisions"]
    monkeypatch.setattr(Learner, "restore", restored)
    resumed = train(settings(tmp_path, behaviors__TauAgent__max_steps=2 * STEPS, checkpoint_settings__resume=True))
    goes_on = [newest(resumed, pair) for pair in (0, 1)]
    assert resumed.outcome == "completed"
    assert goes_on[1].manifest["learner"]["decisions"] == 2 * STEPS
    name = "model.action.weight"
    np.testing.assert_array_equal(goes_on[0].tensors[name], stood[0].tensors[name])
    assert not np.array_equal(goes_on[1].tensors[name], stood[1].tensors[name])
