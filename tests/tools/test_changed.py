"""Which tests a change concerns, from git and from imports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools._bootstrap import changed

git_is_here = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
SOURCES = {
    "tau_trainer/__init__.py": "",
    "tau_trainer/deep/__init__.py": "from .leaf import Leaf",
    "tau_trainer/deep/leaf.py": "class Leaf: ...",
    "tau_trainer/deep/branch.py": "def grow():\n    from tau_trainer.deep.leaf import Leaf",
    "tau_trainer/tree.py": "import tau_trainer.deep.branch as branch",
    "tau_trainer/broken.py": "def (",
    "tau_trainer/named.py": "",
    "tau_trainer/names.py": "NAMES = {'it': 'tau_trainer.named:It'}",
    "tools/saw.py": "from tau_trainer import tree",
    "tests/conftest.py": "",
    "tests/helper.py": "from tau_trainer.tree import Tree",
    "tests/test_helped.py": "from tests import helper\nCONFIG = 'oak.yaml'",
    "tests/test_tree.py": "import tau_trainer.tree",
    "tests/deep/test_leaf.py": "",
    "tests/deep/test_branch.py": "from tau_trainer.deep.branch import grow",
    "tests/deep/test_init.py": "from tau_trainer.deep import Leaf",
    "tests/tools/test_saw.py": "from tools import saw",
    "tests/test_alone.py": "import os",
    "tests/test_names.py": "from tau_trainer import names",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "tau_trainer/deep/leaf.py",
            {
                "tests/deep/test_leaf.py": 1,  # its own, although nothing in it says so
                "tests/deep/test_init.py": 3,
                "tests/deep/test_branch.py": 3,
                "tests/test_tree.py": 4,
                "tests/tools/test_saw.py": 5,
                "tests/test_helped.py": 5,
            },
        ),
        (
            "tau_trainer/deep/branch.py",
            {
                "tests/deep/test_branch.py": 1,
                "tests/test_tree.py": 3,
                "tests/tools/test_saw.py": 4,
                "tests/test_helped.py": 4,
                "tests/deep/test_leaf.py": changed.FARTHEST,  # beside it
                "tests/deep/test_init.py": changed.FARTHEST,
            },
        ),
        ("tau_trainer/named.py", {"tests/test_names.py": 3}),  # as plug-ins are found
        ("tau_trainer/tree.py", {"tests/test_tree.py": 1, "tests/tools/test_saw.py": 3, "tests/test_helped.py": 3}),
        ("tests/deep/test_leaf.py", {"tests/deep/test_leaf.py": 0}),
        ("tests/helper.py", {"tests/test_helped.py": 2}),
        ("tests/conftest.py", {name: 2 for name in SOURCES if "/test_" in name}),
        ("configs/oak.yaml", {"tests/test_helped.py": 2}),
        ("tools/saw.py", {"tests/tools/test_saw.py": 1}),
        ("tau_trainer/broken.py", {}),
    ],
)
def test_a_change_concerns_its_own_tests_then_those_that_import_it(path: str, expected: dict[str, int]) -> None:
    assert changed.ranked(SOURCES, [path]) == expected


def test_a_deleted_module_concerns_those_that_import_it_still() -> None:
    left = {path: text for path, text in SOURCES.items() if path != "tau_trainer/deep/leaf.py"}
    assert changed.ranked(left, ["tau_trainer/deep/leaf.py"])["tests/deep/test_init.py"] == 3


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_the_nearest_come_first_until_the_budget_is_used_up(checkout: Path) -> None:
    known = checkout / changed.SECONDS
    known.parent.mkdir(parents=True)
    known.write_text(json.dumps({"tests/deep/test_branch.py": 20.0, "tests/deep/test_init.py": 4.0}))
    leaf = ["tau_trainer/deep/leaf.py"]
    own, init, branch = (f"tests/deep/test_{name}.py" for name in ("leaf", "init", "branch"))
    assert changed.tests(checkout, leaf, 0.0) == ([own], 5)
    assert changed.tests(checkout, leaf, 8.0) == ([own, init], 4)
    everything, left = changed.tests(checkout, leaf, 1000.0)
    assert everything[:4] == [own, init, branch, "tests/test_tree.py"]
    assert left == 0
    known.write_text("half wri")
    assert changed.tests(checkout, leaf, 1000.0)[0][:3] == [own, branch, init]
    assert changed.tests(checkout, [], 1000.0) == ([], 0)


def git(folder: Path, *words: str) -> None:
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **names, **quiet}, check=True, capture_output=True)


@git_is_here
def test_changed_is_what_differs_from_main_or_else_what_the_last_commit_did(checkout: Path) -> None:
    git(checkout, "init", "-b", "main")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-m", "all")
    (checkout / "tau_trainer/tree.py").write_text("")
    git(checkout, "commit", "-am", "tree")
    assert changed.files(checkout) == ["tau_trainer/tree.py"]
    (checkout / "a file.md").touch()
    assert changed.files(checkout) == ["a file.md"]
    git(checkout, "checkout", "-b", "branch")
    git(checkout, "rm", "tools/saw.py")
    git(checkout, "commit", "-m", "saw")
    (checkout / "tests/helper.py").write_text("")
    assert changed.files(checkout) == ["a file.md", "tests/helper.py", "tools/saw.py"]


def test_without_git_nothing_is_known_to_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changed.files(tmp_path) == []
