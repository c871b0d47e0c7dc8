from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tau_trainer
from tau_trainer.errors import CheckpointError, NonFiniteError
from tau_trainer.runs.checkpoint_index import digest_of, scan
from tau_trainer.runs.checkpoints import latest_checkpoint, load_checkpoint, save_checkpoint
from tests.waiting import HANG_S

ROOT = Path(tau_trainer.__file__).parents[1]


def _save(folder: Path, step: int, keep: int = 5, name: str = "Tau") -> Path:
    tensors: dict[str, Any] = {"actor.weight": np.full((3, 2), step, np.float32), "steps": np.array(step, np.int64)}
    return save_checkpoint(folder, step, tensors, {"counters": {"decisions": step}}, keep, name=name)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    tensors = {"w": rng.normal(size=(4, 2)), "rng": torch.get_rng_state().numpy(), "mean": np.arange(3.0)}
    manifest = {"rng": rng.bit_generator.state, "schedule": {"lr": 3e-4}, "list": [1, "a", None]}
    path = save_checkpoint(tmp_path / "run" / "checkpoints", 1000, tensors, manifest, 5, name="3DBall")
    assert path == tmp_path / "run" / "checkpoints" / "3DBall-1000"
    assert _names(path) == ["manifest.json", "tensors.safetensors"]
    loaded = load_checkpoint(path)
    assert (loaded.name, loaded.step, loaded.path) == ("3DBall", 1000, path)
    assert loaded.tensors.keys() == tensors.keys()
    assert all(np.array_equal(loaded.tensors[name], values) for name, values in tensors.items())
    assert loaded.manifest == manifest
    restored = np.random.default_rng(0)
    restored.bit_generator.state = loaded.manifest["rng"]
    assert restored.random() == rng.random()


def test_the_manifest_describes_the_file(tmp_path: Path) -> None:
    head = json.loads((_save(tmp_path, 7) / "manifest.json").read_text())
    assert head["format_version"] == 1
    assert head["step"] == 7
    assert head["tensors"]["actor.weight"] == {"shape": [3, 2], "dtype": "float32"}
    data = (tmp_path / "Tau-7" / "tensors.safetensors").read_bytes()
    assert head["files"]["tensors.safetensors"]["bytes"] == len(data)
    assert head["created"].endswith("+00:00")


def test_the_oldest_are_removed(tmp_path: Path) -> None:
    for step in range(1, 8):
        _save(tmp_path, step, keep=3)
        _save(tmp_path, step, keep=2, name="Other")
    assert _names(tmp_path) == ["Other-6", "Other-7", "Tau-5", "Tau-6", "Tau-7"]


def test_all_are_kept_where_asked_for(tmp_path: Path) -> None:
    for step in range(8):
        _save(tmp_path, step, keep=-(step % 2))
    assert len(_names(tmp_path)) == 8


def test_the_newest_stays_even_when_its_step_is_lower_and_takes_the_place_of_the_same_step(tmp_path: Path) -> None:
    _save(tmp_path, 500)
    for _ in range(3):
        newest = _save(tmp_path, 100, keep=1)
        assert len(scan(tmp_path, "Tau")) == 1
    latest = latest_checkpoint(tmp_path, "Tau").checkpoint
    assert latest is not None
    assert (latest.path, latest.step) == (newest, 100)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_never_reach_a_checkpoint(tmp_path: Path, number: float) -> None:
    _save(tmp_path, 1)
    with pytest.raises(NonFiniteError, match=r"'critic\.bias' of 'Tau'"):
        save_checkpoint(tmp_path, 2, {"critic.bias": np.array([number])}, {}, 5, name="Tau")
    with pytest.raises(NonFiniteError, match=r"'Tau': 'manifest\.reward'"):
        save_checkpoint(tmp_path, 2, {}, {"reward": number}, 5, name="Tau")
    assert _names(tmp_path) == ["Tau-1"]


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'manifest\.x' is a object"):
        save_checkpoint(tmp_path, 1, {}, {"x": object()}, 5)
    with pytest.raises(CheckpointError, match="steps count from 0"):
        save_checkpoint(tmp_path, -1, {}, {}, 5)
    assert _names(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="choose another --results-dir"):
        _save(tmp_path / "file", 1)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_ones_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    _save(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(CheckpointError, match=r"'Tau-2' .*No space left on device"):
            _save(tmp_path, 2)
    assert _names(tmp_path) == ["Tau-1"]
    assert load_checkpoint(tmp_path / "Tau-1").step == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows flushes no folders")
def test_the_disk_has_all_of_it_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a name without its content would be a checkpoint that is none."""
    happened: list[Any] = []
    fsync, replace = os.fsync, os.replace

    def flushed(descriptor: int) -> None:
        happened.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def renamed(source: Path, target: Path) -> None:
        happened.append("renamed")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    path = _save(tmp_path, 1)
    at = happened.index("renamed")
    content = {file.stat().st_ino for file in path.iterdir()}
    assert content == set(happened[: at - 1])
    assert happened[at - 1] == path.stat().st_ino, "the names in it, last"
    assert happened[at + 1 :] == [tmp_path.stat().st_ino], "then its own"


# Damage: every fault is refused, and the previous checkpoint takes over.


def _flip(path: Path) -> None:
    file = path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def _edited(change: Callable[[dict[str, Any]], object], *, signed: bool = True) -> Callable[[Path], object]:
    """Another manifest; ``signed``: forged, with a digest that is right again."""

    def damage(path: Path) -> None:
        head = json.loads((path / "manifest.json").read_text())
        change(head)
        (path / "manifest.json").write_text(json.dumps(head | {"digest": digest_of(head)} if signed else head))

    return damage


def _cut(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-4])


FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (_cut("tensors.safetensors"), r"has \d+ bytes instead of \d+"),
    (_flip, "content of 'tensors.safetensors' has changed"),
    (_edited(lambda head: head["content"].clear(), signed=False), "content of 'manifest.json' has changed"),
    (_cut("manifest.json"), "'manifest.json' is not JSON"),
    (_edited(lambda head: head["tensors"].pop("steps")), "does not hold the tensors"),
    (_edited(lambda head: head.pop("tensors")), "content of 'manifest.json' has changed"),
    (_edited(lambda head: head.update(format_version=2)), "update Tau Trainer"),
    (lambda path: (path / "tensors.safetensors").unlink(), "'tensors.safetensors' is missing"),
    (lambda path: (path / "manifest.json").unlink(), "'manifest.json' is missing"),
    (lambda path: (path / "manifest.json").write_text('{"format": "other"}'), "not a checkpoint of Tau Trainer"),
]


@pytest.mark.parametrize(("damage", "text"), FAULTS)
def test_damage_is_refused_and_the_previous_one_taken(
    tmp_path: Path, damage: Callable[[Path], object], text: str
) -> None:
    _save(tmp_path, 1)
    damage(_save(tmp_path, 2))
    with pytest.raises(CheckpointError, match=text):
        load_checkpoint(tmp_path / "Tau-2")
    found = latest_checkpoint(tmp_path, "Tau")
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    (warning,) = found.warnings
    assert "Tau-2" in warning


def test_without_a_whole_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "absent").checkpoint is None
    _flip(_save(tmp_path, 1))
    _flip(_save(tmp_path, 2))
    found = latest_checkpoint(tmp_path, "Tau")
    assert found.checkpoint is None
    assert len(found.warnings) == 2
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        load_checkpoint(tmp_path / "Tau-3")


def test_leftovers_are_cleared_away(tmp_path: Path) -> None:
    """Those of this name: others may be written by another thread at this moment."""
    digits = uuid.uuid4().hex
    for name in (f".Tau-{digits}", f".Tau-1-{digits}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tensors.safetensors").write_bytes(b"half")
    assert latest_checkpoint(tmp_path, "Tau").checkpoint is None
    _save(tmp_path, 1)
    assert _names(tmp_path) == [f".Tau-1-{digits}", "Tau-1"]


def test_several_learners_save_at_once(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for step in range(1, 11):
                _save(tmp_path, step, keep=2, name=name)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"learner {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert _names(tmp_path) == sorted(f"learner {i}-{step}" for i in range(4) for step in (9, 10))
    for path in tmp_path.iterdir():
        load_checkpoint(path)


KILLED_WRITER = """
    import itertools, os, shutil, signal, subprocess, sys, types
    from pathlib import Path

    import numpy as np

    # The modules alone, without what the rest of the package imports.
    package = types.ModuleType("tau_trainer.training")
    package.__path__ = [sys.argv[2]]
    sys.modules["tau_trainer.training"] = package
    from tau_trainer.runs import checkpoints

    def save(folder, fatal):
        events = 0

        def event():
            nonlocal events
            events += 1
            if events == fatal:
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

        def fatal_around(function):
            def call(*arguments, **keywords):
                event()
                result = function(*arguments, **keywords)
                event()
                return result
            return call

        def half(path, data):
            with path.open("xb") as file:
                file.write(data[: len(data) // 2])
                file.flush()
                event()
            path.unlink()
            write(path, data)

        write = checkpoints.write_synced
        checkpoints.write_synced = half
        for owner, name in ((os, "fsync"), (os, "replace"), (os, "mkdir"), (shutil, "rmtree")):
            setattr(owner, name, fatal_around(getattr(owner, name)))
        tensors = {"w": np.full(1000, 3, np.float32), "steps": np.array(3)}
        checkpoints.save_checkpoint(folder, 3, tensors, {"step": 3}, 2, name="Tau")

    def dies(fatal):
        if not hasattr(os, "fork"):
            return subprocess.run([sys.executable, *sys.argv, str(fatal)]).returncode != 0
        if child := os.fork():
            return os.waitpid(child, 0)[1] != 0
        save(Path(sys.argv[1], f"run {fatal}"), fatal)
        os._exit(0)

    if len(sys.argv) > 3:
        save(Path(sys.argv[1], f"run {sys.argv[3]}"), int(sys.argv[3]))
    else:
        sys.stdout.write(str(next(fatal for fatal in itertools.count(1) if not dies(fatal))))
"""


def test_kill_at_every_stage_leaves_old_or_new(tmp_path: Path) -> None:
    """The writer dies at its first event, at its second, and so on, until it lives to the end."""
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(KILLED_WRITER))
    most = 40
    for number in range(1, most):
        for step in (1, 2):
            weights = {"w": np.full(1000, step, np.float32)}
            save_checkpoint(tmp_path / f"run {number}", step, weights, {"step": step}, 2, name="Tau")
    writer = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(ROOT / "tau_trainer" / "training")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert writer.stderr == ""
    lived, seen = int(writer.stdout), list[int]()
    assert 14 < lived < most, "it really went through the stages"
    for number in range(1, lived + 1):
        folder = tmp_path / f"run {number}"
        found = latest_checkpoint(folder, "Tau")
        assert found.warnings == ()
        assert found.checkpoint is not None
        step = found.checkpoint.step
        assert found.checkpoint.manifest == {"step": step}
        assert (found.checkpoint.tensors["w"] == step).all()
        for entry in scan(folder, "Tau"):
            load_checkpoint(entry.path)
        seen.append(step)
        _save(folder, 4, keep=2)
        assert not any(name.startswith(".") for name in _names(folder))
    assert set(seen[:-1]) == {2, 3}, "some deaths came before the rename, some after"
    assert seen[-1] == 3


FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def _unsafe(tree: ast.AST) -> list[str]:
    """Imports and calls that could run code from a file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in FORBIDDEN_MODULES:
                found.append(node.module)
            if node.module == "torch":
                found += [f"torch.{alias.name}" for alias in node.names if alias.name in ("load", "save")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in {("torch", "load"), ("torch", "save"), ("yaml", "unsafe_load")}:
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append("allow_pickle")
    return found


def test_nothing_in_the_package_is_unpickled() -> None:
    files = sorted((ROOT / "tau_trainer").rglob("*.py"))
    assert len(files) > 20
    pickled = "import pickle\nfrom torch import load\nimport torch\ntorch.load('x')\nnp.load(f, allow_pickle=True)"
    assert sorted(_unsafe(ast.parse(pickled))) == ["allow_pickle", "pickle", "torch.load", "torch.load"]
    assert _unsafe(ast.parse("np.load(f, allow_pickle=False)")) == []
    unsafe = {str(path): found for path in files if (found := _unsafe(ast.parse(path.read_text("utf-8"))))}
    assert unsafe == {}
