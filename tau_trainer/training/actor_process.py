"""A process that acts: one pair with its environment, which pushes what it experienced to the trainer.

Started by :mod:`.actors`. It collects as every pair does (:mod:`.pair`, :mod:`.agents`); only where a learner would be
there is a :class:`Collector`: the collecting side of the algorithm with a channel behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.bridge.side_channels import Sampler, SamplerKind, Stat
from tau_trainer.collection.decisions import Actor, DecisionBatcher
from tau_trainer.columns import Arrays, Rows
from tau_trainer.envs import open_source
from tau_trainer.envs.threaded import ThreadedEnvironment
from tau_trainer.errors import SettingsError, TauError, sentence_of
from tau_trainer.evaluation.play import Play
from tau_trainer.memory import Memory, Work
from tau_trainer.metrics import Event, MetricsHub
from tau_trainer.remote.channel import Channel, ChannelMessage, SharedBytes
from tau_trainer.remote.child import streams
from tau_trainer.remote.weights import WeightChannel
from tau_trainer.rewards import EngineReward, Rewarder
from tau_trainer.settings import RunSettings, TrainerSettings
from tau_trainer.specs import Aggregation, BehaviorSpec, FloatArray
from tau_trainer.training import behavior_json
from tau_trainer.training.agents import AgentTrainer, TauAgent
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.pair import AgentTrainerPair
from tau_trainer.training.task import task_of

STATUS = 3
"""Numbers that an actor shows in shared memory: exchanges of its environment, decisions, and a beat while it lives."""
_BEAT_S = 0.25
_EVERYTHING = 1
_LAST_S = 5.0
"""How long an environment may take to end once the trainer is gone."""
_NOTHING: Arrays = {}
TOO_SLOW = "raise --timeout-wait if it is this slow"


class Gone(Exception):  # noqa: N818 - no error of ours
    """The trainer is not there any more."""


class _Trainer:
    """The trainer as the actor sees it. What it says is heard in a thread, so that its end is noticed at once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._answers = queue.SimpleQueue[ChannelMessage | None]()
        self._accepted = queue.SimpleQueue[dict[str, Any] | None]()
        self._unaccepted = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._player: _Player | None = None

    def begin(self) -> dict[str, Any]:
        """What it says first: what is played."""
        return self._channel.receive()[1]

    def listen(self, loop: asyncio.AbstractEventLoop, player: _Player) -> None:
        """Hear it from now on."""
        self._loop, self._player = loop, player
        threading.Thread(target=self._listen, name="trainer", daemon=True).start()

    def _listen(self) -> None:
        assert self._loop is not None
        assert self._player is not None
        with contextlib.suppress(EOFError, OSError, RuntimeError):
            while True:
                message = self._channel.receive()
                if message[0] == "accepted":
                    self._accepted.put(message[1])
                elif message[0] == "answer":
                    self._answers.put(message)
                else:
                    self._loop.call_soon_threadsafe(self._player.hear, message)
        self._answers.put(None)
        self._accepted.put(None)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._player.trainer_is_gone)
        time.sleep(_LAST_S)
        os._exit(1)

    def tell(self, kind: str, facts: Mapping[str, Any], arrays: Arrays = _NOTHING) -> None:
        """Say something. Raises Gone."""
        try:
            with self._lock:
                self._channel.send(kind, facts, arrays)
        except OSError as error:
            raise Gone from error

    def ask(self, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Say something and wait for the answer. Raises Gone."""
        self.tell(kind, facts)
        answer = self._answers.get()
        if answer is None:
            raise Gone
        return answer[1]

    def push(self, facts: Mapping[str, Any], arrays: Arrays) -> None:
        """Hand over transitions, once those before are accepted: here an actor waits that is ahead. Raises Gone."""
        self.wait()
        self.tell("push", facts, arrays)
        self._unaccepted += 1

    def wait(self) -> None:
        """Wait until everything that was pushed is accepted, and take over what is said with it. Raises Gone."""
        assert self._player is not None
        while self._unaccepted:
            news = self._accepted.get()
            if news is None:
                raise Gone
            self._unaccepted -= 1
            if news:
                self._player.take(news)


class _Hub(MetricsHub):
    """Keeps every number until it goes to the trainer's hub; events go there at once."""

    def __init__(self, trainer: _Trainer) -> None:
        super().__init__()
        self._trainer = trainer
        self._records: list[tuple[str, str, int, str | None, list[float]]] = []
        self._episodes: list[tuple[str, list[float], list[float], list[float]]] = []

    def add(
        self,
        behavior: str,
        key: str,
        value: float | ArrayLike,
        aggregation: Aggregation = Aggregation.AVERAGE,
        *,
        pair: int | str | None = None,
    ) -> None:
        """Keep it."""
        values = np.asarray(value, np.float64).reshape(-1).tolist()
        self._records.append((behavior, key, int(aggregation), None if pair is None else str(pair), values))

    def episode(
        self,
        behavior: str,
        pair: int | str | None,
        returns: ArrayLike,
        lengths: ArrayLike,
        groups: ArrayLike = (),
    ) -> None:
        """Keep it."""
        if np.size(returns):
            own, decisions, shared = (np.asarray(values).tolist() for values in (returns, lengths, groups))
            self._episodes.append((behavior, own, decisions, shared))

    def event(self, kind: str, **fields: Any) -> Event:
        """Hand it on; the pair's states are the trainer's to tell."""
        if kind != "pair":
            self._trainer.tell("event", {"kind": kind, "fields": fields})
        return Event(kind, self.elapsed, fields)

    def take(self) -> dict[str, Any]:
        """What has gathered."""
        taken = {"records": self._records, "episodes": self._episodes}
        self._records, self._episodes = [], []
        return taken


class Collector:
    """The collecting side of a behavior. Fulfils :class:`~tau_trainer.training.agents.Collecting`."""

    def __init__(self, trainer: _Trainer, hub: _Hub, begin: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """``begin``: what the trainer said of this actor; ``facts``: of this behavior."""
        numbers: Mapping[str, Any] = begin["numbers"]
        self.name: str = facts["name"]
        self.spec = behavior_json.from_json(facts["behavior"])
        settings = RunSettings.model_validate(begin["settings"]).of_behavior(self.spec.short_name)
        self.settings: TrainerSettings = exploring(settings, begin["exploration"])
        self.left: int | None = None if begin["evaluates"] else facts["left"]
        """Decisions that may be made until it is told more; None: nothing is remembered any more."""
        self.algorithm = make_algorithm(Setup(self.spec, self.settings, facts["seed"], facts["reward_width"]))
        self._weights = WeightChannel(SharedBytes(begin["boards"][facts["board"]]), facts["layout"])
        self._trainer = trainer
        self._hub = hub
        self._push_at: int = numbers["n_buffer"]
        self._patience: int = numbers["patience"]
        self._waits: bool = numbers["waits"]
        self.decisions = 0
        """Made by this process."""
        self._rows = self._decisions = self._moments = 0
        self._seen = self._weights.written
        newest = self._weights.read()
        self._opts = self._pushed_at = newest.opts
        self._words: tuple[int, int] = facts["seed"], begin["index"]
        policy = self.algorithm.policy(newest.arrays, newest.version)
        deterministic = begin["evaluates"] or self.settings.network_settings.deterministic
        self.actor = Actor(policy, self._rng(begin["generation"], begin["launches"]), deterministic=deterministic)

    def _rng(self, generation: int, launches: int = 0) -> np.random.Generator:
        seed, index = self._words
        return np.random.default_rng([seed, 1, index, generation, launches])

    @property
    def done(self) -> bool:
        """Whether nothing more is remembered."""
        return self.left is None

    def begin_anew(self, generation: int) -> None:
        """Be as in a process that has just begun: the environment is about to begin anew."""
        self.memory.clear()
        self._decisions = 0
        self.actor.rng = self._rng(generation)
        self.sync()

    @property
    def memory(self) -> Memory:
        """Where experience waits."""
        return self.algorithm.memory

    def new_rows(self, count: int) -> Rows:
        """Rows in the memory for ``count`` agents more."""
        rows = np.arange(self._rows, self._rows + count)
        self._rows += count
        return rows

    def count(self, decisions: int) -> None:
        """Count decisions."""
        self._decisions += decisions
        self.decisions += decisions

    def ended(self, returns: FloatArray) -> None:
        """The trainer counts them, of all actors together."""

    def next_moment(self) -> int:
        """A number for decisions that were made together."""
        self._moments += 1
        return self._moments

    async def wait_for_learner(self) -> None:
        """Take over newer weights; push transitions where there are enough, or they get old."""
        if self.left is None:
            return
        if self._weights.written > self._seen:
            self.sync()
        old = self._weights.opts - self._pushed_at >= self._patience
        self.push(_EVERYTHING if old or self._decisions >= self.left else self._push_at)

    def sync(self) -> None:
        """Act with the newest weights from now on."""
        self._seen = self._weights.written
        newest = self._weights.read()
        self.actor.policy, self._opts = self.algorithm.policy(newest.arrays, newest.version), newest.opts

    def push(self, least: int) -> None:
        """Hand over all transitions if there are so many; waits while the channel is full. Raises Gone.

        Decisions beyond those that may be made are counted the next time, if there is one.
        """
        if self.left is None:
            return
        work = self.algorithm.ready(Counters(0, self.actor.policy.version, least))
        if work is None and self._decisions >= self.left:
            work = Work({})
        if work is None:
            if least == _EVERYTHING:
                self._trainer.tell("current", {"name": self.name, "version": self.actor.policy.version})
                self._pushed_at = self._opts
            return
        numbers = {name: value for name, value in work.data.items() if isinstance(value, int)}
        arrays = {name: value for name, value in work.data.items() if isinstance(value, np.ndarray)}
        counted = min(self._decisions, self.left)
        self._decisions -= counted
        facts = {"name": self.name, "numbers": numbers, "decisions": counted, **self._hub.take()}
        self._trainer.push(facts, arrays)
        work.release()
        if self._waits:
            self._trainer.wait()
            self.sync()
        self._pushed_at = self._opts


def exploring(settings: TrainerSettings, exploration: Mapping[str, Any] | None) -> TrainerSettings:
    """Settings with an exploration of this actor's own. Raises SettingsError where the algorithm has none."""
    if exploration is None:
        return settings
    numbers = settings.hyperparameters
    if "exploration" not in type(numbers).model_fields:
        raise SettingsError(
            f"{settings.trainer_type} explores by its own noise, so async_trainer.exploration, eps_min and eps_max "
            "do not go with it; remove them"
        )
    changed = type(numbers).model_validate(numbers.model_dump(mode="json") | {"exploration": dict(exploration)})
    return settings.model_copy(update={"hyperparameters": changed})


class _Player:
    """Plays one environment, for experience or to evaluate."""

    def __init__(self, trainer: _Trainer, begin: Mapping[str, Any], status: SharedBytes) -> None:
        self._trainer = trainer
        self._begin = begin
        self._index: int = begin["index"]
        self._hub = _Hub(trainer)
        self._batcher = DecisionBatcher()
        self._collectors: dict[str, Collector] = {}
        numbers = np.frombuffer(status.view(8 * STATUS * begin["seats"]), np.int64)
        self._status = numbers[STATUS * self._index : STATUS * (self._index + 1)]
        settings = RunSettings.model_validate(begin["settings"])
        source = open_source(settings, begin["seats"], Path(begin["logs"]), only=self._index)
        self._task_of_run = task = task_of(settings)
        self._lessons = Lessons({})
        self._parameters = _parameters(begin["parameters"])
        self._orders: asyncio.Queue[ChannelMessage] = asyncio.Queue()
        self._generation: int | None = None
        """That with which the environment is to begin anew; None: it is not."""
        self._left: Mapping[str, int | None] = {}
        """What each collector may do then."""
        keys = task.keys if task is not None else None
        self.pair = AgentTrainerPair(
            source.make(self._index, self._stat, self._warn),
            AgentTrainer(self._index, self._agent, self._rewarder, self._hub, keys),
            done=lambda pair: False,
            parameters=lambda index: self._parameters,
            lessons=self._lessons,
        )
        self._task: asyncio.Task[None] | None = None

    async def play(self) -> None:
        """Play to the end."""
        self._task = asyncio.current_task()
        self._trainer.listen(asyncio.get_running_loop(), self)
        began = time.monotonic()
        beating = asyncio.create_task(self._beat())
        try:
            if self._begin["evaluates"]:
                await self._evaluate()
            else:
                await self._collect()
            for collector in self._collectors.values():
                collector.push(_EVERYTHING)
            self._trainer.wait()
            await self.pair.stop()
            seconds = time.monotonic() - began
            self._trainer.tell("bye", {"seconds": seconds, "goodbye": self.pair.goodbye, **self._hub.take()})
        except (Gone, asyncio.CancelledError):
            self._task = None  # whichever of the two came first: the other must not break off the end
            await self.pair.environment.kill()
        except Exception as error:  # whatever it is, the trainer must learn of it
            if not isinstance(error, TauError):
                traceback.print_exc()
            await self.pair.environment.kill()
            with contextlib.suppress(Gone):
                kind = type(error).__name__ if isinstance(error, TauError) else "ActorError"
                self._trainer.tell("error", {"type": kind, "text": sentence_of(error)})
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        """Show that this process lives. A step in a thread can only be ended with the process that it is in."""
        environment, limit_s = self.pair.environment, self._begin["timeout_s"]
        while True:
            self._show()
            self._status[2] += 1
            if isinstance(environment, ThreadedEnvironment) and environment.busy_s > limit_s:
                text = f"actor {self._index} was ended: it waited {limit_s:g} s for {environment.waits_for}"
                with contextlib.suppress(Gone):
                    self._trainer.tell("error", {"type": "ActorError", "text": f"{text}; {TOO_SLOW}"})
                os._exit(1)
            await asyncio.sleep(_BEAT_S)

    async def _collect(self) -> None:
        await self.pair.initialize()
        self._trainer.tell("started", {})
        while not self.pair.finished:
            if self._generation is None:
                await self.pair.advance()
            else:
                await self._begin_anew(self._generation)
            self._show()

    async def _begin_anew(self, generation: int) -> None:
        for name, collector in self._collectors.items():
            collector.left = self._left.get(name, collector.left)
            collector.begin_anew(generation)
        self._generation = None
        await self.pair.begin_anew()

    async def _evaluate(self) -> None:
        """Play so many whole episodes with each policy that comes."""
        play = Play(self.pair.environment, lambda spec: self._collector(spec).actor)
        await play.begin(self._parameters)
        self._trainer.tell("started", {})
        while not (play.left or self.pair.finishing):
            kind, facts, arrays = await self._orders.get()
            if kind == "stop":
                return
            for collector in self._collectors.values():
                collector.begin_anew(facts["version"])
            returns: list[float] = []
            chosen = self._collectors.get(facts["name"])
            if chosen is not None:  # else its behavior has not shown itself here
                chosen.actor.policy = chosen.algorithm.policy(arrays, facts["version"])
                await play.begin_anew(_parameters(facts["parameters"]))
                returns = await self._returns(play, chosen.spec.short_name, facts["episodes"])
            self._hub.take()  # what the game reported meanwhile is no experience
            self._trainer.tell("evaluated", {"returns": returns})

    async def _returns(self, play: Play, behavior: str, count: int) -> list[float]:
        """Of so many episodes, the first that end; fewer where it is to end before."""
        episodes = play.episodes[behavior]
        await play.until(lambda play: self.pair.finishing or len(episodes) >= count)
        return episodes.returns[:count]

    def _show(self) -> None:
        self._status[:2] = self.pair.environment.exchanges, self.pair.trainer.decisions

    def hear(self, message: ChannelMessage) -> None:
        """The trainer said something; belongs to the event loop."""
        kind, facts, _ = message
        if kind == "stop":
            self.pair.finishing = True
        if kind == "parameters":
            self._change(facts)
        else:
            self._orders.put_nowait(message)

    def take(self, news: Mapping[str, Any]) -> None:
        """In lock step, what the trainer says at the end of a round."""
        self._left, self._generation = news["left"], news["generation"]
        # Where the environment begins anew, what is done until then belongs to nothing.
        over = news["stop"] or self._generation is not None
        for name, collector in self._collectors.items():
            collector.left = None if over else self._left[name]
        self.pair.finishing |= news["stop"]
        if news["parameters"] is not None:
            self._change(news["parameters"])

    def _change(self, facts: Mapping[str, Any]) -> None:
        self._parameters = _parameters(facts["parameters"])
        self._lessons.version, self._lessons.reset_version = facts["version"], facts["reset_version"]

    def trainer_is_gone(self) -> None:
        """Nobody is left to play for; belongs to the event loop."""
        if self._task is not None:
            self._task.cancel()

    def _agent(self, spec: BehaviorSpec) -> TauAgent:
        return TauAgent(self._collector(spec), spec, self._batcher)

    def _collector(self, spec: BehaviorSpec) -> Collector:
        """A behavior shows itself: nobody acts before the trainer's weights are there. Raises Gone."""
        task = self._task_of_run
        visible = task.visible(spec) if task is not None else spec
        facts = self._trainer.ask("behavior", {"behavior": behavior_json.to_json(spec)})
        collector = self._collectors.get(facts["name"])
        if collector is None:
            facts = {**facts, "behavior": behavior_json.to_json(visible)}
            collector = self._collectors[facts["name"]] = Collector(self._trainer, self._hub, self._begin, facts)
        return collector

    def _rewarder(self, spec: BehaviorSpec) -> Rewarder:
        task = self._task_of_run
        return task.rewarder(spec) if task is not None else EngineReward()

    def _stat(self, stat: Stat) -> None:
        """A value that the game reported; MostRecent counts from engine 0 only, as in ML-Agents."""
        if stat.aggregation is not Aggregation.MOST_RECENT or self._index == 0:
            for collector in self._collectors.values():
                self._hub.add(collector.name, stat.key, stat.value, stat.aggregation)

    def _warn(self, message: str) -> None:
        self._hub.warning(message, pair=self._index)


def _parameters(told: Mapping[str, Any]) -> dict[str, float | Sampler]:
    """As :func:`plain_parameters` wrote them."""
    return {
        name: value if isinstance(value, float) else Sampler(SamplerKind(value[0]), value[1], tuple(value[2]))
        for name, value in told.items()
    }


def plain_parameters(parameters: Mapping[str, float | Sampler]) -> dict[str, Any]:
    """What environments are told, as JSON can hold it."""
    return {
        name: [int(value.kind), value.seed, list(value.values)] if isinstance(value, Sampler) else float(value)
        for name, value in parameters.items()
    }


def main() -> None:
    """Play for the trainer at the other end of standard input and output until it is gone."""
    source, sink = streams()
    torch.set_num_threads(1)
    trainer = _Trainer(Channel(source, sink))
    try:
        begin = trainer.begin()
        player = _Player(trainer, begin, SharedBytes(sys.argv[1]))
    except EOFError:
        return
    except Exception as error:
        if not isinstance(error, TauError):
            traceback.print_exc()
        kind = type(error).__name__ if isinstance(error, TauError) else "ActorError"
        trainer.tell("error", {"type": kind, "text": sentence_of(error)})
        return
    with contextlib.suppress(Gone):
        asyncio.run(player.play())
    sys.stderr.flush()
    os._exit(0)  # a step of somebody else's environment may never end


if __name__ == "__main__":
    main()
