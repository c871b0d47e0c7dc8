"""Recordings: by agent and time."""

from __future__ import annotations

import numpy as np

from tau_trainer.errors import EngineError
from tests.evaluation.scripted import SPEC, batch, played, recording_of


def test_records_lie_by_agent_and_time_and_ends_before_beginnings() -> None:
    steps = [batch([1, 2], [], 0), batch([2], [], 1), batch([1, 2], [1], 2), batch([1], [2], 3), batch([2], [1], 4)]
    play, environment = played(steps, 3)
    recording = recording_of(play)
    assert environment.closed
    episodes = play.episodes[SPEC.short_name]
    assert (episodes.returns, episodes.lengths) == ([2, 6, 7], [1, 3, 2]), "in the order in which they end"
    assert (len(episodes), episodes.mean_return, play.ended, play.decisions) == (3, 5.0, 3, 7)
    demo = recording.demonstration(whole=True)
    np.testing.assert_array_equal(demo.obs[0][:, 0], [10, 12, 12, 13, 14, 20, 21, 22, 23])
    np.testing.assert_array_equal(demo.ended, [0, 1, 0, 0, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(demo.begins, [1, 0, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(demo.truncated, [0] * 8 + [1])
    np.testing.assert_array_equal(demo.returns, [2, 7, 6])
    assert len(recording.demonstration(whole=False)) == 10  # agent 2's next episode had begun
    acted = np.concatenate([sent[SPEC.name].discrete[:, 0] for sent in environment.sent])
    kept = recording.demonstration(whole=False)
    assert sorted(acted.tolist()) == sorted(kept.actions.discrete[~kept.ended, 0].tolist()[:-1])


def test_an_environment_that_failed_cuts_its_episodes() -> None:
    steps = [batch([1], [], 0), batch([1], [], 1), EngineError("gone"), batch([1], [], 5), batch([1], [1], 6)]
    play, _ = played(steps, 1)
    assert play.episodes[SPEC.short_name].returns == [6]
    recording = recording_of(play)
    demo = recording.demonstration(whole=False)
    np.testing.assert_array_equal(demo.begins, [1, 0, 1, 0, 1])
    np.testing.assert_array_equal(recording.demonstration(whole=True).returns, [6])


def test_an_end_without_a_decision_says_nothing() -> None:
    play, _ = played([batch([1], [3], 0), batch([], [1], 1)], 1)
    np.testing.assert_array_equal(recording_of(play).demonstration(whole=True).obs[0][:, 0], [10, 11])
    assert play.episodes[SPEC.short_name].returns == [1]
