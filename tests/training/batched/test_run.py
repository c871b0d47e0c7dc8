"""Batched runs: their folder, exact resume, several policies, and what they refuse."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.collection.batched import Scores
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, RunFinishedError, SettingsError
from tau_trainer.memory import Work
from tau_trainer.metrics import MetricsHub, RunReport, keys, read_log
from tau_trainer.metrics.summary import summarize
from tau_trainer.runs.checkpoint_sets import CheckpointSet
from tau_trainer.runs.checkpoints import Checkpoint, load_checkpoint
from tau_trainer.runs.store import Store
from tau_trainer.settings import load_batched
from tau_trainer.training.batched import train_batched
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import CopiesLearner, EpisodeStatistics, PolicyEntry
from tau_trainer.training.batched.run import CopiesCollector
from tau_trainer.training.learning.learner import Shared
from tau_trainer.training.stored import evaluate_copies, export_run
from tests.training.fakes import Memory, newest

COPIES = 8
SMALL = {"network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True}}
LEFT = {"agents": ["left"], "trainer_type": "ppo", "hyperparameters": {"buffer_size": 32, "batch_size": 8}} | SMALL
RIGHT = {"agents": ["right"], "trainer_type": "a2c", "hyperparameters": {"buffer_size": 64}} | SMALL
"""They learn every 4 and every 8 steps."""


def counting(folder: Path, **changes: Any) -> Path:
    """The settings of a run in a folder, with other sections where asked for."""
    values = {
        "environment": {"name": "tests.envs.batched.counting:Counting", "num_envs": COPIES, "arguments": {"limit": 5}},
        "default_settings": {"max_steps": 16 * 40, "summary_freq": "auto", "checkpoint_interval": 16 * 16},
        "behaviors": {"left": LEFT, "right": RIGHT},
        "evaluation": {"episodes": 3, "interval": 16 * 16, "trace": True},
        "checkpoint_settings": {"results_dir": str(folder / "results")},
        "env_settings": {"seed": 3},
    }
    path = folder / "counting.yaml"
    path.write_text(json.dumps(values | changes))  # YAML too, without references
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return counting(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    """A run that nothing interrupted, to look at."""
    return train(counting(tmp_path_factory.mktemp("whole")), "first")


@pytest.fixture
def first(whole: RunReport, file: Path) -> Path:
    """The folder of the same run among the results of this test, to change or to go on from."""
    return shutil.copytree(whole.folder, file.parent / "results" / "first")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[list[Arrays]]:
    """The state of all policies as each run of this test begins."""
    found: list[list[Arrays]] = []
    monkeypatch.setattr(
        CopiesCollector,
        "announce",
        lambda copies: found.append([entry.learner.state()[0] for entry in copies.playing.policies]),
    )
    return found


def train(file: Path, run_id: str, **more: Any) -> RunReport:
    overrides = {"checkpoint_settings.run_id": run_id} | {key.replace("__", "."): value for key, value in more.items()}
    return train_batched(load_batched(file, overrides), "quiet")


def messages(report: RunReport, kind: str) -> list[str]:
    return [one["fields"]["message"] for one in read_log(report.folder / "log.jsonl") if one.get("kind") == kind]


def summaries(report: RunReport, policy: str = "left") -> list[dict[str, Any]]:
    log = read_log(report.folder / "log.jsonl")
    return [one for one in log if one["type"] == "summary" and one["behavior"] == policy]


def dqn(**numbers: Any) -> dict[str, Any]:
    """What the policy of the left agents may learn with instead."""
    numbers = {"steps_per_update": COPIES, "batch_size": 8, "buffer_size": 512} | numbers
    return {"agents": ["left"], "trainer_type": "dqn", "hyperparameters": numbers}


def unmoved(arrays: Arrays, kept: Arrays) -> None:
    """A policy and its statistics are those that a run began with."""
    for name, values in arrays.items():
        if name.startswith(("model.", "normalizer.")):
            np.testing.assert_array_equal(values, kept[name], name)


def same(one: Checkpoint, other: Checkpoint) -> None:
    np.testing.assert_equal(one.tensors, other.tensors)
    assert one.manifest == other.manifest


def cut(file: Path, run_id: str, steps: int, times: int = 1, **more: Any) -> RunReport:
    """A run that somebody ends after so many steps of every copy, by pressing Ctrl-C so many times."""
    advance = CopiesCollector.advance

    def end(copies: CopiesCollector) -> bool:
        went_on = advance(copies)
        if copies.playing.collector.steps >= steps:
            for _ in range(times - copies.run.asked.is_set() - copies.run.hurried.is_set()):
                copies.run.stop()
        return went_on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopiesCollector, "advance", end)
        return train(file, run_id, **more)


def test_a_run_leaves_the_folder_of_any_run(whole: RunReport) -> None:
    report = whole
    assert (report.outcome, report.decisions, report.command, report.exit_code) == ("completed", 640, "batch", 0)
    files = ("configuration.yaml", "learning_curve.png", "log.jsonl", "run.json", "run_logs")
    assert {path.name for path in report.folder.iterdir()} >= {"left.onnx", "right.onnx", "checkpoints", *files}
    assert sorted(path.name for path in (report.folder / "checkpoints").iterdir()) == [
        *("left-128", "left-256", "left-320"),
        *("right-128", "right-256", "right-320"),
    ]
    assert (report.folder / "left" / "left-320.onnx").is_file()
    told = summaries(report)
    # The last one is the evaluation's.
    assert [one["step"] for one in told] == [*range(32, 321, 32), 320]
    values = told[1]["values"]
    assert values.keys() >= {"Environment/Cumulative Reward", "Environment/Episode Length", "Losses/Policy Loss"}
    shares = [values[f"Perf/Share of {part}"] for part in ("Acting", "Stepping", "Learning")]
    assert sum(shares) == pytest.approx(1.0)
    assert values["Perf/Agent Steps per Second"] == pytest.approx(2 * values["Perf/Environment Steps per Second"])
    status = json.loads((report.folder / "run_logs" / "training_status.json").read_text())
    assert [one["steps"] for one in status["right"]["checkpoints"]] == [128, 256, 320]
    worth = told[-1]["values"]["Evaluation/Episode return"]
    assert report.verdict is not None
    said = (
        f"Exported of 'left': the last policy, after 320 decisions, with mean reward {worth:.3f}. Exported of 'right':"
    )
    assert report.verdict.startswith(said)
    final = status["left"]["final_checkpoint"]
    assert (final["steps"], final["reward"]) == (320, pytest.approx(worth))


def test_a_curve_begins_with_the_first_round_and_the_end_is_told(file: Path) -> None:
    """A round is 8 steps of 8 copies with 2 agents: 128 decisions, 64 of each policy."""
    told = {"default_settings__summary_freq": 400, "evaluation__episodes": 0, "evaluation__interval": 0}
    report = train(file, "odd", default_settings__max_steps=600, **told)
    assert [one["step"] for one in summaries(report)] == [64, 224, 320]
    sentence = (
        "training ends after 640 decisions instead of 600, because the policies learn from rounds of 128 decisions; "
        "choose a multiple of it for --max-steps to end there"
    )
    assert messages(report, "rounds") == [sentence]
    resumed = train(file, "odd", default_settings__max_steps=768, **told, checkpoint_settings__resume=True)
    assert [one["step"] for one in summaries(resumed)] == [64, 224, 320, 384]
    assert messages(resumed, "rounds") == [sentence], "768 is a multiple"


def test_the_same_seed_is_the_same_run(file: Path, whole: RunReport) -> None:
    again = train(file, "again")
    other = train(file, "other", env_settings__seed=4, default_settings__max_steps=128)
    for policy in ("left", "right"):
        same(newest(whole.folder, policy), newest(again.folder, policy))
        weights = [newest(report.folder, policy).tensors["model.action.weight"] for report in (other, whole)]
        assert (weights[0] != weights[1]).any()


def test_a_resumed_run_is_equal_to_one_that_was_never_interrupted(file: Path, whole: RunReport) -> None:
    stopped = cut(file, "cut", steps=12)
    # It went on until both had learned from all that they did.
    assert (stopped.outcome, stopped.decisions) == ("cancelled", 16 * 16)
    # A moment is saved once, also where a checkpoint was due just then.
    assert "left-128.2" not in {path.name for path in (stopped.folder / "checkpoints").iterdir()}
    resumed = train(file, "cut", checkpoint_settings__resume=True)
    assert (resumed.outcome, resumed.decisions) == ("completed", 640)
    for policy in ("left", "right"):
        same(newest(whole.folder, policy), newest(resumed.folder, policy))


def test_rewards_that_are_learned_go_on_equal_and_are_told(file: Path) -> None:
    """What they pay is summed over open episodes, which a checkpoint keeps; one that drowns the rest is named."""
    small = {"network_settings": {"hidden_units": 8, "num_layers": 1}}
    signals = {"extrinsic": {}, "curiosity": small, "rnd": {"strength": 500.0} | small}
    every = dict.fromkeys(("max_steps", "checkpoint_interval"), 16 * 24) | {"summary_freq": "auto"}
    behaviors = {"left": LEFT | {"reward_signals": signals}, "right": RIGHT}
    file = counting(file.parent, behaviors=behaviors, default_settings=every)
    straight = train(file, "straight")
    assert cut(file, "parts", 12).outcome == "cancelled"
    resumed = train(file, "parts", checkpoint_settings__resume=True)
    same(newest(straight.folder, "left"), newest(resumed.folder, "left"))
    key = keys.episode_reward("curiosity")
    paid = [entry["values"][key] for entry in summaries(straight) if key in entry["values"]]
    assert len(paid) > 5
    assert paid[0] == 0.0, "at first everything is new"
    assert paid[-1] > 0.0
    [said] = [entry["fields"] for entry in read_log(straight.folder / "log.jsonl") if "signal rnd drowns" in str(entry)]
    assert said["behavior"] == "left"


def test_who_presses_twice_waits_for_no_evaluation(file: Path) -> None:
    once, twice = cut(file, "once", steps=8), cut(file, "twice", steps=8, times=2)
    for report, rest in ((once, True), (twice, False)):
        assert newest(report.folder, "left").step == 64
        assert ("policy left" in report.files, "trace" in report.files) == (rest, rest)
    said = ["saving, evaluating; press again to skip", "saving; evaluation and export are left out"]
    assert messages(twice, "note") == said


def test_what_cannot_be_read_is_passed_over_for_a_moment_that_is_whole(
    file: Path, whole: RunReport, first: Path
) -> None:
    checkpoints = first / "checkpoints"
    (checkpoints / "right-320" / "tensors.safetensors").write_bytes(b"")
    shutil.rmtree(checkpoints / "left-256")
    # Only at 128 both are whole: the run goes on from there, and comes to the same end.
    resumed = train(file, "first", checkpoint_settings__resume=True, default_settings__keep_checkpoints=0)
    assert resumed.decisions == 640
    assert "right-320.2" in {path.name for path in checkpoints.iterdir()}
    log = list(read_log(resumed.folder / "log.jsonl"))
    assert [one["fields"]["step"] for one in log if one.get("kind") == "resumed"] == [128, 128]
    for policy in ("left", "right"):
        same(newest(resumed.folder, policy), newest(whole.folder, policy))


def test_a_kill_between_two_policies_leaves_the_moment_before(
    file: Path, whole: RunReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, write, written = file.parent / "results" / "killed", CheckpointSet.write, list[str]()

    def copied(self: CheckpointSet, name: str, *given: Any) -> Path:
        if len(written) == 3:
            shutil.copytree(file.parent / "results" / "whole", killed)
        written.append(name)
        return write(self, name, *given)

    monkeypatch.setattr(CheckpointSet, "write", copied)
    train(file, "whole", default_settings__keep_checkpoints=1)
    assert sorted(path.name for path in (killed / "checkpoints").iterdir()) == ["left-128", "left-256", "right-128"]
    resumed = train(file, "killed", checkpoint_settings__resume=True, default_settings__keep_checkpoints=1)
    assert sorted(path.name for path in (killed / "checkpoints").iterdir()) == ["left-320", "right-320"]
    for policy in ("left", "right"):
        same(newest(whole.folder, policy), newest(resumed.folder, policy))


def test_why_a_run_cannot_go_on(file: Path, first: Path) -> None:
    longer = {"checkpoint_settings__resume": True, "default_settings__max_steps": 1000}
    with pytest.raises(CheckpointError, match="another number of copies"):
        train(file, "first", **longer, environment__num_envs=4)
    for path in (first / "checkpoints").glob("left-*"):
        shutil.rmtree(path)
    with pytest.raises(CheckpointError, match="saved nothing of 'left' and 'right' that can be read completely"):
        train(file, "first", **longer)


def test_a_frozen_policy_and_a_fixed_player_stay_as_they_are(file: Path, whole: RunReport) -> None:
    start, seen = whole.folder / "checkpoints" / "left-128", list[Arrays]()
    save = CopiesCollector.save

    def look(copies: CopiesCollector) -> None:
        seen.append(copies.playing.policies[0].learner.state()[0])
        save(copies)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CopiesCollector, "save", look)
        frozen = train(file, "frozen", behaviors__left__to_train=False, behaviors__left__init_path=str(start))
    unmoved(seen[0], load_checkpoint(start).tensors)
    assert sorted(path.name for path in (frozen.folder / "checkpoints").iterdir())[0].startswith("right-")
    assert {one.name: one.step for one in frozen.behaviors} == {"left": 320, "right": 320}
    played = train(
        counting(file.parent, behaviors={"left": {"agents": ["left"], "player": "random"}, "right": RIGHT}), "played"
    )
    assert played.outcome == "completed"
    assert [path.name for path in played.models] == ["right.onnx"]
    same(newest(train(played.folder / "configuration.yaml", "again").folder, "right"), newest(played.folder, "right"))


def test_a_frozen_policy_is_itself_after_a_resume(file: Path, first: Path, begun: list[list[Arrays]]) -> None:
    """Its weights may come from a run that is gone by then."""
    frozen = {"behaviors__left__to_train": False}
    cut(file, "frozen", steps=8, **frozen, checkpoint_settings__initialize_from="first")
    first.rename(first.with_name("copied"))
    resumed = train(file, "frozen", **frozen, checkpoint_settings__resume=True)
    straight = train(file, "straight", **frozen, checkpoint_settings__initialize_from="copied")
    same(newest(resumed.folder, "right"), newest(straight.folder, "right"))
    unmoved(begun[0][0], begun[1][0])


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ({}, "'left' starts from scratch: the run saved nothing of it"),
        ({"left": []}, r"the checkpoint of 'right' does not fit the settings \(.*\); resume with"),
        ({"left": {}}, "The checkpoint's trainer type is None"),
    ],
)
def test_a_frozen_policy_that_a_checkpoint_does_not_hold_is_told(
    file: Path, held: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = {"behaviors__left__to_train": False}
    cut(file, "cut", steps=8, **frozen)
    restore = CopiesLearner.restore
    monkeypatch.setattr(CopiesLearner, "restore", lambda self, arrays, v: restore(self, arrays, {**v, "frozen": held}))
    if held:
        with pytest.raises(CheckpointError, match=told):
            train(file, "cut", **frozen, checkpoint_settings__resume=True)
    else:
        assert told in messages(train(file, "cut", **frozen, checkpoint_settings__resume=True), "warning")


def test_a_policy_begins_from_an_earlier_run(file: Path, first: Path, begun: list[list[Arrays]]) -> None:
    start = first / "checkpoints" / "right-128"
    short = {"default_settings__max_steps": 128}
    third = train(file, "third", **short, behaviors__right__init_path=str(start))
    assert messages(third, "initialized") == [f"'right' starts with the weights of {start}"]
    train(file, "second", **short, checkpoint_settings__initialize_from="first")
    left, right = (load_checkpoint(first / "checkpoints" / f"{name}-320") for name in ("left", "right"))
    for got, kept in ((begun[0][1], load_checkpoint(start)), (begun[1][0], left), (begun[1][1], right)):
        np.testing.assert_array_equal(got["model.action.weight"], kept.tensors["model.action.weight"])
        assert not np.array_equal(got["random.generator"], kept.tensors["random.generator"])
    for path in (first / "checkpoints").glob("right-*"):
        shutil.rmtree(path)
    fourth = train(file, "fourth", **short, checkpoint_settings__initialize_from="first")
    assert messages(fourth, "warning") == ["'right' starts from scratch: the run 'first' saved nothing of it"]


def test_policies_of_one_kind_begin_with_weights_of_their_own(file: Path) -> None:
    alike = {"behaviors.right": LEFT | {"agents": ["right"]}}
    runs = [Playing(load_batched(file, alike | {"env_settings.seed": seed})) for seed in (3, 9)]
    weights = [entry.learner.state()[0]["model.body.0.weight"] for playing in runs for entry in playing.policies]
    assert len({values.tobytes() for values in weights}) == 4


def test_an_evaluation_counts_one_episode_of_each_copy(file: Path) -> None:
    report = train(file, "first", evaluation__episodes=1)
    with np.load(report.files["trace"]) as trace:
        rewards = trace["rewards"].sum(axis=0)
    last = [summaries(report, policy)[-1]["values"]["Evaluation/Episode return"] for policy in ("left", "right")]
    assert last == pytest.approx(rewards)


def test_one_episode_is_kept_as_arrays(whole: RunReport) -> None:
    assert whole.files["trace"] == whole.folder / "trace.npz"
    with np.load(whole.files["trace"]) as trace:
        steps = len(trace["over"])
        assert 1 <= steps <= 5
        assert trace["over"].tolist() == [False] * (steps - 1) + [True]
        assert trace["step"].tolist() == list(range(steps))
        assert (trace["episode"] == 0).all()
        present = trace["present"]
        total = trace["sum"][0] + np.cumsum((trace["actions"] * present).sum(axis=1))
        assert trace["sum"][1:].tolist() == total[:-1].tolist()
    assert "animation" not in whole.files  # it draws no pictures


def test_an_environment_that_draws_is_animated(tmp_path: Path) -> None:
    from PIL import Image

    overrides = {
        "checkpoint_settings.results_dir": str(tmp_path),
        "checkpoint_settings.run_id": "drawn",
        "environment.num_envs": 8,
        "env_settings.seed": 1,
        "behaviors.*.max_steps": 64,
        "behaviors.agent.hyperparameters.buffer_size": 64,
        "behaviors.agent.hyperparameters.batch_size": 64,
        "evaluation.trace": True,
        "evaluation.episodes": 2,
    }
    report = train_batched(load_batched("cartpole_batch", overrides), "quiet")
    with np.load(report.files["trace"]) as trace, Image.open(report.files["animation"]) as picture:
        shown = 0
        for index in range(getattr(picture, "n_frames", 1)):
            picture.seek(index)
            shown += picture.info["duration"]  # pictures that are the same are one that stays longer
        assert shown == 40 * len(trace["over"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"behaviors__left__agents": ["lefts"]}, "no group 'lefts'; did you mean left?"),
        (
            {"behaviors__left__init_path": "nowhere"},
            "behaviors.left.init_path nowhere: there is no checkpoint",
        ),
        ({"environment__name": "cartpol"}, "did you mean cartpole?"),
        ({"environment__arguments": {"limits": 3}}, "did you mean limit?"),
        (
            {f"behaviors__{name}__hyperparameters__buffer_size": size for name, size in (("left", 40), ("right", 56))},
            "learn at steps that rarely coincide (left every 5, right every 7)",
        ),
        ({"checkpoint_settings__initialize_from": "nothing"}, "--initialize-from nothing: no run of this name"),
    ],
)
def test_what_cannot_be_trained_is_told_and_leaves_nothing(file: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises((SettingsError, CheckpointError)) as error:
        train(file, "wrong", **changes)
    assert sentence in str(error.value)
    assert not (file.parent / "results").exists()


def test_updates_that_met_nan_are_skipped_and_the_third_in_a_row_ends_the_run(file: Path) -> None:
    wild = {"behaviors__left__hyperparameters__learning_rate": 1e30, "default_settings__checkpoint_interval": 100_000}
    report = train(file, "wrong", **wild)
    assert (report.outcome, report.exit_code) == ("failed", 2)
    assert "Behavior 'left': the" in report.errors[0]
    assert "became NaN or infinite in update 1; the weights from before it are kept" in report.errors[0]
    assert not list((report.folder / "checkpoints").glob("left-*"))
    told = [one["fields"] for one in read_log(report.folder / "log.jsonl") if one.get("kind") == "warning"]
    assert [(one["behavior"], one["skipped"]) for one in told] == [("left", 1), ("left", 2), ("left", 3)]


@pytest.mark.parametrize("kind", ["ppo", "dqn"])
def test_an_update_that_met_nan_leaves_everything_as_before(file: Path, kind: str) -> None:
    values = dqn(buffer_init_steps=COPIES) | SMALL
    playing = Playing(load_batched(file, {"behaviors.left": values} if kind == "dqn" else {}))
    learner = playing.policies[0].learner
    while learner.version < 3:
        playing.advance()
    rollout = playing.play()["left"]
    before = learner.algorithm.state()
    broken = replace(rollout, rewards=torch.full_like(rollout.rewards, math.nan))
    assert learner.update(Work({}, tensors=broken)).error is not None
    after = learner.algorithm.state()
    assert (learner.version, learner.skipped, after[1]) == (3, 1, before[1])
    np.testing.assert_equal(before[0], after[0])
    learner.update(Work({}, tensors=rollout))
    assert (learner.version, learner.skipped_in_a_row) == (4, 0)


def test_what_an_earlier_version_saved_is_played_and_exported(file: Path) -> None:
    """It counted updates next to the algorithm, whose own state had no version."""
    first, second = Playing(load_batched(file)), Playing(load_batched(file, {"env_settings.seed": 9}))
    while first.policies[0].learner.version < 2:
        first.advance()
    arrays, values = first.policies[0].learner.state()
    told = {name: value for name, value in values["algorithm"].items() if name not in ("algorithm", "version")}
    second.plays = True
    learner = second.policies[0].learner
    learner.restore(arrays, {**values, "algorithm": {"trainer_type": "ppo", **told}})
    for name, weights in learner.handle.policy().weights.items():
        np.testing.assert_array_equal(weights, arrays[f"model.{name}"] if f"model.{name}" in arrays else arrays[name])
    assert (learner.version, second.policies[0].episodes) == (0, 0)
    second.plays = False
    learner.restore(arrays, {**values, "algorithm": {"trainer_type": "ppo", **told}})
    assert (learner.version, second.policies[0].episodes) == (2, first.policies[0].episodes)


@pytest.mark.parametrize("kept", [True, False])
def test_a_replay_memory_that_was_not_kept_is_told(file: Path, kept: bool) -> None:
    left: dict[str, Any] = {"behaviors__left": dqn(buffer_init_steps=4 * COPIES, save_replay_buffer=kept)}
    left |= {"default_settings__max_steps": 16 * 24}
    straight = train(file, "straight", **left)
    cut(file, "cut", steps=12, **left)
    resumed = train(file, "cut", **left, checkpoint_settings__resume=True)
    sentence = (
        "the replay memory of 'left' was not saved, so learning continues once 8 new decisions are made; "
        "save_replay_buffer: true keeps it"
    )
    assert messages(resumed, "warning") == ([] if kept else [sentence])
    one, other = (
        newest(report.folder, "left").tensors["model.network.action.weight"] for report in (straight, resumed)
    )
    assert np.array_equal(one, other) == kept


def test_figures_that_not_every_update_has_are_told(file: Path) -> None:
    """Of the two updates before the second summary, the first has no gradient step yet."""
    told = summaries(train(file, "dqn", behaviors__left=dqn(buffer_init_steps=3 * COPIES)))
    assert [one["step"] for one in told[:2]] == [2 * COPIES, 4 * COPIES]
    assert not told[0]["values"].keys() & {keys.POLICY_EPSILON, keys.Q_LOSS}
    assert told[1]["values"].keys() > {keys.POLICY_EPSILON, keys.Q_LOSS}
    counts = [one["statistics"][keys.POLICY_EPSILON]["count"] for one in told[2:6]]
    assert counts == [2] * 4, "each update is told once"


def test_a_summary_says_how_returns_are_spread(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of any other run: the deviation over episodes, and how many there were."""
    ended: dict[int, list[float]] = {0: [], 1: []}
    add = Scores.add

    def watched(scores: Scores, rewards: torch.Tensor, over: torch.Tensor, present: torch.Tensor) -> None:
        totals = scores.returns + rewards
        for agent, returns in ended.items():
            returns += totals[over[:, agent], agent].tolist()
        add(scores, rewards, over, present)

    monkeypatch.setattr(Scores, "add", watched)
    report = train(file, "spread", evaluation__episodes=0, evaluation__interval=0)
    for agent, policy in enumerate(("left", "right")):
        told = [one["statistics"][keys.CUMULATIVE_REWARD] for one in summaries(report, policy)]
        parts = np.split(np.array(ended[agent]), np.cumsum([one["count"] for one in told])[:-1])
        assert len(parts) == len(told) > 2
        for one, returns in zip(told, parts, strict=True):
            assert one["count"] == len(returns)
            assert one["mean"] == pytest.approx(np.mean(returns))
            assert one["std"] == pytest.approx(np.std(returns), abs=1e-6)
            assert (one["min"], one["max"]) == (min(returns), max(returns))
        assert max(one["std"] for one in told) > 0.1


def test_a_criterion_looks_at_the_newest_episodes_that_hold_enough(file: Path) -> None:
    asked = {"behaviors.left.trial_count": 10, "behaviors.left.criterion": 4.0}
    entry = Playing(load_batched(file, asked)).policies[0]
    learner, returns = entry.learner, entry.learner.tracker.returns
    means = []
    for mean in (1.0, 3.0, 4.5):
        entry.count(EpisodeStatistics(summarize(np.full(6, mean)), 1.0))
        means.append(returns.mean)
    assert means == [None, 2.0, 3.75], "too few; and those before are out of it"
    assert not learner.stopped
    entry.count(EpisodeStatistics(summarize(np.full(20, 4.0)), 1.0))
    assert (returns.state(), learner.stopped) == ([[20, 4.0]], True)
    again = Playing(load_batched(file, asked)).policies[0].learner
    again.count_on({name: value for name, value in learner.counts().items() if name != "stopped"}, 4.0)
    assert again.stopped, "a checkpoint of an earlier version does not say so"


def test_each_policy_makes_its_share_of_the_decisions(file: Path) -> None:
    learners = [entry.learner for entry in Playing(load_batched(file)).policies]
    assert [learner.progress.max_steps for learner in learners] == [320, 320], "of 640"


@pytest.mark.parametrize("plays", [False, True])
def test_a_criterion_is_told_once_and_not_by_a_run_that_only_plays(
    file: Path, hub: MetricsHub, memory: Memory, plays: bool
) -> None:
    asked = {"behaviors.left.trial_count": 10, "behaviors.left.criterion": 4.0}
    playing = Playing(load_batched(file, asked), shared=Shared(hub))
    playing.plays = plays
    entry = playing.policies[0]
    for _ in range(3):  # others may still learn
        entry.count(EpisodeStatistics(summarize(np.full(20, 5.0)), 1.0))
    hub.drain(5.0)
    assert [event.kind for event in memory.events].count("criterion") == (not plays)
    assert entry.learner.stopped == (not plays)


def test_the_first_is_kept_whatever_it_is_and_then_what_is_better(file: Path) -> None:
    """Episodes of this game have returns that the policies cannot change, and here are never enough to judge by."""
    both = {f"behaviors__{name}__save_best_only": True for name in ("left", "right")}
    few = {f"behaviors__{name}__trial_count": 10**6 for name in ("left", "right")}
    few |= {"default_settings__keep_checkpoints": 0, "default_settings__max_steps": 16 * 32}
    report = train(file, "best", **both, **few)
    assert {path.name for path in (report.folder / "checkpoints").iterdir()} == {"left-128", "right-128"}
    said = [one for one in read_log(report.folder / "log.jsonl") if "save_best_only" in str(one)]
    assert [one.get("kind") for one in said].count("checkpoint") == 2


def test_a_checkpoint_that_failed_is_tried_again_at_the_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]
    save = Store.save

    def once(self: Store, *given: Any, **more: Any) -> bool:
        return False if full and full.pop() else save(self, *given, **more)

    monkeypatch.setattr(Store, "save", once)
    report = cut(file, "cut", steps=16)  # at which a checkpoint is due
    assert {path.name for path in (report.folder / "checkpoints").iterdir()} == {"left-128", "right-128"}


def test_what_has_learned_enough_says_what_to_raise(file: Path) -> None:
    enough = {f"behaviors__{name}__criterion": -1000.0 for name in ("left", "right")}
    enough |= {f"behaviors__{name}__trial_count": 1 for name in ("left", "right")}
    assert train(file, "enough", **enough).decisions < 640
    with pytest.raises(RunFinishedError, match="has already reached criterion; raise --criterion"):
        train(file, "enough", checkpoint_settings__resume=True, **enough)


def test_several_policies_are_exported_to_a_folder_and_without_checkpoints_there_is_nothing(
    first: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"'.*first' has 2 policies; give --output a folder instead of a file$"):
        export_run(first, tmp_path / "one.onnx")
    assert not (tmp_path / "one.onnx").exists()
    written = [path for path, _ in export_run(first, tmp_path / "models")]
    assert written == [tmp_path / "models" / f"{name}.onnx" for name in ("left", "right")]
    shutil.rmtree(first / "checkpoints")
    for work in (export_run, evaluate_copies):
        with pytest.raises(CheckpointError, match="has no complete checkpoint; train it, or continue it with --resume"):
            work(first)


def test_who_plays_explores_nothing(file: Path) -> None:
    playing = Playing(load_batched(file, {"behaviors.right": dqn() | SMALL | {"agents": ["right"]}}))
    asked: dict[str, list[bool]] = {"left": [], "right": []}

    def watched(entry: PolicyEntry) -> Any:
        act = entry.actor.act

        def noted(*given: Any, deterministic: bool = False, **state: Any) -> Any:
            asked[entry.name].append(deterministic)
            return act(*given, deterministic=deterministic, **state)

        return noted

    for entry in playing.policies:
        entry.actor.act = watched(entry)  # type: ignore[method-assign]
    playing.explore_nothing()
    playing.play()
    assert all(asked["right"]), "values are tried out with chance"
    assert asked["left"]
    assert not any(asked["left"]), "a distribution is drawn from"
