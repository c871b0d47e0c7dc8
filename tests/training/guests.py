"""Games that somebody else starts, which do as a test says: they show behaviors, play, stand still, leave, or die."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tau_trainer.bridge.codec import EngineInitialization
from tau_trainer.bridge.engine_codec import TrainerMessage, decode_trainer_message, encode_engine_message
from tau_trainer.bridge.protocol import STATUS_OK, Command
from tau_trainer.headless.link import TrainerClient, TrainerGoneError
from tau_trainer.specs import BehaviorSpec
from tests.training.fakes import step

CONNECT_S = 40.0
BASIC = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 1}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 1000
    summary_freq: 200
env_settings: {seed: 3, timeout_wait: 100}
"""
"""Settings of a small run that games join."""
Order = BehaviorSpec | int | Literal["play", "leave", "die"]
"""Show another behavior, take so many steps, play on for ever, say goodbye, or break off."""


class Guest(threading.Thread):
    """One game with one agent a behavior. It stands still between two orders.

    Attributes:
        rests: set while it waits for an order.
        ended: how: ``sent away`` (heard a goodbye), ``left``, ``died``, ``gone`` (the connection broke).
    """

    def __init__(self, port: int, *shown: BehaviorSpec) -> None:
        super().__init__(daemon=True)
        self.rests, self.ended = threading.Event(), ""
        self._orders = queue.SimpleQueue[Order]()
        self._link, self._shown, self._fresh = TrainerClient(port), list(shown), list(shown)

    def told(self, *orders: Order) -> Guest:
        """The same game, with something to do."""
        self.rests.clear()
        for order in orders:
            self._orders.put(order)
        return self

    def run(self) -> None:
        try:
            self._say(encode_engine_message(initialization=EngineInitialization()), first=True)
            if self._over(self._say(encode_engine_message())) or self._over(self._step()):  # reset
                return
            while True:
                if self._orders.empty():
                    self.rests.set()
                if self._over(self._follow(self._orders.get())):
                    return
        except TrainerGoneError:
            self.ended = self.ended or "gone"
        finally:
            self._link.close()
            self.rests.set()

    def _follow(self, order: Order) -> TrainerMessage | None:
        reply: TrainerMessage | None = None
        if order == "leave":
            self._link.goodbye()
            self.ended = "left"
            return None
        if order == "die":
            self.ended = "died"
            return None
        if isinstance(order, BehaviorSpec):
            self._shown.append(order)
            self._fresh.append(order)
            return self._step()
        left = order if isinstance(order, int) else -1
        while left and not self._over(reply := self._step()):
            left -= 1
        return reply

    def _step(self) -> TrainerMessage:
        fresh, self._fresh = self._fresh, []
        specs = {spec.name: spec for spec in self._shown}
        steps = [step(spec, [number]) for number, spec in enumerate(self._shown)]
        return self._say(encode_engine_message(specs=fresh, steps=steps, observation_specs=specs))

    def _say(self, message: bytes, *, first: bool = False) -> TrainerMessage:
        answer = self._link.connect(message, CONNECT_S) if first else self._link.exchange(message)
        return decode_trainer_message(answer, {spec.name: spec for spec in self._shown})

    def _over(self, reply: TrainerMessage | None) -> bool:
        if reply is not None and (reply.status != STATUS_OK or reply.command is Command.QUIT):
            self.ended = "sent away"
        return bool(self.ended)


def hello_and_exit(port: int) -> None:
    """A game that introduces itself, hears the answer, and is gone."""
    link = TrainerClient(port)
    try:
        link.connect(encode_engine_message(initialization=EngineInitialization()), CONNECT_S)
    finally:
        link.close()


Join = Callable[..., Guest]


@contextmanager
def guests() -> Iterator[Join]:
    """Starts games, ``join(port, *behaviors)``; those that still run end with the test."""
    there: list[Guest] = []

    def join(port: int, *shown: BehaviorSpec) -> Guest:
        there.append(Guest(port, *shown))
        return there[-1]

    try:
        yield join
    finally:
        for guest in there:
            guest.told("die")
            if guest.ident is not None:
                guest._link.close()
                guest.join(CONNECT_S)
