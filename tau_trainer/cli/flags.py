"""Command-line flags: a text or a switch, and the setting that each one overrides.

Numbers stay texts here. The settings parse them (``1e6`` included) and report mistakes, so that a flag and a line of
YAML get the same check and the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from cyclopts import Group, Parameter

KindT = TypeVar("KindT")
Text = str | None
Switch = bool | None
"""None: the flag was not given."""


@dataclass(frozen=True)
class Sets:
    """The setting that a flag overrides, and the value of a flag without an argument."""

    path: str
    """Dotted key; ``behaviors.*`` means every behavior. If it ends in a dot, the flag's own name follows."""
    value: Any = True


@dataclass_transform(frozen_default=True, kw_only_default=True)
def flag_group(group: Group | None = None) -> Callable[[type[KindT]], type[KindT]]:
    """A class of flags, which are shown in this group."""
    shown = Parameter(name="*") if group is None else Parameter(name="*", group=group)
    return lambda kind: shown(dataclass(frozen=True, kw_only=True)(kind))


def valued(about: str, metavar: str) -> Parameter:
    """A flag with an argument."""
    return Parameter(help=about, metavar=metavar)


def number(about: str, metavar: str = "N") -> Parameter:
    """A flag with a number as its argument, which may be negative."""
    return Parameter(help=about, metavar=metavar, allow_leading_hyphen=True)


def output_to(about: str, metavar: str = "FILE", *aliases: str) -> Parameter:
    """The flag that names what a command writes."""
    return Parameter(name=("--output", *aliases, "-o"), help=about, metavar=metavar)


def overridden(group: type) -> Iterator[tuple[str, str, Any]]:
    """For each flag that overrides a setting: name, dotted key of the setting, value without an argument."""
    for name, hint in get_type_hints(group, include_extras=True).items():
        for target in getattr(hint, "__metadata__", ()):
            if isinstance(target, Sets):
                yield name, target.path + name if target.path.endswith(".") else target.path, target.value


def overrides_of(*groups: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that the given flags override, by dotted key, and the flag for each key."""
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
