"""A process that acts: one pair with its environment, which pushes its experience to the trainer.

Launched by :mod:`.manager`. It collects as every pair does (:mod:`~tau_trainer.training.pairs.pair`), but in place of a
learner it has a :class:`.Pusher`: the collecting side of the algorithm, linked to the learner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from typing_extensions import override

from tau_trainer.bridge.side_channels import Sampler, SamplerKind, Stat
from tau_trainer.collection.decisions import DecisionBatcher, TauAgent
from tau_trainer.envs import Parameters, open_source
from tau_trainer.envs.threaded import ThreadedEnvironment
from tau_trainer.errors import ActorError
from tau_trainer.evaluation.play import Play
from tau_trainer.remote.process import GoneError, Message, Parent
from tau_trainer.rewards import EngineReward, Rewarder
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Aggregation, BehaviorSpec, Json
from tau_trainer.training import behavior_json
from tau_trainer.training.actors.parent import TrainerLink
from tau_trainer.training.actors.pusher import EVERYTHING, Pusher
from tau_trainer.training.agents import AgentTrainer
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pairs.pair import AgentTrainerPair, Coordinator
from tau_trainer.training.task import task_of

_BEAT_S = 0.25
TOO_SLOW = "raise --timeout-wait if it is this slow"


class _Actor(Coordinator):
    """Plays one environment, to collect experience or to evaluate.

    The status in its parent: exchanges of the environment, decisions, and a heartbeat count.
    """

    def __init__(self, parent: Parent, begin: Json) -> None:
        """``begin``: the facts about this actor that the trainer sent."""
        self._trainer = TrainerLink(parent)
        self._hub = self._trainer.hub
        self._begin = begin
        self._index: int = begin["index"]
        self._batcher = DecisionBatcher()
        self._pushers: dict[str, Pusher] = {}
        self._settings = RunSettings.model_validate(begin["settings"])
        slots = self._settings.async_trainer.actors + 1
        engine_args = tuple(begin["engine_args"])
        source = open_source(self._settings, slots, Path(begin["logs"]), engine_args, only=self._index)
        self._task_of_run = task = task_of(self._settings)
        self.lessons = Lessons({})
        self._parameters_received = _parameters(begin["parameters"])
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._anew: Json | None = None
        """News of a round that require the environment to restart; None otherwise."""
        keys = task.keys if task is not None else None
        self.pair = AgentTrainerPair(
            source.make(self._index, self._stat, partial(self._hub.warning, pair=self._index)),
            AgentTrainer(self._index, self._agent, self._rewarder, self._hub, keys),
            self,
            self.lessons,
        )
        self._task: asyncio.Task[None] | None = None

    @override
    def parameters(self, pair: int) -> Parameters:
        return self._parameters_received

    async def play(self) -> None:
        """Play to the end."""
        self._task = asyncio.current_task()
        self._trainer.listen(self._hear, self._take, self._trainer_is_gone)
        began = time.monotonic()
        beating = asyncio.create_task(self._beat())
        try:
            if self._begin["evaluates"]:
                await self._evaluate()
            else:
                await self._collect()
            for pusher in self._pushers.values():
                pusher.push(EVERYTHING)
            self._trainer.wait()
            await self.pair.stop()
            seconds = time.monotonic() - began
            self._trainer.tell("bye", {"seconds": seconds, "goodbye": self.pair.goodbye, **self._hub.take()})
        except (GoneError, asyncio.CancelledError):
            self._task = None  # from here on, the other of the two must not interrupt the end
            await self.pair.environment.kill()
        except Exception as error:  # the trainer must get every error
            await self.pair.environment.kill()
            self._trainer.parent.fail(error)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        """Show that this process is alive. A step in a thread can only be ended together with its process."""
        environment = self.pair.environment
        limit_s = float(self._settings.env_settings.timeout_wait)
        while True:
            self._show()
            self._trainer.parent.status[2] += 1
            if isinstance(environment, ThreadedEnvironment) and environment.busy_s > limit_s:
                text = f"actor {self._index} was ended: it waited {limit_s:g} s for {environment.waits_for}"
                self._trainer.parent.fail(ActorError(f"{text}; {TOO_SLOW}"))
                self._trainer.parent.leave(1)
            await asyncio.sleep(_BEAT_S)

    async def _collect(self) -> None:
        await self.pair.initialize()
        self._trainer.tell("started", {})
        while not self.pair.finished:
            if self._anew is None:
                await self.pair.advance()
            else:
                await self._begin_anew(self._anew)
            self._show()

    async def _begin_anew(self, news: Json) -> None:
        for name, pusher in self._pushers.items():
            pusher.left = news["left"].get(name, pusher.left)
            pusher.begin_anew(news["generation"])
        self._anew = None
        await self.pair.begin_anew()

    async def _evaluate(self) -> None:
        """For each policy that arrives, play the requested number of whole episodes."""
        play = Play(self.pair.environment, lambda spec: self._pusher(spec).actor)
        await play.begin(self._parameters_received)
        self._trainer.tell("started", {})
        while not (play.left or self.pair.finishing):
            kind, data, arrays = await self._orders.get()
            if kind == "stop":
                return
            for pusher in self._pushers.values():
                pusher.begin_anew(data["version"])
            returns: list[float] = []
            chosen = self._pushers.get(data["name"])
            if chosen is not None:  # otherwise its behavior has not appeared here yet
                chosen.actor.policy = chosen.algorithm.policy(arrays, data["version"])
                await play.begin_anew(_parameters(data["parameters"]))
                returns = await self._returns(play, chosen.spec.short_name, data["episodes"])
            self._hub.take()  # values that the game reported during evaluation do not count
            self._trainer.tell("evaluated", {"returns": returns})

    async def _returns(self, play: Play, behavior: str, count: int) -> list[float]:
        """Returns of the first ``count`` episodes that end; fewer if the actor has to stop earlier."""
        episodes = play.episodes[behavior]
        await play.until(lambda play: self.pair.finishing or len(episodes) >= count)
        return episodes.returns[:count]

    def _show(self) -> None:
        self._trainer.parent.status[:2] = self.pair.environment.exchanges, self.pair.tally.decisions

    def _hear(self, message: Message) -> None:
        """Handle a message of the trainer; belongs to the event loop."""
        kind, data, _ = message
        if kind == "stop":
            self.pair.finish()
        if kind == "parameters":
            self._change(data)
        else:
            self._orders.put_nowait(message)

    def _take(self, news: Json) -> None:
        """In lock step, handle the trainer's news at the end of a round."""
        # If the environment restarts, all steps until then are discarded.
        self._anew = None if news["generation"] is None else news
        over = news["stop"] or self._anew is not None
        for name, pusher in self._pushers.items():
            pusher.left = None if over else news["left"][name]
        self.pair.finishing |= news["stop"]
        if news["parameters"] is not None:
            self._change(news["parameters"])

    def _change(self, data: Json) -> None:
        self._parameters_received = _parameters(data["parameters"])
        self.lessons.version, self.lessons.reset_version = data["version"], data["reset_version"]

    def _trainer_is_gone(self) -> None:
        """The trainer has disconnected: stop playing; belongs to the event loop."""
        if self._task is not None:
            self._task.cancel()

    def _agent(self, spec: BehaviorSpec) -> TauAgent:
        pusher = self._pusher(spec)
        return TauAgent(pusher, spec, self._batcher, pusher.hand_over)

    def _pusher(self, spec: BehaviorSpec) -> Pusher:
        """The pusher of a behavior. Waits for the trainer's weights, because no agent acts before. Raises GoneError."""
        task = self._task_of_run
        visible = task.visible(spec) if task is not None else spec
        data = self._trainer.ask("behavior", {"behavior": behavior_json.to_json(spec)})
        pusher = self._pushers.get(data["name"])
        if pusher is None:
            data = {**data, "behavior": behavior_json.to_json(visible)}
            pusher = self._pushers[data["name"]] = Pusher(self._trainer, self._settings, self._begin, data)
        return pusher

    def _rewarder(self, spec: BehaviorSpec) -> Rewarder:
        task = self._task_of_run
        return task.rewarder(spec) if task is not None else EngineReward()

    def _stat(self, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        if stat.aggregation is not Aggregation.MOST_RECENT or self._index == 0:
            for pusher in self._pushers.values():
                self._hub.add(pusher.name, stat.key, stat.value, stat.aggregation)


def _parameters(plain: Json) -> dict[str, float | Sampler]:
    """Parameters from the form of :func:`plain_parameters`."""
    return {
        name: value if isinstance(value, float) else Sampler(SamplerKind(value[0]), value[1], tuple(value[2]))
        for name, value in plain.items()
    }


def plain_parameters(parameters: Mapping[str, float | Sampler]) -> dict[str, Any]:
    """Parameters of environments as JSON values."""
    return {
        name: [int(value.kind), value.seed, list(value.values)] if isinstance(value, Sampler) else float(value)
        for name, value in parameters.items()
    }


def work(parent: Parent) -> None:
    """Play for the trainer until it sends "stop"."""
    torch.set_num_threads(1)
    begin = parent.hear()
    actor = _Actor(parent, {**parent.arguments, **begin.data})
    asyncio.run(actor.play())
