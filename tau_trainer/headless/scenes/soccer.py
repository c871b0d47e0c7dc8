"""ML-Agents' Soccer Twos: two teams of two, one ball, two goals. One team's reward is the other team's loss.

A field of 2 by 1.2, seen from above; the unit is half its length. An agent runs in one of four directions. An agent
that touches the ball kicks it away from itself, so the direction from which it comes is the direction of the ball. The
ball rolls on, slows down, and bounces off the walls, except at the goals in the middle of both ends. A goal ends the
game: the team that scored gets +1, the other -1. A game without a goal is truncated and pays nothing. Every agent sees
the field from its own side, so both teams can share a policy. Agents 0 and 1 play agents 2 and 3, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scene import Scene, numbers
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.specs import (
    Actions,
    ActionSpec,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IndexArray,
    Observations,
    StepBatch,
    empty_terminals,
)

TEAMS = MATES = 2
"""Teams in a game, and agents in a team."""
PLAYERS = TEAMS * MATES
STAY, FORWARD, BACK, LEFT, RIGHT = range(5)
"""Actions, for an agent that faces the opponents' goal."""
END, SIDE, POST = 1.0, 0.6, 0.35
"""Half the field's length and width, and half the width of a goal."""
PACE, KICK, ROLL, REACH = 0.12, 0.35, 0.8, 0.2
"""Distances of an agent and of a kicked ball in a decision, kept share of the ball's speed, and reach of a kick."""

_MOVE = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) * PACE
_FRAME = np.repeat([[1.0, 1.0], [-1.0, -1.0]], MATES, axis=0)
"""[PLAYERS, 2]: factors from the field's directions to those of each agent, and back."""
_SENSOR = numbers("VectorSensor_size14", 14)
_SPECS = tuple(BehaviorSpec(f"SoccerTwos?team={team}", (_SENSOR,), ActionSpec(0, (5,))) for team in range(TEAMS))


class SoccerScene(Scene):
    """See the module's docstring.

    Observation, 14 floats: the positions of the agent and the ball, the offset of the ball, its velocity times ten, and
    the offsets of the teammate and both opponents. x points along the field to the opponents' goal. Action, one branch:
    stay, forward, back, left, right.

    Environment parameter: ``max_decisions``.
    """

    specs = _SPECS

    def __init__(self, *, agents: int = 4 * PLAYERS, seed: int = 0, max_decisions: int = 60) -> None:
        games = -(-agents // PLAYERS)
        self.agents, self.max_decisions = games * PLAYERS, max_decisions
        self.place = np.zeros((games, PLAYERS, 2))
        self.ball, self.speed = np.zeros((games, 2)), np.zeros((games, 2))
        self.age = np.zeros(games, np.intp)
        self._numbers = np.arange(self.agents, dtype=np.int32).reshape(games, PLAYERS)
        self.random = AgentRandom(seed, games)

    def reset(self, parameters: EnvironmentParameters) -> list[StepBatch]:
        """See :meth:`Scene.reset`."""
        self.update(parameters)
        self._begin(np.arange(len(self.place)))
        nobody = np.zeros(len(self.place), np.bool_)
        return self._batches(nobody, nobody.astype(np.float32), nobody, self._observe())

    def step(self, actions: Mapping[str, Actions]) -> list[StepBatch]:
        """See :meth:`Scene.step`."""
        self._run(actions)
        self._roll()
        self.age += 1
        goal = np.where(np.abs(self.ball[:, 0]) >= END, np.sign(self.ball[:, 0]), 0.0).astype(np.float32)
        cut = (goal == 0.0) & bool(self.max_decisions) & (self.age >= self.max_decisions)
        over = (goal != 0.0) | cut
        last = self._observe()
        self._begin(np.flatnonzero(over))
        return self._batches(over, goal, cut, last)

    def _begin(self, index: IndexArray) -> None:
        """Start a new game on the fields ``index``: teams at random in their halves, the ball on the line between."""
        drawn = self.random.uniform(index, 2 * PLAYERS + 1)
        along = -0.1 - 0.8 * drawn[:PLAYERS].T
        across = SIDE * (2.0 * drawn[PLAYERS:-1].T - 1.0)
        self.place[index] = np.stack((along, across), axis=2) * _FRAME
        self.ball[index, 0] = 0.0
        self.ball[index, 1] = 0.5 * SIDE * (2.0 * drawn[-1] - 1.0)
        self.speed[index] = 0.0
        self.age[index] = 0

    def _run(self, actions: Mapping[str, Actions]) -> None:
        """Move the agents; those who reach the ball kick it."""
        shape = len(self.place), MATES
        chosen = [actions[spec.name].discrete[:, 0] for spec in _SPECS]
        sides = [choices.reshape(shape) for choices in chosen]
        step = _MOVE.take(np.concatenate(sides, axis=1), axis=0, mode="clip")
        self.place += step * _FRAME
        np.clip(self.place, (-END, -SIDE), (END, SIDE), out=self.place)
        way = self.ball[:, None] - self.place
        distance = np.linalg.norm(way, axis=2)  # [games, PLAYERS]
        touches = distance < REACH
        foot = way / np.maximum(distance, 1e-6)[..., None]
        kick = (touches[..., None] * foot).sum(axis=1)
        # The kicks of two agents on opposite sides of the ball cancel out.
        length = np.linalg.norm(kick, axis=1, keepdims=True)
        kick *= KICK / np.maximum(length, 1.0)
        kicked = touches.any(axis=1)
        self.speed[kicked] = kick[kicked]

    def _roll(self) -> None:
        """Move the ball; bounce it off the walls."""
        self.ball += self.speed
        self.speed *= ROLL
        along, across = self.ball.T  # views
        wide = np.abs(across) > SIDE
        across[wide] = np.sign(across[wide]) * 2 * SIDE - across[wide]
        self.speed[wide, 1] *= -1.0
        out = (np.abs(along) >= END) & (np.abs(across) > POST)
        along[out] = np.sign(along[out]) * (2 * END - 1e-6) - along[out]
        self.speed[out, 0] *= -1.0

    def _observe(self) -> FloatArray:
        """The observations: float32 [games, PLAYERS, 14]."""
        place = self.place
        ball = np.broadcast_to(self.ball[:, None], place.shape)
        speed = np.broadcast_to(10.0 * self.speed[:, None], place.shape)
        mates = [1, 0, 3, 2]
        others = [2, 2, 0, 0], [3, 3, 1, 1]
        ways = [place[:, who] - place for who in (mates, *others)]
        seen = [place, ball, ball - place, speed, *ways]
        turned = [part * _FRAME for part in seen]
        return np.concatenate(turned, axis=2, dtype=np.float32)

    def _batches(self, over: BoolArray, goal: FloatArray, cut: BoolArray, last: FloatArray) -> list[StepBatch]:
        """``goal`` [games]: 1 in team 1's goal, -1 in team 0's; ``last``: observations before a new game starts."""
        now = self._observe()
        ends = np.repeat(over, MATES)
        cuts = np.repeat(cut, MATES)
        batches = []
        for team, spec in enumerate(_SPECS):
            side = slice(team * MATES, (team + 1) * MATES)
            ids = self._numbers[:, side].ravel()
            groups, unpaid = ids // MATES + 1, np.zeros(len(ids), np.float32)
            seen, before = (at[:, side].reshape(len(ids), _SENSOR.size) for at in (now, last))
            paid = np.repeat(-goal if team else goal, MATES)
            final = StepBatch(spec.name, ids, (before,), unpaid, groups, paid, empty_terminals(spec.observations))
            terminals = final.ended(ends, cuts)
            batches.append(StepBatch(spec.name, ids, (seen,), unpaid, groups, unpaid, terminals))
        return batches


def strong(spec: BehaviorSpec, obs: Observations, mask: BoolArray | None) -> Actions:
    """A scripted player: the nearer agent goes behind the ball and drives it to the goal, the other defends its goal.

    For ``tau-train match tau_trainer.headless.scenes.soccer:strong``. It has the same observations as a policy.
    """
    place, ball, way, mate = (obs[0][:, begin : begin + 2] for begin in (0, 2, 4, 8))
    aim = np.array([END, 0.0]) - ball
    aim /= np.linalg.norm(aim, axis=1, keepdims=True)
    behind = way - aim * 0.8 * REACH
    # In front of the ball, an agent would kick it to its own goal, so it walks around the ball first.
    before = (way * aim).sum(axis=1) < 0.0
    beside = np.stack((-aim[:, 1], aim[:, 0]), axis=1)
    turned = (way * beside).sum(axis=1) > 0.0
    beside[turned] *= -1.0
    around = way - aim * 1.5 * REACH + beside * 1.6 * REACH
    attack = np.where(before[:, None], around, behind)
    line = np.minimum(ball[:, 0] - 0.4, -0.5)
    cover = np.stack((line, 0.5 * ball[:, 1]), axis=1) - place
    theirs = np.linalg.norm(way - mate, axis=1)
    nearer = np.linalg.norm(way, axis=1) <= theirs
    wanted = np.where(nearer[:, None], attack, cover)
    along, across = wanted.T
    ahead = np.where(along > 0, FORWARD, BACK)
    aside = np.where(across > 0, LEFT, RIGHT)
    step = np.where(np.abs(along) >= np.abs(across), ahead, aside)
    step[np.abs(wanted).max(axis=1) < PACE / 2] = STAY
    nothing = np.zeros((len(place), 0), np.float32)
    return Actions(nothing, step[:, None].astype(np.int32))
