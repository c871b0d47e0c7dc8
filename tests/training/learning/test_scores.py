from __future__ import annotations

import json
import math

from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.training.learning.scores import LastRewards


def test_the_last_word_is_the_last_summary_that_has_one() -> None:
    """Not a mean over what was long ago: a policy of 20 that had 0 a hundred episodes before is told as 20."""
    hub, rewards = MetricsHub(), LastRewards()
    means = [rewards.mean_of(key) for key in (keys.GROUP_CUMULATIVE_REWARD, keys.EPISODE_LENGTH)]
    assert (rewards.mean, means, rewards.episodes) == (None, [None, None], 0)
    for step, returns in ((1, [0.0] * 100), (2, [20.0] * 3), (3, []), (4, [math.nan])):
        hub.episode("A", 7, returns, [step + 10] * len(returns), [2.0 * one for one in returns])
        rewards.take(hub.flush("A", step))
    assert (rewards.mean, rewards.mean_of(keys.GROUP_CUMULATIVE_REWARD), rewards.episodes) == (20.0, 40.0, 3)
    assert rewards.mean_of(keys.EPISODE_LENGTH) == 14.0
    assert rewards.of_pair(7, keys.CUMULATIVE_REWARD) == 20.0
    assert rewards.of_pair(8, keys.CUMULATIVE_REWARD) is None
    again = LastRewards()
    again.load(json.loads(json.dumps(rewards.state())))
    assert (again.mean, again.mean_of(keys.GROUP_CUMULATIVE_REWARD), again.episodes) == (20.0, 40.0, 3)
