"""Types of values in a settings file, read more leniently than by ML-Agents, and the base class of every section.

ML-Agents refuses ``1e4`` as a whole number and reads the text ``'false'`` as true; here both mean what they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Self, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema, PydanticCustomError

TAG = "\0"
"""First character of union tags, which distinguishes them from keys in the location of an error."""
FORBID_UNKNOWN = ConfigDict(extra="forbid", coerce_numbers_to_str=True, str_strip_whitespace=True)
"""Every key must be known; a number is accepted as a text."""


class Section(BaseModel):
    """One mapping of a settings file: immutable, and every key must be known."""

    model_config = FORBID_UNKNOWN | ConfigDict(frozen=True)

    tensor_defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults that differ if experience comes from a batched environment."""

    def changed(self, key: str) -> bool:
        """Whether its value is not the default."""
        return bool(getattr(self, key) != type(self).model_fields[key].default)

    def having(self, **changes: Any) -> Self:
        """A copy with these values, which are not validated; a mapping changes only those keys of a section."""
        for key, value in changes.items():
            section = getattr(self, key)
            if isinstance(section, Section) and isinstance(value, Mapping):
                changes[key] = section.having(**value)
        return self.model_copy(update=changes)

    def on_tensors(self) -> Self:
        """The same section, with :attr:`tensor_defaults` for keys that are not set."""
        changed = {key: value for key, value in self.tensor_defaults.items() if key not in self.model_fields_set}
        changed |= {key: value.on_tensors() for key, value in self if isinstance(value, Section)}
        found = self.model_copy(update=changed)
        found.model_fields_set.intersection_update(self.model_fields_set)  # a default is not a set key
        return found

    def refuse(self, text: str, *keys: str) -> None:
        """Raise pydantic's error with ``text``, which contains ``{key}``, for the first changed key of ``keys``."""
        for key in keys:
            if self.changed(key):
                raise invalid(text.format(key=key))


def invalid(text: str) -> PydanticCustomError:
    """The error for a value or a section that is not valid; ``text`` is shown after its key."""
    return PydanticCustomError("invalid", "{text}", {"text": text})


def unknown_choice(text: str, given: object, known: Iterable[str]) -> PydanticCustomError:
    """The error for a name that is not one of ``known``; the message suggests one of them."""
    return PydanticCustomError("unknown_choice", "{text}", {"text": text, "given": str(given), "known": [*known]})


def one_of(
    key: str,
    members: Mapping[str, Any],
    others: Mapping[str, Any] | None = None,
    kind: Callable[[Any], str] = lambda value: "",
    missing: str = "",
) -> Any:
    """The annotation of a value that is a section, whose ``key`` names one of ``members``, or one of ``others``.

    ``kind``: returns the name of a value without that key; ``missing``: the message for a mapping without it.
    """
    every = {**members, **(others or {})}

    def name(value: object) -> str:
        given = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        return kind(value) if given is None else str(given)

    def known(value: object) -> object:
        if name(value) in every:
            return value
        if isinstance(value, Mapping) and value.get(key) is not None:
            raise unknown_choice(f"has an unknown {key}", value[key], members)
        raise invalid(missing or f"has no {key}; known: {', '.join(members)}")

    parts: Any = tuple(Annotated[member, Tag(TAG + name)] for name, member in every.items())
    union: Any = Union[parts]  # noqa: UP007 made at run time
    return Annotated[union, Discriminator(lambda value: TAG + name(value)), BeforeValidator(known)]


@dataclass(frozen=True)
class TableSchema:
    """Validate a ``dict`` field by the keys and classes of a ``TypedDict``."""

    table: type
    """The TypedDict."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic's hook: the table's schema instead of the annotation's own."""
        return handler.generate_schema(self.table)


_BEYOND = 2**64
"""Replaces every whole number that does not fit into 64 bits."""


def _decimal(value: object) -> Decimal | None:
    """The number written as ``value`` (an int, a float or a text such as ``3e-4``), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return Decimal(str(value).strip())
    except InvalidOperation:
        return None


def is_number(value: object) -> bool:
    """Whether ``value`` is a number or the text of one."""
    return _decimal(value) is not None


def _whole(value: object) -> object:
    number = _decimal(value)
    if number is not None and number.is_finite() and number.copy_abs() > 2**63:
        return _BEYOND if number > 0 else -_BEYOND  # 1e999999 as an int would take all memory
    if number is None or not number.is_finite() or number != int(number):
        raise invalid("must be a whole number such as 64 or 1e4")
    return int(number)


def _real(value: object) -> object:
    number = _decimal(value)
    if number is None:
        raise invalid("must be a number such as 0.2 or 3e-4")
    if not math.isfinite(float(number)):
        raise invalid("must be a finite number")
    return float(number)


def _truth(value: object) -> object:
    text = value.strip().lower() if isinstance(value, str) else value
    for truth, words in ((True, (True, "true", "yes", "on", "1")), (False, (False, "false", "no", "off", "0"))):
        if text in words:
            return truth
    raise invalid("must be true or false")


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number of any size, for keys with their own maximum, so that messages name that maximum."""
Int = Annotated[Whole, Field(ge=-(2**63), le=2**63 - 1)]
"""A whole number of 64 bits; ``1e4`` and ``'64'`` are whole numbers too, ``true`` is not."""
PositiveInt = Annotated[Int, Field(ge=1)]
"""A whole number of at least 1."""
NaturalInt = Annotated[Int, Field(ge=0)]
"""A whole number of at least 0."""
Float = Annotated[float, BeforeValidator(_real)]
"""A finite number; texts such as ``3e-4`` (which YAML 1.1 does not read as a number) included."""
PositiveFloat = Annotated[Float, Field(gt=0)]
"""A number above 0."""
NaturalFloat = Annotated[Float, Field(ge=0)]
"""A number that is not negative."""
Fraction = Annotated[Float, Field(ge=0, le=1)]
"""A number from 0 to 1."""
Bool = Annotated[bool, BeforeValidator(_truth)]
"""True or false; the texts ``'false'``, ``'no'``, ``'off'`` and ``'0'`` are false."""
Text = Annotated[str, Field(min_length=1)]
"""A text that is not empty."""
