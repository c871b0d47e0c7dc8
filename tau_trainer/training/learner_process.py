"""A process in which algorithms learn, so that an update never holds the lock that acting needs.

A :mod:`.child` of the trainer; rollouts travel through shared memory.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms import Algorithm, OnBatch, Publish, Setup, State, make_algorithm
from tau_trainer.bridge.image_order import ImageOrder
from tau_trainer.columns import Arrays
from tau_trainer.errors import LearnerError
from tau_trainer.memory import Work
from tau_trainer.models import Policy
from tau_trainer.remote.channel import Channel, ChannelMessage, SharedBytes, refused
from tau_trainer.remote.child import ChildProcess, streams
from tau_trainer.settings import trainer_type
from tau_trainer.training import behavior_json

HandOn = Callable[[Mapping[str, Any], Arrays], None]
"""Called with the facts and the weights of a policy, or with the facts of minibatches."""

_NOTHING: Arrays = {}


class LearnerProcess:
    """The trainer's end: a process for any number of algorithms, one request at a time."""

    def __init__(self, log: Path, *, threads: int = 1) -> None:
        """Start it. Raises LearnerError where that cannot be done.

        Args:
            log: where the process writes what it has to say.
            threads: that it uses inside one operation where these are large.
        """
        self._lock = threading.Lock()
        shared = SharedBytes()
        module, arguments = "tau_trainer.training.learner_process", [shared.place, str(threads)]
        try:
            self._process = ChildProcess(module, arguments, log, [shared])
        except OSError as error:
            raise LearnerError(f"the process that learns cannot be started: {error.strerror or error}") from error
        self._shared = shared
        self._channel = Channel(self._process.source, self._process.sink, shared)

    def ask(
        self,
        kind: str,
        facts: Mapping[str, Any],
        arrays: Arrays = _NOTHING,
        on_policy: HandOn | None = None,
        on_batch: HandOn | None = None,
    ) -> ChannelMessage:
        """Send a request and wait for its answer.

        Args:
            kind: of the request.
            facts: what JSON can hold.
            arrays: sent through shared memory.
            on_policy: called with the facts and arrays of every policy that comes before the answer.
            on_batch: the same of minibatches.

        Raises:
            LearnerError: the process is gone, or met a defect. TauError: what the algorithm raised.
        """
        with self._lock:
            try:
                self._channel.send(kind, facts, arrays, through_memory=True)
                told = {"policy": on_policy, "batch": on_batch}
                while True:
                    answer = self._channel.receive()
                    hand_on = told.get(answer[0])
                    if hand_on is None:
                        break
                    hand_on(*answer[1:])
            except (EOFError, OSError) as error:
                raise LearnerError(f"the process that learns ended {self._process.how()}") from error
        if answer[0] == "error":
            raise refused(*answer[:2])
        return answer

    def close(self) -> None:
        """End the process; an update that runs is not waited for."""
        if self._process.running:
            with contextlib.suppress(OSError):
                self._channel.send("close", {})
        self._process.end()
        self._shared.close()


class RemoteLearner:
    """Learns in a :class:`LearnerProcess`. Fulfils :class:`~tau_trainer.training.handles.LearnerHandle`."""

    def __init__(self, process: LearnerProcess, name: str, setup: Setup, algorithm: Algorithm) -> None:
        """``algorithm``: the instance that collects; it makes policies of the weights that come."""
        self._process = process
        self._name = name
        self._algorithm = algorithm
        # Both instances draw their first weights from the same seed: no need to ask for them.
        self._policy = algorithm.snapshot()
        settings = setup.settings
        self._setup = {
            "trainer_type": settings.trainer_type,
            "settings": settings.model_dump(mode="json"),
            "behavior": behavior_json.to_json(setup.spec),
            "seed": setup.seed,
            "reward_width": setup.reward_width,
            "device": setup.device,
            "environment": list(setup.environment),
            "images": asdict(setup.images),
            "max_steps": setup.max_steps,
        }
        self._made = False
        self._on_batch: OnBatch | None = None

    def watch(self, on_batch: OnBatch) -> None:
        """Have the process tell of all minibatches to come."""
        self._on_batch = on_batch

    def _ask(self, kind: str, facts: dict[str, Any], arrays: Arrays = _NOTHING, **more: Any) -> ChannelMessage:
        if not self._made:
            self._process.ask("make", {"learner": self._name, **self._setup})
            self._made = True
        return self._process.ask(kind, {"learner": self._name, **facts}, arrays, **more)

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Have it learn; policies are handed on as they come."""
        numbers = {name: value for name, value in work.data.items() if isinstance(value, int)}
        arrays = {name: value for name, value in work.data.items() if isinstance(value, np.ndarray)}
        asked = {"publish": publish is not None, "batches": self._on_batch is not None}
        facts = {"numbers": numbers, "progress": progress, **asked}

        def hand_on(told: Mapping[str, Any], weights: Arrays) -> None:
            assert publish is not None
            publish(self._made_policy(told, weights))

        def batch(told: Mapping[str, Any], _nothing: Arrays) -> None:
            assert self._on_batch is not None
            self._on_batch(told["minibatches"], told["statistics"])

        try:
            _, answer, weights = self._ask("update", facts, arrays, on_policy=hand_on, on_batch=batch)
        finally:
            work.release()
        self._policy = self._made_policy(answer, weights)
        return dict(answer["stats"])

    def policy(self) -> Policy:
        """The newest whole policy."""
        return self._policy

    def state(self) -> State:
        """What a checkpoint keeps."""
        _, facts, arrays = self._ask("state", {})
        return arrays, facts["facts"]

    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        _, answer, weights = self._ask("load", {"facts": facts}, arrays)
        self._policy = self._made_policy(answer, weights)

    def _made_policy(self, facts: Mapping[str, Any], weights: Arrays) -> Policy:
        return self._algorithm.policy(dict(weights), int(facts["version"]))


class _Host:
    """The process's end."""

    def __init__(self, channel: Channel, threads: int) -> None:
        self._channel = channel
        self._threads = threads
        self._algorithms: dict[str, Algorithm] = {}

    def answer(self, kind: str, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Do what is asked, and say what came of it."""
        try:
            if kind == "make":
                self._algorithms[facts["learner"]] = _made(facts)
                self._channel.send("made", {})
                return
            algorithm = self._algorithms[facts["learner"]]
            if kind == "update":
                # Small networks gain nothing from a second thread inside one operation.
                torch.set_num_threads(self._threads if algorithm.large else 1)
                publish = self._publish if facts["publish"] else None
                algorithm.on_batch = self._batch if facts.get("batches") else None
                stats = algorithm.update({**arrays, **facts["numbers"]}, facts["progress"], publish)
                self._channel.send("updated", {"stats": stats, "version": algorithm.version}, algorithm.weights())
            elif kind == "load":
                algorithm.load(arrays, facts["facts"])
                self._channel.send("loaded", {"version": algorithm.version}, algorithm.weights())
            else:
                state, known = algorithm.state()
                self._channel.send("state", {"facts": known}, state)
        except Exception as error:  # whatever it is, the trainer must learn of it
            traceback.print_exc()
            self._channel.send("error", {"type": type(error).__name__, "text": str(error)})

    def _publish(self, policy: Policy) -> None:
        self._channel.send("policy", {"version": policy.version}, policy.weights)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        self._channel.send("batch", {"minibatches": minibatches, "statistics": statistics})


def _made(facts: Mapping[str, Any]) -> Algorithm:
    settings = trainer_type(facts["trainer_type"]).settings.model_validate(facts["settings"])
    spec = behavior_json.from_json(facts["behavior"])
    numbers = facts["seed"], facts["reward_width"], facts["device"]
    images = ImageOrder(**{**facts["images"], "flat": tuple(facts["images"]["flat"])})
    given = {"images": images, "max_steps": facts["max_steps"]}
    return make_algorithm(Setup(spec, settings, *numbers, tuple(facts["environment"]), **given))


def main() -> None:
    """Serve the trainer at the other end of standard input and output until it is gone."""
    source, sink = streams()
    channel = Channel(source, sink, SharedBytes(sys.argv[1]))
    requests: queue.Queue[ChannelMessage] = queue.Queue()

    def listen() -> None:
        # In a thread of its own, so that the end of the trainer is noticed in the middle of an update too.
        with contextlib.suppress(EOFError, OSError):
            while (message := channel.receive())[0] != "close":
                requests.put(message)
        os._exit(0)

    threading.Thread(target=listen, name="requests", daemon=True).start()
    host = _Host(channel, int(sys.argv[2]))
    while True:
        host.answer(*requests.get())


if __name__ == "__main__":
    main()
