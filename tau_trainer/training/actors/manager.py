"""Actors: pairs that play in processes of their own, and the ActorManager that starts, watches and joins them.

To the code that runs pairs, an :class:`ActorPair` is a :class:`.Pair` like any other. :mod:`.actor` does its work; here
its messages arrive, and a process that dies is replaced within its budget.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.errors import EngineError, sentence_of
from tau_trainer.evaluation.episodes import earned
from tau_trainer.memory import Rollout, Work
from tau_trainer.metrics import PairMetrics
from tau_trainer.remote.process import Message, Places
from tau_trainer.runs.callbacks import EpisodeInfo
from tau_trainer.specs import Aggregation, Json
from tau_trainer.training.actors.actor import plain_parameters
from tau_trainer.training.actors.async_trainer import AsyncTrainer, Manager
from tau_trainer.training.actors.evaluator import Evaluator
from tau_trainer.training.actors.link import ActorContext, ActorProcess
from tau_trainer.training.actors.pace import Push
from tau_trainer.training.actors.rounds import RoundEnd
from tau_trainer.training.agents import Tally
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool
from tau_trainer.training.pairs.pair import Coordinator, Pair
from tau_trainer.training.pairs.parallel import FINISH_S, ParallelTrainer
from tau_trainer.training.plan import RunPlan


class ActorPair(Pair):
    """One actor, from the trainer's point of view."""

    def __init__(self, context: ActorContext, index: int) -> None:
        self.process = ActorProcess(context, index, context.plan.log_folder / f"Actor-{index}.log")
        super().__init__(index, self.process, Tally(), context.coordinator, context.coordinator.lessons)
        self._context = context
        self._started: set[str] = set()
        self.seconds = 0.0
        """Seconds that it played; set when it has said goodbye."""

    @override
    def finish(self) -> None:
        super().finish()
        self.process.wake()

    @override
    async def initialize(self) -> None:
        """Start the process and, in its turn, the environment. Raises EngineError."""
        with self._start():
            try:
                await self._launch()
            except EngineError as error:
                await self._replace(error)

    async def _replace(self, error: EngineError) -> None:
        if not self.process.replaceable(error):
            raise error
        self.leave()
        await self.process.revive(error, self._launch)

    async def _launch(self) -> None:
        await self.process.start(self._parameters_now, self._next)
        self.process.waits_for = f"actor {self.id} to play"

    @override
    async def start(self) -> None:
        """Receive its pushes until it has made all its decisions."""
        while not self.finished:
            try:
                if (await self._next())[0] == "bye":
                    break
            except EngineError as error:
                with self._start():
                    await self._replace(error)
            if self._lessons_version != self._lessons.version:
                self.process.tell("parameters", self._changed())

    @override
    async def stop(self) -> None:
        """Let it push its remaining experience, and end. If its process dies before that, this experience is lost."""
        if not self.process.running:  # in a resumed run it may have finished already, and was not started
            return
        self.process.tell("stop", {})
        try:
            while not self.seconds:
                await self._next()
        except EngineError as error:
            self._context.hub.warning(f"{sentence_of(error)} while it was ending", pair=self.id)
        self.leave()
        await self.process.end()

    @override
    async def kill(self) -> None:
        try:
            await self.process.kill()
        finally:
            self.leave()

    @override
    def metrics(self) -> PairMetrics:
        return replace(super().metrics(), node=self.process.node)

    def leave(self) -> None:
        """Stop waiting for this actor."""
        for name in self._started:
            self._context.trainers[name].leaves(self.id)
        self._started.clear()
        if self._context.rounds is not None:
            self._context.rounds.wake()

    async def _next(self) -> Message:
        """Receive and handle the next message."""
        message = await self.process.receive()
        kind, data, arrays = message
        if kind == "behavior":
            answer = self._context.behavior(self.id, data)
            self._context.trainers[answer["name"]].begins(self.id)
            self._started.add(answer["name"])
            self.process.tell("answer", answer)
        elif kind == "push":
            await self._push(data, arrays)
        elif kind == "current":
            self._context.trainers[data["name"]].current(self.id, data["version"])
        elif kind == "bye":
            self._record(data)
            self.seconds, self.goodbye = max(data["seconds"], 1e-9), data["goodbye"]
        return message

    async def _push(self, data: Json, arrays: Json) -> None:
        self.process.delivers = True
        trainer = self._context.trainers[data["name"]]
        work = Work.received({**data, "source": self.id}, arrays)
        push = Push(work, len(Rollout(work)) if arrays else 0, data["seconds_on_the_way"])
        news: dict[str, Any] = {}
        if (rounds := self._context.rounds) is None:
            await trainer.put(push)
            self._count(trainer, data)
        else:
            news = self._news(await rounds.hand_over(trainer, push, lambda: self._count(trainer, data)))
        self.process.tell("accepted", news)

    def _news(self, end: RoundEnd) -> dict[str, Any]:
        """The facts that it needs to continue after a round."""
        changed = end.anew or self._lessons_version != self._lessons.version
        if end.anew:
            self.process.lives, self.process.delivers = 0, False
        return {
            "left": end.left,
            "stop": self.finished,
            "generation": self._context.coordinator.generation if end.anew else None,
            "parameters": self._changed() if changed else None,
        }

    def _count(self, trainer: AsyncTrainer, data: Json) -> None:
        self._record(data)
        self.tally.decisions += data["decisions"]
        trainer.count(data["decisions"])

    def _record(self, data: Json) -> None:
        """Record the numbers that its hub has gathered."""
        hub = self._context.hub
        for behavior, key, aggregation, pair, values in data["records"]:
            hub.add(behavior, key, values, Aggregation(aggregation), pair=pair)
        for behavior, returns, lengths, groups in data["episodes"]:
            hub.episode(behavior, self.id, returns, lengths, groups)
            learner = self._context.trainers[behavior].learner
            self._lessons.episodes(learner.spec.short_name, np.array(returns, np.float32))
            self.tally.episodes[behavior] += len(returns)
            learner.ended(earned(returns, groups))
            callbacks = self._context.pool.shared.callbacks
            if "on_episode_end" in callbacks.wanted:
                for total, length in zip(returns, lengths, strict=True):
                    info = EpisodeInfo(behavior, self.id, learner.decisions, total, int(length))
                    callbacks.tell("on_episode_end", info)
        self._lessons.check()

    def _changed(self) -> dict[str, Any]:
        """The parameters of its environment from now on."""
        parameters = plain_parameters(self._parameters_now())
        versions = {"version": self._lessons.version, "reset_version": self._lessons.reset_version}
        return {"parameters": parameters, **versions}


class ActorManager(ParallelTrainer[ActorPair], Manager):
    """Runs actors side by side: a :class:`ParallelTrainer` whose pairs play in processes of their own.

    ``run`` starts them, their environments one after another, and returns when all have ended; ``finish`` asks all to
    end; ``join`` waits until every acknowledged push is learned from, and ``evaluate_last`` until the last policies are
    evaluated.
    """

    def __init__(
        self, plan: RunPlan, pool: LearnerPool, coordinator: Coordinator, places: Places | None = None
    ) -> None:
        """Prepare ``async_trainer.actors`` actors, of which as many run at once as the plan says; starts nothing.

        ``places``: where they run; None: on this machine.
        """
        self.context = context = ActorContext(plan, pool, coordinator, self, self._expected, places)
        self.evaluator = Evaluator(context)
        actors = [ActorPair(context, index) for index in range(context.own.actors)]
        super().__init__(actors, context.plan.max_concurrent, context.hub, context.coordinator)

    @property
    def trainers(self) -> list[AsyncTrainer]:
        """One for each behavior that has appeared."""
        return list(self.context.trainers.values())

    def _expected(self) -> set[int]:
        """Actors that play or will play."""
        return {pair.id for pair in self.pairs if not (pair.finished or pair.state.ended)}

    @override
    async def request_evaluation(self, learner: Learner, opts: int) -> None:
        """Evaluate during learning; in lock step, wait for the result before learning continues."""
        self.evaluator.evaluate(learner, learner.policy, opts)
        if self.context.rounds is not None:
            await self.evaluator.settled()

    @override
    def wake(self) -> None:
        """Let every actor's end check whether it has finished."""
        for actor in self.pairs:
            actor.process.wake()

    def finish(self) -> None:
        """Let every actor end after its current exchange and push its remaining experience."""
        super().finish()
        for trainer in self.trainers:
            trainer.open()
        if self.context.rounds is not None:
            self.context.rounds.open()

    async def cancel(self, grace_s: float = FINISH_S) -> None:
        """End all actors, see there. With a grace period of 0, the evaluator is stopped at once too."""
        if not grace_s:
            self.evaluator.stop()
        await super().cancel(grace_s)

    async def join(self, *, at_once: bool = False) -> None:
        """Wait until all actors have ended and their pushes are learned from; ``at_once``: stop learning instead."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if at_once:
            for trainer in self.trainers:
                trainer.drop()
        if self.context.rounds is not None:
            await self.context.rounds.finish()
        for trainer in self.trainers:
            await trainer.finish()
        if at_once:
            self.evaluator.stop()

    async def evaluate_last(self) -> None:
        """Evaluate the last policies like those before them, and end the evaluator."""
        last = [trainer.learner for trainer in self.trainers if trainer.learner.progress.updates]
        await self.evaluator.finish(last if self.context.own.eval_interval else (), interrupted=self._cancelled)

    def close(self) -> None:
        """Release the resources that processes share."""
        self.context.close()

    def figures(self) -> list[str]:
        """The figures that border's trainer prints at its end, for each behavior and each actor."""
        lines = [f"{trainer.learner.name}: {', '.join(trainer.recorded.lines())}" for trainer in self.trainers]
        for actor in self.pairs:
            seconds, samples = actor.seconds, actor.tally.decisions
            speed = f"{samples / seconds:,.0f} samples/s, {seconds:.1f} s" if seconds else actor.state.value
            lines.append(f"actor {actor.id}: {samples:,} samples, {speed}")
        return lines
