"""The Tau environments: the number of the policy's outputs, and their reward (tau.md 5.1)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tau_trainer.errors import SettingsError

EMBEDDING_SIZE = 384
"""Floats in one text embedding (all-MiniLM-L6-v2), hence in one observation."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One of Tau's environments."""

    name: str
    """``tau384``, ``tau3``, or components and levels as in ``2x16``."""
    action_size: int
    """Number of continuous actions ``A``; targets have the same width."""
    reward: str
    """Name of the reward formula the profile pays by default, a key of :data:`tau_trainer.tau.formulas.REWARDS`."""
    index: int
    """Value of the environment parameter ``profile`` for this profile; -1: there is none."""
    levels: int | None = None
    """Number of levels of each component, on which every answer has its own point; None: targets are arbitrary."""

    def threshold(self, asked: float) -> float:
        """Error below which a component is correct: ``asked``, but at most half of the way to the next level."""
        return asked if self.levels is None else min(asked, 1.0 / (self.levels - 1))


MOST_LEVELS = 1024
"""Maximum levels of one component (``network_settings.action_levels``)."""
PROFILES: dict[str, Profile] = {
    "tau384": Profile("tau384", EMBEDDING_SIZE, "binary", 0),
    "tau3": Profile("tau3", 3, "incremental", 1),
}
"""Profiles by name, in the order of their numbers."""
_PLACES = re.compile(r"([1-9]\d?)x([1-9]\d{0,3})")


@lru_cache
def profile_named(name: str) -> Profile:
    """The profile of that name: one of :data:`PROFILES`, or components and levels as in ``2x16``.

    Raises:
        SettingsError: the name is unknown.
    """
    if name in PROFILES:
        return PROFILES[name]
    found = _PLACES.fullmatch(name)
    if found is None or not 2 <= int(found[2]) <= MOST_LEVELS:
        near = difflib.get_close_matches(name, PROFILES, 1)
        known = f"did you mean {near[0]}" if near else f"known here: {', '.join(PROFILES)}"
        raise SettingsError(
            f"profile is '{name}'; {known}, or components and levels such as 2x16, 1x2 to 99x{MOST_LEVELS}"
        )
    return Profile(name, int(found[1]), "binary", -1, int(found[2]))


def places_for(answers: int, levels: int | None = None) -> Profile:
    """The profile with a point for each of ``answers`` answers, in as few components as possible.

    ``levels``: levels of each component; None: as few as possible.
    """
    most, components = levels or MOST_LEVELS, 1
    while most**components < answers:
        components += 1
    least = next(count for count in range(2, MOST_LEVELS + 1) if count**components >= answers)
    return profile_named(f"{components}x{levels or least}")


def named_by_number(parameter: str, number: float, names: Iterable[str], what: str) -> str:
    """The name that an environment parameter gives by its place among ``names``, from 0; ``what`` it names.

    Raises:
        SettingsError: the number is no place.
    """
    known = dict(enumerate(names))
    if number not in known:
        listed = ", ".join(f"{place} (`{name}`)" for place, name in known.items())
        raise SettingsError(
            f"Environment parameter `{parameter}` is {number:g}, which is not a valid {what}; use {listed}."
        )
    return known[int(number)]


def profile_by_index(index: float) -> Profile:
    """Profile that the environment parameter ``profile`` names by number. Raises SettingsError."""
    return PROFILES[named_by_number("profile", index, PROFILES, "profile")]
