"""The house is as docs/architecture.md says: who imports whom, and no circles between folders."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tools import house

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tau_trainer"
FOLDERS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}


@cache
def everything() -> list[house.Module]:
    """The modules of the package."""
    return house.read(PACKAGE)


def modules() -> list[house.Module]:
    """Those with code of their own; an ``__init__`` only hands names on."""
    return [module for module in everything() if not module.path.endswith("__init__.py")]


def trees(folder: str) -> list[house.Module]:
    """The modules of a folder."""
    return [module for module in everything() if module.path.startswith(f"{PACKAGE.name}/{folder}/")]


@cache
def imported() -> dict[str, set[str]]:
    """The folders that each folder imports anywhere, for types alone too."""
    found: dict[str, set[str]] = {folder: set() for folder in FOLDERS}
    for folder in FOLDERS:
        for module in trees(folder):
            for node in module.nodes:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    assert node.level == 0, f"{module.path} imports by dots"
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                parts = [name.split(".") for name in names]
                found[folder] |= {one[1] for one in parts if one[0] == "tau_trainer" and len(one) > 1} & FOLDERS
    return {folder: others - {folder} for folder, others in found.items()}


def allowed() -> dict[str, set[str]]:
    """The table of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.search(r"\| folder \| imports \|\n\| --- \| --- \|\n((?:\|.*\n)+)", text)
    assert rows is not None
    table: dict[str, set[str]] = {}
    for row in rows[1].splitlines():
        folders, others = (set(re.findall(r"`(\w+)`", cell)) for cell in row.strip("| ").split(" | "))
        if "everything above but" in row:
            others = table.keys() - others
        table |= dict.fromkeys(folders, others)
    return table


def test_folders_import_what_the_table_says_and_it_names_nothing_else() -> None:
    """`training` may import whatever stands above it."""
    table, found = allowed(), imported()
    assert table.keys() == FOLDERS
    strangers = {folder: others - table[folder] for folder, others in found.items()}
    assert {folder: others for folder, others in strangers.items() if others} == {}
    unused = {folder: others - found[folder] for folder, others in table.items() if folder != "training"}
    assert {folder: others for folder, others in unused.items() if others} == {}
    TopologicalSorter(found).prepare()  # no circles


def test_torch_is_loaded_by_those_who_compute() -> None:
    """Command line, settings and engine start without it: it takes seconds."""
    found = {
        folder
        for folder in FOLDERS
        for module in trees(folder)
        for node in module.tree.body
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "torch" for alias in node.names)
    }
    assert found == {
        "algorithms", "collection", "envs", "evaluation", "export", "games", "lightning", "models", "rewards", "tau",
        "training",
    }  # fmt: skip


def test_there_are_no_circles_between_files() -> None:
    """What is imported when a module is loaded."""
    known = {module.path for module in modules()}
    TopologicalSorter({module.path: house.imports(module, known) for module in modules()}).prepare()


def test_the_shell_of_a_run_knows_no_way_to_gather_experience() -> None:
    """Collectors, evaluation, export and report are handed to it: it is written once, whatever they are."""
    for folder in ("algorithms", "collection", "envs", "evaluation", "export", "report", "training"):
        assert folder not in allowed()["runs"]


def test_games_are_plug_ins_that_use_public_names_alone() -> None:
    assert all("games" not in others for others in allowed().values())
    private: dict[str, set[str]] = {"used": set(), "theirs": set()}
    for module in trees("games"):
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                private["used"] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                private["theirs"].add(node.name)
            elif isinstance(node, ast.Attribute):
                private["used" if isinstance(node.ctx, ast.Load) else "theirs"].add(node.attr)
    of_others = {"_asdict", "_replace", "_get_ob", "_get_obs"}  # of named tuples, and of Gymnasium's own games
    strange = {name for name in private["used"] - private["theirs"] - of_others if name.startswith("_")}
    assert {name for name in strange if not name.startswith("__")} == set()


MIRRORED = 0.9
"""Share of the modules with logic of their own that have tests in the same place; it only rises."""
DECISIONS = (ast.If, ast.IfExp, ast.Match, ast.For, ast.While, ast.Try, ast.BoolOp, ast.Compare, ast.comprehension)


def test_tests_mirror_the_package() -> None:
    """``tau_trainer/a/b.py`` has ``tests/a/test_b.py`` or ``test_b_*.py``.

    Not counted are ``__init__`` and modules without logic of their own: no function of theirs decides or repeats.
    """
    counted = [
        Path(module.path).relative_to(PACKAGE.name)
        for module in modules()
        if any(isinstance(node, DECISIONS) for function in module.functions for node in ast.walk(function))
    ]
    without = [
        path.as_posix()
        for path in counted
        if not any((ROOT / "tests" / path.parent).glob(f"test_{path.stem}{end}.py") for end in ("", "_*"))
    ]
    assert 1 - len(without) / len(counted) >= MIRRORED, f"no tests in the same place: {without}"
