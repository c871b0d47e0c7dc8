from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.runs.checkpoints import TENSORS, save_checkpoint
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.settings import RunSettings


def settings(results: Path, run: str | None = None, **paths: str) -> RunSettings:
    data: dict[str, Any] = {"checkpoint_settings": {"results_dir": str(results), "initialize_from": run}}
    data["behaviors"] = {"A": {}, "B": {}} | {name: {"init_path": path} for name, path in paths.items()}
    return RunSettings.model_validate(data)


def saved(results: Path, run: str, name: str, step: int = 100) -> Path:
    numbers = {"x": np.full(3, step, np.float32)}
    return save_checkpoint(results / run / "checkpoints", step, numbers, {"learner": {}}, 5, name=name)


def test_the_newest_of_that_name(tmp_path: Path) -> None:
    for step in (300, 100):
        saved(tmp_path, "old", "A", step)
    origin = InitialWeights(settings(tmp_path, "old")).of("A", "A")
    assert origin is not None
    assert origin.step == 100, "written last"
    assert InitialWeights(settings(tmp_path, "old")).of("B", "B") is None
    assert InitialWeights(settings(tmp_path)).of("A", "A") is None
    (saved(tmp_path, "other", "A") / TENSORS).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"--initialize-from other: .* is damaged"):
        InitialWeights(settings(tmp_path, "other")).of("A", "A")


def test_an_independent_learner_takes_its_own_or_the_shared_one(tmp_path: Path) -> None:
    own, shared = saved(tmp_path, "old", "A-pair1"), saved(tmp_path, "old", "A")
    initial = InitialWeights(settings(tmp_path, "old"))
    found = [initial.of(learner, "A") for learner in ("A-pair1", "A-pair2")]
    assert [one.path for one in found if one is not None] == [own, shared]


def test_a_path_goes_before_the_run(tmp_path: Path) -> None:
    elsewhere, _ = saved(tmp_path / "elsewhere", "x", "Other", 7), saved(tmp_path, "old", "A")
    initial = InitialWeights(settings(tmp_path, "old", A=str(elsewhere)))
    origin = initial.of("A", "A")
    assert origin is not None
    assert origin.path == elsewhere
    saved(tmp_path, "old", "B", 5)
    bare = InitialWeights(settings(tmp_path, "old", B="A-100")).of("B", "B")
    assert bare is not None
    assert bare.name == "A"


@pytest.mark.parametrize(
    ("run", "paths", "sentence"),
    [
        ("olt", {}, "--initialize-from olt: no run of this name in '{results}'; did you mean old?"),
        ("empty", {}, "--initialize-from empty: this run in '{results}' has saved nothing"),
        (None, {"A": "model.pt"}, "behaviors.A.init_path model.pt: weights are read only from Tau Trainer's checkp"),
        (None, {"A": "A-100"}, "behaviors.A.init_path A-100: there is no checkpoint 'A-100'; name a checkpoint's "),
        (
            "old",
            {"B": "A-999"},
            "behaviors.B.init_path A-999: there is no checkpoint '{results}/old/checkpoints/A-999'",
        ),
    ],
)
def test_what_does_not_exist_is_told(tmp_path: Path, run: str | None, paths: dict[str, str], sentence: str) -> None:
    saved(tmp_path, "old", "A")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError) as error:
        InitialWeights(settings(tmp_path, run, **paths))
    assert str(error.value).replace("\\", "/").startswith(sentence.format(results=str(tmp_path).replace("\\", "/")))
    with pytest.raises(SettingsError, match="there are no runs"):
        InitialWeights(settings(tmp_path / "nothing", "old"))


def test_a_run_of_other_behaviors_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "old", "C")
    saved(tmp_path, "old", "D-pair2")
    chosen = settings(tmp_path, "old")
    with pytest.raises(SettingsError) as error:
        InitialWeights(chosen)
    assert str(error.value) == (
        "--initialize-from old: that run has saved C, D-pair2, but this one learns A, B, so there is nothing to start "
        "from; name a run with the same behavior, or leave this flag out"
    )
    open_to_all = chosen.model_copy(update={"default_settings": chosen.behaviors["A"]})
    for refused, taken in (({"A": "A", "B": "B"}, {"A": "A", "C": "C"}), ({"D": "D"}, {"D-pair2": "D"})):
        InitialWeights(open_to_all).check(taken)
        with pytest.raises(SettingsError, match="so there is nothing to start from"):
            InitialWeights(open_to_all).check(refused)
    saved(tmp_path, "old", "A-pair0")
    InitialWeights(chosen)
    InitialWeights(chosen.model_copy(update={"checkpoint_settings": settings(tmp_path).checkpoint_settings}))
