"""The two Tau environments: how many numbers the policy outputs and which reward they earn (tau.md 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from tau_trainer.errors import SettingsError

EMBEDDING_SIZE = 384
"""Floats in one text embedding (all-MiniLM-L6-v2), hence in one observation."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One of Tau's environments."""

    name: str
    """``tau384`` or ``tau3``."""
    action_size: int
    """Number of continuous actions ``A``; targets have the same width."""
    reward: str
    """Name of the reward formula the profile pays by default, a key of :data:`tau_trainer.tau.formulas.REWARDS`."""
    index: int
    """Value of the environment parameter ``profile`` that stands for this profile."""


PROFILES: dict[str, Profile] = {
    "tau384": Profile("tau384", EMBEDDING_SIZE, "binary", 0),
    "tau3": Profile("tau3", 3, "incremental", 1),
}
"""Profiles by name."""


def profile_by_index(index: float) -> Profile:
    """Profile that the environment parameter ``profile`` names by number (0 = ``tau384``, 1 = ``tau3``).

    Raises:
        SettingsError: the number stands for no profile.
    """
    for profile in PROFILES.values():
        if profile.index == index:
            return profile
    known = ", ".join(f"{profile.index} (`{profile.name}`)" for profile in PROFILES.values())
    raise SettingsError(f"Environment parameter `profile` is {index:g}, which stands for no profile; use {known}.")
