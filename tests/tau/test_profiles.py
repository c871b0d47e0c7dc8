"""Profiles by name and by number."""

from __future__ import annotations

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES, profile_by_index


def test_the_two_environments() -> None:
    tau384, tau3 = PROFILES["tau384"], PROFILES["tau3"]
    assert (tau384.action_size, tau384.reward) == (384, "binary")
    assert (tau3.action_size, tau3.reward) == (3, "incremental")
    assert {profile.reward for profile in PROFILES.values()} <= REWARDS.keys()


def test_numbers_of_the_environment_parameter() -> None:
    assert profile_by_index(0.0).name == "tau384"
    assert profile_by_index(1.0).name == "tau3"


def test_unknown_profiles_are_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"`profile` is 2, .*1 \(`tau3`\)"):
        profile_by_index(2.0)
