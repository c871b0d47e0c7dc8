"""Self-play: one team learns; the others are ghosts, whose agents act with opponents and leave no experience.

As in ML-Agents' GhostController, teams take turns by their number, independent of the behaviors in them: teams of one
behavior share its learner (symmetric games), behaviors of different teams learn in turn (asymmetric games). Unlike
there, no environment is reset when the turn passes: open trajectories are cut as by a limit, and an episode that has
seen a change does not count. A ghost's agents meet a new opponent with their next episodes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from typing_extensions import override

from tau_trainer.collection.decisions import Actor, DecisionBatcher, HandOver, TauAgent
from tau_trainer.columns import Column, ColumnTable, Rows
from tau_trainer.memory import StepFacts
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.models import Decision
from tau_trainer.specs import BehaviorSpec, BoolArray, IntArray, Json, Observations, StepBatch, Terminals
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.opponents import Opponent, Opponents, rate

Lineup = dict[tuple[str, int], Opponent]
"""The opponent that each team of each behavior acts with while it is a ghost."""
_NOBODY: Rows = np.zeros(0, np.intp)
_MARKS: Final = (Column("lineup", (), np.int64, fill=-1), Column("whole", (), np.bool_))
"""Of an agent's episode: the lineup in which it started (-1: not started), and whether all roles stayed the same."""


class GameResult(NamedTuple):
    """An episode that ended, from its agent's side."""

    result: float
    """1 won, 0.5 drawn, 0 lost: the sign of the last reward of the agent and its group."""
    cut: bool
    """Whether a limit ended it: then no side has won."""
    lineup: Lineup
    group: int
    """Number of the agent's group; 0: none."""


class Ghost(Actor):
    """Acts for the agents of a team that does not learn, each with the opponent that its episode started with."""

    def __init__(self, side: SelfPlaySide, team: int) -> None:
        learner, rivals = side.learner, side.rivals
        deterministic = learner.settings.network_settings.deterministic
        super().__init__(learner.policy, rivals.acting[team], deterministic=deterministic)
        columns = {column.name: column for opponent in rivals.outside for column in opponent.policy.state_columns}
        self.state = ColumnTable((*self.policy.state_columns, *columns.values()))
        self._side, self._key = side, (learner.name, team)

    @override
    def decide(self, rows: Rows, obs: Observations, mask: BoolArray | None) -> Decision:
        """One forward pass for each opponent in play, in an order that a resumed run reproduces."""
        lineups: IntArray = self._side.marks["lineup"][rows]
        actions = self.spec.actions
        continuous = np.zeros((len(rows), actions.continuous_size), np.float32)
        discrete = np.zeros((len(rows), actions.discrete_size), np.int32)
        if self.state.columns:
            self.state.fit(rows)
        parts: dict[int | str, tuple[Opponent, list[int]]] = {}
        for number in np.unique(lineups).tolist():
            opponent = self._side.lineups[number][self._key]
            parts.setdefault(opponent.weights_key, (opponent, []))[1].append(number)
        for opponent, numbers in parts.values():
            some = np.flatnonzero(np.isin(lineups, numbers))
            policy, whose = opponent.policy, rows[some]
            before = {column.name: self.state[column.name][whose] for column in policy.state_columns}
            part = tuple(sensor[some] for sensor in obs)
            masked = None if mask is None else mask[some]
            decision = policy.act(part, masked, self.rng, state=before, deterministic=self.deterministic)
            for column in policy.state_columns:
                self.state[column.name][whose] = decision.state[column.name]
            sent = decision.to_env()
            continuous[some], discrete[some] = sent.continuous, sent.discrete
        return Decision(continuous, discrete, 0, {}, {}, squashed=True)


@dataclass(slots=True, eq=False)
class SelfPlaySide:
    """A behavior in self-play."""

    learner: Learner
    rivals: Opponents
    lineups: dict[int, Lineup]
    """Lineups of the whole run, by number."""
    marks: ColumnTable = field(default_factory=lambda: ColumnTable(_MARKS))
    """Marks by row of the learner's memory."""
    agents: list[TeamAgent] = field(default_factory=list)
    ghosts: dict[int, Ghost] = field(default_factory=dict)
    """By team, in the order in which they appeared."""

    @property
    def swap_is_due(self) -> bool:
        """Whether its ghosts have kept their opponents for long enough."""
        clock = self.rivals.clock
        return clock.ghost_steps - clock.last_swap > self.rivals.settings.swap_steps


class TeamAgent(TauAgent):
    """Acts for one team: like any TauAgent while it learns, otherwise as a ghost."""

    def __init__(
        self, play: SelfPlay, side: SelfPlaySide, spec: BehaviorSpec, batcher: DecisionBatcher, hand_over: HandOver
    ) -> None:
        super().__init__(side.learner, spec, batcher, hand_over)
        self._play, self._side = play, side
        self._asked = True
        """Whether the team was learning when the agents that wait for an answer asked."""
        self._over: tuple[BoolArray, list[Lineup]] = np.zeros(0, np.bool_), []
        """For the agents whose episode ended: whether it was whole, and its lineup."""
        self._cutting = False
        """Whether some of its agents have an open decision from the time when it learned."""

    @property
    @override
    def learns(self) -> bool:
        return self._play.learning == self.team

    def change(self) -> None:
        """Start to learn, or to be a ghost: agents have no past with the new actor."""
        actor = self.learner.actor if self.learns else self._side.ghosts[self.team]
        if self._cutting and self.learns:  # agents silent since then must not continue from there
            self.learner.memory.abandon(self.table.rows)
        self._cutting = not self.learns
        self.act_with(actor)
        actor.forget(self.table.rows)

    @override
    def ask(self, batch: StepBatch, rows: Rows, ended: Rows) -> asyncio.Future[Decision] | None:
        marks, lineups, self._asked = self._side.marks, self._side.lineups, self.learns
        marks.fit(ended)
        self._over = marks["whole"][ended], [lineups.get(number, {}) for number in marks["lineup"][ended].tolist()]
        self.forget(ended)
        self._side.rivals.clock.ended += len(ended)
        marks.fit(rows)
        new = rows[marks["lineup"][rows] < 0]
        marks["lineup"][new], marks["whole"][new] = self._play.lineup, True
        return super().ask(batch, rows, _NOBODY)

    @override
    def forget(self, rows: Rows) -> None:
        super().forget(rows)
        self._side.marks.clear(rows)

    @override
    def remember(self, rows: Rows, facts: StepFacts, batch: StepBatch, decision: Decision) -> bool:
        if self._asked and self.learns:
            return super().remember(rows, facts, batch, decision)
        self._side.rivals.clock.ghost_steps += len(rows)
        self._cut(rows, facts, batch.obs, np.ones(len(rows), np.bool_))
        return False

    @override
    def end(self, rows: Rows, facts: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        if self.learns:
            super().end(rows, facts, obs, truncated)
        else:
            self._cut(rows, facts, obs, truncated)

    def _cut(self, rows: Rows, facts: StepFacts, obs: Observations, truncated: BoolArray) -> None:
        """End the trajectories that were open when the team stopped learning."""
        if self._cutting:
            memory = self.learner.memory
            memory.end(rows, facts, self.see(obs), truncated)
            self._cutting = bool(np.isin(self.table.rows, memory.open_rows).any())

    @override
    def counted(self, acted: BoolArray, ended: Terminals, plays_on: BoolArray | None) -> BoolArray:
        whole, lineups = self._over
        if not (self.learns and self._asked):
            return np.zeros_like(acted)
        counted: BoolArray = acted & whole
        over = counted if plays_on is None else counted & ~plays_on
        signs = np.where(ended.truncated, 0.0, np.sign(ended.reward + ended.group_reward))
        games = [
            GameResult((float(signs[i]) + 1.0) / 2.0, bool(ended.truncated[i]), lineups[i], int(ended.group_id[i]))
            for i in np.flatnonzero(over).tolist()
        ]
        self._play.games(self._side, games)
        return counted

    @override
    async def hand_over(self) -> None:
        await super().hand_over()
        self._play.advance()


class SelfPlay:
    """The learning team, and the opponents of the others, of a whole run. Belongs to the event loop.

    Attributes:
        learning: the team that learns; None: no team has appeared.
        lineup: number of the lineup in which new episodes start.
        lineups: those in which an episode may still run.
        sides: the behaviors with ``self_play``, by their learner's name.
    """

    def __init__(self, hub: MetricsHub) -> None:
        self.learning: int | None = None
        self.lineup = 0
        self.lineups: dict[int, Lineup] = {0: {}}
        self.sides: dict[str, SelfPlaySide] = {}
        self._hub = hub
        self._queue: deque[int] = deque()
        self._warned = False

    def agent(self, learner: Learner, spec: BehaviorSpec, batcher: DecisionBatcher, hand_over: HandOver) -> TeamAgent:
        """The TauAgent of a team in one environment; ``learner`` has opponents."""
        rivals, team = learner.opponents, spec.team
        assert rivals is not None
        side = self.sides.get(learner.name)
        if side is None:
            side = self.sides[learner.name] = SelfPlaySide(learner, rivals, self.lineups)
            if not rivals.kept:
                rivals.save(learner.decisions)
        if self.learning is None:
            self.learning = team
        elif team != self.learning and team not in self._queue:
            self._queue.append(team)
        if team not in side.ghosts:
            rivals.join(team)
            side.ghosts[team] = Ghost(side, team)
            self.lineups[self.lineup][learner.name, team] = rivals.current[team]
        agent = TeamAgent(self, side, spec, batcher, hand_over)
        side.agents.append(agent)
        agent.change()
        return agent

    def forget(self, name: str) -> None:
        """Remove the learner of this name. The turn stays with its team, unless no behavior is left."""
        self.sides.pop(name, None)
        if not self.sides:
            self.learning, self._queue = None, deque()

    def games(self, side: SelfPlaySide, games: Sequence[GameResult]) -> None:
        """Count games of the learning team that ended in one message.

        Elo counts every agent's episode that was not cut, as ML-Agents' does. Results count the agents of a group once,
        and a game that was cut as a draw.
        """
        ratings, rivals, seen = [], side.rivals, set[int]()
        for game in games:
            against = {key: opponent for key, opponent in game.lineup.items() if key[1] != self.learning}
            if not against:
                continue
            if not game.cut:
                rate(rivals.rating, [opponent.rating for opponent in against.values()], game.result)
                ratings.append(rivals.rating.value)
            if game.group == 0 or game.group not in seen:
                rivals.score(against, game.result)
            seen.add(game.group)
        if ratings:
            self._hub.add(side.learner.name, keys.ELO, np.array(ratings))

    def advance(self) -> None:
        """Do all that is due: pass on the turn, save snapshots, draw opponents. Call between messages."""
        over = False
        for side in self._playing():
            learner, rivals = side.learner, side.rivals
            clock, due = rivals.clock, rivals.settings
            over |= learner.done or learner.decisions - clock.last_change > due.team_change
            if learner.decisions - clock.last_save > due.save_steps:
                rivals.save(learner.decisions)
        late = [side for side in self.sides.values() if side.swap_is_due]
        # If no team learns, the resumed run knew a team that is missing here.
        over |= bool(late) and not self._playing()
        if over and self._next():
            self._draw(self.sides.values())
            for side in self.sides.values():
                self._begin_anew(side)
                for agent in side.agents:
                    agent.change()
        elif late:
            self._draw(late)
            if not any(side.rivals.clock.ended for side in self.sides.values()):  # games may never end
                for side in self.sides.values():
                    self._begin_anew(side)

    def _draw(self, sides: Iterable[SelfPlaySide]) -> None:
        """Draw new opponents for the ghosts of these behaviors."""
        for side in sides:
            side.rivals.swap([team for team in side.ghosts if team != self.learning])
        self._line_up()

    def _playing(self) -> list[SelfPlaySide]:
        """The behaviors of the team that learns."""
        return [side for side in self.sides.values() if self.learning in side.ghosts]

    def _next(self) -> bool:
        """Pass the turn to the next team that has not finished learning; False: there is no other."""
        for side in self._playing():
            side.rivals.clock.last_change = side.learner.decisions
        learning = {team for side in self.sides.values() if not side.learner.done for team in side.ghosts}
        waiting = list(self._queue)
        if not (waiting or self._warned):
            self._warned = True
            names = ", ".join(self.sides)
            self._hub.warning(f"{names}: self_play is on, but there is only one team, so it has no opponent")
        for place, team in enumerate(waiting):
            if team in learning and self.learning is not None:
                self._queue = deque([*waiting[place + 1 :], *waiting[:place], self.learning])
                self.learning = team
                return True
        return False

    def _line_up(self) -> None:
        """Start new episodes with the other opponents from now on."""
        used = {int(number) for side in self.sides.values() for number in np.unique(side.marks["lineup"])}
        for number in self.lineups.keys() - used:
            del self.lineups[number]
        self.lineup += 1
        self.lineups[self.lineup] = {
            (name, team): opponent
            for name, side in self.sides.items()
            for team, opponent in side.rivals.current.items()
        }

    def _begin_anew(self, side: SelfPlaySide) -> None:
        """Continue running episodes in the newest lineup, and do not count them."""
        running = side.marks["lineup"] >= 0
        side.marks["lineup"][running], side.marks["whole"][running] = self.lineup, False

    def table(self, name: str) -> tuple[Any, ...]:
        """Scores of a behavior: :class:`~tau_trainer.metrics.games.Games`, by opponent."""
        others = {of: side.rivals for of, side in self.sides.items()}
        return others[name].table(name, others) if name in others else ()

    def state(self) -> dict[str, Any]:
        """The team whose turn it is and the queue, for a checkpoint."""
        return {"learning": self.learning, "queue": list(self._queue)}

    def load(self, values: Json) -> None:
        """Restore :meth:`state`."""
        self.learning, self._queue = values["learning"], deque(values["queue"])
