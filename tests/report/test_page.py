from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.metrics import JsonLines, MetricsHub
from tau_trainer.report.chart import widths
from tau_trainer.report.page import MOST_BYTES
from tests.report.conftest import append
from tests.report.pages import page, section, words
from tests.report.test_html import Reader


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
    parts = dict(re.findall(r'<section id="([^"]*)">(.*?)</section>', text, re.DOTALL))
    kinds = {name: re.findall(r'class="chart (\w+)"', content) for name, content in parts.items()}
    assert kinds["reward"] == ["large", *widths(len(kinds["reward"]) - 1)], "charts share rows"
    assert (kinds["accuracy"], kinds["policy"]) == (["large"], ["whole"])


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    append(tmp_path, {"type": "event", "kind": "pair", "elapsed": 0.1, "fields": {"pair": 0, "state": "Preparing"}})
    told = words(page(tmp_path))
    assert "No value has been logged yet." in told
    assert "ended without a result" in told


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


@pytest.mark.parametrize(("summaries", "behaviors", "scalars"), [(1500, 1, 20), (20, 12, 100), (1, 40, 150)])
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
                record = {"type": "summary", "behavior": f"B{number}", "step": step * 1000, "values": values}
                file.write(json.dumps(record | {"pairs": pairs}) + "\n")
        for number in range(500):
            fields = {"message": f"{number} {'x' * 5000}"}
            file.write(json.dumps({"type": "event", "kind": "warning", "elapsed": 1.0, "fields": fields}) + "\n")
