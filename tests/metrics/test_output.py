"""What a run writes for programs is what docs/output.md says, field by field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.cli import main
from tau_trainer.metrics import read_log
from tau_trainer.metrics.jsonl import SCHEMA
from tests.trainers import ran

PAGE = (Path(__file__).parents[2] / "docs" / "output.md").read_text(encoding="utf-8")
TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "whole": (int,),
    "true or false": (bool,),
    "list": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def fields(heading: str) -> dict[str, tuple[type, ...]]:
    """The types that each field of a table may have."""
    named = [row for row in rows(heading) if row[1].removesuffix(" or null") in TYPES]
    return {
        row[0].strip("`"): TYPES[row[1].removesuffix(" or null")] + TYPES["null"] * row[1].endswith(" or null")
        for row in named
    }


def names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


KINDS = {row[0].strip("`"): names(row[1]) for row in rows("Event") if row[1].startswith("`")}


def wrong(record: dict[str, Any], heading: str) -> list[str]:
    """Where a record is not what the page says."""
    told = fields(heading)
    assert len(told) > 4
    found = [f"{heading}: {name} is missing" for name in told.keys() - record.keys()]
    found += [f"{heading}: {name} is not on the page" for name in record.keys() - told.keys()]
    for name, types in told.items():
        value = record.get(name)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            found.append(f"{heading}: {name} is {value!r}")
    for behavior in record.get("behaviors", ()):
        found += wrong(behavior, "Behavior")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of two checkpoints, with the lines of ``--json`` next to its folder."""
    home = tmp_path_factory.mktemp("home ü'")
    # fmt: off
    done = ran(home, "learn", "Basic", "--env", "headless:basic", "--max-steps", "1000", "--json", "--log", "lines",
               "--results-dir", str(home / "results"), "--run-id", "it", "--set", "behaviors.*.checkpoint_interval=600",
               "--set", "behaviors.*.summary_freq=400")
    # fmt: on
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return home / "results" / "it"


def test_every_line_is_what_the_page_says(folder: Path) -> None:
    lines = (folder.parents[1] / "lines").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    found = [sentence for record in records for sentence in wrong(record, record["type"].capitalize())]
    assert found == []
    assert {record["type"] for record in records} == {"event", "snapshot", "summary", "result"}
    assert {record["schema"] for record in records} == {SCHEMA}
    assert f"version {SCHEMA} of" in PAGE
    assert records[-1]["type"] == "result"
    assert records[-1]["models"] == [str(folder / "Basic.onnx")]


def test_the_log_has_the_same_lines(folder: Path) -> None:
    log = list(read_log(folder / "log.jsonl"))
    assert [sentence for record in log for sentence in wrong(record, record["type"].capitalize())] == []
    assert {record["type"] for record in log} == {"event", "summary", "result"}


def test_events_have_the_fields_of_their_kind_and_name_models_that_exist(folder: Path) -> None:
    events = [record for record in read_log(folder / "log.jsonl") if record["type"] == "event"]
    known = [event for event in events if event["kind"] in KINDS]
    assert {event["kind"] for event in known} == {"pair", "checkpoint", "exported"}
    for event in known:
        assert event["fields"].keys() >= KINDS[event["kind"]]
    models = {event["kind"]: Path(event["fields"]["model"]) for event in known if "model" in event["fields"]}
    assert models == {"checkpoint": folder / "Basic" / "Basic-1000.onnx", "exported": folder / "Basic.onnx"}
    assert all(path.is_file() for path in models.values())
    rewards = [event["fields"]["reward"] for event in known if event["kind"] == "checkpoint"]
    assert len(rewards) == 2
    assert all(isinstance(reward, float) for reward in rewards)
    assert [name for name in ("waiting", "starting", "note", "resumed", "warning") if name not in KINDS] == []


def test_the_status_is_what_the_page_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    assert wrong(status, "Status") == []
    snapshot = {**status["run"], "type": "snapshot", "schema": status["schema"]}
    assert wrong(snapshot, "Snapshot") == []
    assert status["schema"] == SCHEMA
    pair = next(row[2] for row in rows("Snapshot") if row[0] == "`pairs`")
    more = next(row[2] for row in rows("Status") if row[0] == "`run`").partition("its pairs")[2]
    assert status["run"]["pairs"][0].keys() == names(pair) | names(more)
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {*status, "sentence"}


def test_the_doctor_says_what_the_page_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["doctor", "--json", "--results-dir", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == fields("Doctor").keys()
    assert all(isinstance(found[name], types) for name, types in fields("Doctor").items())
    by_name = {row[0].strip("`"): names(row[2]) for row in rows("Doctor")}
    assert all(check.keys() == by_name["checks"] for check in found["checks"])
    assert found["machine"].keys() == by_name["machine"]
