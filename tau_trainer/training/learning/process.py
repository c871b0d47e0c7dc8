"""A process in which algorithms learn, so that an update never holds the lock that acting needs.

It borrows rollouts: on this machine they are in memory that both processes share.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch

from tau_trainer.algorithms import Algorithm, OnBatch, Publish, Setup, State, make_algorithm
from tau_trainer.algorithms.ranks import Ranks, found_at
from tau_trainer.bridge.package import ImageOrder
from tau_trainer.columns import Arrays
from tau_trainer.errors import LearnerError, TauError
from tau_trainer.memory import Work
from tau_trainer.models import Policy
from tau_trainer.remote.here import Here
from tau_trainer.remote.process import NO_ARRAYS, GoneError, Message, Parent, Place, Take, Target
from tau_trainer.settings import trainer_type
from tau_trainer.specs import Json
from tau_trainer.training import behavior_json

Takes = Mapping[str, Take]
"""Receivers of messages that come before an answer, by kind: ``policy`` with its weights, ``batch`` of minibatches."""
NO_TAKES: Takes = {}
_SENT = ("seed", "reward_width", "device", "environment", "max_steps")
"""Fields of a :class:`Setup` that a process gets as they are."""


class LearnerProcess:
    """The trainer's end: a process for any number of algorithms, one request at a time."""

    abreast = 1

    def __init__(
        self,
        log: Path,
        *,
        threads: int = 1,
        place: Place | None = None,
        joins: Json | None = None,
    ) -> None:
        """Start it. Raises LearnerError if that fails.

        Args:
            log: file for the output of the process.
            threads: number of threads that it uses inside one large operation.
            place: where it runs; None: here.
            joins: its rank among several and their meeting place; None: it learns alone.
        """
        self._lock = threading.Lock()
        module, name = "tau_trainer.training.learning.process", "the process that learns"
        arguments: dict[str, Any] = {"threads": threads}
        if joins is not None:
            arguments |= {"joins": dict(joins), "address": joins.get("host")}
            name = f"rank {joins['rank']} of {joins['count']} that learn"
        target = Target(module, arguments, name, LearnerError, log, lends=True, several=joins is not None)
        self._process = (place or Here()).launch(target)

    def ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        """Send a request and wait for its answer.

        Args:
            request: its arrays are lent until the answer arrives.
            takes: receivers of messages that come before the answer, by kind.

        Raises:
            LearnerError: the process has ended, or met a defect.
            TauError: the error that the algorithm raised.
        """
        with self._lock:
            self.say(request)
            return self.answer(takes)

    def say(self, request: Message) -> None:
        """Send a request without waiting; :meth:`answer` waits."""
        self._process.say(*request)

    def answer(self, takes: Takes = NO_TAKES) -> Message:
        """Wait for the answer to the sent request; see :meth:`ask`."""
        while True:
            answer = self._process.hear()
            take = takes.get(answer.kind)
            if take is None:
                return answer
            take(answer)

    @property
    def death(self) -> str | None:
        """The name of the process and how it ended; None: it is alive."""
        return None if self._process.exit_code is None else f"{self._process.called} ended {self._process.how()}"

    def close(self) -> None:
        """End the process without waiting for a running update."""
        self._process.end()


class Learning(Protocol):
    """One or several processes in which algorithms learn, such as :class:`LearnerProcess`."""

    abreast: int
    """See :attr:`.handles.LearnerHandle.abreast`."""

    def ask(self, request: Message, takes: Takes = NO_TAKES) -> Message:
        """See :meth:`LearnerProcess.ask`."""

    def close(self) -> None:
        """See :meth:`LearnerProcess.close`."""


class RemoteLearner:
    """Learns in a :class:`LearnerProcess`. Implements :class:`~tau_trainer.training.learning.handles.LearnerHandle`."""

    def __init__(self, process: Learning, name: str, setup: Setup, algorithm: Algorithm) -> None:
        """``algorithm``: the instance that collects; it makes policies from the received weights."""
        self._process, self.abreast = process, process.abreast
        self._name = name
        self._algorithm = algorithm
        # Both instances draw their first weights from the same seed, so they need no transfer.
        self._policy = algorithm.snapshot()
        self._setup = {name: getattr(setup, name) for name in _SENT} | {
            "settings": setup.settings.model_dump(mode="json"),
            "behavior": behavior_json.to_json(setup.spec),
            "images": asdict(setup.images),
            "batches": setup.on_batch is not None,
        }
        self._made, self._asking = False, threading.Lock()
        self._on_batch = setup.on_batch

    def _ask(self, kind: str, data: Json, arrays: Arrays = NO_ARRAYS, takes: Takes = NO_TAKES) -> Message:
        with self._asking:
            if not self._made:
                self._process.ask(Message("make", {"learner": self._name, **self._setup}, {}))
                self._made = True
        return self._process.ask(Message(kind, {"learner": self._name, **data}, dict(arrays)), takes)

    def submit(self, work: Work, progress: float, publish: Publish | None) -> dict[str, float]:
        """Have it learn; policies are published as they arrive."""
        data, arrays = work.sent()
        data |= {"progress": progress, "publish": publish is not None}

        def hand_on(policy: Message) -> None:
            assert publish is not None
            publish(self._made_policy(policy.data, policy.arrays))

        def batch(minibatches: Message) -> None:
            assert self._on_batch is not None
            self._on_batch(minibatches.data["minibatches"], minibatches.data["statistics"])

        try:
            _, answer, weights = self._ask("update", data, arrays, {"policy": hand_on, "batch": batch})
        finally:
            work.release()
        made = self._made_policy(answer, weights)
        with self._asking:  # with several updates at a time, the last may arrive first
            self._policy = max(self._policy, made, key=lambda policy: policy.version)
        return dict(answer["stats"])

    def policy(self) -> Policy:
        """The newest whole policy."""
        return self._policy

    def state(self) -> State:
        """The state that a checkpoint keeps."""
        _, data, arrays = self._ask("state", {})
        return arrays, data["facts"]

    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        """Restore a checkpoint."""
        _, answer, weights = self._ask("load", {"facts": metadata, "fresh": fresh}, arrays)
        self._policy = self._made_policy(answer, weights)

    def _made_policy(self, data: Json, weights: Arrays) -> Policy:
        return self._algorithm.policy(dict(weights), int(data["version"]))


class _Host:
    """The end in the process that learns."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._threads: int = parent.arguments["threads"]
        self._algorithms: dict[str, Algorithm] = {}
        self._ranks = Ranks()
        if "port" in (joins := parent.arguments.get("joins", {})):
            store = found_at(joins["host"], joins["port"], joins["count"])
            device, address = torch.device(joins["device"]), parent.arguments["address"]
            self._ranks = Ranks.joined(joins["rank"], joins["count"], store, device, address)

    def answer(self, asked: Message) -> None:
        """Handle a request, and send the answer."""
        try:
            self._parent.say(*self._done(asked))
        except GoneError:
            raise
        except Exception as error:  # the trainer must get every error
            self._parent.fail(error)
            if not (self._ranks.alone or self._ranks.broken or isinstance(error, TauError)):
                self._parent.leave(1)  # otherwise the others would wait for its part of a sum

    def _done(self, asked: Message) -> tuple[str, dict[str, Any], Arrays]:
        kind, data, arrays = asked
        if kind == "make":
            self._algorithms[data["learner"]] = _made(data, self._ranks, self._batch if data["batches"] else None)
            return "made", {}, NO_ARRAYS
        algorithm = self._algorithms[data["learner"]]
        if kind == "update":
            # Small networks gain nothing from a second thread inside one operation.
            torch.set_num_threads(self._threads if algorithm.large else 1)
            publish = self._publish if data["publish"] else None
            stats = algorithm.update(Work.received(data, arrays), data["progress"], publish)
            return "updated", {"stats": stats, "version": algorithm.version}, algorithm.weights()
        if kind == "load":
            algorithm.load(arrays, data["facts"], fresh=data["fresh"])
            return "loaded", {"version": algorithm.version}, algorithm.weights()
        state, known = algorithm.state()
        return "state", {"facts": known}, state

    def _publish(self, policy: Policy) -> None:
        self._parent.say("policy", {"version": policy.version}, policy.weights)

    def _batch(self, minibatches: int, statistics: Mapping[str, float] | None) -> None:
        self._parent.say("batch", {"minibatches": minibatches, "statistics": statistics})


def _made(data: Json, ranks: Ranks | None = None, on_batch: OnBatch | None = None) -> Algorithm:
    settings = trainer_type(data["settings"]["trainer_type"]).settings.model_validate(data["settings"])
    spec = behavior_json.from_json(data["behavior"])
    images = ImageOrder(**{**data["images"], "flat": tuple(data["images"]["flat"])})
    sent = {name: data[name] for name in _SENT} | {"environment": tuple(data["environment"])}
    return make_algorithm(Setup(spec, settings, **sent, images=images, ranks=ranks or Ranks(), on_batch=on_batch))


def work(parent: Parent) -> None:
    """Serve the trainer until it disconnects."""
    requests = queue.SimpleQueue[Message]()
    parent.listen(requests.put)  # notices a lost trainer even during an update
    host = _Host(parent)
    while True:
        host.answer(requests.get())
