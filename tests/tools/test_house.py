"""The figures of the house: what is counted, and how high each may be."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

from tau_trainer.files import safe_name
from tau_trainer.settings.problems import did_you_mean
from tools import house

CEILINGS = {
    "code lines": 51_615,
    "characters in a line, mean": 41.8,
    "lines in a function, median": 5,
    "files of more than 500 lines": 0,
    "folders of more than 20 files": 0,
    "functions of more than 6 parameters": 24,
    "floors": 26,
    "casts": 6,
    "comments `type: ignore`": 52,
    "hooks": 4,
    "double names": 4,
    "functions with a local `one`": 1,
    "functions with a local `own`": 0,
    "functions with a local `told`": 0,
}
"""They are lowered by whoever comes below them. Code lines alone may rise, by what a fix or a feature adds; the commit
that raises them says why."""
PACES = {
    "files that an exchange enters": 25,
    "moves between files in an exchange": 98,
    "files that an update enters": 18,
    "moves between files in an update": 104,
}
"""Ceilings of the walks, lowered in the same way and never raised."""

SOURCE = '''"""A module.

Of two paragraphs.
"""

from dataclasses import dataclass

LIMIT = 3  # not more
"""What an attribute is."""


@dataclass
class Record:
    """Has nothing to do."""

    first: int

    def fill(self) -> None:
        self.second = self.third = 1


class Worker:
    def __init__(self, a, b, *, c):
        # Why.
        self.a, self.b = a, b
        self.a = c

    async def work(self, own):
        def inner(one):
            told = one

        text = """a string
        of two lines"""
        return text
'''


@pytest.fixture
def module() -> house.Module:
    return house.Module("package/room/worker.py", SOURCE)


def test_code_is_what_is_neither_blank_comment_nor_docstring(module: house.Module) -> None:
    silent = {line.strip() for number, line in enumerate(SOURCE.splitlines(), 1) if number not in module.code}
    quoted = {"", "# Why.", "Of two paragraphs.", '"""', '"""A module.'}
    assert silent == quoted | {'"""What an attribute is."""', '"""Has nothing to do."""'}
    assert len(module.code) == 17
    assert len(module.commented) == 2


def test_a_comment_behind_code_makes_no_line_longer(module: house.Module) -> None:
    bare = house.Module(module.path, SOURCE.replace("  # not more", ""))
    mean = "characters in a line, mean"
    assert house.counted([module])[mean] == house.counted([bare])[mean]


def test_parameters_are_what_a_caller_gives_and_names_are_of_the_function_that_binds_them(
    module: house.Module,
) -> None:
    found = {function.name: (house.parameters(function), house.bound(function)) for function in module.functions}
    assert found["__init__"] == (3, {"self", "a", "b", "c"})
    assert found["work"] == (1, {"self", "own", "text"})
    assert found["inner"] == (1, {"one", "told"})


def test_floors_are_the_longest_chain_of_imports() -> None:
    modules = [
        house.Module("package/a.py", "from package import b, c"),
        house.Module("package/b.py", "from package.c import d"),
        house.Module("package/c.py", "from package import a, e"),
        house.Module("package/d.py", "from package import b"),
        house.Module("package/e.py", ""),
    ]
    assert {house.floors(list(order)) for order in itertools.permutations(modules)} == {3}, "d, the circle, e"


def test_a_walk_notes_the_files_of_the_package_that_are_entered() -> None:
    walk = house.Walk()
    before = sys.getprofile()
    sys.setprofile(walk)
    try:
        safe_name("a")
        did_you_mean("alpha", ["alpho"])
        safe_name("c")
        Path("no file of the package").name.upper()
    finally:
        sys.setprofile(before)
    names = [Path(file).name for file in walk.entered]
    assert list(dict.fromkeys(names)) == ["files.py", "problems.py"]
    assert names[-1] == "files.py"
    assert (walk.files, walk.moves) == (2, 2)


def test_a_call_is_traced_to_its_end_or_to_the_call_that_is_named() -> None:
    assert threading.current_thread() is threading.main_thread()
    seen: list[str] = []

    class Names(house.Walk):
        def __call__(self, frame: FrameType, event: str, argument: object) -> None:
            if event == "call":
                seen.append(frame.f_code.co_name)

    def work() -> None:
        step()

    def step() -> None: ...

    before = sys.getprofile()
    try:
        whole = house._every(work, 2, Names(), until=2)
        for _ in range(3):
            whole()
        assert seen.count("step") == 1
        seen.clear()
        between = house._every(work, 2, Names(), until=3)
        between()
        between()
        step()
        between()
        step()
        assert seen.count("step") == 2
    finally:
        sys.setprofile(before)


HOOKED = """
class Owner:
    def __init__(self, updates, board, server, progress):
        self.updates = updates
        self.after = lambda: None
        updates.after = partial(self.told, 1)
        updates.shown, updates.count = self.told, 3
        self.server.objection = self.refuses if server else None
        board.steward = self
        self.updates.watch = Watch(progress)
        board.on_end = lambda: None
        board.limit: object = outside
        updates.error = progress.error
        updates.decisions += 1
        updates.name = "text"
        updates.policy = progress
        updates.made = made_elsewhere()
        progress.told, progress.last = self.told(), outside()

    def told(self):
        fresh = Watch(self)
        fresh.owner = self
        refuses = 1
        self.board.value = refuses

    def refuses(self): ...

    @property
    def error(self): ...


def outside(): ...


class Watch: ...
"""


def test_hooks_are_what_acts_and_is_given_to_an_object_from_outside() -> None:
    found = [place.split()[-1] for place in house.hooks([house.Module("package/a.py", HOOKED)])]
    assert sorted(found) == [
        "board.limit",
        "board.on_end",
        "board.steward",
        "self.server.objection",
        "self.updates.watch",
        "updates.after",
        "updates.shown",
    ]


def test_a_class_of_another_module_and_a_method_make_hooks_but_a_function_of_another_module_does_not() -> None:
    there = house.Module("package/there.py", "class Made:\n    def act(self): ...\n\ndef run(): ...")
    here = house.Module("package/here.py", "a.x = Made()\na.y = b.act\na.z = run\na.w = act\nb.v = c.none")
    assert house.hooks([there, here]) == ["package/here.py:1 a.x", "package/here.py:2 a.y"]


def test_double_names_are_public_classes_at_the_top_of_two_modules() -> None:
    modules = [
        house.Module(
            "package/a.py", "class Side: ...\nclass Side: ...\nclass _Own: ...\ndef draw(): ...\nclass A: ..."
        ),
        house.Module("package/b.py", "class Report: ...\nclass _Own: ...\ndef draw(): ...\nclass B:\n    class A: ..."),
        house.Module("package/c.py", "class Side: ...\nclass Report: ..."),
    ]
    assert house.double_names(modules) == ["Report", "Side"]
    assert house.double_names(modules[:2]) == [], "two definitions in one module are overloads or branches"


def test_casts_and_ignored_lines_are_counted() -> None:
    source = "a = cast(int, b)  # type: ignore[misc]\nc = typing.cast(str, d)\nbroadcast(e)\n# type: ignore is a word\n"
    module = house.Module("package/a.py", source)
    assert (house.casts(module), module.ignored) == (2, 2)


def test_an_exchange_and_an_update_walk_no_farther_than_they_did() -> None:
    found = house.paces()
    assert found.keys() == PACES.keys()
    assert {name: value for name, value in found.items() if value > PACES[name] or not value} == {}


def test_the_house_is_no_larger_than_it_was() -> None:
    found = house.counted(house.read(house.PACKAGE))
    assert found.keys() >= CEILINGS.keys()
    assert {name: value for name, value in found.items() if value > CEILINGS.get(name, value)} == {}
