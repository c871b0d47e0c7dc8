"""Play: episodes of an environment, whoever plays it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tau_trainer.errors import EngineStoppedError, SettingsError
from tau_trainer.evaluation.play import Play, evaluate
from tau_trainer.settings import load_settings
from tests.evaluation.scripted import SPEC, batch, play_of, played


def returns_of(play: Play) -> list[float]:
    return play.episodes[SPEC.short_name].returns


def test_what_a_group_gets_is_the_policys_too() -> None:
    steps = [batch([1], [], 0), replace(batch([1], [], 1), group_reward=np.array([10], np.float32)), batch([], [1], 2)]
    assert returns_of(played(steps, 1)[0]) == [13]


def test_it_ends_where_the_environment_leaves() -> None:
    steps = [batch([1], [], 0), batch([1], [1], 2), EngineStoppedError("bye"), batch([1], [], 3)]
    play, environment = played(steps, 2)
    assert (play.left, returns_of(play), len(environment.steps)) == (True, [2], 1)


def test_who_begins_anew_counts_anew() -> None:
    play, _ = play_of([batch([1], [], 0), batch([1], [1], 2), batch([1], [], 3), batch([1], [1], 4)])

    async def twice() -> list[list[float]]:
        await play.begin({})
        await play.until(lambda play: len(returns_of(play)) == 1)
        first = returns_of(play)
        await play.begin_anew({})
        await play.until(lambda play: len(returns_of(play)) == 1)
        return [first, returns_of(play)]

    assert asyncio.run(twice()) == [[2], [4]]


def test_policies_are_evaluated_by_their_most_likely_actions() -> None:
    """Proved with real ones in tests/training/test_offline.py; here, that one is needed for each behavior."""
    settings = load_settings(None, {"env_settings.env_path": "gym:CartPole-v1", "env_settings.seed": 1})
    with pytest.raises(SettingsError, match="the run has no policy for behavior 'CartPole-v1', only for"):
        evaluate(settings, {}, 1, {})
