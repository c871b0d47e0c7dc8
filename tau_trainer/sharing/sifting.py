"""Filters a stranger's settings: keeps values that :mod:`.allowed` permits, and reports the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tau_trainer.settings import dump_settings
from tau_trainer.settings.document import Document, Location, read_document
from tau_trainer.settings.earlier import migrated
from tau_trainer.settings.loading import interpret
from tau_trainer.settings.outlook import untrainable
from tau_trainer.settings.problems import CODE, FLAGS, WITHHELD, key_path, withheld
from tau_trainer.sharing.allowed import SETTINGS, Rule, Stays, arguments_kept, is_number, is_numbers
from tau_trainer.specs import Json

_MOST_NOTES = 20
_LONGEST = 60
_NOTHING: tuple[object, ...] = (None, "", [], {}, False)


def own_settings(path: Path, here: Mapping[str, str]) -> tuple[str, list[str]]:
    """A stranger's settings with ``here`` in ``checkpoint_settings``, as YAML; and a sentence for each omission.

    They are handled as plain data until only values that :data:`.SETTINGS` allows are left. Raises SettingsError.
    """
    sifted = Sifted()
    data = sifted.mapping(migrated(read_document(path).data), SETTINGS)
    # To read these, the author's class is needed.
    code = [place for place in withheld(data) if place[-1] in CODE]
    for place in code:
        _put(data, place, None)
    chosen = data.get("checkpoint_settings")
    data["checkpoint_settings"] = {**(chosen if isinstance(chosen, dict) else {}), **here}
    settings, problems = interpret(Document(path.name, data), {}, lenient=False, flags={})
    problems.add_all(untrainable(settings))
    problems.raise_if_any()
    values = yaml.safe_load(dump_settings(settings))
    for place in code:
        _put(values, place, WITHHELD)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True), sifted.notes


class Sifted:
    """Filters settings, and collects notes about omissions."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._more = 0

    @property
    def notes(self) -> list[str]:
        """A sentence for each omission; after twenty, the number of the others."""
        more = f"{self._more:,} more settings are left out: a shared run may not contain them"
        return [*self._notes, more] if self._more else [*self._notes]

    def mapping(self, values: Json, rules: Mapping[str, Rule], place: Location = ()) -> dict[str, Any]:
        """The allowed part of ``values``."""
        kept: dict[str, Any] = {}
        for key, value in values.items():
            rule = rules.get(key, rules.get("*"))
            here = (*place, key)
            if here == ("env_settings", "env_args"):
                continue
            if rule is None:
                self._leave_out(here, value, "is not a setting that a shared run may contain")
            elif isinstance(rule, Mapping):
                self._section(kept, value, rule, here)
            elif isinstance(rule, Stays) and rule.holds(value):
                kept[key] = value
            elif rule.asked and value is not None:
                self._leave_out(here, value, rule.why, asked=True)
                kept[key] = WITHHELD
            elif isinstance(rule, Stays) or not (rule.quiet or value == rule.usual):
                self._leave_out(here, value, rule.why)
        if place == ("env_settings",):
            self._arguments(kept, values)
        if kept.get("trainer_type") == WITHHELD and kept.pop("hyperparameters", None):
            self._leave_out((*place, "hyperparameters"), {}, "belongs to that trainer")
        if place == ("environment",) and kept.get("name") == WITHHELD and kept.pop("arguments", None):
            self._leave_out((*place, "arguments"), {}, "belongs to that environment")
        return kept

    def _section(self, kept: dict[str, Any], value: object, rules: Mapping[str, Rule], place: Location) -> None:
        """Add to ``kept`` the allowed part of a section, of a list of sections, or of numbers instead of it."""
        key = str(place[-1])
        if isinstance(value, Mapping):
            kept[key] = self.mapping(value, rules, place)
        elif isinstance(value, list):
            kept[key] = [
                self.mapping(entry, rules, (*place, position)) if isinstance(entry, Mapping) else entry
                for position, entry in enumerate(value)
                if isinstance(entry, Mapping) or is_numbers(entry)
            ]
            if len(kept[key]) < len(value):
                self._leave_out(place, value, "contains something other than numbers and sections")
        elif is_number(value):
            kept[key] = value
        else:
            self._leave_out(place, value, "is text, but must be a section")

    def _arguments(self, kept: dict[str, Any], values: Json) -> None:
        given = values.get("env_args")
        if given in _NOTHING:
            return
        stay, left = arguments_kept(kept.get("env_path"), given)
        if stay:
            kept["env_args"] = stay
        if left:
            self._leave_out(("env_settings", "env_args"), " ".join(left), "may not be part of a shared run")

    def _leave_out(self, place: Location, value: object, why: str, *, asked: bool = False) -> None:
        if value in _NOTHING and value != {}:
            return
        if len(self._notes) >= _MOST_NOTES:
            self._more += 1
            return
        shown = f" {value}" if isinstance(value, str | int | float) else ""
        shown = f"{shown[:_LONGEST]}..." if len(shown) > _LONGEST else shown
        key = key_path(place)
        remedy = f"; to resume, choose your own with {FLAGS.get(place) or f'--set {key}=...'}" if asked else ""
        self._notes.append(f"{key}{shown} is left out: it {why}{remedy}")


def _put(data: dict[str, Any], place: Location, value: object) -> None:
    """Set a value at its place; None removes it."""
    *parents, key = place
    here: Any = data
    for part in parents:
        here = here[part] if isinstance(part, int) else here.setdefault(part, {})
    if value is None:
        del here[key]
    else:
        here[key] = value
