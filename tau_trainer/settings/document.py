"""Finds settings files, reads them as plain data with the line of each key, and edits them in place."""

from __future__ import annotations

import difflib
import json
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tau_trainer.errors import SettingsError

Location = tuple[str | int, ...]
"""Keys and list positions from the top of the file down to a value."""

ValueT = TypeVar("ValueT")
NumberT = TypeVar("NumberT", int, float)

_WANTED = "`behaviors:` or `default_settings:`"
_MAX_NODES = 100_000
_MAX_BYTES = 500_000
"""Hundreds of times the size of a typical settings file. Reading YAML takes seconds per megabyte."""
_MOST_DIGITS = 100
_TEXT_TAG = "tag:yaml.org,2002:str"
_MERGE_TAG = "tag:yaml.org,2002:merge"
_PYTHON_TAG = "tag:yaml.org,2002:python/"
_NAMES, _CALLS = ("name", "module"), ("object/apply", "object/new")
_NAME_TAGS = tuple(f"{_PYTHON_TAG}{kind}:" for kind in _NAMES)
_PARTS = frozenset({"args", "kwds", "state", "listitems", "dictitems"})
"""Parts that PyYAML writes for an object that only a call can create."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file: ``data`` with text keys only, ``name`` for messages, ``lines`` from 1 by location."""

    name: str
    data: dict[str, Any]
    lines: dict[Location, int] = field(default_factory=dict)
    duplicates: tuple[tuple[Location, int], ...] = ()
    """Keys that are defined twice in one mapping, with the line of the later one."""

    def line(self, location: Location) -> int | None:
        """Line of the innermost key of ``location`` that is in the file, or None."""
        return innermost(self.lines, location)


def innermost(known: Mapping[Location, ValueT], location: Location) -> ValueT | None:
    """The value in ``known`` for the longest prefix of ``location`` that has one, or None."""
    for length in range(len(location), 0, -1):
        if location[:length] in known:
            return known[location[:length]]
    return None


def read_document(path: Path, wanted: str = _WANTED) -> Document:
    """Read ``path`` as data: JSON if its name ends in ``.json``, otherwise YAML. No YAML tag creates an object.

    Args:
        path: of the file.
        wanted: keys that such a file needs, for the messages about an empty file and about a list.

    Raises:
        SettingsError: the file is missing, unreadable, empty, not valid YAML (JSON), or not a mapping of keys.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise SettingsError(
                f"{path}: is larger than {_MAX_BYTES:,} bytes, so it is not a settings file; name another"
            )
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); name a readable YAML file") from None
    return parse_document(text, str(path), wanted)


def parse_document(text: str, name: str, wanted: str = _WANTED) -> Document:
    """Read YAML ``text``, or JSON if ``name`` ends in ``.json``; messages call it ``name``.

    Raises:
        SettingsError: as for :func:`read_document`.
    """
    if is_json(name):
        return _parse_json(text, name, wanted)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise SettingsError(f"{name}: is empty; it needs at least {wanted}")
        if not isinstance(node, yaml.MappingNode):
            raise SettingsError(f"{name}: must be a mapping of keys such as {wanted}")
        lines, duplicates = _places(node)
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise SettingsError(_syntax_sentence(error, name)) from None
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # PyYAML raises the last three for a value that does not match its own tag, such as `!!bool maybe`.
        raise SettingsError(f"{name}: is not valid YAML ({' '.join(str(error).split())}); correct it") from None
    except RecursionError:
        raise SettingsError(f"{name}: is nested too deeply to be read; flatten it") from None
    return Document(name, data, lines, duplicates)


def is_json(name: str) -> bool:
    """Whether a file of this name is JSON."""
    return name.lower().endswith(".json")


def _parse_json(text: str, name: str, wanted: str) -> Document:
    """See :func:`parse_document`. Valid JSON is also YAML, except for tabs, so the YAML parser finds its lines."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise SettingsError(f"{name}: is empty; it needs at least {wanted}") from None
        raise SettingsError(f"{name}:{error.lineno}: is not valid JSON ({error.msg}); correct this line") from None
    except ValueError as error:
        raise SettingsError(f"{name}: is not valid JSON ({error}); correct it") from None
    except RecursionError:
        raise SettingsError(f"{name}: is nested too deeply to be read; flatten it") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{name}: must be a mapping of keys such as {wanted}")
    try:
        node = _Loader(text.replace("\t", " ")).get_single_node()
        lines, duplicates = ({}, ()) if node is None else _places(node)
    except (yaml.YAMLError, RecursionError):
        lines, duplicates = {}, ()
    return Document(name, data, lines, duplicates)


def _syntax_sentence(error: yaml.MarkedYAMLError, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}" if mark else name
    problem = " ".join((error.problem or error.context or "cannot be read").split())
    remedy = "indent with spaces, not tabs" if "\\t" in problem else "correct this line"
    return f"{place}: is not valid YAML ({problem}); {remedy}"


class _Loader(yaml.SafeLoader):
    """Reads every key as the text in the file: ``3:`` and ``on:`` are names here, not a number and a bool.

    A node with a Python tag is read as the data in it, and no name in a tag is looked up. Old versions of
    mlagents-learn wrote their ``behaviors`` with such a tag.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        node = super().compose_node(parent, index)
        if node is not None and node.tag.startswith(_PYTHON_TAG):
            plain = self._plain(node)
            self.anchors.update({name: plain for name, known in self.anchors.items() if known is node})
            node = plain
        if node is not None and isinstance(parent, yaml.MappingNode) and index is None:
            if not isinstance(node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain text", node.start_mark)
            if node.tag != _MERGE_TAG:
                node.tag = _TEXT_TAG
        return node

    def _plain(self, node: yaml.Node) -> yaml.Node:
        """The data in a node with a Python tag."""
        kind, _, name = node.tag.removeprefix(_PYTHON_TAG).partition(":")
        if isinstance(node, yaml.ScalarNode):
            if kind in ("str", "unicode"):
                node.tag = _TEXT_TAG
            elif kind not in _NAMES:
                node.tag = self.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
            return node
        found = node
        if isinstance(node, yaml.MappingNode):
            node.tag = self.DEFAULT_MAPPING_TAG
            parts: dict[str, yaml.Node] = {key.value: value for key, value in node.value}
            if kind not in _CALLS or not parts.keys() <= _PARTS:
                return node
            for part in ("dictitems", "listitems", "state"):
                if part in parts:
                    return parts[part]
            found = parts.get("args", yaml.SequenceNode(node.tag, [], node.start_mark, node.end_mark))
        if not isinstance(found, yaml.SequenceNode):
            return found
        found.tag = self.DEFAULT_SEQUENCE_TAG
        return self._made_of(found, name) if kind in _CALLS else found

    def _made_of(self, arguments: yaml.SequenceNode, name: str) -> yaml.Node:
        """The data of a call of ``name`` with ``arguments``: an enum's value, an ordered or an empty mapping."""
        given = [each for each in arguments.value if not each.tag.startswith(_NAME_TAGS)]
        if given and not name.endswith("OrderedDict"):
            return given[0] if len(given) == 1 else arguments
        pairs = given[0].value if len(given) == 1 and isinstance(given[0], yaml.SequenceNode) else given
        if not all(isinstance(pair, yaml.SequenceNode) and len(pair.value) == 2 for pair in pairs):
            return arguments
        for pair in pairs:
            pair.value[0].tag = _TEXT_TAG
        entries = [tuple(pair.value) for pair in pairs]
        return yaml.MappingNode(self.DEFAULT_MAPPING_TAG, entries, arguments.start_mark, arguments.end_mark)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return self._number(node, super().construct_yaml_int)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return self._number(node, super().construct_yaml_float)

    def _number(self, node: yaml.ScalarNode, read: Callable[[yaml.ScalarNode], NumberT]) -> NumberT:
        if len(node.value) > _MOST_DIGITS:  # converting from base 60 (1:59:59) would take minutes
            text = f"a number of {len(node.value):,} digits"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        return read(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
for _tag in _NAME_TAGS:
    _Loader.add_multi_constructor(_tag, lambda loader, name, node: name)


def _children(node: yaml.Node | None) -> list[tuple[str | int, int, yaml.Node]]:
    """Key (or list position), line from 1, and value of every child."""
    if isinstance(node, yaml.MappingNode):
        return [(str(key.value), key.start_mark.line + 1, value) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return [(i, value.start_mark.line + 1, value) for i, value in enumerate(node.value)]
    return []


def _places(root: yaml.Node) -> tuple[dict[Location, int], tuple[tuple[Location, int], ...]]:
    """Lines by location, and keys that are defined twice in one mapping, with the line of the later one."""
    lines: dict[Location, int] = {}
    duplicates = []
    for location, line in _locations(root):
        if location in lines and location[-1] != "<<":
            duplicates.append((location, line))
        lines[location] = line
    return lines, tuple(duplicates)


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


_PACKAGE = Path(__file__).resolve().parents[1]


def configs_folder() -> Path:
    """The folder of shipped settings files.

    Raises:
        SettingsError: neither the source tree nor the environment has one.
    """
    installed = Path("share", "tau-trainer", "configs")
    homes = (sysconfig.get_path("data"), sysconfig.get_path("data", sysconfig.get_preferred_scheme("user")))
    for folder in (_PACKAGE.parent / "configs", *(Path(home) / installed for home in homes)):
        if (folder / "tau3.yaml").is_file():
            return folder
    raise SettingsError(f"{homes[0]}: the folder {installed.as_posix()} is missing there; install Tau Trainer again")


def shipped_names() -> list[str]:
    """Names of the shipped settings files without ``.yaml``, sorted."""
    return sorted((path.stem for path in configs_folder().glob("*.yaml")), key=str.lower)


def find_config(name: str | Path) -> Path:
    """The file at ``name``, or the shipped one with this name (``tau3``, ``tau3.yaml``, ``configs/tau3.yaml``).

    Raises:
        SettingsError: there is no such file.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        raise SettingsError(f"{path}: this is a folder; name a YAML file in it")
    if path.parent in (Path(), Path("configs")) and path.suffix in ("", ".yaml", ".yml"):
        shipped = configs_folder() / f"{path.stem if path.suffix else path.name}.yaml"
        if shipped.is_file():
            return shipped
    names = shipped_names()
    near = difflib.get_close_matches(path.stem.lower(), [shipped.lower() for shipped in names], 1)
    hint = next((f"did you mean {shipped}?" for shipped in names if [shipped.lower()] == near), None)
    raise SettingsError(f"{path}: no such file; {hint or 'check the path, or use a shipped one: ' + ', '.join(names)}")


def edited(text: str, name: str, values: Mapping[Location, Any]) -> tuple[str, bool]:
    """Set ``values`` at their locations in ``text``; returns the new text, and whether its comments are kept.

    A value that the text has is replaced in place. A new value becomes the first entry of its mapping; missing parent
    mappings are created. If the result would be wrong (an alias that other keys share, a list in place of a mapping),
    the whole text is written again, without comments.

    Args:
        text: content of a file.
        name: name of the file, for messages.
        values: numbers or texts by location.

    Raises:
        SettingsError: the text is not a YAML mapping, or a location does not exist in it.
    """
    document = parse_document(text, name)
    wanted = dict(document.data)
    for location, value in values.items():
        _put_at(wanted, document, location, value)
    if is_json(name):
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", True
    found = text
    for location, value in values.items():
        found = _changed(found, location, value)
    if _data(found, name) == wanted:
        return found, True
    return yaml.dump(wanted, Dumper=_Dumper, sort_keys=False, allow_unicode=True), False


class _Dumper(yaml.SafeDumper):
    """Writes shared data in full: without the comments, readers would not understand the aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _put_at(data: dict[str, Any], document: Document, location: Location, value: Any) -> None:
    """Set the value in ``data``. Mappings and lists on the way are copied, because other keys may share them."""
    inner: Any = data
    for depth, key in enumerate(location, 1):
        if isinstance(inner, list) and isinstance(key, int) and key < len(inner):
            known = inner[key]
        elif isinstance(inner, dict):
            known = inner.get(str(key))
        else:
            place = ".".join(map(str, location))
            raise SettingsError(f"{document.name}: cannot set {place}; add it to the file by hand")
        inner[key] = value if depth == len(location) else {} if known is None else copy(known)
        inner = inner[key]


def _data(text: str, name: str) -> Any:
    try:
        return parse_document(text, name).data
    except SettingsError:
        return None


def _changed(text: str, location: Location, value: Any) -> str:
    """``text`` with one value changed; unchanged if the edit is not simple."""
    node, written = _Loader(text).get_single_node(), json.dumps(value)
    for depth, key in enumerate(location):
        children = {child: value for child, _, value in _children(node)}
        if key not in children:
            for missing in reversed(location[depth + 1 :]):
                written = f"{{{json.dumps(missing)}: {written}}}"
            return _inserted(text, node, str(key), written)
        node = children[key]
    if not isinstance(node, yaml.ScalarNode):
        return text
    return text[: node.start_mark.index] + written + text[node.end_mark.index :]


def _inserted(text: str, node: yaml.Node | None, key: str, written: str) -> str:
    """``text`` with a new first key in the mapping ``node``."""
    if not isinstance(node, yaml.MappingNode):
        return text
    at = node.start_mark.index
    entry = f"{key}: {written}"
    if node.flow_style:
        return f"{text[: at + 1]}{entry}{', ' if node.value else ''}{text[at + 1 :]}"
    return f"{text[:at]}{entry}\n{' ' * node.start_mark.column}{text[at:]}"
