"""Messages of Godot games as arrays, and arrays as messages."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.bridge.godot.codec import parse_message
from tau_trainer.bridge.protocol import Command
from tau_trainer.errors import DecodeError
from tau_trainer.specs import Actions, NamedAction
from tests.bridge.godot.games import JSON, JUMP, MIXED, Game, introduction, seen


def test_a_game_of_one_policy() -> None:
    game = Game()
    (spec,) = game.codec.specs.values()
    assert spec.name == "shared_policy"
    assert [(sensor.name, sensor.shape) for sensor in spec.observations] == [("obs", (3,))]
    assert (spec.actions.continuous_size, spec.actions.discrete_branches) == (2, (2,))
    assert spec.actions.named == (NamedAction("jump", 2, True), NamedAction("move", 2, False))
    (batch,) = game.reset(seen(1, 2))
    assert batch.agent_ids.tolist() == [0, 1]
    assert batch.obs[0][:, 0].tolist() == [1, 2]
    assert batch.reward.tolist() == [0, 0]
    assert len(batch.terminals) == 0
    (batch,) = game.step(seen(3, 4), [0.5, -1], [False, False])
    assert batch.reward.tolist() == [0.5, -1]
    assert len(batch.terminals) == 0


def test_an_ended_agent_begins_again_and_its_last_observation_is_the_one_before() -> None:
    game = Game()
    game.reset(seen(1, 2))
    (batch,) = game.step(seen(3, 4), [7, 8], [False, True])
    assert batch.agent_ids.tolist() == [0, 1]
    assert batch.obs[0][:, 0].tolist() == [3, 4]
    assert batch.reward.tolist() == [7, 0]
    ended = batch.terminals
    assert (ended.agent_ids.tolist(), ended.reward.tolist(), ended.truncated.tolist()) == ([1], [8], [False])
    assert ended.obs[0][:, 0].tolist() == [2]


def test_the_game_can_tell_the_last_observation() -> None:
    game = Game()
    game.reset(seen(1, 2))
    (batch,) = game.step(seen(3, 4), [0, 0], [True, True], info=[{}, {"terminal_observation": {"obs": [9, 9, 9]}}])
    assert batch.terminals.obs[0][:, 0].tolist() == [1, 9]
    assert batch.obs[0][:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("key", ["truncated", "TimeLimit.truncated"])
def test_info_tells_limits(key: str) -> None:
    game = Game()
    game.reset(seen(1, 2), info=[{key: False}, {key: False}])
    assert game.notes == []
    (batch,) = game.step(seen(3, 4), [0, 0], [True, True], info=[{key: False}, {key: True}])
    assert batch.terminals.truncated.tolist() == [False, True]


def test_truncate_after_tells_limits_by_length() -> None:
    game = Game(limit=2)
    game.reset(seen(0, 0))
    assert game.notes == []
    (batch,) = game.step(seen(0, 0), [0, 0], [True, False])
    assert batch.terminals.truncated.tolist() == [False]
    (batch,) = game.step(seen(0, 0), [0, 0], [False, True])
    assert batch.terminals.agent_ids.tolist() == [1]
    assert batch.terminals.truncated.tolist() == [True]
    (batch,) = game.step(seen(0, 0), [0, 0], [True, True])  # the second and the first decision
    assert batch.terminals.truncated.tolist() == [True, False]


def test_a_reset_begins_the_count_again() -> None:
    game = Game(1, limit=2)
    game.reset(seen(0))
    game.step(seen(0), [0], [False])
    game.reset(seen(0))
    (batch,) = game.step(seen(0), [0], [True])
    assert batch.terminals.truncated.tolist() == [False]


def test_a_game_that_tells_no_limits_is_said_once() -> None:
    game = Game(1)
    game.reset(seen(0))
    game.step(seen(0), [0], [True])
    assert len(game.notes) == 1
    assert "collection.truncate_after" in game.notes[0]


def test_policies_are_behaviors_and_ids_are_positions() -> None:
    game = Game(3, agent_policy_names=["b", "a", "b"], action_space=[JUMP, MIXED, JUMP])
    first, second = game.reset(seen(1, 2, 3))
    assert (first.behavior, first.agent_ids.tolist(), first.obs[0][:, 0].tolist()) == ("b", [0, 2], [1, 3])
    assert (second.behavior, second.agent_ids.tolist(), second.obs[0][:, 0].tolist()) == ("a", [1], [2])
    none = np.zeros((2, 0), np.float32)
    reply = game.codec.reply(Command.STEP, {"b": Actions(none, np.array([[1], [0]], np.int32))})
    assert json.loads(reply) == {
        "type": "action",
        "action": [{"jump": 1}, {"jump": 0, "move": [0.0, 0.0]}, {"jump": 0}],
    }


def test_actions_go_by_name_in_the_order_of_the_game() -> None:
    space = {"turn": {"size": 1, "action_type": "continuous"}, **MIXED, "fire": {"size": 3, "action_type": "discrete"}}
    game = Game(1, action_space=[space])
    chosen = Actions(np.array([[0.5, -1.0, 0.25]], np.float32), np.array([[1, 2]], np.int32))
    reply = json.loads(game.codec.reply(Command.STEP, {"shared_policy": chosen}))
    assert reply["action"] == [{"turn": [0.5], "jump": 1, "move": [-1.0, 0.25], "fire": 2}]
    assert list(reply["action"][0]) == list(space)


def test_commands_without_actions() -> None:
    codec = Game().codec
    assert json.loads(codec.reply(Command.RESET, {})) == {"type": "reset"}
    assert json.loads(codec.reply(Command.QUIT, {})) == {"type": "close"}


@pytest.mark.parametrize("number", [None, float("nan"), 1e60, float("-inf")])
def test_numbers_that_are_not_finite_are_refused_by_name(number: Any) -> None:
    game = Game(2)
    with pytest.raises(DecodeError, match="'shared_policy' sent NaN or infinity in sensor 'obs' of agent 1"):
        game.reset([{"obs": [0, 0, 0]}, {"obs": [0, number, 0]}])
    game.reset(seen(1, 2))
    with pytest.raises(DecodeError, match="sent NaN or infinity in reward of agent 0"):
        game.step(seen(1, 2), [number, 0], [True, False])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\xff", "2 bytes that are not JSON"),
        (b"GET / HTTP/1.1", "14 bytes that are not JSON"),
        (b"[1]", "not an object"),
        (b'{"obs": [nan]}', "NaN or infinite"),
        (b'{"obs": [-inf]}', "NaN or infinite"),
        (b'{"a": ' + b"[" * 100_000, "not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
    ],
)
def test_garbage_is_refused_in_one_sentence(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        parse_message(data)


def test_only_an_introduction_is_one() -> None:
    assert parse_message(json.dumps(introduction()).encode()).initialization is not None
    assert parse_message(b'{"type": "step"}').initialization is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "reset"}, "'reset' instead of 'step'"),
        ({"obs": seen(1)}, "'obs' of the game's message is not a list with one item for each"),
        ({"obs": "abc"}, "'obs' of the game's message is not a list"),
        ({"obs": [{}, {}]}, "no 'obs', which the game announced"),
        ({"obs": [3, 4]}, "no 'obs', which the game announced"),
        ({"obs": [{"obs": [1, 2]}, {"obs": [1, 2, 3]}]}, "observation 'obs' does not fit .* 3 numbers"),
        ({"obs": [{"obs": [1, 2]}, {"obs": [1, 2]}]}, "observation 'obs' does not fit"),
        ({"obs": [{"obs": "abc"}, {"obs": "abc"}]}, "observation 'obs' does not fit"),
        ({"obs": [{"obs": [{}, 1, 2]}, {"obs": [1, 2, 3]}]}, "observation 'obs' does not fit"),
        ({"obs": [{"obs": [10**400, 1, 2]}, {"obs": [1, 2, 3]}]}, "observation 'obs' does not fit"),
        ({"reward": [1]}, "'reward' of the game's message is not a list"),
        ({"reward": [1, "x"]}, "'reward' of the game's message holds something else"),
        ({"reward": [[1], [2]]}, "'reward' of the game's message holds something else"),
        ({"done": None}, "'done' of the game's message is not a list"),
        ({"info": [{}, 3]}, "'info' of the game's message holds something else"),
        ({"done": [True, True], "info": [{"terminal_observation": {}}, {}]}, "no 'obs'"),
    ],
)
def test_a_wrong_step_is_refused_in_one_sentence(message: dict[str, Any], text: str) -> None:
    game = Game(2)
    game.reset(seen(1, 2))
    right = {"type": "step", "obs": seen(1, 2), "reward": [0, 0], "done": [False, False]}
    game.codec.reply(Command.STEP, {})
    with pytest.raises(DecodeError, match=text):
        game.codec.steps(parse_message(json.dumps({**right, **message}).encode()))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("obs", "reward", "done", "info"), JSON)))
def test_no_step_breaks_the_codec(said: dict[str, Any]) -> None:
    game = Game(1)
    game.reset(seen(0))
    game.codec.reply(Command.STEP, {})
    right = {"type": "step", "obs": seen(1), "reward": [0], "done": [False]}
    with contextlib.suppress(DecodeError):
        game.codec.steps(parse_message(json.dumps({**right, **said}).encode()))
