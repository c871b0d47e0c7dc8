"""Actors: pairs that play in processes of their own, and the ActorManager that starts, watches and joins them.

To whoever runs pairs an :class:`ActorPair` is one of them: it has a state, decisions, episodes and an end. What it does
is done by :mod:`.actor_process`; here its messages arrive, and a process that dies is replaced within its budget.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from tau_trainer.columns import Arrays
from tau_trainer.envs import Environment, Parameters
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.errors import ActorError, EngineError, SettingsError, TauError
from tau_trainer.memory import Rollout
from tau_trainer.metrics import MetricsHub, PairMetrics, PairState, keys
from tau_trainer.models import Policy
from tau_trainer.rewards import EngineReward
from tau_trainer.specs import Aggregation, StepBatch
from tau_trainer.training import behavior_json
from tau_trainer.training.actor_process import STATUS, plain_parameters
from tau_trainer.training.agents import AgentTrainer, Collecting, TauAgent
from tau_trainer.training.asynchronous import AsyncTrainer, Push
from tau_trainer.training.callbacks import EpisodeInfo, EvaluationInfo
from tau_trainer.training.candidates import ScoredPolicy
from tau_trainer.training.channel import Channel, ChannelMessage, SharedBytes, refused
from tau_trainer.training.child import ChildProcess
from tau_trainer.training.learner import Learner
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.parallel import ParallelTrainer
from tau_trainer.training.plan import RunPlan
from tau_trainer.training.pool import LearnerPool
from tau_trainer.training.scores import EpisodeScores
from tau_trainer.training.states import told
from tau_trainer.training.weights import WeightChannel, layout_of

_BOARDS = 16
"""Behaviors whose weights can be shared: actors inherit the memory before it is known what they will play."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NOTHING: Arrays = {}
_WAKE: ChannelMessage = ("wake", {}, {})
"""Says that there is something else to look at than messages."""


class Board:
    """What all actors of a run share: memory for weights, a lock while environments start, and who is asked."""

    def __init__(self, plan: RunPlan, hub: MetricsHub, pool: LearnerPool, lessons: Lessons) -> None:
        """Made before the first process."""
        self.plan = plan
        self.hub = hub
        self.pool = pool
        self.lessons = lessons
        self.own = plan.settings.async_trainer
        self.seats = self.own.actors + 1
        """Processes at most: actors, and one that evaluates."""
        self.trainers: dict[str, AsyncTrainer] = {}
        self.starting = asyncio.Lock()
        """Held while an environment starts: one after the other."""
        self.status_memory = SharedBytes()
        self.status = np.frombuffer(self.status_memory.view(8 * STATUS * self.seats), np.int64).reshape(-1, STATUS)
        self._memories = [SharedBytes() for _ in range(_BOARDS)]
        self.make_trainer: Callable[[Learner, WeightChannel], AsyncTrainer] | None = None

    @property
    def shared(self) -> list[SharedBytes]:
        """What processes inherit."""
        return [self.status_memory, *self._memories]

    @property
    def begin(self) -> dict[str, Any]:
        """What every process is told first."""
        settings = self.plan.settings.model_copy(update={"debug": False})
        return {
            "settings": settings.model_dump(mode="json"),
            "seats": self.seats,
            "logs": str(self.plan.log_folder),
            "boards": [memory.place for memory in self._memories],
            "numbers": {
                "n_buffer": self.own.n_buffer,
                "patience": max(self.own.max_policy_lag // 2, 1),
                "waits": self.own.mode == "lock_step",
            },
        }

    def behavior(self, pair: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        """A behavior shows itself in an actor: what acts there is made from this. Raises SettingsError."""
        assert self.make_trainer is not None
        spec = behavior_json.from_json(facts["behavior"])
        learner = self.pool.learner(pair, spec)
        trainer = self.trainers.get(learner.name)
        layout = layout_of(learner.policy.weights)
        if trainer is None:
            if len(self.trainers) == len(self._memories):
                raise SettingsError(
                    f"actors share the weights of at most {_BOARDS} behaviors, and this environment has more; "
                    "use execution: sync"
                )
            channel = WeightChannel(self._memories[len(self.trainers)], layout)
            trainer = self.trainers[learner.name] = self.make_trainer(learner, channel)
        return {
            "name": learner.name,
            "board": list(self.trainers).index(learner.name),
            "layout": layout,
            "seed": learner.setup.seed,
            "reward_width": learner.setup.reward_width,
        }

    def close(self) -> None:
        """Let go of the memory."""
        for memory in self.shared:
            memory.close()


class ActorProcess:
    """The trainer's end of one process. As far as pairs are watched it is their environment."""

    def __init__(self, board: Board, index: int, log: Path, *, evaluates: bool = False) -> None:
        """Nothing is started yet."""
        env = board.plan.settings.env_settings
        self.index = index
        self.waits_for: str | None = f"actor {index} to start"
        self.receiving_seconds = 0.0
        self._board = board
        self._log = log
        self._evaluates = evaluates
        self._budget = RestartBudget(
            env.max_lifetime_restarts,
            env.restarts_rate_limit_n,
            env.restarts_rate_limit_period_s,
            self._say,
        )
        self._child: ChildProcess | None = None
        self._channel: Channel | None = None
        self._launches = 0
        self._inbox: asyncio.Queue[ChannelMessage] = asyncio.Queue()

    def _say(self, message: str) -> None:
        self._board.hub.warning(message, pair=self.index)

    @property
    def exchanges(self) -> int:
        """Steps of its environment so far."""
        return int(self._board.status[self.index, 0])

    @property
    def restarts(self) -> int:
        """How often its process was replaced."""
        return self._budget.restarts

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self._child.pid if self._child is not None else None

    def launch(self) -> None:
        """Start a process, which waits to be told what to play. Raises ActorError."""
        if self._child is not None:
            self._child.end()
        self._inbox = asyncio.Queue()
        module, shared = "tau_trainer.training.actor_process", self._board.shared
        try:
            child = ChildProcess(module, [self._board.status_memory.place], self._log, shared, _ONE_THREAD)
        except OSError as error:
            raise ActorError(f"actor {self.index} cannot be started: {error.strerror or error}") from error
        self._child, self._channel = child, Channel(child.source, child.sink)
        arguments = (child, self._channel, asyncio.get_running_loop(), self._inbox)
        threading.Thread(target=self._listen, args=arguments, name=f"actor {self.index}", daemon=True).start()

    def _listen(
        self,
        child: ChildProcess,
        channel: Channel,
        loop: asyncio.AbstractEventLoop,
        inbox: asyncio.Queue[ChannelMessage],
    ) -> None:
        """In a thread: hand messages to the event loop; the last says how the process ended."""
        with contextlib.suppress(RuntimeError):  # the loop is over, and nobody wants to know any more
            with contextlib.suppress(EOFError, OSError, ValueError):
                while True:
                    before = channel.receiving_seconds
                    message = channel.receive()
                    message[1]["seconds_on_the_way"] = channel.receiving_seconds - before
                    loop.call_soon_threadsafe(inbox.put_nowait, message)
            loop.call_soon_threadsafe(inbox.put_nowait, ("ended", {"how": child.how()}, {}))

    def begin(self, parameters: Parameters) -> None:
        """Let it start its environment. Raises ActorError."""
        self._board.status[self.index] = 0
        own = self._board.own
        exploration = None if self._evaluates else own.exploration_of(self.index)
        mine: dict[str, Any] = {"index": self.index, "launches": self._launches, "evaluates": self._evaluates}
        mine |= {"exploration": exploration, "parameters": plain_parameters(parameters)}
        self._launches += 1
        self.tell("begin", self._board.begin | mine)

    def tell(self, kind: str, facts: Mapping[str, Any], arrays: Arrays = _NOTHING) -> None:
        """Say something; a process that is gone is found by its silence."""
        assert self._channel is not None
        with contextlib.suppress(OSError, ValueError):
            self._channel.send(kind, facts, arrays)

    async def receive(self) -> ChannelMessage:
        """What it says next. Raises ActorError where it has ended, and what ended its environment."""
        message = await self._inbox.get()
        if message[0] == "ended":
            raise ActorError(f"actor {self.index} ended {message[1]['how']}")
        if message[0] == "error":
            raise refused(*message[:2])
        return message

    def wake(self) -> None:
        """Let whoever waits for a message look around."""
        self._inbox.put_nowait(_WAKE)

    async def revive(self, error: ActorError, start: Callable[[], Any]) -> None:
        """Replace a process that ended, within its budget. Raises ActorError once that is spent."""

        async def again() -> list[StepBatch]:
            await start()
            return []

        await self._budget.revive(error, again)

    async def end(self) -> None:
        """Its goodbye was heard: wait for its end."""
        if self._child is not None:
            await asyncio.to_thread(self._child.end)
            self._child = None

    async def kill(self) -> None:
        """End it at once; its environment notices."""
        if self._child is not None:
            await asyncio.to_thread(self._child.kill)
            await self.end()


class _ActorTrainer(AgentTrainer):
    """What is known here of an AgentTrainer in an actor."""

    def __init__(self, index: int, hub: MetricsHub) -> None:
        super().__init__(index, _plays_elsewhere, lambda spec: EngineReward(), hub)
        self.by_learner: dict[str, EpisodeScores] = {}

    def episodes_of(self, learner: Collecting) -> list[EpisodeScores]:
        """Episodes of the behavior of ``learner``."""
        return [scores for name, scores in self.by_learner.items() if name == learner.name]

    @property
    def episodes(self) -> int:
        """Episodes that ended."""
        return sum(scores.episodes for scores in self.by_learner.values())

    @property
    def mean_return(self) -> float | None:
        """Mean return of recent episodes."""
        known = [one.recent_return.value for one in self.by_learner.values() if one.recent_return.value is not None]
        return sum(known) / len(known) if known else None


def _plays_elsewhere(_: object) -> TauAgent:
    raise AssertionError("an actor's agents are in its process")


class ActorPair(AgentTrainerPair):
    """One actor, as the trainer sees it."""

    def __init__(
        self,
        board: Board,
        index: int,
        done: Callable[[AgentTrainerPair], bool],
        parameters: Callable[[int], Parameters],
    ) -> None:
        """``done``, ``parameters``: see :class:`~tau_trainer.training.pair.AgentTrainerPair`."""
        self._finishing = False
        self.process = ActorProcess(board, index, board.plan.log_folder / f"Actor-{index}.log")
        self._mirror = _ActorTrainer(index, board.hub)
        super().__init__(cast(Environment, self.process), self._mirror, done, parameters, board.lessons)
        self._board = board
        self._started: set[str] = set()
        self.seconds = 0.0
        """For which it played, once it has said goodbye."""

    @property
    def finishing(self) -> bool:
        """Set from outside: the pair ends after the exchange it is in."""
        return self._finishing

    @finishing.setter
    def finishing(self, value: bool) -> None:
        self._finishing = value
        if value:
            self.process.wake()

    async def initialize(self) -> None:
        """Start the process and, when it is its turn, the environment. Raises EngineError."""
        with self._start():
            await self._launch()

    async def _launch(self) -> None:
        self.process.launch()
        async with self._board.starting:
            self.process.begin(self._parameters_now())
            while (await self._next())[0] != "started":
                pass
        self.process.waits_for = f"actor {self.id} to play"

    async def start(self) -> None:
        """Take in what it pushes until it has had its decisions."""
        while not self.finished:
            try:
                if (await self._next())[0] == "bye":
                    break
            except ActorError as error:
                self.leave()
                with self._start():
                    await self.process.revive(error, self._launch)
            if self._told != self._lessons.version:
                self._tell_parameters()

    async def stop(self) -> None:
        """Let it push what it holds, and end. Its process may die meanwhile: then that is lost."""
        if self.process.pid is None:  # a resumed run may find it finished already: then nothing was started
            return
        self.process.tell("stop", {})
        try:
            while not self.seconds:
                await self._next()
        except EngineError as error:
            self._board.hub.warning(f"{told(error)}, while it was to end", pair=self.id)
        self.leave()
        await self.process.end()

    def leave(self) -> None:
        """Nobody waits for it any more."""
        for name in self._started:
            self._board.trainers[name].leaves(self.id)
        self._started.clear()

    async def _next(self) -> ChannelMessage:
        """Deal with the next message."""
        message = await self.process.receive()
        kind, facts, arrays = message
        if kind == "behavior":
            answer = self._board.behavior(self.id, facts)
            self._board.trainers[answer["name"]].begins(self.id)
            self._started.add(answer["name"])
            self.process.tell("answer", answer)
        elif kind == "push":
            await self._push(facts, arrays)
        elif kind == "current":
            self._board.trainers[facts["name"]].current(self.id, facts["version"])
        elif kind == "event":
            self._board.hub.event(facts["kind"], **facts["fields"])
        elif kind == "bye":
            self._record(facts)
            self.seconds, self.goodbye = max(facts["seconds"], 1e-9), facts["goodbye"]
        return message

    async def _push(self, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        trainer = self._board.trainers[facts["name"]]
        data = {**arrays, **facts["numbers"]}
        push = Push(self.id, data, len(Rollout(data)), facts["seconds_on_the_way"])
        await trainer.put(push)
        self._record(facts)
        self.trainer.decisions += facts["decisions"]
        trainer.count(facts["decisions"])
        if self._board.own.mode == "lock_step":
            await trainer.learned(push)
        self.process.tell("accepted", {})

    def _record(self, facts: Mapping[str, Any]) -> None:
        """What its hub has gathered."""
        hub = self._board.hub
        for behavior, key, aggregation, pair, values in facts["records"]:
            hub.add(behavior, key, values, Aggregation(aggregation), pair=pair)
        for behavior, returns, lengths in facts["episodes"]:
            hub.episode(behavior, self.id, returns, lengths)
            scores = self._mirror.by_learner.setdefault(behavior, EpisodeScores())
            scores.episodes += len(returns)
            scores.recent_return.add(np.array(returns, np.float32))
            learner = self._board.trainers[behavior].learner
            self._lessons.episodes(learner.spec.short_name, np.array(returns, np.float32))
            learner.ended(np.array(returns, np.float32))
            callbacks = self._board.pool.callbacks
            if callbacks.wants("on_episode_end"):
                for total, length in zip(returns, lengths, strict=True):
                    info = EpisodeInfo(behavior, self.id, learner.decisions, total, int(length))
                    callbacks.tell("on_episode_end", info)
        self._lessons.check()

    def _tell_parameters(self) -> None:
        parameters = plain_parameters(self._parameters_now())
        told = {"version": self._lessons.version, "reset_version": self._lessons.reset_version}
        self.process.tell("parameters", {"parameters": parameters, **told})

    def metrics(self, validation_accuracy: float | None = None, *, per_decision: bool = True) -> PairMetrics:
        """What it has done so far."""
        return super().metrics(validation_accuracy, per_decision=False)


class Evaluator:
    """Plays whole episodes with policies that come, in a process and an environment of its own.

    While one is played the newest that comes waits; those between are passed over.
    """

    def __init__(self, board: Board, parameters: Callable[[int], Parameters]) -> None:
        """Nothing is started before the first policy comes."""
        index = board.own.actors
        self._process = ActorProcess(board, index, board.plan.log_folder / "Evaluator.log", evaluates=True)
        self._board = board
        self._parameters = parameters
        self._waiting: dict[str, tuple[Learner, Policy, int]] = {}
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._playing = False
        self._closing = False
        self._launched = False

    def evaluate(self, learner: Learner, policy: Policy, opts: int) -> None:
        """Have a policy played; returns at once."""
        self._waiting[learner.name] = (learner, policy, opts)
        self._came.set()
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        callbacks = self._board.pool.callbacks
        try:
            while self._waiting or not self._closing:
                if not self._waiting:
                    self._came.clear()
                    await self._came.wait()
                    continue
                asked = self._waiting.pop(next(iter(self._waiting)))
                try:
                    if not self._launched:
                        await self._launch()
                    info = EvaluationInfo(asked[0].name, asked[1].version, asked[0].decisions)
                    callbacks.tell("on_evaluation_begin", info)
                    scores = self._score(*asked, await self._play(*asked))
                    callbacks.tell("on_evaluation_end", replace(info, scores=scores))
                except ActorError as error:
                    self._launched = False
                    await self._process.revive(error, self._launch)
        except TauError as error:
            self._closing = True
            self._board.hub.warning(f"nothing is evaluated any more: {told(error)}")
        finally:
            await self._process.kill()

    async def _launch(self) -> None:
        self._process.launch()
        async with self._board.starting:
            self._process.begin(self._parameters(self._process.index))
            while (await self._next())[0] != "started":
                pass
        self._launched = True

    async def _next(self) -> ChannelMessage:
        message = await self._process.receive()
        if message[0] == "behavior":
            self._process.tell("answer", self._board.behavior(self._process.index, message[1]))
        elif message[0] == "event":
            self._board.hub.event(message[1]["kind"], **message[1]["fields"])
        return message

    async def _play(self, learner: Learner, policy: Policy, opts: int) -> list[float]:
        asked = {"name": learner.name, "version": policy.version, "episodes": self._board.own.eval_episodes}
        self._process.tell("evaluate", asked, policy.weights)
        while (message := await self._next())[0] != "evaluated":
            pass
        return list(message[1]["returns"])

    def _score(self, learner: Learner, policy: Policy, opts: int, returns: list[float]) -> dict[str, float]:
        """The best so far is kept: who is strictly better."""
        if not returns:
            return {}
        score = sum(returns) / len(returns)
        self._board.hub.add(learner.name, keys.EPISODE_RETURN, score)
        self._board.hub.event("evaluation", behavior=learner.name, opts=opts, score=score, version=policy.version)
        scores = {keys.EPISODE_RETURN: score}
        scored = ScoredPolicy(policy, learner.decisions, scores, (score, 0.0))
        if scored.beats(learner.best):
            learner.best = scored
        return scores

    async def finish(self, *, at_once: bool) -> None:
        """Play what still waits, or not, and end."""
        self._closing = True
        if self._task is None:
            return
        if at_once:
            self._waiting.clear()
            self._task.cancel()
        self._came.set()
        await asyncio.gather(self._task, return_exceptions=True)


class ActorManager(ParallelTrainer):
    """Runs actors side by side: a :class:`ParallelTrainer` whose pairs play in processes of their own.

    ``run`` starts them, their environments one after the other, and returns when all have ended; ``stop`` asks all to
    end; ``join`` waits until every push that was acknowledged is learned from.
    """

    def __init__(
        self,
        board: Board,
        hub: MetricsHub,
        *,
        done: Callable[[AgentTrainerPair], bool],
        parameters: Callable[[int], Parameters],
        save: Callable[[Learner], Any],
        evaluate: Callable[[AgentTrainerPair], Any] | None = None,
    ) -> None:
        """``save`` writes a checkpoint of a learner; the others as in :class:`ParallelTrainer` and its pairs."""
        self.board = board
        self.evaluator = Evaluator(board, parameters)
        self._save = save
        board.make_trainer = self._make_trainer
        actors = [ActorPair(board, index, done, parameters) for index in range(board.own.actors)]
        super().__init__(actors, len(actors), hub, evaluate=evaluate)
        self._actors = actors

    @classmethod
    def build(cls, plan: RunPlan, hub: MetricsHub, pool: LearnerPool, lessons: Lessons, **more: Any) -> ActorManager:
        """As many actors as ``async_trainer.actors`` says; nothing is started."""
        return cls(Board(plan, hub, pool, lessons), hub, **more)

    @property
    def trainers(self) -> list[AsyncTrainer]:
        """One for each behavior that has shown itself."""
        return list(self.board.trainers.values())

    def _make_trainer(self, learner: Learner, channel: WeightChannel) -> AsyncTrainer:
        return AsyncTrainer(
            learner,
            self.board.own,
            self.board.hub,
            channel,
            save=self._save,
            evaluate=self.evaluator.evaluate,
            on_done=self.wake,
            expected=lambda: {pair.id for pair in self.pairs if not (pair.finished or pair.trainer.state.ended)},
            blocked=lambda: set().union(*(one.waiting for one in self.trainers)),
        )

    def wake(self) -> None:
        """Let every actor's end see whether it has finished."""
        for actor in self._actors:
            actor.process.wake()

    def finish(self) -> None:
        """Let every actor end after the exchange it is in and push what it holds."""
        super().finish()
        for trainer in self.trainers:
            trainer.open()

    def stop(self) -> None:
        """The same, in border's words."""
        self.finish()

    async def _leave(self, pair: AgentTrainerPair, state: PairState) -> None:
        self._actors[pair.id].leave()
        await super()._leave(pair, state)

    async def join(self, *, at_once: bool = False) -> None:
        """Wait for the end of all actors, and of learning from what they pushed; ``at_once``: learn no more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for trainer in self.trainers:
            if at_once:
                trainer.drop()
            await trainer.finish()
        await self.evaluator.finish(at_once=at_once)

    async def stop_and_join(self) -> None:
        """Both."""
        self.stop()
        await self.join()

    def close(self) -> None:
        """Let go of what processes shared."""
        self.board.close()

    def figures(self) -> list[str]:
        """What border's trainer prints at its end: of each behavior, and of each actor."""
        lines = [f"{one.learner.name}: {', '.join(one.figures)}" for one in self.trainers]
        for actor in self._actors:
            seconds, samples = actor.seconds, actor.trainer.decisions
            speed = f"{samples / seconds:,.0f} samples/s, {seconds:.1f} s" if seconds else actor.trainer.state.value
            lines.append(f"actor {actor.id}: {samples:,} samples, {speed}")
        return lines
