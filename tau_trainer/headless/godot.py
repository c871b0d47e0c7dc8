"""The headless engine as a Godot game: the plugin's messages and frames in place of ML-Agents' protocol.

As most Godot games, it begins the next episode before it observes, so the observation that comes with ``done`` is the
next episode's first, and it does not tell an end from a limit. Masks, groups and statistics are not sent.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from tau_trainer.bridge.engine_codec import TrainerMessage
from tau_trainer.bridge.godot.codec import INTRODUCTION
from tau_trainer.bridge.godot.server import framed
from tau_trainer.bridge.protocol import STATUS_CLOSE, STATUS_OK, Command
from tau_trainer.bridge.side_channels import Stat
from tau_trainer.errors import DecodeError, SettingsError
from tau_trainer.headless.client import HeadlessEngine
from tau_trainer.headless.link import TrainerClient
from tau_trainer.headless.scene import Scene
from tau_trainer.headless.scenes import create_scene
from tau_trainer.specs import Actions, ActionSpec, Behaviors, Json, ObservationSpec, StepBatch

_MOVE, _CHOICE = "move", "choice_{}"
"""Names of all continuous actions together, and of each branch."""


class _Connection:
    """One connection to a trainer; see :class:`~tau_trainer.headless.link.TrainerConnection`."""

    def __init__(self, port: int) -> None:
        """Connect and read the trainer's greeting. Raises OSError."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")
        for _ in ("handshake", INTRODUCTION):
            self._receive()
        self.usable = True

    def _receive(self) -> bytes:
        size = int.from_bytes(self._read(4), "little")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._reader.read(size)
        if data is None or len(data) < size:
            raise ConnectionError("connection closed")
        return data

    def call(self, message: bytes) -> bytes:
        self._socket.sendall(framed(message))
        return self._receive()

    def cancel(self) -> None:
        """Nothing: a Godot game leaves without a word."""

    def set_timeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def wait_until_gone(self) -> None:
        while self._reader.read(1):
            pass

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


class GodotLink(TrainerClient):
    """The trainer that listens on 127.0.0.1. Its greeting is read, and its next message answers :meth:`connect`."""

    @override
    def _dial(self) -> _Connection:
        return _Connection(self._port)

    @override
    def goodbye(self) -> None:
        self.close()


class GodotGame(HeadlessEngine):
    """Plays one scene for one trainer, as a Godot game."""

    _kind = "reset"
    """The type of the next message."""
    _policies: dict[str, list[int]]
    """Agents of each behavior, in order of their ids."""

    @override
    def _handshake(self) -> Scene | None:
        self._fault.before_connect()
        scene, twin = (create_scene(self._options, self._parameters, seed=self._options.trainer_seed) for _ in range(2))
        specs = {spec.name: spec for spec in scene.specs}
        # The introduction comes before the reset, and a second reset would be another episode.
        self._policies = {batch.behavior: batch.agent_ids.tolist() for batch in twin.reset(self._parameters)}
        reply = self._read(self._link.connect(self._introduction(specs), self._options.connect_seconds), specs)
        return None if self._ended(reply) else scene

    def _introduction(self, specs: Behaviors) -> bytes:
        agents = sorted((i, name) for name, ids in self._policies.items() for i in ids)
        box = "box" if self._fault.version("0") == "0" else "sphere"
        info = {
            "type": INTRODUCTION,
            "observation_space": [
                {_key(sensor): {"size": list(sensor.shape), "space": box} for sensor in specs[name].observations}
                for _, name in agents
            ],
            "action_space": [_action_space(specs[name].actions) for _, name in agents],
            "n_agents": len(agents),
            "agent_policy_names": [name for _, name in agents],
        }
        return json.dumps(info).encode()

    @override
    def _read(self, reply: bytes, specs: Behaviors | None = None) -> TrainerMessage:
        said = json.loads(reply)
        if said["type"] == "close":
            return TrainerMessage(STATUS_CLOSE)
        if said["type"] == "reset":
            self._kind = "reset"
            return TrainerMessage(STATUS_OK, has_input=True, command=Command.RESET)
        if said["type"] != "action":
            raise DecodeError(f"the trainer sent a message of the unknown type '{said['type']}'")
        self._kind, rows = "step", said["action"]
        assert specs is not None
        chosen = {name: _chosen([rows[i] for i in ids], specs[name].actions) for name, ids in self._policies.items()}
        return TrainerMessage(STATUS_OK, has_input=True, actions=chosen)

    @override
    def _encode(self, batches: Sequence[StepBatch], specs: Behaviors, stats: Sequence[Stat]) -> bytes:
        agents = sum(map(len, self._policies.values()))
        seen: list[dict[str, Any]] = [{} for _ in range(agents)]
        reward, done = np.zeros(agents), np.zeros(agents, np.bool_)
        for batch in batches:
            if batch.agent_ids.tolist() != self._policies[batch.behavior]:
                raise SettingsError(
                    f"the agents of scene `{self._options.scene}` come and go, which Godot's plugin cannot say; "
                    "play another scene."
                )
            for sensor, values in zip(specs[batch.behavior].observations, batch.obs, strict=True):
                for i, value in zip(batch.agent_ids.tolist(), values, strict=True):
                    seen[i][_key(sensor)] = _plain(value)
            for part in (batch, batch.terminals):
                np.add.at(reward, part.agent_ids, part.reward + part.group_reward)
            done[batch.terminals.agent_ids] = True
        message: dict[str, Any] = {"type": self._kind, "obs": seen, "info": [{}] * agents}
        if self._kind == "step":
            message |= {"reward": reward.tolist(), "done": done.tolist()}
        return json.dumps(message).encode()


def _key(sensor: ObservationSpec) -> str:
    """The sensor's name in the game; that of a picture has `2d` in it."""
    return f"{sensor.name}_2d" if sensor.dtype == np.uint8 else sensor.name


def _plain(values: np.ndarray[Any, Any]) -> object:
    """Numbers as lists; pictures [C, H, W] as the bytes of a Godot image, [H, W, C]."""
    return values.transpose(1, 2, 0).tobytes().hex() if values.dtype == np.uint8 else values.tolist()


def _action_space(actions: ActionSpec) -> dict[str, dict[str, Any]]:
    space: dict[str, dict[str, Any]] = {}
    if actions.continuous_size:
        space[_MOVE] = {"size": actions.continuous_size, "action_type": "continuous"}
    for branch, size in enumerate(actions.discrete_branches):
        space[_CHOICE.format(branch)] = {"size": size, "action_type": "discrete"}
    return space


def _chosen(rows: Sequence[Json], spec: ActionSpec) -> Actions:
    actions = Actions.zeros(spec, len(rows))
    if spec.continuous_size:
        actions.continuous[:] = [row[_MOVE] for row in rows]
    for branch in range(spec.discrete_size):
        actions.discrete[:, branch] = [row[_CHOICE.format(branch)] for row in rows]
    return actions
