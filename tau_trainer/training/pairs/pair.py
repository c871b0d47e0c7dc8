"""AgentTrainerPair: one TauAgent with its AgentTrainer in one environment."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager

from tau_trainer.envs import Environment, Parameters
from tau_trainer.errors import EngineError, EngineRefusedError, EngineStoppedError
from tau_trainer.metrics import Laps, PairMetrics, Timer
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.lessons import Lessons

_NO_PLAY = "start the environment", "wait for a person"
"""What its time goes to besides."""


class Overseer:
    """What pairs ask of the run that they are part of; here the answers where nobody has others."""

    lessons: Lessons
    """What environments are told, and when that changes."""
    generation = 0
    """How often all environments began anew."""
    evaluates = False
    """Whether the policy of a pair is scored when the pair has had its decisions."""

    def enough(self, pair: AgentTrainerPair) -> bool:
        """Whether a pair has had its decisions."""
        return False

    def parameters(self, pair: int) -> Parameters:
        """What the environment of a pair is told now."""
        return self.lessons.parameters

    def objection(self, pair: AgentTrainerPair) -> str | None:
        """What is wrong with the behaviors that a pair's environment shows, as a sentence; None: nothing.

        Asked before anything is decided for a behavior that the pair has not met.
        """
        return None

    def conflict(self, pair: int, shown: Sequence[BehaviorSpec]) -> str | None:
        """The same of behaviors that show themselves in another process, where their agents are."""
        return None

    async def absent(self) -> None:
        """A person has stopped a game; awaited before its pair waits for that person to start it again."""

    async def evaluate(self, pair: AgentTrainerPair) -> None:
        """A pair that learns has had its decisions."""

    async def round_over(self) -> bool:
        """After every round of pairs that take turns: whether a checkpoint was written and environments begin anew."""
        return False


class AgentTrainerPair:
    """Plays one environment from its start to its last decision.

    Use: ``await initialize()``, ``await start()``, ``await stop()``; ``metrics()`` at any time. ``advance()`` is one
    exchange, for those who run several pairs in turn.
    """

    def __init__(
        self,
        environment: Environment,
        trainer: AgentTrainer,
        overseer: Overseer,
        lessons: Lessons | None = None,
        timer: Timer | None = None,
    ) -> None:
        """``lessons``: whose changes it is told of while it plays. ``timer``: where its time is counted."""
        self.id = trainer.id
        self.trainer = trainer
        self.environment = environment
        self.finishing = False
        """Set from outside: the pair ends after the exchange it is in."""
        self.goodbye: str | None = None
        """What an environment said that left and is not to be replaced: a saved run is played, say."""
        self.met: dict[str, BehaviorSpec] = {}
        """The behaviors of the environment that plays now, by full name; none while nothing plays."""
        self._stopped: str | None = None
        """How a person ended the game who has not started it again."""
        self.starting = False
        """Whether its environment has yet to begin, or to begin again: who ends it now ends nothing."""
        self._overseer = overseer
        self._lessons = lessons or Lessons({})
        self._timer = timer if timer is not None else Timer()
        self._laps = Laps(self._timer)
        self._told = 0
        """Version of the lessons that the environment was told of."""
        self._actions: dict[str, Actions] = {}

    @property
    def absent(self) -> str | None:
        """Why nothing happens until a person starts the game again, or goes on with it; None while it runs."""
        return self._stopped or self.environment.absent

    @property
    def played_s(self) -> tuple[float, float]:
        """Seconds that it has played, and those of them in which it waited for its environment."""
        parts = {name: part.total for name, part in self._timer.parts.items() if name not in _NO_PLAY}
        return sum(parts.values()), parts.get("wait for the environment", 0.0)

    @property
    def complete(self) -> bool:
        """Whether it has had its decisions."""
        return self._overseer.enough(self)

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to do."""
        return self.finishing or self.goodbye is not None or self.complete

    async def initialize(self) -> None:
        """Start the environment and decide for its first observations. Raises EngineError."""
        self._laps.begin()
        batches = await self._or_recover(self._opened())
        self._laps.lap("start the environment")
        self._actions = await self.trainer.decide(batches, self.environment.specs)

    async def _opened(self) -> list[StepBatch]:
        with self._start():
            return await self.environment.start(self._parameters_now())

    async def advance(self) -> None:
        """One exchange: actions out; then, while the game plays, rewards and experience; observations in, decide.

        An environment that fails is replaced within its budget. Raises EngineError once that is spent,
        NonFiniteError when learning has failed.
        """
        if self._told != self._lessons.version:
            if self._told < self._lessons.reset_version:
                await self.begin_anew()
                return
            self.environment.tell(self._parameters_now())
        self._laps.begin()
        self.environment.answer(self._actions)
        self.trainer.record()
        if self._lessons.goes_on:
            self._lessons.check()
        self._laps.lap("answer and record")
        await self.trainer.wait_for_learners()
        self._laps.lap("wait for the learner")
        if not self.finished:
            await self._decide(self.environment.next())

    async def _decide(self, exchange: Awaitable[list[StepBatch]]) -> None:
        """Decide for what the environment says, or a fresh one in its place."""
        try:
            batches = await self._or_recover(exchange)
        except EngineStoppedError as error:
            self.goodbye = str(error)
            return
        self._laps.lap("wait for the environment")
        self._actions = await self.trainer.decide(batches, self.environment.specs)
        self._laps.lap("decide")

    async def _or_recover(self, exchange: Awaitable[list[StepBatch]]) -> list[StepBatch]:
        """What the environment says, or the first of the next ones that nobody objects to."""
        error: EngineError | None
        try:
            batches = await exchange
            error = self._refusal()
        except EngineError as failed:
            error = failed
        while error is not None:
            self.met = {}
            self.trainer.abandon()
            batches = await self._recovered(error)
            error = self._refusal()
        return batches

    async def _recovered(self, error: EngineError) -> list[StepBatch]:
        if isinstance(error, EngineStoppedError):
            return await self._wait_for_person(error)
        with self._start():
            return await self.environment.recover(error)

    def _refusal(self) -> EngineRefusedError | None:
        """Why the environment may not play here, where it shows a behavior that this pair has not met."""
        specs = self.environment.specs
        if len(specs) != len(self.met):
            said = self._overseer.objection(self)
            if said is not None:
                return EngineRefusedError(said)
            self.met = dict(specs)
        return None

    async def _wait_for_person(self, error: EngineStoppedError) -> list[StepBatch]:
        self._stopped = str(error)
        try:
            await self._overseer.absent()
            with self._start():
                return await self.environment.recover(error)
        finally:
            self._stopped = None
            self._laps.lap("wait for a person")

    @contextmanager
    def _start(self) -> Iterator[None]:
        self.starting = True
        try:
            yield
        finally:
            self.starting = False

    async def start(self) -> None:
        """Go on until this pair has had its decisions."""
        while not self.finished:
            await self.advance()

    async def begin_anew(self) -> None:
        """Reset the environment: all episodes start from what the parameters say. Fails as :meth:`advance` does."""
        self.trainer.abandon()
        self._laps.begin()
        await self._decide(self.environment.reset(self._parameters_now()))

    def _parameters_now(self) -> Parameters:
        self._told = self._lessons.version
        return self._overseer.parameters(self.id)

    async def stop(self) -> None:
        """Say goodbye to the environment and wait for its end."""
        self.trainer.abandon()
        self.met = {}
        await self.environment.close()

    def metrics(
        self,
        mean_reward: float | None = None,
        mean_group_reward: float | None = None,
        success_rate: float | None = None,
        validation_accuracy: float | None = None,
    ) -> PairMetrics:
        """What it has done so far, with what summaries and evaluations said of it."""
        return PairMetrics(
            id=self.id,
            state=self.trainer.state,
            decisions=self.trainer.decisions,
            episodes=self.trainer.episodes,
            mean_reward=mean_reward,
            mean_group_reward=mean_group_reward,
            success_rate=success_rate,
            restarts=self.environment.restarts,
            validation_accuracy=validation_accuracy,
            error=self.trainer.error,
        )
