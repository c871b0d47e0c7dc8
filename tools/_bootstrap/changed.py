"""Finds the test files for a change, by their imports, the nearest first. Standard library only.

Imports are read from the source text, without importing anything; a module's full name in a string counts as one.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

TOPS = ("tau_trainer", "tools", "tests")
SECONDS = ".pytest_cache/v/bootstrap/seconds"
UNKNOWN_SECONDS = 3.0
IMPORT_SECONDS = 0.3
FARTHEST = 99
"""The rank of test files in the changed file's test folder that do not import it, directly or indirectly."""
_NAMED = re.compile(rf"\b(?:{'|'.join(TOPS)})(?:\.\w+)+")

DIFFERENT = ("diff", "--name-only", "--no-renames", "--relative", "-z")


def files(root: Path) -> list[str]:
    """The files that differ from the branch's start on main, or from the previous commit; empty without git."""
    bases = (_git(root, "merge-base", "HEAD", name).strip() for name in ("origin/main", "main"))
    base = next(filter(None, bases), "HEAD")
    different = _git(root, *DIFFERENT, base) + _git(root, "ls-files", "-z", "--others", "--exclude-standard")
    different = different or _git(root, *DIFFERENT, "HEAD~1")
    return sorted(filter(None, different.split("\0")))


def _git(root: Path, *words: str) -> str:
    """Git's output; empty if it fails."""
    try:
        done = subprocess.run(["git", *words], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def tests(root: Path, changed: Sequence[str], budget: float) -> tuple[list[str], int]:
    """The test files to run within ``budget`` seconds, the nearest first, and the number of omitted ones."""
    ranks = ranked(_sources(root), changed) if changed else {}
    known = _seconds(root)
    cost = {path: IMPORT_SECONDS + known.get(path, UNKNOWN_SECONDS) for path in ranks}
    near = {mirror.rpartition("/")[0] for path in changed for mirror in _mirrors(path)}
    chosen: list[str] = []
    for path in sorted(ranks, key=lambda path: (ranks[path], path.rpartition("/")[0] not in near, cost[path], path)):
        if not chosen or cost[path] <= budget:
            chosen.append(path)
            budget -= cost[path]
    return chosen, len(ranks) - len(chosen)


def _sources(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8", "replace")
        for top in TOPS
        for path in (root / top).rglob("*.py")
    }


def _seconds(root: Path) -> dict[str, float]:
    """Each test file's duration in its last run with the plugin."""
    try:
        return dict(json.loads((root / SECONDS).read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def ranked(sources: Mapping[str, str], changed: Sequence[str]) -> dict[str, int]:
    """The test files for a change by rank: 0 changed itself, 1 the changed file's own, then by import steps."""
    importers = _importers(sources, changed)
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    for path in edge:  # grows during the loop: breadth first
        for importer in sorted(importers[path] - steps.keys()):
            steps[importer] = steps[path] + 1
            edge.append(importer)
    ranks = {path: count and count + 1 for path, count in steps.items()}
    ranks |= {mirror: 1 for path in changed for mirror in _mirrors(path) if ranks.get(mirror) != 0}
    folders = {mirror.rpartition("/")[0] for path in changed for mirror in _mirrors(path)}
    beside = {path: FARTHEST for path in sources if path.rpartition("/")[0] in folders - {"tests"}}
    return {
        path: rank
        for path, rank in (beside | ranks).items()
        if path in sources and path.startswith("tests/") and _name(path).startswith("test_")
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _mirrors(path: str) -> Iterator[str]:
    """The place of a module's tests: `tests/x/test_y.py` for `tau_trainer/x/y.py`, `tests/tools` for `tools/`."""
    top, _, rest = path.partition("/")
    if top == "tau_trainer":
        folder, slash, name = rest.rpartition("/")
        yield f"tests/{folder}{slash}test_{name}"
    elif top == "tools":
        yield f"tests/tools/test_{_name(path)}"


def _importers(sources: Mapping[str, str], changed: Sequence[str]) -> defaultdict[str, set[str]]:
    """For each file, the files that import it; if it is not a module, those that name it or its folder."""
    modules = {_module(path): path for path in (*changed, *sources) if path.endswith(".py")}
    others = {path: (_name(path), f'"{path.split("/")[-2:][0]}"') for path in changed if not path.endswith(".py")}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        for name in _imported(path, text, modules):
            importers[modules[name]].add(path)
        for other, names in others.items():
            if any(name in text for name in names):
                importers[other].add(path)
        if path.startswith("tests/"):
            for folder in PurePosixPath(path).parents:
                importers[f"{folder}/conftest.py"].add(path)
    return importers


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(path: str, text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The modules of this checkout that a file imports, anywhere in it."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError):
        return
    package = _module(path) if path.endswith("/__init__.py") else _module(path).rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = _NAMED.findall(node.value)  # names in strings: plug-ins, programs
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name:
                yield name
