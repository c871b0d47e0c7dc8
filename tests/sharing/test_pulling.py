"""Pulling, from a Hub on this machine: what a run is comes back, and what somebody slipped in does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tau_trainer.cli import main
from tau_trainer.errors import CheckpointError, HubError, SettingsError
from tau_trainer.runs.checkpoints import latest_checkpoint
from tau_trainer.settings import dump_settings, load_settings
from tau_trainer.sharing import Repository, contents_of, pull
from tests.report.conftest import write_run
from tests.sharing.conftest import hub_of
from tests.sharing.fake_hub import Hub

NAME = "somebody/run"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """The folder of a run, and what a Hub has of it once it was pushed."""
    folder = write_run(tmp_path_factory.mktemp("mine") / "first")
    (folder / "TauAgent.onnx").write_bytes(b"onnx")
    with pytest.MonkeyPatch.context() as patch, hub_of(patch, tmp_path_factory.mktemp("hub")) as there:
        Repository(NAME).push(contents_of(folder, NAME), "Run", private=False, force=False)
        return folder, there.repos[NAME].files


@pytest.fixture
def shared(remote: Hub, pushed: tuple[Path, dict[str, bytes]]) -> Path:
    """The folder of a run that was pushed; nobody changes it."""
    folder, files = pushed
    remote.repo(NAME, files)
    return folder


def slip_in(remote: Hub, files: dict[str, bytes]) -> None:
    remote.repos[NAME].add({**remote.repos[NAME].files, **files})


def nothing_left(results: Path) -> bool:
    return not results.exists() or not list(results.iterdir())


def test_a_run_comes_back(shared: Path, tmp_path: Path, remote: Hub) -> None:
    said = list[str]()
    pulled = pull(Repository(NAME), tmp_path / "results", say=said.append)
    assert pulled.folder == tmp_path / "results" / "run"
    assert pulled.commit == remote.repos[NAME].commits[-1][0]
    assert pulled.notes == ()
    assert len(said) == 1
    assert said[0].startswith("pulling 10 files (")
    back = {path.relative_to(pulled.folder).as_posix(): path for path in pulled.folder.rglob("*") if path.is_file()}
    assert set(back) == set(remote.repos[NAME].files) - {".gitattributes"}
    for name in ("log.jsonl", "evaluation.json", "TauAgent.onnx"):
        assert back[name].read_bytes() == (shared / name).read_bytes()
    mine, theirs = (
        latest_checkpoint(folder / "checkpoints", "TauAgent").checkpoint for folder in (shared, pulled.folder)
    )
    assert mine is not None
    assert theirs is not None
    assert mine.manifest == theirs.manifest
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["run"], "no staging is left"


def test_its_settings_are_called_after_its_new_place(shared: Path, tmp_path: Path) -> None:
    pulled = pull(Repository(NAME), tmp_path / "results", "again")
    settings, before = (load_settings(folder / "configuration.yaml") for folder in (pulled.folder, shared))
    assert settings.checkpoint_settings.run_id == "again"
    assert settings.checkpoint_settings.results_dir == str(tmp_path / "results")
    assert settings.model_copy(update={"checkpoint_settings": before.checkpoint_settings}) == before


def test_an_older_commit_can_be_asked_for(shared: Path, tmp_path: Path, remote: Hub) -> None:
    first = remote.repos[NAME].commits[-1][0]
    slip_in(remote, {"evaluation.json": b'{"accuracy": 0.1}'})
    pulled = pull(Repository(NAME), tmp_path / "results", revision=first)
    assert json.loads((pulled.folder / "evaluation.json").read_text())["accuracy"] == 0.9
    with pytest.raises(HubError, match="has no such revision"):
        pull(Repository(NAME), tmp_path / "results", "other", revision="nothing")


def test_a_folder_that_exists_stays_as_it_is(shared: Path, tmp_path: Path, remote: Hub) -> None:
    (tmp_path / "results" / "run").mkdir(parents=True)
    remote.asked.clear()
    with pytest.raises(SettingsError, match="already exists and is not overwritten"):
        pull(Repository(NAME), tmp_path / "results")
    assert remote.asked == [], "not even asked for"
    assert list((tmp_path / "results" / "run").iterdir()) == []


def test_a_run_id_is_a_folders_name(shared: Path, tmp_path: Path) -> None:
    for run_id in ("../x", "a/b", "con", ".hidden"):
        with pytest.raises(SettingsError, match="is not a valid folder name"):
            pull(Repository(NAME), tmp_path / "results", run_id)
    assert pull(Repository(NAME), tmp_path / "results", "").folder.name == "run"


@pytest.mark.parametrize(
    "path", ["../evil.onnx", "/etc/evil.onnx", "checkpoints/../../evil.onnx", "a\\..\\evil.onnx", "C:evil"]
)
def test_paths_that_lead_out_are_refused_before_anything_is_fetched(
    path: str, shared: Path, tmp_path: Path, remote: Hub
) -> None:
    slip_in(remote, {path: b"evil"})
    remote.asked.clear()
    with pytest.raises(HubError, match="which would be outside of its folder; it is not pulled"):
        pull(Repository(NAME), tmp_path / "results")
    assert not [one for one in remote.asked if "resolve" in one]
    assert nothing_left(tmp_path / "results")


def test_what_no_run_has_is_left_there(shared: Path, tmp_path: Path, remote: Hub) -> None:
    slip_in(remote, {"model.pt": b"pickle", "checkpoints/TauAgent-5000/optimizer.pkl": b"pickle", "setup.py": b"evil"})
    pulled = pull(Repository(NAME), tmp_path / "results")
    assert pulled.notes == (
        "not pulled, because runs have no such files: checkpoints/TauAgent-5000/optimizer.pkl, model.pt, setup.py",
    )
    assert not [path for path in pulled.folder.rglob("*") if path.suffix in (".pt", ".pkl", ".py")]
    assert not [one for one in remote.asked if one.endswith((".pt", ".pkl", ".py"))], "never fetched"


def test_weights_that_changed_on_the_way_are_refused(shared: Path, tmp_path: Path, remote: Hub) -> None:
    remote.damaged.add("checkpoints/TauAgent-5000/tensors.safetensors")
    with pytest.raises(CheckpointError, match="is damaged"):
        pull(Repository(NAME), tmp_path / "results")
    assert nothing_left(tmp_path / "results")


@pytest.mark.parametrize("name", ["configuration.yaml", "checkpoints/TauAgent-5000/manifest.json"])
def test_a_repository_that_lacks_a_part_is_no_run(name: str, shared: Path, tmp_path: Path, remote: Hub) -> None:
    files = dict(remote.repos[NAME].files)
    del files[name]
    remote.repos[NAME].add(files)
    with pytest.raises((HubError, CheckpointError)):
        pull(Repository(NAME), tmp_path / "results")
    assert nothing_left(tmp_path / "results")


def test_models_of_others_are_no_run(tmp_path: Path, remote: Hub) -> None:
    remote.repo(NAME, {"Huggy.onnx": b"x", "configuration.yaml": b"{}"})
    with pytest.raises(HubError, match="is not a run of Tau Trainer: it has no"):
        pull(Repository(NAME), tmp_path / "results")
    with pytest.raises(HubError, match="there is no repository somebody/nothing"):
        pull(Repository("somebody/nothing"), tmp_path / "results")


def test_settings_that_cannot_be_read_are_one_sentence(shared: Path, tmp_path: Path, remote: Hub) -> None:
    slip_in(remote, {"configuration.yaml": b"!!python/object/apply:os.system ['echo evil']"})
    with pytest.raises(HubError, match=r"^somebody/run: its configuration\.yaml cannot be read: ") as told:
        pull(Repository(NAME), tmp_path / "results")
    assert str(tmp_path) not in str(told.value), "where it was staged is nobody's business"
    assert nothing_left(tmp_path / "results")


EVIL = b"""
behaviors: {TauAgent: {trainer_type: "evil_module:Trainer"}}
env_settings: {env_path: "mlagents:pydoc:pipepager", env_args: ["cmd=touch PWNED"]}
callbacks: ["evil_module:Callback"]
recorders: [wandb]
cluster: {address: "evil.example:10001", insecure: true}
checkpoint_settings: {initialize_from: ../..}
"""


@pytest.mark.usefixtures("shared")
def test_nothing_of_a_hostile_repository_is_imported_or_run(
    remote: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('a stranger is here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tau-train"])
    slip_in(remote, {"configuration.yaml": EVIL})
    assert main(["hub", "pull", NAME]) == 0
    told = capfd.readouterr()
    for key in ("trainer_type", "env_path", "env_args", "callbacks", "recorders", "cluster", "initialize_from"):
        assert f".{key}" in told.err or f" {key} " in told.err, key
    stored = (tmp_path / "results" / "run" / "configuration.yaml").read_text("utf-8")
    for word in ("evil", "pipepager", "PWNED", "wandb", "../.."):
        assert word not in stored
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()}
    assert main(["learn", "--resume", "--run-id", "run"]) == 2
    told = capfd.readouterr()
    assert len(told.err.splitlines()) == 1
    assert "the run was pulled, and names from its author's machine are left out" in told.err
    assert {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()} == before
    assert "evil_module" not in sys.modules
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.usefixtures("shared")
def test_a_run_whose_build_is_left_out_asks_for_it(
    remote: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings("tau3", {"env_settings.env_path": "/home/somebody/Game.x86_64"})
    slip_in(remote, {"configuration.yaml": dump_settings(settings).encode()})
    pull(Repository(NAME), tmp_path / "results")
    assert main(["learn", "--resume", "--run-id", "run"]) == 2
    assert capfd.readouterr().err == (
        "error: the run was pulled, and names from its author's machine are left out; if you trust it, set yours "
        "with --env\n"
    )
