"""AgentTrainerPair: one TauAgent with its AgentTrainer on one engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from tau_trainer.bridge.side_channels import Sampler
from tau_trainer.collection.worker import EngineWorker
from tau_trainer.errors import EngineError, EngineStoppedError
from tau_trainer.specs import Actions, BehaviorSpec, StepBatch
from tau_trainer.training.agent_trainer import AgentTrainer
from tau_trainer.training.states import PairMetrics

Parameters = Mapping[str, float | Sampler]


class AgentTrainerPair:
    """Runs one engine from its start to its last decision.

    Use: ``await initialize()``, ``await start()``, ``await stop()``; ``metrics()`` at any time. ``advance()`` is one
    exchange, for those who run several pairs in turn.
    """

    def __init__(
        self,
        worker: EngineWorker,
        trainer: AgentTrainer,
        done: Callable[[AgentTrainerPair], bool],
        parameters: Callable[[int], Parameters],
    ) -> None:
        """``done`` says when this pair has had its decisions; ``parameters`` what its engine is told at a reset."""
        self.id = trainer.id
        self.trainer = trainer
        self.worker = worker
        self.finishing = False
        """Set from outside: the pair ends after the exchange it is in."""
        self.goodbye: str | None = None
        """What the engine said when it closed the connection by itself."""
        self._done = done
        self._parameters = parameters
        self._actions: dict[str, Actions] = {}

    @property
    def complete(self) -> bool:
        """Whether it has had its decisions, or its engine has said goodbye."""
        return self.goodbye is not None or self._done(self)

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to do."""
        return self.finishing or self.complete

    @property
    def _specs(self) -> Mapping[str, BehaviorSpec]:
        engine = self.worker.engine
        return engine.specs if engine is not None else {}

    async def initialize(self) -> None:
        """Start the engine and decide for its first observations. Raises EngineError."""
        batches = await self.worker.start(self._parameters(self.id))
        self._actions = await self.trainer.decide(batches, self._specs)

    async def advance(self) -> None:
        """One exchange: actions out; then, while the engine works, rewards and experience; observations in, decide.

        An engine that fails is replaced within its budget. Raises EngineError once that is spent, NonFiniteError when
        learning has failed.
        """
        self.worker.answer(self._actions)
        self.trainer.record()
        await self.trainer.admit()
        if not self.finished:
            await self._decide(self.worker.next())

    async def _decide(self, exchange: Awaitable[list[StepBatch]]) -> None:
        """Decide for what the engine says, or a fresh one in its place."""
        try:
            batches = await exchange
        except EngineStoppedError as error:
            self.trainer.abandon()
            self.goodbye = str(error)
            return
        except EngineError as error:
            self.trainer.abandon()
            batches = await self.worker.recover(error)
        self._actions = await self.trainer.decide(batches, self._specs)

    async def start(self) -> None:
        """Go on until this pair has had its decisions."""
        while not self.finished:
            await self.advance()

    async def begin_anew(self) -> None:
        """Reset the engine: all episodes start from what the parameters say. Fails as :meth:`advance` does."""
        self.trainer.abandon()
        await self._decide(self.worker.reset(self._parameters(self.id)))

    async def stop(self) -> None:
        """Say goodbye to the engine and wait for its end."""
        self.trainer.abandon()
        await self.worker.close()

    def metrics(self, accuracy: float | None = None, *, per_decision: bool = True) -> PairMetrics:
        """What it has done so far; ``per_decision``: mean reward of a decision, else of an episode."""
        scores = self.trainer.scores
        return PairMetrics(
            id=self.id,
            state=self.trainer.state,
            decisions=self.trainer.decisions,
            episodes=self.trainer.episodes,
            mean_reward=scores.reward.value if per_decision else self.trainer.mean_return,
            success_rate=scores.success.value,
            restarts=self.worker.restarts,
            accuracy=accuracy,
            error=self.trainer.error,
        )
