"""What a flag is: a text, perhaps a switch, and the setting that it overrides.

Numbers stay texts here. The settings read them (``1e6`` included) and say what is wrong with them, so that a flag and
a line of YAML get the same check and the same sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, get_type_hints

from cyclopts import Parameter

Text = str | None
Switch = bool | None
"""None: the flag was not given."""


@dataclass(frozen=True)
class Sets:
    """The setting that a flag overrides, and the value that a bare flag stands for."""

    path: str
    """Dotted key; ``behaviors.*`` means every behavior. After a dot at the end comes the flag's own name."""
    value: Any = True


def text(about: str, metavar: str) -> Parameter:
    """A flag that takes a text."""
    return Parameter(help=about, metavar=metavar)


def number(about: str, metavar: str = "N") -> Parameter:
    """A flag that takes a number, below zero too."""
    return Parameter(help=about, metavar=metavar, allow_leading_hyphen=True)


def overridden(group: type) -> Iterator[tuple[str, str, Any]]:
    """Of each flag that overrides a setting its name, the setting's dotted key, and what a bare flag stands for."""
    for name, hint in get_type_hints(group, include_extras=True).items():
        for target in getattr(hint, "__metadata__", ()):
            if isinstance(target, Sets):
                yield name, target.path + name if target.path.endswith(".") else target.path, target.value


def overrides_of(*groups: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that given flags override, by dotted key, and the flag behind each key."""
    overrides: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for group in groups:
        inner = [value for value in vars(group).values() if is_dataclass(value)]
        if inner:
            inner_overrides, inner_flags = overrides_of(*inner)
            overrides |= inner_overrides
            flags |= inner_flags
            continue
        for name, path, bare in overridden(type(group)):
            value = getattr(group, name)
            if value is not None:
                overrides[path] = bare if value is True else value
                flags[path] = "--" + name.replace("_", "-")
    return overrides, flags
