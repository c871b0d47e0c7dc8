"""Messages about problems and withheld values in a settings file: what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import is_typeddict

from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Document, Location, innermost
from tau_trainer.settings.earlier import GONE, is_converted
from tau_trainer.settings.kinds import TAG, Section, TableSchema, is_number

_VERBS = ("must ", "is ", "has ", "asks ", "does ", "needs ", "works ")
_NOTHING_NEW = {"default_factory_not_called"}
WITHHELD = "(left out)"
"""Replaces values in a pulled run's settings that named code, a program, a file or an address of its author."""
CODE = frozenset({"trainer_type", "vis_encode_type", "type"})
"""Keys whose value decides how other keys are read; the settings cannot be read without it."""
FLAGS: Mapping[Location, str] = {
    ("env_settings", "env_path"): "--env",
    ("tau", "data"): "--data",
}
"""Flags that set a withheld value; other values are set with ``--set``."""


@dataclass(slots=True)
class Problems:
    """All problems of one file and of the flags that override it, collected to be reported at once."""

    document: Document
    flags: dict[Location, str] = field(default_factory=dict)
    """The flag (or other origin) that set a location instead of the file."""
    sentences: list[str] = field(default_factory=list)

    def add(self, location: Location, text: str) -> None:
        """Add the problem ``text`` at ``location``; ``text`` starts with a verb or is a clause of its own.

        The known keys of a section are listed only once.
        """
        place = self.place(location)
        if "key; known" in text and any(said.endswith(text) and not said.startswith(place) for said in self.sentences):
            text = "unknown key, too"
        sentence = f"{place}{' ' if text.startswith(_VERBS) else ': '}{text}"
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def add_all(self, findings: Iterable[tuple[Location, str]]) -> None:
        """Add each location with its text."""
        for location, text in findings:
            self.add(location, text)

    def add_errors(self, error: ValidationError, model: type[Section], prefix: Location) -> None:
        """Add every error of a failed validation of ``model`` at ``prefix``."""
        for detail in error.errors(include_url=False):
            if detail["type"] not in _NOTHING_NEW:
                place = (*prefix, *without_tags(detail["loc"]))
                file = self.document.name if innermost(self.flags, place) is None else ""
                self.add(place, _text(detail, model, file))

    def place(self, location: Location) -> str:
        """``file:line: key.path``, or the flag that set it."""
        if (flag := innermost(self.flags, location)) is not None:
            return flag
        line = self.document.line(location)
        where = f"{self.document.name}:{line}" if line else self.document.name
        return ": ".join(part for part in (where, key_path(location)) if part)

    def raise_if_any(self) -> None:
        """Raise SettingsError with the only sentence, or with a heading and one line for each."""
        if len(self.sentences) == 1:
            raise SettingsError(self.sentences[0])
        if self.sentences:
            lines = "".join(f"\n  {sentence}" for sentence in self.sentences)
            raise SettingsError(f"{len(self.sentences)} problems in the settings:{lines}", tuple(self.sentences))


def without_tags(location: Iterable[str | int]) -> Location:
    """A validation error's location without the tags of unions."""
    return tuple(part for part in location if not (isinstance(part, str) and part.startswith(TAG)))


def key_path(location: Location) -> str:
    """``behaviors.Agent.x``, list positions as ``[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint with the most similar name of ``known``, or with all of them; the end of a message about a name."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), folded, 1)
    near = near or [name for name in folded if len(given) > 2 and (given.lower() in name or name in given.lower())]
    if near:
        return f"did you mean {folded[near[0]]}?"
    return f"known here: {', '.join(names)}" if names else "remove it"


def _text(detail: ErrorDetails, model: type[Section], file: str) -> str:
    """The message for one of pydantic's errors in ``file``; ``file`` is empty for an error in a flag."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"], model, file)
    if kind == "missing":
        return "is missing and has no default; add it"
    if kind == "literal_error":
        return _choice(detail)
    if kind == "unknown_choice":
        return f"{detail['msg']} {context['given']}; {did_you_mean(context['given'], context['known'])}"
    limits = {key: f"{limit:.10g}" if isinstance(limit, float) else limit for key, limit in context.items()}
    text = _LIMITS[kind].format(**limits) if kind in _LIMITS else detail["msg"]
    if detail["input"] is None and text.startswith("must "):
        return "is empty; give it a value ({} for a section's defaults) or remove it"
    return text + _given(detail["input"]) if text.startswith("must ") else text


_NAMED_OTHERWISE = {
    "save_freq": ("checkpoint_interval", "counted in decisions"),
    "save_interval": ("checkpoint_interval", "counted in decisions"),
    "max_save_files": ("keep_checkpoints", "where 0 keeps all"),
}
"""Keys of other trainers, their names in ML-Agents' files, and a note for each."""
_LIMITS: dict[str, str] = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "string_type": "must be a text",
    "string_unicode": "must be whole Unicode text, without half a surrogate pair",
    "string_too_short": "is empty; give it a value",
    "path_type": "must be a path",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
}


def _given(value: object) -> str:
    """``, not 3`` for a value that is short enough to show."""
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if not isinstance(value, int | float | str) or len(str(value)) > 60:
        return ""
    return f", not {value}" if is_number(value) else f", not {value!r}"


def _choice(detail: ErrorDetails) -> str:
    expected = str(detail.get("ctx", {}).get("expected", "")).replace("'", "")
    names = expected.replace(" or ", ", ").split(", ")
    near = difflib.get_close_matches(str(detail["input"]).lower(), names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"must be {expected}{_given(detail['input'])}{hint}"


def _unknown_key(location: tuple[str | int, ...], model: type[Section], file: str) -> str:
    given, keys = str(location[-1]), known_keys(section_at(model, location[:-1]))
    if given in _NAMED_OTHERWISE and _NAMED_OTHERWISE[given][0] in keys:
        return "unknown key; use {}, {}".format(*_NAMED_OTHERWISE[given])
    if given in GONE and "trainer_type" in keys:
        return "is a key of older ML-Agents and no longer has an effect; remove it"
    if file and is_converted(given, keys):
        return f"is a key of older ML-Agents; convert the file with: tau-train upgrade {file}"
    homes = [key for key, annotation in keys.items() if given in known_keys(_section(annotation))]
    if homes:
        nearest = "hyperparameters" if "hyperparameters" in homes else homes[0]
        moves = f" tau-train upgrade {file} moves it" if file and "trainer_type" in keys else ""
        return f"unknown key here; did you mean {nearest}.{given}?{moves}"
    return f"unknown key; {did_you_mean(given, keys)}"


def section_at(model: object, location: Iterable[str | int]) -> object:
    """The section, table or other annotation at ``location`` in ``model``."""
    here: object = model
    for part in location:
        here = _section(here)
        arguments = [argument for argument in get_args(here) if argument is not Ellipsis]
        if isinstance(part, str) and part.startswith(TAG):  # a member of a tagged union
            here = next((member for member in arguments if Tag(part) in get_args(member)), here)
        else:  # a key, or the type of a dict's values or a list's entries
            here = known_keys(here).get(str(part), arguments[-1] if arguments else here)
    return _section(here)


def known_keys(section: object) -> Mapping[str, Any]:
    """Keys of a section or table with their annotations; empty for other types."""
    if isinstance(section, type) and issubclass(section, Section):
        return {name: entry.rebuild_annotation() for name, entry in section.model_fields.items()}
    if isinstance(section, type) and is_typeddict(section):
        return get_type_hints(section, include_extras=True)
    return {}


def _section(annotation: object) -> object:
    """The section within ``Annotated[...]`` and ``... | None``; the table of a :class:`TableSchema`."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        tables = [entry.table for entry in metadata if isinstance(entry, TableSchema)]
        return tables[0] if tables else _section(inner)
    if get_origin(annotation) in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not NoneType]
        return _section(members[0]) if len(members) == 1 else annotation
    return annotation


def withheld(settings: BaseModel | Mapping[str, object]) -> list[Location]:
    """Locations of :data:`WITHHELD` in settings or in a file's data."""
    values = settings.model_dump(mode="json") if isinstance(settings, BaseModel) else settings
    return list(_places(values, ()))


def _places(value: object, location: Location) -> Iterator[Location]:
    if value == WITHHELD:
        yield location
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, (*location, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for position, inner in enumerate(value):
            yield from _places(inner, (*location, position))


def ask_again(locations: Sequence[Location]) -> str:
    """The message that asks the user to set the withheld values at these locations."""
    first, *others = (FLAGS.get(location) or f"--set {'.'.join(map(str, location))}=..." for location in locations)
    flags = " and ".join([first, *others])
    return (
        f"the run was pulled, and names from its author's machine are left out; if you trust it, set yours with {flags}"
    )


def check_chosen(settings: BaseModel, *sections: str) -> None:
    """Raises SettingsError if a required value is withheld; ``sections``: check only these."""
    found = [place for place in withheld(settings) if not sections or place[0] in sections]
    if found:
        raise SettingsError(ask_again(found))
