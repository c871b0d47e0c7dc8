"""Spaces of Godot games."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.godot.codec import GodotCodec
from tau_trainer.errors import DecodeError
from tests.bridge.godot.games import BOX, JSON, JUMP, MIXED, Game, introduction, seen


def test_older_plugins_send_one_space_for_all_and_no_names() -> None:
    game = Game(2, observation_space=BOX, action_space=MIXED, agent_policy_names=None)
    (batch,) = game.reset(seen(1, 2))
    assert (batch.behavior, len(batch)) == ("shared_policy", 2)


def test_a_discrete_observation_is_a_vector_with_a_single_one() -> None:
    game = Game(2, observation_space={"room": {"size": 3, "space": "discrete"}})
    (batch,) = game.reset([{"room": 2}, {"room": 0.0}])
    assert batch.obs[0].tolist() == [[0, 0, 1], [1, 0, 0]]


def test_a_box_of_several_dimensions_is_a_vector() -> None:
    game = Game(1, observation_space={"obs": {"size": [2, 2], "space": "box"}})
    (batch,) = game.reset([{"obs": [[1, 2], [3, 4]]}])
    assert batch.obs[0].tolist() == [[1, 2, 3, 4]]


def test_pictures_are_hexadecimal_text_in_the_order_of_an_image() -> None:
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # height, width, channels
    space = {"camera_2d": {"size": [3, 2, 4], "space": "box"}}
    (batch,) = Game(1, observation_space=space).reset([{"camera_2d": picture.tobytes().hex()}])
    np.testing.assert_array_equal(batch.obs[0][0], picture.transpose(2, 0, 1))
    assert batch.obs[0].dtype == np.uint8
    (batch,) = Game(1, flat=True, observation_space=space).reset([{"camera_2d": picture.tobytes().hex()}])
    np.testing.assert_array_equal(batch.obs[0][0], np.arange(24).reshape(3, 2, 4))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"n_agents": 0}, "n_agents is not a whole number from 1"),
        ({"n_agents": True}, "n_agents"),
        ({"n_agents": 1.5}, "n_agents"),
        ({"n_agents": float("inf")}, "n_agents"),
        ({"n_agents": 10**9}, "n_agents"),
        ({"agent_policy_names": ["a"]}, "not a list of 2 names"),
        ({"agent_policy_names": ["a", 1]}, "text of 1 to 256"),
        ({"agent_policy_names": ["a", ""]}, "text of 1 to 256"),
        ({"agent_policy_names": ["a", "b" * 257]}, "text of 1 to 256"),
        ({"observation_space": [BOX]}, "its observation_space is not a dictionary"),
        ({"observation_space": 3}, "its observation_space is not a dictionary"),
        ({"action_space": [MIXED, "up"]}, "its action_space is not a dictionary"),
        ({"observation_space": {}}, "has no observations"),
        ({"action_space": {}}, "has no actions"),
        ({"action_space": {"a": 3}}, "action 'a' of policy 'shared_policy' has no description"),
        ({"action_space": {"a" * 300: {}}}, "too long a name"),
        ({"action_space": {"a": {"size": 2, "action_type": "quantum"}}}, "action_type 'quantum'"),
        ({"action_space": {"a": {"size": 2}}}, "action_type"),
        ({"action_space": {"a": {"size": 0, "action_type": "discrete"}}}, "the size of action 'a'"),
        ({"action_space": {"a": {"size": 2**40, "action_type": "discrete"}}}, "the size of action 'a'"),
        ({"action_space": {k: {"size": 2**22, "action_type": "discrete"} for k in "ab"}}, "are more than 4,194,304"),
        ({"observation_space": {"a": {"size": [3], "space": "sphere"}}}, "the space 'sphere'"),
        ({"observation_space": {"a": {"size": 3, "space": "box"}}}, "the size of observation 'a'"),
        ({"observation_space": {"a": {"size": [], "space": "box"}}}, "the size of observation 'a'"),
        ({"observation_space": {"a": {"size": [3, -1], "space": "box"}}}, "a number in the size of observation 'a'"),
        ({"observation_space": {"a": {"size": [2**12, 2**12], "space": "box"}}}, "has more than 4,194,304 values"),
        ({"observation_space": {"a_2d": {"size": [3], "space": "box"}}}, "must have three numbers"),
        ({"action_space": [JUMP, MIXED]}, "agents of the policy 'shared_policy' have different"),
    ],
)
def test_a_wrong_introduction_is_refused_in_one_sentence(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        Game(2, **changed)


@pytest.mark.parametrize("room", [-1, 3, 0.5, [1, 2], "x", None])
def test_a_choice_that_does_not_exist_is_refused(room: Any) -> None:
    game = Game(1, observation_space={"room": {"size": 3, "space": "discrete"}})
    with pytest.raises(DecodeError, match=r"observation 'room' does not fit .* 3 choices"):
        game.reset([{"room": room}])


@pytest.mark.parametrize("text", ["zz", "00", "0" * 14, 3, None])
def test_a_picture_of_another_size_is_refused(text: Any) -> None:
    game = Game(1, observation_space={"camera_2d": {"size": [3, 1, 2], "space": "box"}})
    with pytest.raises(DecodeError, match=r"observation 'camera_2d' does not fit .* 6 bytes as text"):
        game.reset([{"camera_2d": text}])


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(introduction(), JSON)))
def test_no_introduction_breaks_the_codec(said: dict[str, Any]) -> None:
    with contextlib.suppress(DecodeError):
        GodotCodec({**introduction(1), **said}, None, [])
