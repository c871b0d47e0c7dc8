"""Pushing, against a Hub on this machine that speaks what the real one speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tau_trainer.errors import HubError, SettingsError
from tau_trainer.sharing import Contents, Repository
from tau_trainer.sharing.remote import check_name
from tests.sharing.fake_hub import TOKEN, Hub

NAME = "somebody/run"
FILES = {"README.md": b"# hello", "configuration.yaml": b"{}", "checkpoints/A-5/tensors.safetensors": b"weights"}


def push(files: dict[str, Any] = FILES, name: str = NAME, **flags: bool) -> tuple[str, bool]:
    return Repository(name).push(Contents(files), "Run", **{"private": True, "force": False, **flags})


def test_a_push_is_one_commit_of_all_files(remote: Hub, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"weights on disk")
    files = {**FILES, "checkpoints/A-5/manifest.json": tmp_path / "weights"}
    assert push(files) == (f"{remote.address}/{NAME}", True)
    repo = remote.repos[NAME]
    assert repo.private
    assert len(repo.commits) == 2, "the one that the Hub makes, and ours"
    assert repo.files == {**FILES, "checkpoints/A-5/manifest.json": b"weights on disk", ".gitattributes": b""}
    assert remote.tokens == {f"Bearer {TOKEN}"}


def test_a_repository_that_is_there_stays_as_private_as_it_is(remote: Hub) -> None:
    remote.repo(NAME, {"checkpoints/A-5/manifest.json": b""}, private=False)
    assert push(private=True)[1] is False


def test_a_second_push_takes_the_place_of_the_first_and_leaves_others_files(remote: Hub) -> None:
    push({**FILES, "A.onnx": b"old"})
    remote.repos[NAME].add({**remote.repos[NAME].files, "notes.txt": b"mine"})
    push({**{name: data for name, data in FILES.items() if "A-5" not in name}, "checkpoints/A-9/manifest.json": b"new"})
    assert set(remote.repos[NAME].files) == {
        ".gitattributes", "README.md", "configuration.yaml", "checkpoints/A-9/manifest.json", "notes.txt",
    }  # fmt: skip
    assert "A.onnx" in remote.repos[NAME].commits[1][1], "history keeps it"


def test_a_repository_of_something_else_is_not_touched_without_force(remote: Hub) -> None:
    remote.repo(NAME, {"README.md": b"a language model", "model.bin": b"x"})
    with pytest.raises(HubError, match=r"has files that are not from a run of Tau Trainer \(README.md, model.bin\)"):
        push()
    assert len(remote.repos[NAME].commits) == 1
    push(force=True)
    assert remote.repos[NAME].files["README.md"] == b"# hello"
    assert remote.repos[NAME].files["model.bin"] == b"x"


@pytest.mark.parametrize(
    ("name", "token", "sentence"),
    [
        (NAME, "", "cannot push to somebody/run: the Hub needs a login; log in with hf auth login, or set HF_TOKEN"),
        (NAME, "hf_wrong", "cannot push to somebody/run: the Hub needs a login"),
        ("other/run", TOKEN, "cannot push to other/run: the Hub does not let you in"),
    ],
)
def test_who_may_not_is_told_what_to_do(
    name: str, token: str, sentence: str, remote: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubError) as caught:
        push(name=name)
    assert str(caught.value).startswith(sentence)
    assert token not in str(caught.value) or not token
    assert remote.repos == {}


def test_no_network_is_one_sentence(remote: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"cannot push to somebody/run: .*; check the network") as caught:
        push()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "run", "a/b/c", "a b/c", "../x", "a/..", "https://huggingface.co/a/b", "a/b--c"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(SettingsError, match="use OWNER/NAME, such as your-name/") as caught:
        Repository(name)
    check_name(str(caught.value).rpartition(" ")[2])
