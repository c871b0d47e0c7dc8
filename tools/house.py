"""Measures of the code base's size and structure: `python3 -m tools.house` prints each figure.

All figures come from the source text, except the walks, which are traced in a run of the headless engine. An exchange
is the event loop's work between two messages of an engine; an update is the learner thread's work on a buffer. Of
several exchanges, the one with the fewest moves counts, because some also do periodic work.

A hook (:func:`hooks`) is set on an object from outside, after its construction; a double name (:func:`double_names`)
is a public class name that two modules define. Casts are calls of ``cast``; ``type: ignore`` counts by comments.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tau_trainer"

MOST_FILES, MOST_LINES, MOST_PARAMETERS = 20, 500, 6
"""Limits per folder, file and function; everything above them is counted."""
EMPTY_NAMES = ("one", "own", "told")
"""Names that do not describe their values."""
_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EXCHANGES, _UPDATES = 50, 3
"""Number of the first traced exchange and update: earlier ones import modules and measure."""
_TRACED = 10
"""Number of traced exchanges."""


@dataclass
class Module:
    """A parsed file of the package."""

    path: str
    text: str
    lines: list[str] = field(init=False)
    tree: ast.Module = field(init=False)
    nodes: list[ast.AST] = field(init=False)
    """Every node of the tree."""

    def __post_init__(self) -> None:
        self.lines, self.tree = self.text.splitlines(), ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[_Function]:
        """Every function and method, including nested ones."""
        return [node for node in self.nodes if isinstance(node, _Function)]

    @cached_property
    def code(self) -> set[int]:
        """Lines with code: no blank lines, comments or docstrings, also not those of attributes."""
        quoted = {
            line
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        spans = [(token.start[0], token.end[0]) for token in self._tokens if token.type not in _SILENT]
        return {line for first, last in spans for line in range(first, last + 1)} - quoted

    @cached_property
    def commented(self) -> dict[int, int]:
        """Lines with a comment, and the column at which it starts."""
        return {token.start[0]: token.start[1] for token in self._tokens if token.type == tokenize.COMMENT}

    @property
    def ignored(self) -> int:
        """Comments that make the type checker ignore a line."""
        return sum(token.type == tokenize.COMMENT and "type: ignore" in token.string for token in self._tokens)

    @cached_property
    def _tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))


def read(package: Path) -> list[Module]:
    """The modules of a package, by path."""
    return [
        Module(path.relative_to(package.parent).as_posix(), path.read_text("utf-8"))
        for path in sorted(package.rglob("*.py"))
    ]


def parameters(function: _Function) -> int:
    """Number of parameters, without self and cls."""
    args = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(args) - (bool(args) and args[0].arg in ("self", "cls"))


def bound(function: _Function) -> set[str]:
    """The names that a function binds, including its parameters."""
    found = {arg.arg for arg in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, _Function):  # whose names are its own
            waiting += ast.iter_child_nodes(node)
    return found


def casts(module: Module) -> int:
    """Number of calls of ``cast`` or ``typing.cast``."""
    return sum(isinstance(node, ast.Call) and _last(node.func) == "cast" for node in module.nodes)


def double_names(modules: list[Module]) -> list[str]:
    """Public names of top-level classes that two or more modules define.

    Functions do not count: they are mostly verbs, and are read with the name of their object.
    """
    found = Counter(
        name
        for module in modules
        for name in {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}
        if not name.startswith("_")
    )
    return sorted(name for name, count in found.items() if count > 1)


def hooks(modules: list[Module]) -> list[str]:
    """Assignments of a callable to an attribute of an object from outside, after construction: ``path:line target``.

    A hook is an assignment to ``x.attribute``, which may be a property with a setter, where

    - ``x`` is any expression but ``self``, ``cls`` and a name to which the same function assigns what a call returned
      (it may still complete an object that it has just made), and
    - the value is ``self``, a lambda, a partial, a new object of a class of the package, or a function that is named
      and not called: as ``object.name`` a method that any class of the package defines, as a bare name a function of
      the same module. A conditional (``a if c else b``) counts if either side does.

    So numbers, texts and other state do not count. The source text has no types: a field with the name of a method
    counts as that method.
    """
    functions = [function for module in modules for function in module.functions if not function.decorator_list]
    classes = {node.name for module in modules for node in module.nodes if isinstance(node, ast.ClassDef)}
    makers, methods = classes | {"partial"}, {function.name for function in functions}
    found = []
    for module in modules:
        here = {function.name for function in module.functions} - _methods(module)
        for body in (module.tree, *module.functions):
            found += [
                f"{module.path}:{target.lineno} {ast.unparse(target)}"
                for target, value in _given(body)
                if _acts(value, makers, methods, here)
            ]
    return found


def _last(node: ast.AST) -> str:
    """The last name of ``a.b.c``; empty for other expressions."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _methods(module: Module) -> set[str]:
    """The names of methods."""
    classes = [node for node in module.nodes if isinstance(node, ast.ClassDef)]
    return {part.name for node in classes for part in node.body if isinstance(part, _Function)}


def _given(body: ast.Module | _Function) -> list[tuple[ast.Attribute, ast.expr]]:
    """Attributes that a function sets on objects other than ``self`` and new objects, with their values."""
    pairs, waiting = list[tuple[ast.expr, ast.expr]](), list[ast.AST](body.body)
    while waiting:
        node = waiting.pop()
        targets, value = (node.targets, node.value) if isinstance(node, ast.Assign) else ([], None)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts, strict=False)
            elif value is not None:
                pairs.append((target, value))
        if not isinstance(node, _Function):
            waiting += ast.iter_child_nodes(node)
    made = {target.id for target, value in pairs if isinstance(target, ast.Name) and isinstance(value, ast.Call)}
    passed = made | {"self", "cls"}
    found = [(target, value) for target, value in pairs if isinstance(target, ast.Attribute)]
    found = [pair for pair in found if not (isinstance(pair[0].value, ast.Name) and pair[0].value.id in passed)]
    return sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset))


def _acts(value: ast.expr, makers: set[str], methods: set[str], here: set[str]) -> bool:
    """Whether a value is callable, see :func:`hooks`."""
    if isinstance(value, ast.IfExp):
        return any(_acts(side, makers, methods, here) for side in (value.body, value.orelse))
    if isinstance(value, ast.Call):
        return _last(value.func) in makers
    if isinstance(value, ast.Attribute):
        return value.attr in methods
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in here | {"self"})


def imports(module: Module, known: set[str]) -> set[str]:
    """The modules of the package that it imports when it is loaded, by path."""
    found = set()
    for node in module.tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        for name in names:
            path = name.replace(".", "/")
            found |= {path + ".py", path + "/__init__.py"} & known
    return found - {module.path}


def floors(modules: list[Module]) -> int:
    """The longest chain of imports. Cycles between files, which only types may cause, count once."""
    known = {module.path for module in modules}
    below = {module.path: imports(module, known) for module in modules}
    reached = {path: _reached(path, below) for path in below}
    heights: dict[str, int] = {}

    def height(path: str) -> int:
        if path not in heights:
            circle = {path} | {other for other in reached[path] if path in reached[other]}
            under = {other for member in circle for other in below[member]} - circle
            heights.update(dict.fromkeys(circle, 1 + max(map(height, under), default=0)))
        return heights[path]

    return max(map(height, below))


def _reached(path: str, below: Mapping[str, set[str]]) -> set[str]:
    """All modules that ``path`` imports, directly or indirectly."""
    found, waiting = set[str](), list(below[path])
    while waiting:
        if (other := waiting.pop()) not in found:
            found.add(other)
            waiting += below[other]
    return found


def counted(modules: list[Module]) -> dict[str, float]:
    """All figures from the source text."""
    # A comment after code does not count as code.
    lines = [len(m.lines[n - 1][: m.commented.get(n)].strip()) for m in modules for n in m.code]
    functions = [(module, function) for module in modules for function in module.functions]
    long = [len(module.code & set(range(f.lineno, (f.end_lineno or f.lineno) + 1))) for module, f in functions]
    folders = Counter(module.path.rpartition("/")[0] for module in modules)
    named = Counter(name for _, function in functions for name in bound(function) if name in EMPTY_NAMES)
    many = sum(parameters(function) > MOST_PARAMETERS for _, function in functions)
    figures: dict[str, float] = {
        "code lines": len(lines),
        "characters in a line, mean": round(statistics.mean(lines), 1),
        "lines in a function, median": statistics.median(long),
        f"files of more than {MOST_LINES} lines": sum(len(m.lines) > MOST_LINES for m in modules),
        f"folders of more than {MOST_FILES} files": sum(count > MOST_FILES for count in folders.values()),
        f"functions of more than {MOST_PARAMETERS} parameters": many,
        "floors": floors(modules),
        "casts": sum(map(casts, modules)),
        "comments `type: ignore`": sum(module.ignored for module in modules),
        "hooks": len(hooks(modules)),
        "double names": len(double_names(modules)),
        "lines with a comment in algorithms": sum(len(m.commented) for m in modules if "/algorithms/" in m.path),
    }
    return figures | {f"functions with a local `{name}`": named[name] for name in EMPTY_NAMES}


@dataclass
class Walk:
    """The package's files entered by calls, in order."""

    entered: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        """Number of different files."""
        return len(set(self.entered))

    @property
    def moves(self) -> int:
        """Number of consecutive calls in different files."""
        return sum(a != b for a, b in zip(self.entered, self.entered[1:], strict=False))

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Record a call; for :func:`sys.setprofile`."""
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            self.entered.append(frame.f_code.co_filename)


def _every(wrapped: Callable[..., Any], number: int, walk: Walk, *, until: int) -> Callable[..., Any]:
    """Trace the thread from call ``number`` to call ``until``, or to the end of the call if both are equal."""
    calls = 0

    def traced(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == until and until != number:
            sys.setprofile(None)
        if calls == number:
            sys.setprofile(walk)
        try:
            return wrapped(*args, **kwargs)
        finally:
            if calls == number == until:
                sys.setprofile(None)

    return traced


def walked() -> dict[str, Walk]:
    """An exchange and an update of PPO with one headless engine."""
    from tau_trainer import load_settings
    from tau_trainer.bridge.codec import TrainerCodec
    from tau_trainer.training.api import train
    from tau_trainer.training.learning.learner import Learner

    assert threading.current_thread() is threading.main_thread()
    exchanges, update = [Walk() for _ in range(_TRACED)], Walk()
    steps, learn = TrainerCodec.steps, Learner.learn
    traced: Callable[..., Any] = steps
    for number, walk in reversed([*enumerate(exchanges, _EXCHANGES)]):  # each ends before the next one in it begins
        traced = _every(traced, number, walk, until=number + 1)
    TrainerCodec.steps = traced  # type: ignore[method-assign]
    Learner.learn = _every(learn, _UPDATES, update, until=_UPDATES)  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            chosen = {
                "env_settings.env_path": "headless:balance",
                "checkpoint_settings.results_dir": folder,
                "default_settings.max_steps": 3500,
                "default_settings.trainer_type": "ppo",
                "default_settings.hyperparameters.buffer_size": 1024,
            }
            train(load_settings(None, chosen), terminal="quiet")
    finally:
        TrainerCodec.steps, Learner.learn = steps, learn  # type: ignore[method-assign]
    return {"exchange": min(exchanges, key=lambda walk: walk.moves), "update": update}


def figures(package: Path = PACKAGE) -> Mapping[str, float]:
    """All figures, walks last."""
    return counted(read(package)) | paces()


def paces() -> dict[str, float]:
    """The figures of the walks."""
    found: dict[str, float] = {}
    for name, walk in walked().items():
        found |= {f"files that an {name} enters": walk.files, f"moves between files in an {name}": walk.moves}
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--still", action="store_true", help="only figures from the source text, without a run")
    found = counted(read(PACKAGE)) if parser.parse_args().still else figures()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value:>10,}")


if __name__ == "__main__":
    main()
