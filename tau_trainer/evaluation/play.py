"""Plays an environment without learning, to evaluate policies or to record demonstrations."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from tau_trainer.collection.rows import RowTable
from tau_trainer.columns import Rows
from tau_trainer.envs import Environment, Parameters, open_source
from tau_trainer.errors import EngineError, EngineStoppedError
from tau_trainer.evaluation.episodes import EpisodeLog, EpisodeScores
from tau_trainer.evaluation.players import Player, make_players
from tau_trainer.evaluation.recording import Recording
from tau_trainer.models import Policy
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch

Say = Callable[[str], None]


@dataclass(slots=True)
class BehaviorSide:
    """One behavior at play."""

    player: Player
    visible: tuple[int, ...]
    """Indices of the sensors that the player sees."""
    table: RowTable
    recording: Recording | None
    running: EpisodeScores = field(default_factory=EpisodeScores)
    decisions: int = 0

    def decide(self, batch: StepBatch, episodes: EpisodeLog) -> Actions | None:
        """Add finished episodes to ``episodes``, and decide for agents that need it; None if no agent does."""
        ended, actions = batch.terminals, None
        obs, last = (tuple(part[i] for i in self.visible) for part in (batch.obs, ended.obs))
        if len(ended):
            rows = self.table(ended.agent_ids)
            paid = ended.reward + ended.group_reward
            returns, lengths = self.running.end(rows, self.running.acted(rows), own=paid)
            episodes.returns.extend(returns["own"].tolist())
            episodes.lengths.extend(lengths.tolist())
            self.player.forget(rows)
        if len(batch):
            rows = self.table(batch.agent_ids)
            self.running.step(rows, self.running.acted(rows), own=batch.reward + batch.group_reward)
            actions = self.player.decide(rows, obs, batch.action_mask).to_env()
            self.decisions += len(batch)
        if self.recording is not None:
            self.recording.step(batch, obs, last, actions)
        return actions


class Referee(Protocol):
    """Counts the results of games."""

    def see(self, spec: BehaviorSpec, batch: StepBatch) -> None:
        """One behavior's part of a message."""

    def abandon(self) -> None:
        """Discard running games, which will never end."""


class Play:
    """One environment, played by a player for each behavior.

    Use: ``await run(...)``; or ``await begin(...)``, then ``await until(...)`` as often as wanted.

    Args:
        environment: an environment that is not started.
        player_of: creates the player of a behavior when it appears.
        recording_of: creates the recording of a behavior; None: nothing is recorded.
        referee: receives every message before it is answered; None: no referee.

    Attributes:
        sides: sides by the behavior's name.
        episodes: episodes that ended since the start or the last reset, by the behavior's short name, of all teams.
        left: whether the environment has ended by itself.
    """

    def __init__(
        self,
        environment: Environment,
        player_of: Callable[[BehaviorSpec], Player],
        recording_of: Callable[[BehaviorSpec], Recording] | None = None,
        referee: Referee | None = None,
    ) -> None:
        self.sides: dict[str, BehaviorSide] = {}
        self.episodes: dict[str, EpisodeLog] = {}
        self.left = False
        self._environment = environment
        self._player_of = player_of
        self._recording_of = recording_of
        self._referee = referee
        self._rows = 0
        self._actions: dict[str, Actions] = {}

    @property
    def ended(self) -> int:
        """Number of finished episodes of the behavior (and team) with the fewest."""
        return min((side.running.episodes for side in self.sides.values()), default=0)

    @property
    def decisions(self) -> int:
        """Decisions of all agents."""
        return sum(side.decisions for side in self.sides.values())

    async def run(self, parameters: Parameters, enough: Callable[[Play], bool]) -> None:
        """Play until ``enough`` returns True, and close the environment. Raises TauError."""
        try:
            await self.begin(parameters)
            await self.until(enough)
        finally:
            await self._environment.close()

    async def begin(self, parameters: Parameters) -> None:
        """Start the environment. Raises TauError."""
        self._decide(await self._environment.start(parameters))

    async def begin_anew(self, parameters: Parameters) -> None:
        """Reset the environment, and count episodes from here. Raises TauError."""
        self._abandon()
        self.episodes = {name: EpisodeLog() for name in self.episodes}
        await self._go_on(self._environment.reset(parameters))

    async def until(self, enough: Callable[[Play], bool]) -> None:
        """Continue until ``enough``, called after every step, is True, or the environment ends. Raises TauError."""
        while not (self.left or enough(self)):
            self._environment.answer(self._actions)
            await self._go_on(self._environment.next())

    async def _go_on(self, exchange: Awaitable[list[StepBatch]]) -> None:
        """Decide for the environment's next messages; if it fails, for those of a restarted one."""
        try:
            batches = await exchange
        except EngineStoppedError:
            self.left = True
            return
        except EngineError as error:
            self._abandon()
            batches = await self._environment.recover(error)
        self._decide(batches)

    def _decide(self, batches: list[StepBatch]) -> None:
        specs = self._environment.specs
        self._actions = {}
        for batch in batches:
            spec = specs[batch.behavior]
            if self._referee is not None:
                self._referee.see(spec, batch)
            actions = self._side(spec).decide(batch, self.episodes.setdefault(spec.short_name, EpisodeLog()))
            if actions is not None:
                self._actions[spec.name] = actions

    def _side(self, spec: BehaviorSpec) -> BehaviorSide:
        if spec.name not in self.sides:
            player = self._player_of(spec)
            names = [sensor.name for sensor in player.spec.observations]
            visible = tuple(i for i, sensor in enumerate(spec.observations) if sensor.name in names)
            recording = self._recording_of(player.spec) if self._recording_of is not None else None
            self.sides[spec.name] = BehaviorSide(player, visible, RowTable(self._new_rows), recording)
        return self.sides[spec.name]

    def _abandon(self) -> None:
        """Discard running episodes, because the environment was lost or is reset."""
        if self._referee is not None:
            self._referee.abandon()
        for side in self.sides.values():
            side.running.clear()
            side.player.forget(side.table.rows)
            side.table.clear()
            if side.recording is not None:
                side.recording.abandon()

    def _new_rows(self, count: int) -> Rows:
        self._rows += count
        return np.arange(self._rows - count, self._rows)


@contextmanager
def opened(settings: RunSettings, say: Say = lambda text: None) -> Iterator[Environment]:
    """The environment of the settings; see :func:`all_opened` for several."""
    with all_opened(settings, 1, say) as [environment]:
        yield environment


@contextmanager
def all_opened(settings: RunSettings, count: int, say: Say = lambda text: None) -> Iterator[list[Environment]]:
    """``count`` environments of the settings, not started; the engines' logs are deleted at the end.

    Raises SettingsError, LaunchError, PortInUseError.
    """
    with tempfile.TemporaryDirectory(prefix="tau-train-", ignore_cleanup_errors=True) as logs:
        source = open_source(settings, count, Path(logs))
        for sentence in (*source.warnings, *([source.invitation] if source.invitation else [])):
            say(sentence)
        yield [source.make(index, lambda stat: None, lambda text, restart=0: say(text)) for index in range(count)]


def evaluate(
    settings: RunSettings,
    policies: Mapping[str, Policy],
    episodes: int,
    parameters: Parameters,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, EpisodeLog]:
    """Play episodes with the most likely actions; returns them by the behavior's short name.

    Args:
        settings: settings with the environment and a seed.
        policies: policies by the behavior's short name.
        episodes: minimum episodes of each behavior; all finished ones are returned.
        parameters: parameters of the environment.
        stopped: called after every step; returns whether to end.

    Raises:
        TauError: the environment cannot start, or has a behavior without a suitable policy.
    """
    player_of = make_players(policies, settings.env_settings.seed, deterministic=True)
    with opened(settings) as environment:
        play = Play(environment, player_of)
        asyncio.run(play.run(parameters, lambda play: play.ended >= episodes or stopped()))
    return play.episodes
