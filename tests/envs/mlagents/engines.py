"""An engine that says what the test tells it, over a real connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np

from tau_trainer.bridge.codec import EngineInitialization, encode_close
from tau_trainer.bridge.engine_codec import TrainerMessage, decode_trainer_message, encode_engine_message
from tau_trainer.envs.mlagents.environment import UnityEnvironment
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec, StepBatch, Terminals, empty_terminals
from tests.bridge.conftest import client, free_port
from tests.waiting import HANG_S

GOODBYE = encode_close()
SPEC = BehaviorSpec("Walker?team=1", (ObservationSpec("s", (2,)),), ActionSpec(1, (3, 2)))


def batch(spec: BehaviorSpec, *agents: int, ended: Terminals | None = None, mask: Any = None) -> StepBatch:
    """Agents that ask; observations and rewards are their ids."""
    ids = np.array(agents, np.int32)
    floats = ids.astype(np.float32)
    return StepBatch(
        spec.name,
        ids,
        tuple(np.broadcast_to(floats[:, None], (len(ids), *one.shape)).copy() for one in spec.observations),
        floats,
        np.zeros(len(ids), np.int32),
        np.zeros(len(ids), np.float32),
        ended or empty_terminals(spec.observations),
        mask,
    )


def message(*steps: StepBatch, specs: Sequence[BehaviorSpec] = (), side_channel: bytes = b"") -> bytes:
    """A step as bytes; ``specs`` are described in it."""
    known = {spec.name: spec for spec in (SPEC, *specs)}
    return encode_engine_message(specs=specs, steps=steps, side_channel=side_channel, observation_specs=known)


class Talk:
    """Connects as the Unity editor does, says hello, then one message after the other, and keeps what it hears."""

    def __init__(self, *script: bytes) -> None:
        self.port = free_port()
        self.heard: list[TrainerMessage] = []
        self._script = (encode_engine_message(initialization=EngineInitialization()), encode_engine_message(), *script)
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        with client(self.port) as connection, contextlib.suppress(grpc.RpcError, grpc.FutureCancelledError):
            self._channel = connection.channel
            for one in self._script:
                reply = connection.begin(one).result()
                self.heard.append(decode_trainer_message(bytes(reply), {SPEC.name: SPEC}))

    def environment(self, **keywords: Any) -> UnityEnvironment:
        """The environment that it talks to."""
        return UnityEnvironment(**{"base_port": self.port, "timeout_wait": 10} | keywords)

    def hang_up(self) -> None:
        """Close the connection, whatever it waits for."""
        self._channel.close()
        self.finish()

    def finish(self) -> None:
        """It has said and heard everything."""
        self._thread.join(HANG_S)
        assert not self._thread.is_alive()
