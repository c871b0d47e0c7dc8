"""Profiles by name and by number."""

from __future__ import annotations

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.profiles import PROFILES, places_for, profile_by_index, profile_named


def test_the_two_environments() -> None:
    tau384, tau3 = PROFILES["tau384"], PROFILES["tau3"]
    assert (tau384.action_size, tau384.reward) == (384, "binary")
    assert (tau3.action_size, tau3.reward) == (3, "incremental")
    assert {profile.reward for profile in PROFILES.values()} <= REWARDS.keys()


def test_numbers_of_the_environment_parameter() -> None:
    assert profile_by_index(0.0).name == "tau384"
    assert profile_by_index(1.0).name == "tau3"
    with pytest.raises(SettingsError, match=r"`profile` is 2, .*1 \(`tau3`\)"):
        profile_by_index(2.0)


def test_components_and_levels_are_a_profile_too() -> None:
    profile = profile_named("2x16")
    assert (profile.name, profile.action_size, profile.levels, profile.reward) == ("2x16", 2, 16, "binary")
    with pytest.raises(SettingsError, match=r"profile is '2x1'; .*tau3.*or components and levels such as 2x16"):
        profile_named("2x1")


@pytest.mark.parametrize(
    ("answers", "levels", "name"),
    [
        (1, None, "1x2"),
        (26, None, "1x26"),
        (1024, None, "1x1024"),
        (1025, None, "2x33"),
        (240, 16, "2x16"),
        (257, 16, "3x16"),
    ],
)
def test_each_answer_has_a_place_in_as_few_components_as_can_be(answers: int, levels: int | None, name: str) -> None:
    assert places_for(answers, levels).name == name


def test_what_is_right_is_nearer_than_half_a_level() -> None:
    assert profile_named("1x41").threshold(0.1) == 0.025
    assert profile_named("1x3").threshold(0.1) == 0.1
    assert PROFILES["tau3"].threshold(0.1) == 0.1
