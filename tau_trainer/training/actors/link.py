"""The trainer's end of actors' processes: the state that they share, and the messages to and from them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from tau_trainer.columns import Arrays
from tau_trainer.envs import Parameters
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import ActorError, EngineError, PortInUseError, SettingsError
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import NO_ARRAYS, Message, Places, Process, Target
from tau_trainer.remote.weights import layout_of
from tau_trainer.specs import Json, StepBatch
from tau_trainer.training import behavior_json
from tau_trainer.training.actors.actor import TOO_SLOW, plain_parameters
from tau_trainer.training.actors.async_trainer import AsyncTrainer, Manager
from tau_trainer.training.actors.rounds import Rounds
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.pairs.pair import Coordinator
from tau_trainer.training.plan import RunPlan

_MOST_BEHAVIORS = 16
"""Most behaviors whose weights can be shared: actors inherit the memory before their behaviors are known."""
_LOOK_S = 0.5
"""Seconds between two checks of a silent process. Checks are counted, so a paused machine makes no process late."""
_BEGIN_S = 60.0
"""Minimum time in seconds for a process to show life after its start, while it loads its modules."""
_WAKE = Message("wake", {}, {})
"""Placeholder message: something other than messages needs a check."""


class ActorContext:
    """The state that all actors of a run share: where they run, a lock while environments start, the coordinator."""

    def __init__(
        self,
        plan: RunPlan,
        pool: LearnerPool,
        coordinator: Coordinator,
        manager: Manager,
        expected: Callable[[], set[int]],
        places: Places | None = None,
    ) -> None:
        """Made before the first process.

        Args:
            plan: of the run.
            pool: its learners.
            coordinator: answers actors.
            manager: runs evaluations for trainers and checks whether actors have finished.
            expected: returns the actors that play now or will play.
            places: where they run; None: on this machine.
        """
        self.plan, self.pool, self.coordinator = plan, pool, coordinator
        self.hub = pool.shared.hub
        self.own = plan.settings.async_trainer
        self.place = (places or Here)(self.own.actors + 1, _MOST_BEHAVIORS)
        """Has slots for the actors and for the evaluator."""
        self.trainers: dict[str, AsyncTrainer] = {}
        self.starting = asyncio.Lock()
        """Held while an environment starts, so that they start one after another."""
        self.rounds = Rounds(self.trainers, expected, coordinator) if plan.lock_step else None
        """Decides in lock step when actors continue; None: each actor continues by itself."""
        self._manager = manager
        self._played = False

    @property
    def played(self) -> bool:
        """Whether the environment of any process, including ended ones, has ever answered a step."""
        self._played |= bool(self.place.status[:, 0].any())
        return self._played

    @property
    def arguments(self) -> dict[str, Any]:
        """Launch arguments that all processes share."""
        settings = self.plan.settings.model_copy(update={"debug": False})
        return {
            "settings": settings.model_dump(mode="json"),
            "logs": str(self.plan.log_folder.absolute()),
            "engine_args": self.plan.engine_args,
        }

    def behavior(self, pair: int, data: Json) -> dict[str, Any]:
        """A behavior appears in an actor: the facts to build its acting side from. Raises SettingsError."""
        spec = behavior_json.from_json(data["behavior"])
        said = self.coordinator.conflict(pair, [spec])
        if said is not None:
            raise SettingsError(said)
        learner = self.pool.learner(pair, spec)
        trainer = self.trainers.get(learner.name)
        if learner.algorithm.on_policy and not learner.algorithm.rollout_size:
            raise SettingsError(
                f"{learner.settings.trainer_type} learns from its newest policy's experience, but does not say how "
                "much it needs (rollout_size), so actors do not know how much to collect; use execution: sync"
            )
        if trainer is None:
            if len(self.trainers) == _MOST_BEHAVIORS:
                raise SettingsError(
                    f"actors share the weights of at most {_MOST_BEHAVIORS} behaviors, but this environment has more; "
                    "use execution: sync"
                )
            weights = self.place.newest(layout_of(learner.policy.weights))
            trainer = self.trainers[learner.name] = AsyncTrainer(
                self.pool.loops[learner.name], self.own, weights, self._manager
            )
        return {
            "name": learner.name,
            "weights": trainer.weights.reference,
            "seed": learner.setup.seed,
            "reward_width": learner.setup.reward_width,
            "left": sys.maxsize if self.rounds is None else self.rounds.left(pair)[learner.name],
        }

    def close(self) -> None:
        """Release the shared resources."""
        self.place.close()


class ActorProcess:
    """The trainer's end of one process. To the code that watches pairs, it is the pair's environment."""

    def __init__(self, context: ActorContext, index: int, log: Path, *, evaluates: bool = False) -> None:
        """Starts nothing yet."""
        env = context.plan.settings.env_settings
        self.index = index
        self.name = "the evaluator" if evaluates else f"actor {index}"
        self.waits_for: str | None = f"{self.name} to start"
        self.absent: str | None = None
        self._context = context
        self._log = log
        self._evaluates = evaluates
        self._budget = RestartBudget.of(env, partial(context.hub.warning, pair=index))
        self._limit_s = float(env.timeout_wait)
        self._process: Process | None = None
        self.lives = 0
        """Number of earlier processes that delivered experience since the last restart of all environments."""
        self.delivers = False
        """Whether this process has delivered.

        Until then, a replacement draws the same numbers, so that nothing differs.
        """
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()

    @property
    def exchanges(self) -> int:
        """Steps of its environment so far, plus those of the evaluator, which this process may wait for."""
        return int(self._context.place.status[[self.index, -1], 0].sum())

    @property
    def restarts(self) -> int:
        """Number of times that its process was replaced."""
        return self._budget.restarts

    @property
    def pid(self) -> int | None:
        """Process id; None while there is no process."""
        return self._process.pid if self._process is not None else None

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    @property
    def node(self) -> str:
        """The machine that it runs on; empty: this one, or none yet."""
        return self._process.node if self._process is not None else ""

    def _launch(self) -> None:
        """Start a process, which waits for the message "begin". Raises ActorError."""
        _ = self._context.played  # read the old process's status before it is cleared
        if self._process is not None:
            self._process.end()
        arguments = {"index": self.index, "evaluates": self._evaluates}
        target = Target(
            "tau_trainer.training.actors.actor",
            self._context.arguments | arguments,
            self.name,
            ActorError,
            self._log,
            slot=self.index,
            several=True,
            folders=("logs",),
        )
        loop, inbox = asyncio.get_running_loop(), asyncio.Queue[Message]()

        def take(message: Message) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the message has no receiver
                loop.call_soon_threadsafe(inbox.put_nowait, message)

        self._inbox, self._process = inbox, self._context.place.launch(target, take)

    async def start(self, parameters: Callable[[], Parameters], hear: Callable[[], Awaitable[Message]]) -> None:
        """Start a process and, in its turn, its environment; ``hear``: returns the next message. Raises ActorError."""
        self._launch()
        async with self._context.starting:
            self.lives, self.delivers = self.lives + self.delivers, False
            now = {"lives": self.lives, "generation": self._context.coordinator.generation}
            self.tell("begin", now | {"parameters": plain_parameters(parameters())})
            while (await hear())[0] != "started":
                pass

    def tell(self, kind: str, data: Json, arrays: Arrays = NO_ARRAYS) -> None:
        """Send a message. A process that has ended is noticed later, by its silence."""
        if self._process is not None:
            self._process.say(kind, data, arrays)

    async def receive(self) -> Message:
        """Its next message; an event is told to the hub. Call while no answer to it is pending.

        Raises ActorError if it has ended or shows no life for ``timeout_wait``, and the error that ended its
        environment.
        """
        assert self._process is not None
        process, shown = self._process, self._context.place.status[self.index]
        message, beat, looks = None, -1, 0
        while message is None:
            try:
                message = await asyncio.wait_for(self._inbox.get(), _LOOK_S)
            except TimeoutError:
                seen = int(shown[2])
                beat, looks = seen, looks + 1 if seen == beat else 0
                if looks * _LOOK_S >= (self._limit_s if seen else max(self._limit_s, _BEGIN_S)):
                    await self.kill()
                    text = f"{process.called} showed no life for {self._limit_s:g} s and was ended"
                    raise ActorError(f"{text}; {TOO_SLOW}") from None
        self._budget.worked(int(shown[0]))
        if message.kind == "event":
            self._context.hub.event(message.data["kind"], **message.data["fields"])
        return process.checked(message)

    def wake(self) -> None:
        """Make a caller that waits for a message check its conditions again."""
        self._inbox.put_nowait(_WAKE)

    def replaceable(self, error: EngineError) -> bool:
        """Whether another process may replace this one: it has ended, or its environment never played but others' have.

        An environment that has played is restarted in its process, within its own budget.
        """
        if isinstance(error, ActorError):
            return True
        began = bool(self._context.place.status[self.index, 0])
        return self._context.played and not (began or isinstance(error, PortInUseError))

    async def revive(self, error: EngineError, start: Callable[[], Any]) -> None:
        """Replace the process, within its budget. Raises the last error once the budget is used up."""

        async def again() -> list[StepBatch]:
            await start()
            return []

        await self._budget.revive(error, again)

    async def end(self) -> None:
        """Wait for the process to end. Call after its goodbye has arrived."""
        if self._process is not None:
            await asyncio.to_thread(self._process.end)
            self._process = None

    async def kill(self) -> None:
        """Kill the process at once; its environment notices."""
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)
            await self.end()
