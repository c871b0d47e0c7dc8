"""The Evaluator: plays policies during training, in a process and an environment of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tau_trainer.errors import ActorError, TauError, sentence_of
from tau_trainer.evaluation.candidates import ScoredPolicy
from tau_trainer.evaluation.episodes import EpisodeLog
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.remote.process import Message
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.training.actors.actor import plain_parameters
from tau_trainer.training.actors.link import ActorContext, ActorProcess
from tau_trainer.training.learning.learner import Learner

_HURRY_S = 10.0
"""Time for each of the last policies after an interrupt, in seconds.

Or twice the longest evaluation, if that is longer.
"""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A policy that waits to be played."""

    learner: Learner
    policy: Policy
    opts: int
    decisions: int
    """Number of decisions that the policy was trained on."""


class Evaluator:
    """Plays whole episodes with policies, in a process and an environment of its own.

    While it plays one policy, only the newest other policy of each learner waits; older ones are skipped. Callers wait
    for at most the plan's ``stall_s``.
    """

    def __init__(self, context: ActorContext) -> None:
        """Starts nothing before the first policy arrives."""
        index = context.own.actors
        self._process = ActorProcess(context, index, context.plan.log_folder / "Evaluator.log", evaluates=True)
        self._context = context
        self._waiting: dict[str, _Asked] = {}
        self._versions: dict[str, int] = {}
        """Version of the newest policy of each learner that arrived."""
        self._longest_s = 0.0
        """Longest time that the episodes of one policy took."""
        self._came, self._idle = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = self._stopped = False
        self._launched = False

    def evaluate(self, learner: Learner, policy: Policy, opts: int) -> None:
        """Have a policy played; returns at once."""
        if self._closing:
            return
        self._waiting[learner.name] = _Asked(learner, policy, opts, learner.decisions)
        self._versions[learner.name] = policy.version
        self._idle.clear()
        self._came.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        callbacks = self._context.pool.shared.callbacks
        try:
            while self._waiting or not self._closing:
                if not self._waiting:
                    self._idle.set()
                    self._came.clear()
                    await self._came.wait()
                    continue
                asked = self._waiting.pop(next(iter(self._waiting)))
                try:
                    if not self._launched:
                        await self._launch()
                    info = EvaluationInfo(asked.learner.name, asked.policy.version, asked.decisions)
                    callbacks.tell("on_evaluation_begin", info)
                    begun = time.monotonic()
                    scores = self._score(asked, await self._play(asked))
                    self._longest_s = max(self._longest_s, time.monotonic() - begun)
                    callbacks.tell("on_evaluation_end", replace(info, scores=scores))
                except ActorError as error:
                    self._launched = False
                    self._waiting.setdefault(asked.learner.name, asked)
                    await self._process.revive(error, self._launch)
        except TauError as error:
            self._closing = True
            self._context.hub.warning(f"evaluation has stopped: {sentence_of(error)}")
        finally:
            self._idle.set()
            await self._process.kill()

    async def _launch(self) -> None:
        await self._process.start(lambda: self._context.coordinator.parameters(self._process.index), self._next)
        self._launched = True

    async def _next(self) -> Message:
        message = await self._process.receive()
        if message[0] == "behavior":
            self._process.tell("answer", self._context.behavior(self._process.index, message[1]))
        return message

    async def _play(self, asked: _Asked) -> list[float]:
        plan, index, policy = self._context.plan, self._process.index, asked.policy
        # In lock step, the episodes depend on the policy, not on those that were played before.
        parameters = {**self._context.coordinator.parameters(index), **plan.fresh_seed(index, policy.version)}
        data = {"name": asked.learner.name, "version": policy.version, "episodes": self._context.own.eval_episodes}
        data["parameters"] = plain_parameters(parameters)
        self._process.tell("evaluate", data, policy.weights)
        while (message := await self._next())[0] != "evaluated":
            pass
        return list(message[1]["returns"])

    def _score(self, asked: _Asked, returns: list[float]) -> dict[str, float]:
        """The scores of a policy. Keep the policy if it is strictly better than the best so far."""
        learner, version = asked.learner, asked.policy.version
        score = EpisodeLog(returns).mean_return
        if score is None:
            return {}
        self._context.hub.add(learner.name, keys.EPISODE_RETURN, score)
        self._context.hub.event("evaluation", behavior=learner.name, opts=asked.opts, score=score, version=version)
        scores = {keys.EPISODE_RETURN: score}
        learner.tracker.take(ScoredPolicy(asked.policy, asked.decisions, scores, (score, 0.0)))
        return scores

    async def settled(self, limit_s: float | None = None) -> None:
        """Wait until all policies are played. Give up after ``limit_s``."""
        limit_s = self._context.plan.stall_s if limit_s is None else limit_s
        try:
            if self._task is not None:
                await asyncio.wait_for(self._idle.wait(), limit_s)
        except TimeoutError:
            self._context.hub.warning(
                f"evaluation has stopped: one has not ended within {limit_s:.3g} s; "
                "lower eval_episodes, or raise --timeout-wait"
            )
            self.stop()

    def stop(self) -> None:
        """Drop the policy that is being played and those that wait."""
        self._waiting.clear()
        self._idle.set()
        if self._task is not None and not self._stopped:
            self._stopped = True  # a second cancel would interrupt the end
            self._task.cancel()
        self._closing = True

    async def finish(self, last: Iterable[Learner], *, interrupted: bool) -> None:
        """Play the policies that still wait and the last policies of these learners, and end.

        ``interrupted``: the user waits for the end of the run.
        """
        for learner in last:
            if self._versions.get(learner.name) != learner.policy.version:
                self.evaluate(learner, learner.policy, learner.progress.opts)
        each_s = min(self._context.plan.stall_s, max(_HURRY_S, 2.0 * self._longest_s))
        await self.settled(each_s * (len(self._waiting) + 1) if interrupted else None)
        self._closing = True
        self._came.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
