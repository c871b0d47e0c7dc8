"""A YAML file as plain data that remembers on which line each key stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tau_trainer.errors import SettingsError

Location = tuple[str | int, ...]
"""Keys and list positions from the top of the file down to a value."""

ValueT = TypeVar("ValueT")

_MAX_NODES = 100_000
_MAX_BYTES = 500_000
"""Hundreds of times what a settings file has; reading YAML takes seconds a megabyte."""
_TEXT_TAG = "tag:yaml.org,2002:str"
_MERGE_TAG = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Document:
    """What was read: ``data`` with text keys only, ``name`` for messages, ``lines`` from 1 by location."""

    name: str
    data: dict[str, Any]
    lines: dict[Location, int] = field(default_factory=dict)
    duplicates: tuple[tuple[Location, int], ...] = ()
    """Keys that stand twice in one mapping, with the line of the later one."""

    def line(self, location: Location) -> int | None:
        """Line of the innermost enclosing key that stands in the file, or None."""
        return innermost(self.lines, location)


def innermost(known: Mapping[Location, ValueT], location: Location) -> ValueT | None:
    """What is known of the longest part of ``location`` from the top of which anything is."""
    for length in range(len(location), 0, -1):
        if location[:length] in known:
            return known[location[:length]]
    return None


def read_document(path: Path) -> Document:
    """Read ``path`` safely (no tags that construct objects).

    Raises:
        SettingsError: the file is missing, unreadable, empty, no YAML, or no mapping of keys.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise SettingsError(f"{path}: is larger than {_MAX_BYTES:,} bytes, so it is no settings file; name another")
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); name a YAML file that can") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Read YAML ``text``; ``name`` stands for it in messages.

    Raises:
        SettingsError: as for :func:`read_document`.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise SettingsError(f"{name}: is empty; it needs at least `behaviors:` or `default_settings:`")
        if not isinstance(node, yaml.MappingNode):
            raise SettingsError(f"{name}: must be a mapping of keys such as `behaviors:`")
        lines: dict[Location, int] = {}
        duplicates = []
        for location, line in _locations(node):
            if location in lines and location[-1] != "<<":
                duplicates.append((location, line))
            lines[location] = line
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise SettingsError(_syntax_sentence(error, name)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{name}: is not valid YAML ({' '.join(str(error).split())}); correct it") from None
    except RecursionError:
        raise SettingsError(f"{name}: is nested too deeply to be read; flatten it") from None
    return Document(name, data, lines, tuple(duplicates))


def _syntax_sentence(error: yaml.MarkedYAMLError, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}" if mark else name
    problem = " ".join((error.problem or error.context or "cannot be read").split())
    remedy = "indent with spaces, not tabs" if "\\t" in problem else "correct this line"
    return f"{place}: is not valid YAML ({problem}); {remedy}"


class _Loader(yaml.SafeLoader):
    """Takes every key as the text that stands in the file: ``3:`` and ``on:`` are names here, no number and no bool."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        node = super().compose_node(parent, index)
        if node is not None and isinstance(parent, yaml.MappingNode) and index is None:
            if not isinstance(node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain text", node.start_mark)
            if node.tag != _MERGE_TAG:
                node.tag = _TEXT_TAG
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        try:
            return super().construct_yaml_int(node)
        except ValueError as error:
            text = f"a number of {len(node.value):,} digits" if len(node.value) > 100 else str(error)
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _children(node: yaml.Node) -> list[tuple[str | int, int, yaml.Node]]:
    """Key (or list position), line from 1, and value of every child."""
    if isinstance(node, yaml.MappingNode):
        return [(str(key.value), key.start_mark.line + 1, value) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return [(i, value.start_mark.line + 1, value) for i, value in enumerate(node.value)]
    return []


def _locations(root: yaml.Node) -> Iterator[tuple[Location, int]]:
    """Location and line of every key below ``root``, in the order of the file."""
    waiting: list[tuple[Location, yaml.Node]] = [((), root)]
    count = 0
    while waiting:
        location, node = waiting.pop()
        for key, line, value in _children(node):
            count += 1
            if count > _MAX_NODES or len(location) > 50:
                raise yaml.constructor.ConstructorError(
                    None, None, "too large, or an alias contains itself", root.start_mark
                )
            yield (*location, key), line
            waiting.append(((*location, key), value))
