"""Groups learn what pays for all and costs the one who does it: small, in seconds.

Groups of three. One of them has a lever before it: who pulls it opens the gate and is dead. Then those who are left
guess what they are shown, and if the gate is open the group gets the share of them that is right. To be alive at the
end pays a tenth. So who is only paid what it lives to see never pulls. Measured, seeds 1 to 3: `poca` and `mappo` come
to a mean of 0.97, where it ends, within 600 episodes; `ppo`, which adds the group's reward to each agent's own, has
0.0 after them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tau_trainer.algorithms import Algorithm, Counters, Setup, make_algorithm
from tau_trainer.memory import StepFacts
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import acted

GROUPS, TEAM = 16, 3
MARK = 0.9


class Gate:
    """Plays, in turns with learning."""

    def __init__(self, learner: Algorithm, seed: int) -> None:
        self.learner, self.rng = learner, np.random.default_rng(seed)
        self.policy, self.moment = learner.snapshot(), 0
        self.state: Any = {}
        self.group = np.repeat(np.arange(1, GROUPS + 1, dtype=np.int32), TEAM)

    def _act(self, rows: Any, obs: Any) -> Any:
        decision = self.policy.act((obs,), None, self.rng, state=self.state)
        self.state = decision.state
        known = self._known(rows, 0.0, 0.0)
        self.learner.memory.append(rows, known, acted((obs,), decision), self.policy.version)
        return decision.discrete[:, 0]

    def _known(self, rows: Any, own: float, to_group: Any, plays_on: Any = None) -> StepFacts:
        own_rewards = np.full((len(rows), 1), own, np.float32)
        to_group = np.broadcast_to(np.asarray(to_group, np.float32), len(rows))
        return StepFacts({"extrinsic": own_rewards}, to_group, self.group[rows], plays_on, self.moment)

    def episode(self) -> float:
        """The mean reward of all groups."""
        count, everyone = GROUPS * TEAM, np.arange(GROUPS * TEAM)
        lever = (everyone % TEAM) == np.repeat(self.rng.integers(TEAM, size=GROUPS), TEAM)
        shown = self.rng.integers(2, size=count)
        self.moment += 1
        obs = np.stack((np.ones(count), lever, np.zeros(count)), axis=1).astype(np.float32)
        pulled = self._act(everyone, obs) == 1
        opened = (pulled & lever).reshape(GROUPS, TEAM).any(axis=1)
        left = (~pulled).reshape(GROUPS, TEAM)
        self.moment += 1
        dead, alive = everyone[pulled], everyone[~pulled]
        plays_on = left.any(axis=1)[self.group[dead] - 1]
        self._end(dead, self._known(dead, 0.0, 0.0, plays_on))
        obs = np.stack((np.zeros(len(alive)), np.zeros(len(alive)), 2 * shown[alive] - 1), axis=1).astype(np.float32)
        right = np.zeros(count)
        right[alive] = self._act(alive, obs) == shown[alive]
        share = right.reshape(GROUPS, TEAM).sum(axis=1) / np.maximum(left.sum(axis=1), 1)
        paid = opened * share
        self.moment += 1
        self._end(alive, self._known(alive, 0.1, paid[self.group[alive] - 1], np.zeros(len(alive), np.bool_)))
        return float(paid.mean())

    def _end(self, rows: Any, known: StepFacts) -> None:
        nothing = np.zeros((len(rows), 3), np.float32)
        self.learner.memory.end(rows, known, (nothing,), np.zeros(len(rows), np.bool_))

    def learn(self) -> None:
        work = self.learner.ready(Counters(0, self.learner.version))
        if work is not None:
            self.learner.update(work.data, 0.0, None)
            work.release()
            self.policy = self.learner.snapshot()


class Cues(Gate):
    """Everybody is shown something, then nothing, and then guesses what it was; groups get the share that is right."""

    def episode(self) -> float:
        count, everyone = GROUPS * TEAM, np.arange(GROUPS * TEAM)
        self.state = {column.name: column.empty(count) for column in self.policy.state_columns}
        shown = self.rng.integers(2, size=count)
        guessed = shown
        for step in range(3):
            self.moment += 1
            obs = np.zeros((count, 3), np.float32)
            obs[:, step] = 2 * shown - 1 if step == 0 else 1.0
            guessed = self._act(everyone, obs)
        share = (guessed == shown).reshape(GROUPS, TEAM).mean(axis=1)
        self.moment += 1
        self._end(everyone, self._known(everyone, 0.0, share[self.group - 1], np.zeros(count, np.bool_)))
        return float(share.mean())


def earned(name: str, seed: int, most: int, game: type[Gate] = Gate, **network: Any) -> float:
    """What groups get in the end: the mean of the last 50 episodes, or of so many as are enough."""
    numbers = {"batch_size": 64, "buffer_size": 512, "learning_rate": 1e-3, "num_epoch": 3}
    settings = trainer_type(name).settings.model_validate(
        {
            "hyperparameters": numbers | {"learning_rate_schedule": "constant"},
            "network_settings": {"hidden_units": 32, **network},
            "reward_signals": {"extrinsic": {"gamma": 0.99}},
        }
    )
    spec = BehaviorSpec("Small?team=0", (ObservationSpec("vector", (3,)),), ActionSpec(0, (2,)))
    played, got = game(make_algorithm(Setup(spec, settings, seed)), seed), list[float]()
    while len(got) < most and (len(got) < 50 or np.mean(got[-50:]) < 0.97):
        got.append(played.episode())
        played.learn()
    return float(np.mean(got[-50:]))


@pytest.mark.parametrize("name", ["poca", pytest.param("mappo", marks=pytest.mark.nightly)])
def test_who_gives_itself_up_is_credited_with_what_its_group_gets(name: str) -> None:
    assert earned(name, 1, 1500) > MARK


@pytest.mark.parametrize("name", ["mappo", pytest.param("poca", marks=pytest.mark.nightly)])
def test_members_of_a_group_remember_what_they_were_shown(name: str) -> None:
    """Measured: with a memory both come to 0.97, where it ends, for seeds 1 to 3; without one to 0.50."""
    assert earned(name, 1, 400, Cues, memory={"memory_size": 32, "sequence_length": 8}) > MARK
