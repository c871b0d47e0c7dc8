"""What somebody else's settings do not choose on this machine: it is left out of a pulled run, and asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from tau_trainer.errors import SettingsError
from tau_trainer.settings.document import Location

WITHHELD = "(left out)"
"""Stands in a pulled run's settings where they named code, a program, a file or an address of its maker's."""
CODE = frozenset({"trainer_type", "vis_encode_type", "type"})
"""Keys whose value decides how the others are read, so that nothing can be read without it."""
FLAGS: Mapping[Location, str] = {
    ("env_settings", "env_path"): "--env",
    ("tau", "data"): "--data",
}


def withheld(settings: BaseModel | Mapping[str, object]) -> list[Location]:
    """Where :data:`WITHHELD` stands in settings or in a file's data."""
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
    """The sentence that asks for what is left out there."""
    first, *others = (FLAGS.get(location) or f"--set {'.'.join(map(str, location))}=..." for location in locations)
    flags = ", and by ".join([first, *others])
    return (
        "the run was pulled, and what it names on its maker's machine is left out; choose your own, if you trust it, "
        f"by {flags}"
    )


def check_chosen(settings: BaseModel, *sections: str) -> None:
    """Raises SettingsError where something that is needed is left out; ``sections``: of these alone."""
    found = [place for place in withheld(settings) if not sections or place[0] in sections]
    if found:
        raise SettingsError(ask_again(found))
