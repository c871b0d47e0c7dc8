from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.files import atomic_write_json
from tau_trainer.metrics import JsonLines, MetricsHub, Timer
from tau_trainer.report import RunRecord, render
from tau_trainer.report.chart import widths
from tau_trainer.report.page import MOST_BYTES
from tau_trainer.runs.checkpoints import save_checkpoint
from tau_trainer.settings import dump_settings, load_settings
from tests.report.conftest import append, summaries, write_run
from tests.report.test_html import Reader


def page(*folders: Path) -> str:
    return render([RunRecord.load(folder) for folder in folders])


def words(text: str) -> str:
    return " ".join(" ".join(Reader(text).words).split())


def section(text: str, name: str) -> str:
    """The words of one section."""
    [found] = re.findall(rf'<section id="{name}">.*?</section>', text, re.DOTALL)
    return words(found)


class Balanced(HTMLParser):
    """Fails where a tag is not closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_the_time_of_pairs_and_learners_is_split_by_their_timers(run: Path) -> None:
    timers = Timer()
    for name, decide, wait in (("pair 0", 3.0, 1.0), ("pair 1", 2.0, 2.0)):
        pair = timers.part("pairs", parallel=True).part(name)
        pair.part("decide").total, pair.part("wait for the environment").total = decide, wait
    timers.part("learners", parallel=True).part("TauAgent").part("update").total = 7.0
    (run / "run_logs").mkdir()
    atomic_write_json(run / "run_logs" / "timers.json", timers.tree())
    told = section(page(run), "time")
    assert "time of the pairs decide wait for the environment first 62.5 % 37.5 %" in told
    assert "time of the learners update first 100.0 %" in told
    (run / "run_logs" / "timers.json").write_text('{"children": {"pairs": {"children": [1]}}}', "utf-8")
    assert "time of the" not in section(page(run), "time")
    (run / "run_logs" / "timers.json").write_text("{", "utf-8")
    assert "timers.json cannot be read" in section(page(run), "faults")


def test_everything_is_there(run: Path) -> None:
    text = page(run)
    assert "It beats zeros." in words(text)
    assert section(text, "evaluation").startswith(
        "Evaluation on test rows accuracy reward zeros 2.0 % -0.100 policy 90.0 % +0.500 "
        "ridge strongest baseline 96.0 % +0.700"
    )
    assert "99 are tested and choose nothing, 99 chose the policy, 1,584 were learned from" in section(
        text, "evaluation"
    )
    assert "Grammar 75.0 %" in section(text, "evaluation")
    assert "height: lesson 2 of 2, Tall" in section(text, "lessons")
    assert "pair 0 Completed 2,500" in section(text, "pairs")
    assert "TauAgent-4000 best 4,000" in section(text, "checkpoints")
    assert section(text, "checkpoints").count(" best ") == 2, "the head of a column, and one row"
    assert "10 5.0 s 500 ms 625 ms" in section(text, "time")
    assert section(text, "faults") == "Faults Nothing went wrong."
    assert re.search(r"tau.* pairs 4 ", section(text, "settings"))
    assert "hyperparameters.batch_size 256 1024" in section(text, "settings")
    assert "processor A processor" in section(text, "machine")
    assert "torch 2.13.0" in section(text, "machine")


def test_where_the_policy_is_and_how_to_resume(run: Path) -> None:
    told = section(page(run), "use-and-resume")
    where = f"--run-id {run.name} --results-dir {run.parent.as_posix()}"
    assert f"trained policy (ONNX) not exported yet: tau-train export {run.as_posix()} resume " in told
    assert "in Unity" not in told
    assert told.endswith(f"resume tau-train parallel --resume {where} , with a larger --max-steps")
    (run / "TauAgent.onnx").write_bytes(b"")
    assert f"trained policy (ONNX) {run.as_posix()}/TauAgent.onnx in Unity Drag " in section(
        page(run), "use-and-resume"
    )
    record = json.loads((run / "run.json").read_text("utf-8"))
    for command, expected in (
        (["/bin/tau-train", "learn", "a b", "--env", "evil", "--force"], f"tau-train learn --resume {where}"),
        (["tau-train", "batch", "--resume", "--run-id", "x"], f"tau-train batch --resume {where}"),
        (["train.py"], "Start the run as before, with the same run-id, and ask for it to be resumed."),
        ([], "Start the run as before"),
        ("damaged", "Start the run as before"),
        (["tau-train", "find"], "Start the run as before"),
    ):
        (run / "run.json").write_text(json.dumps(record | {"command": command}), "utf-8")
        told = section(page(run), "use-and-resume")
        assert f" resume {expected}" in told
        assert "evil" not in told, "a run from elsewhere says nothing that the user would paste"
    shutil.rmtree(run / "checkpoints")
    assert "resume " not in section(page(run), "use-and-resume").removeprefix("Use and resume ")
    (run / "TauAgent.onnx").unlink()
    assert 'id="use-and-resume"' not in page(run)


def test_charts_share_rows_and_the_first_of_rewards_is_large(run: Path) -> None:
    parts = dict(re.findall(r'<section id="([^"]*)">(.*?)</section>', page(run), re.DOTALL))
    kinds = {name: re.findall(r'class="chart (\w+)"', content) for name, content in parts.items()}
    assert kinds["accuracy"] == ["large"]
    assert kinds["reward"][0] == "large"
    assert kinds["reward"][1:] == widths(len(kinds["reward"]) - 1)
    assert kinds["policy"] == ["whole"]


def test_a_run_without_pairs_of_a_task_has_engines(tmp_path: Path) -> None:
    with MetricsHub([JsonLines(tmp_path / "log.jsonl")]) as hub:
        for pair in range(2):
            hub.event("pair", pair=pair, state="Completed")
            hub.episode("Walker", pair, [1.0], [5])
        hub.flush("Walker", 1000)
    assert section(page(tmp_path), "engines").startswith(
        "Engines engine state last reward engine restarts engine 0 Comp"
    )


def test_the_page_is_whole_and_asks_for_nothing(run: Path) -> None:
    text = page(run)
    checker = Balanced()
    checker.feed(text)
    checker.close()
    assert checker.stack == []
    read = Reader(text)
    assert not [tag for tag, attributes in read.seen if {"src", "srcset", "style", "onload"} & set(attributes)]
    assert not {tag for tag, _ in read.seen} & {"link", "img", "iframe", "object", "base", "form"}
    assert "url(" not in text
    assert "@import" not in text
    links = [str(attributes["href"]) for tag, attributes in read.seen if tag == "a"]
    places = [f"#{attributes['id']}" for _, attributes in read.seen if "id" in attributes]
    assert links == places, "every section can be gone to"
    [policy] = [one["content"] for tag, one in read.seen if one.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_names_of_a_user_are_text(tmp_path: Path) -> None:
    folder = tmp_path / "run&amp;b"
    folder.mkdir()
    settings = {"behaviors": {EVIL: {"trainer_type": "ppo"}}, "environment_parameters": {EVIL: 1.0}}
    (folder / "configuration.yaml").write_text(json.dumps(settings), "utf-8")
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        for behavior in (EVIL, "other"):
            hub.add(behavior, f"Environment/{EVIL}", 1.0, pair=EVIL)
            hub.add(behavior, f"Environment/{EVIL}", 2.0, pair="</title>")
            hub.flush(behavior, 10)
        hub.warning(EVIL, pair=EVIL)
        hub.event("pair", pair=EVIL, state=EVIL)
        hub.event("pair", pair="2", state="</style>")
        hub.event("lesson", message=EVIL)
        hub.event(EVIL, message=EVIL)
    scores = {"accuracy": 0.5, "reward": 0.5}
    told = {**scores, "strongest": EVIL, "baselines": {EVIL: scores}, "accuracy_by_domain": {EVIL: 1}}
    (folder / "evaluation.json").write_text(json.dumps(told), "utf-8")
    (folder / "run.json").write_text(json.dumps({"command": [EVIL], "seed": EVIL, "versions": {EVIL: EVIL}}), "utf-8")
    second = tmp_path / "second"
    shutil.copytree(folder, second)
    for text in (page(folder), page(folder, second)):
        read = Reader(text)
        assert [tag for tag, _ in read.seen].count("script") == 1
        assert not {tag for tag, _ in read.seen} & {"img"}
        assert not [one for _, one in read.seen if any(name.startswith("on") for name in one)]
        assert words(text).count("alert(1)") >= 9, "told as it is"


def test_several_runs_are_one_thing_with_seeds(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 2), ("c", 3))]
    text = page(*folders)
    assert "a and 2 more" in words(text)
    told = section(text, "runs")
    assert "mean ± standard deviation" in told
    assert "90.0 % ± 0.0 %" in told
    assert "These runs have the same settings, except for seed and name." in told
    assert "Band: lowest to highest of 3 runs around their mean." in section(text, "reward")
    assert "1, 2, 3 -1" in section(text, "settings")
    assert all(f"policy of {name}" in section(text, "evaluation") for name in "abc")
    assert all(f"{name}: TauAgent-4000 best" in section(text, "checkpoints") for name in "abc")


def test_runs_that_are_not_one_thing_are_told(tmp_path: Path) -> None:
    text = page(write_run(tmp_path / "a"), write_run(tmp_path / "b", tau__agents=8))
    assert '<details open=""><summary class="warn">' in text, "few of them are open"
    assert "These runs differ in more than their seed: in 1 setting. key a b tau.agents 32 8" in section(text, "runs")
    assert "agents 32, 8 32" in section(text, "settings")


def test_many_differences_are_a_folded_table(tmp_path: Path) -> None:
    one, other = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    (other / "configuration.yaml").write_text(dump_settings(load_settings("Pendulum")), "utf-8")
    text = page(one, other)
    [(opening, fold)] = re.findall(r'(<details[^>]*>)(<summary class="warn">.*?)</details>', text, re.DOTALL)
    assert opening == "<details>", "closed"
    count = re.search(r"in more than their seed: in (\d+) settings", words(fold))
    assert count
    assert int(count[1]) > 75
    assert fold.count("<tr>") == 1 + int(count[1])
    assert "behaviors.TauAgent.trainer_type ppo absent" in words(fold)


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    append(tmp_path, {"type": "event", "kind": "pair", "elapsed": 0.1, "fields": {"pair": 0, "state": "Preparing"}})
    text = page(tmp_path)
    assert "No value has been logged yet." in words(text)
    assert "ended without a result" in words(text)


def test_faults_are_counted_first(run: Path) -> None:
    warning = {"type": "event", "kind": "warning", "elapsed": 2.0, "fields": {"message": "odd"}}
    append(run, *[warning] * 3)
    assert section(page(run), "faults").startswith("Faults 3 warnings. after what message times 2.0 s warning odd 3")


def test_a_run_without_a_task_has_no_evaluation(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    (folder / "evaluation.json").unlink()
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        hub.episode("Ball", 0, [1.0, 3.0], [10, 20])
        hub.flush("Ball", 100)
    text = page(folder)
    assert "evaluation" not in re.findall(r'section id="([^"]*)"', text)
    assert "Band: one standard deviation around the mean, cut at the lowest and highest value." in section(
        text, "reward"
    )


def test_what_groups_get_is_told_and_marks_the_best(tmp_path: Path) -> None:
    """Agents that get nothing themselves: the group's reward is a figure, and says which checkpoint is best."""
    run = write_run(tmp_path / "r")
    (run / "evaluation.json").unlink()
    (run / "log.jsonl").unlink()
    shutil.rmtree(run / "checkpoints")
    for step in (2000, 4000, 5000):
        weights = {"model.weight": np.zeros(8, np.float32)}
        save_checkpoint(run / "checkpoints", step, weights, {"learner": {}}, 0, name="TauAgent")
    with MetricsHub([JsonLines(run / "log.jsonl")]) as hub:
        for step, group in ((1000, 1.0), (3000, 9.0), (5000, 2.0)):
            hub.episode("TauAgent", 0, [0.0], [5], [group])
            hub.flush("TauAgent", step)
    text = page(run)
    assert "reward of the last summary +0.000 group reward of the last summary +2.000" in words(text)
    assert "TauAgent-4000 best 4,000 +0.000 +9.000" in section(text, "checkpoints")


@pytest.mark.parametrize(("summaries", "behaviors", "scalars"), [(5000, 1, 20), (60, 12, 100), (1, 40, 150)])
def test_the_page_stays_small_however_long_the_log(
    summaries: int, behaviors: int, scalars: int, tmp_path: Path
) -> None:
    long_log(tmp_path, summaries, behaviors, scalars)
    text = page(tmp_path)
    assert len(text.encode()) <= MOST_BYTES
    assert "401 more are left out here." in section(text, "faults")
    if scalars > 60:
        assert "scalars more are in log.jsonl and in TensorBoard" in words(text)


def long_log(folder: Path, summaries: int, behaviors: int, scalars: int) -> None:
    """A log with so many of each, and with 500 long warnings."""
    with (folder / "log.jsonl").open("w", encoding="utf-8") as file:
        for step in range(1, summaries + 1):
            for number in range(behaviors):
                values: dict[str, Any] = {f"Game/value {i}": (step * (i + 3)) % 101 / 7 for i in range(scalars)}
                values["Environment/Cumulative Reward"] = step % 17
                pairs = {str(p): {"Environment/Cumulative Reward": step % 13 + p} for p in range(4)}
                record = {
                    "type": "summary",
                    "behavior": f"B{number}",
                    "step": step * 1000,
                    "values": values,
                    "pairs": pairs,
                }
                file.write(json.dumps(record) + "\n")
        for number in range(500):
            fields = {"message": f"{number} {'x' * 5000}"}
            file.write(json.dumps({"type": "event", "kind": "warning", "elapsed": 1.0, "fields": fields}) + "\n")


def test_the_same_files_give_the_same_page(run: Path) -> None:
    assert page(run) == page(run)


def test_independent_pairs_are_pairs_of_one_behavior(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", pairs=2)
    (folder / "log.jsonl").unlink()
    with MetricsHub([JsonLines(folder / "log.jsonl")]) as hub:
        for pair in range(2):
            hub.event("pair", pair=pair, state="Completed")
            summaries(hub, f"TauAgent-pair{pair}", pairs=1, seed=pair)
    text = page(folder)
    assert "Band: lowest to highest of 2 pairs." in section(text, "reward")
    assert re.search(r"pair 1 Completed - \+4\.370", section(text, "pairs"))
