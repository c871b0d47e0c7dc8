"""A YAML text with other values, and everything else as its author left it: comments, order, indentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from typing import Any

import yaml

from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Document, Location, parse_document


def edited(text: str, name: str, values: Mapping[Location, Any]) -> tuple[str, bool]:
    """``text`` in which ``values`` stand at their locations, and whether its comments are still there.

    A value that the text has is written over in its place; one that it has not becomes the first of its mapping, whose
    parents are made where they are missing. Where that cannot be said so (an alias that others share, a list where a
    mapping should be made), the whole is written anew, without comments.

    Args:
        text: of a file.
        name: of the file, for messages.
        values: numbers or texts by location.

    Raises:
        SettingsError: the text is no YAML mapping, or there is no such place in it.
    """
    document = parse_document(text, name)
    wanted = dict(document.data)
    for location, value in values.items():
        _put(wanted, document, location, value)
    found = text
    for location, value in values.items():
        found = _changed(found, location, value)
    if _data(found, name) == wanted:
        return found, True
    return yaml.dump(wanted, Dumper=_Dumper, sort_keys=False, allow_unicode=True), False


class _Dumper(yaml.SafeDumper):
    """Writes out what is shared: without its comments nobody would see why."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _put(data: dict[str, Any], document: Document, location: Location, value: Any) -> None:
    """Put it into ``data``, of which everything on the way is copied: others may share it."""
    inner: Any = data
    for depth, key in enumerate(location, 1):
        if isinstance(inner, list) and isinstance(key, int) and key < len(inner):
            known = inner[key]
        elif isinstance(inner, dict):
            known = inner.get(str(key))
        else:
            place = ".".join(map(str, location))
            raise SettingsError(f"{document.name}: has no place for {place}; write it there by hand")
        inner[key] = value if depth == len(location) else {} if known is None else copy(known)
        inner = inner[key]


def _data(text: str, name: str) -> Any:
    try:
        return parse_document(text, name).data
    except SettingsError:
        return None


def _changed(text: str, location: Location, value: Any) -> str:
    """``text`` with one value changed, or as it was where that is not simple."""
    node, written = yaml.compose(text, Loader=yaml.SafeLoader), json.dumps(value)
    for depth, key in enumerate(location):
        children = _children(node)
        if key not in children:
            for missing in reversed(location[depth + 1 :]):
                written = f"{{{json.dumps(missing)}: {written}}}"
            return _inserted(text, node, str(key), written)
        node = children[key]
    if not isinstance(node, yaml.ScalarNode):
        return text
    return text[: node.start_mark.index] + written + text[node.end_mark.index :]


def _children(node: yaml.Node | None) -> dict[str | int, yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): value for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return dict(enumerate(node.value))
    return {}


def _inserted(text: str, node: yaml.Node | None, key: str, written: str) -> str:
    """``text`` whose mapping ``node`` begins with a further key."""
    if not isinstance(node, yaml.MappingNode):
        return text
    at = node.start_mark.index
    entry = f"{key}: {written}"
    if node.flow_style:
        return f"{text[: at + 1]}{entry}{', ' if node.value else ''}{text[at + 1 :]}"
    return f"{text[:at]}{entry}\n{' ' * node.start_mark.column}{text[at:]}"
