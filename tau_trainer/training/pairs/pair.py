"""Pairs: what a run sees of one, and the pair that plays in this process, a TauAgent with its AgentTrainer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from tau_trainer.envs import Environment, Parameters
from tau_trainer.envs.contract import Watched
from tau_trainer.errors import EngineError, EngineRefusedError, EngineStoppedError
from tau_trainer.metrics import PairMetrics, PairState, PhaseTimer, Timer
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch
from tau_trainer.training.agents import AgentTrainer, Tally
from tau_trainer.training.lessons import Lessons

_NO_PLAY = "start the environment", "wait for a person"
"""Activities of a pair that do not count as play."""


class Coordinator:
    """Answers the questions of pairs to their run; here the defaults for pairs without a run."""

    lessons: Lessons
    """Parameters of environments, and their changes."""
    evaluates = False
    """Whether the policy of a pair is scored when the pair has had its decisions."""
    generation = 0
    """Number of times that all environments have restarted."""

    def enough(self, pair: Pair) -> bool:
        """Whether a pair has made all its decisions."""
        return False

    def parameters(self, pair: int) -> Parameters:
        """Current parameters for the environment of a pair."""
        return self.lessons.parameters

    def objection(self, pair: AgentTrainerPair) -> str | None:
        """The objection to the behaviors of a pair's environment, as a sentence; None if there is none.

        Called before any decision for a behavior that is new to the pair.
        """
        return None

    def conflict(self, pair: int, shown: Sequence[BehaviorSpec]) -> str | None:
        """The same for behaviors that appear in another process, where their agents are."""
        return None

    async def absent(self) -> None:
        """A person has stopped a game; awaited before its pair waits for that person to start it again."""

    async def evaluate(self, pair: Pair) -> None:
        """A pair that learns has made all its decisions."""

    async def round_over(self) -> bool:
        """Called after every round of pairs that take turns.

        True: a checkpoint was written, and environments restart.
        """
        return False


class Pair:
    """What a run sees of a pair, wherever it plays: in this process, in an actor's, as a member of a population.

    Use: ``await initialize()``, ``await start()``, ``await stop()``; ``kill()`` and ``metrics()`` at any time. A member
    of a population has nothing to do in the first four, because the population plays for it; other pairs override them.

    Attributes:
        id: its number.
        environment: what it plays, or what plays for it.
        tally: what it has done.
        state: its state in the life cycle, which its :class:`.ParallelTrainer` changes.
        error: one sentence once it has failed.
        goodbye: last message of an environment that has left and is not replaced, for example when a saved run is
            played.
        finishing: whether it ends after its current exchange.
        starting: whether its environment is starting or restarting: ending the pair now loses nothing.
    """

    def __init__(
        self, number: int, environment: Watched, tally: Tally, coordinator: Coordinator, lessons: Lessons | None = None
    ) -> None:
        """``lessons``: send their changes to the environment during play."""
        self.id = number
        self.environment, self.tally = environment, tally
        self.state = PairState.IDLE
        self.error: str | None = None
        self.goodbye: str | None = None
        self.finishing = self.starting = False
        self._coordinator = coordinator
        self._lessons = lessons or Lessons({})
        self._lessons_version = 0
        """Version of the lessons that the environment has received."""

    @property
    def absent(self) -> str | None:
        """Reason why nothing happens until a person starts or continues the game; None while it runs."""
        return self.environment.absent

    @property
    def complete(self) -> bool:
        """Whether it has made all its decisions."""
        return self._coordinator.enough(self)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.finishing or self.goodbye is not None or self.complete

    def finish(self) -> None:
        """End after the current exchange."""
        self.finishing = True

    async def initialize(self) -> None:
        """Start its environment. Raises EngineError."""

    async def start(self) -> None:
        """Play until this pair has made all its decisions. Raises EngineError, NonFiniteError."""

    async def stop(self) -> None:
        """Say goodbye to its environment and wait for its end."""

    async def kill(self) -> None:
        """End its environment at once; open decisions are lost."""

    def metrics(self) -> PairMetrics:
        """Its progress so far, without values from summaries and evaluations."""
        return PairMetrics(
            id=self.id,
            state=self.state,
            decisions=self.tally.decisions,
            episodes=self.tally.episodes.total(),
            restarts=self.environment.restarts,
            error=self.error,
        )

    @contextmanager
    def _start(self) -> Iterator[None]:
        self.starting = True
        try:
            yield
        finally:
            self.starting = False

    def _parameters_now(self) -> Parameters:
        self._lessons_version = self._lessons.version
        return self._coordinator.parameters(self.id)


class AgentTrainerPair(Pair):
    """Plays one environment from its start to its last decision, in this process.

    ``advance()`` is one exchange, for callers that run several pairs in turn.
    """

    def __init__(
        self,
        environment: Environment,
        trainer: AgentTrainer,
        coordinator: Coordinator,
        lessons: Lessons | None = None,
        timer: Timer | None = None,
    ) -> None:
        """``lessons``: send their changes to the environment during play. ``timer``: counts its time."""
        super().__init__(trainer.id, environment, trainer.tally, coordinator, lessons)
        self.trainer = trainer
        self.environment: Environment = environment
        self.met: dict[str, BehaviorSpec] = {}
        """The behaviors of the environment that plays now, by full name; empty while nothing plays."""
        self._stopped: str | None = None
        """Message on how a person ended the game, until the person starts it again."""
        self._timer = timer if timer is not None else Timer()
        self._phases = PhaseTimer(self._timer)
        self._actions: dict[str, Actions] = {}

    @property
    @override
    def absent(self) -> str | None:
        return self._stopped or self.environment.absent

    @property
    def played_s(self) -> tuple[float, float]:
        """Seconds that it has played, and those of them in which it waited for its environment."""
        parts = {name: part.total for name, part in self._timer.parts.items() if name not in _NO_PLAY}
        return sum(parts.values()), parts.get("wait for the environment", 0.0)

    @override
    async def initialize(self) -> None:
        """Start the environment and decide for its first observations. Raises EngineError."""
        self._phases.begin()
        batches = await self._or_recover(self._opened())
        self._phases.end("start the environment")
        self._actions = await self.trainer.decide(batches, self.environment.specs)

    async def _opened(self) -> list[StepBatch]:
        with self._start():
            return await self.environment.start(self._parameters_now())

    async def advance(self) -> None:
        """One exchange: send actions; while the game plays, compute rewards and experience.

        Receive observations, decide.

        An environment that fails is replaced within its budget. Raises EngineError once the budget is used up,
        NonFiniteError if learning has failed.
        """
        if self._lessons_version != self._lessons.version:
            if self._lessons_version < self._lessons.reset_version:
                await self.begin_anew()
                return
            self.environment.tell(self._parameters_now())
        self._phases.begin()
        self.environment.answer(self._actions)
        self.trainer.record()
        if self._lessons.goes_on:
            self._lessons.check()
        self._phases.end("answer and record")
        await self.trainer.hand_over()
        self._phases.end("wait for the learner")
        if not self.finished:
            await self._decide(self.environment.next())

    async def _decide(self, exchange: Awaitable[list[StepBatch]]) -> None:
        """Decide for the observations of the environment, or of its replacement."""
        try:
            batches = await self._or_recover(exchange)
        except EngineStoppedError as error:
            self.goodbye = str(error)
            return
        self._phases.end("wait for the environment")
        self._actions = await self.trainer.decide(batches, self.environment.specs)
        self._phases.end("decide")

    async def _or_recover(self, exchange: Awaitable[list[StepBatch]]) -> list[StepBatch]:
        """The observations of the environment, or the first ones of a replacement without objections."""
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
        """The reason why the environment may not play here, if it shows a behavior that is new to this pair.

        Otherwise None.
        """
        specs = self.environment.specs
        if len(specs) != len(self.met):
            said = self._coordinator.objection(self)
            if said is not None:
                return EngineRefusedError(said)
            self.met = dict(specs)
        return None

    async def _wait_for_person(self, error: EngineStoppedError) -> list[StepBatch]:
        self._stopped = str(error)
        try:
            await self._coordinator.absent()
            with self._start():
                return await self.environment.recover(error)
        finally:
            self._stopped = None
            self._phases.end("wait for a person")

    @override
    async def start(self) -> None:
        while not self.finished:
            await self.advance()

    async def begin_anew(self) -> None:
        """Reset the environment: all episodes restart with the current parameters. Fails like :meth:`advance`."""
        self.trainer.abandon()
        self._phases.begin()
        await self._decide(self.environment.reset(self._parameters_now()))

    @override
    async def stop(self) -> None:
        self.trainer.abandon()
        self.met = {}
        await self.environment.close()

    @override
    async def kill(self) -> None:
        try:
            await self.environment.kill()
        finally:
            self.trainer.abandon()
            self.met = {}
