from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import CheckpointError, TauError
from tau_trainer.runs.checkpoint_index import digest_of
from tau_trainer.tau.dataset import PACKAGED_DATA
from tests.training.fakes import Memory, Stage, begin, tau_settings, train


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        Stage.opened(patch)
        return train(tau_settings(tmp_path_factory.mktemp("original"))).folder


@pytest.fixture
def halfway(stage: Stage, original: Path, tmp_path: Path) -> Path:
    """A run that has had half of the decisions that are asked for when it is resumed."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def resumed(results: Path, **overrides: Any) -> Any:
    more = {"behaviors__TauAgent__max_steps": 800, "checkpoint_settings__resume": True} | overrides
    return tau_settings(results, **more)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(stage: Stage, run: Path, match: str, kind: type[TauError] = CheckpointError, **overrides: Any) -> None:
    """Resuming raises, and neither starts an engine nor touches a file."""
    before = content(run)
    with pytest.raises(kind, match=match):
        begin(resumed(run.parent, **overrides))
    assert content(run) == before
    assert stage.starts == []


def test_other_settings(stage: Stage, halfway: Path) -> None:
    other: Any = {"behaviors__TauAgent__network_settings__hidden_units": 64}
    refused(stage, halfway, "does not fit the settings .*hidden units is 16.*needs 64.*another --run-id", **other)
    assert train(resumed(halfway.parent)).decisions == 800, "nothing was lost"


@pytest.mark.parametrize(("first", "then"), [("shared", "independent"), ("independent", "shared")])
def test_another_sharing_of_policies(stage: Stage, tmp_path: Path, first: str, then: str) -> None:
    run = train(tau_settings(tmp_path, tau__policy=first)).folder
    stage.starts.clear()
    refused(stage, run, f"resume it with --policy {first}", tau__policy=then)


def test_other_data(stage: Stage, halfway: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.json"
    for source in PACKAGED_DATA.parent.iterdir():
        if source.stem.split(".")[0] == "tau" and source.is_file():
            shutil.copy(source, tmp_path / source.name.replace("tau", "same", 1))
    rows = json.loads(same.read_text("utf-8"))
    sections = [key for key, value in rows.items() if isinstance(value, list)]
    rows[sections[0]] = rows[sections[0]][:-5]
    (tmp_path / "less.json").write_text(json.dumps(rows), "utf-8")
    for path in tmp_path.glob("same.*"):
        if path.suffix != ".json":
            shutil.copy(path, tmp_path / path.name.replace("same", "less", 1))
    refused(stage, halfway, "learned from another data set", tau__data=str(tmp_path / "less.json"))
    assert train(resumed(halfway.parent, tau__data=str(same))).decisions == 800, "the same rows elsewhere will do"


def test_nothing_was_saved(stage: Stage, halfway: Path) -> None:
    shutil.rmtree(halfway / "checkpoints")
    refused(stage, halfway, "nothing to resume; start it again with --force")


def test_only_damaged_checkpoints(stage: Stage, halfway: Path) -> None:
    for path in (halfway / "checkpoints").glob("*/tensors.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    refused(stage, halfway, r"no checkpoint of 'TauAgent' can be read: .*TauAgent-400' is damaged .*--force")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("task", []),
        ("pairs", ["0"]),
        ("pairs.first", 1),
        ("generation", "newest"),
        ("lessons", 3),
        ("self_play", []),
        ("learner.recent_returns", {"a": 1}),
        ("learner.decisions", "many"),
        ("learner.decisions", "400"),
        ("learner.recent_returns", ["1.5"]),
    ],
)
def test_a_manifest_that_a_stranger_wrote(stage: Stage, halfway: Path, place: str, value: Any) -> None:
    """Its digest is right: whoever wrote the rest can write that too."""
    for path in (halfway / "checkpoints").glob("*/manifest.json"):
        head = json.loads(path.read_text())
        *owners, last = place.split(".")
        owner = head["content"]
        for name in owners:
            owner = owner[name]
        owner[last] = value
        path.write_text(json.dumps(head | {"digest": digest_of(head)}))
    refused(stage, halfway, rf"'{place}.*' in its manifest cannot be read \(.*\); restore the checkpoint from a copy")


def test_a_pair_more_begins_from_zero_and_that_is_said(stage: Stage, tmp_path: Path, memory: Memory) -> None:
    train(tau_settings(tmp_path, tau__policy="independent"))
    report = train(resumed(tmp_path, tau__policy="independent", tau__pairs=3), memory)
    assert report.outcome == "completed"
    assert [text for text in memory.warnings if "from scratch" in text] == [
        "'TauAgent-pair2' starts from scratch: the run that is resumed saved nothing of it"
    ]


def test_with_fewer_pairs_all_decisions_count(stage: Stage, tmp_path: Path) -> None:
    """Those of the pairs that are gone too, and in the run after that one as well."""
    train(tau_settings(tmp_path, tau__pairs=4))
    again = train(resumed(tmp_path, tau__pairs=2, behaviors__TauAgent__max_steps=600))
    assert [pair.decisions for pair in again.pairs] == [200, 200]
    assert again.decisions == 600 == again.behaviors[0].step
    once_more = train(resumed(tmp_path, tau__pairs=2, behaviors__TauAgent__max_steps=1000))
    assert once_more.decisions == once_more.behaviors[0].step == 1000
