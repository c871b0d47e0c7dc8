"""The trainer's end of the Godot RL Agents protocol: JSON messages to and from arrays.

Agents have no names: the order in the introduction is the order in every message, so an agent's id is its position.
Every agent acts in every step.

**Ends.** A game that says ``done`` starts the next episode by itself, in most games before it sends the message with
``done``. So the observation in this message is the next episode's first, and the old episode's last one is that of the
message before, unless ``info`` has ``terminal_observation``. ``done`` is a real end, unless ``info`` says ``truncated``
or ``TimeLimit.truncated``, or the episode is as long as the user's limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from tau_trainer.bridge.agent_records import check_finite
from tau_trainer.bridge.codec import EngineInitialization, EngineMessage
from tau_trainer.bridge.godot.spaces import GodotSensor, read_actions, read_agents, read_sensors
from tau_trainer.bridge.protocol import STATUS_OK, Command
from tau_trainer.errors import DecodeError
from tau_trainer.specs import (
    Actions,
    BehaviorSpec,
    BoolArray,
    FloatArray,
    IndexArray,
    Json,
    Observations,
    StepBatch,
    empty_terminals,
)

INTRODUCTION: Final = "env_info"
"""The type of a game's first message."""
_ANSWERS: Final = {Command.RESET: "reset", Command.STEP: "step"}
_NO_NUMBER: Final = re.compile("-*(nan|inf)")
_LIMIT_KEYS: Final = ("truncated", "TimeLimit.truncated")
"""Keys of ``info`` that say whether a limit ended the episode: Gymnasium's word, and Stable-Baselines3's."""
_LAST_KEY: Final = "terminal_observation"
"""Key of ``info`` with the episode's last observation: Stable-Baselines3's."""
_UNTOLD: Final = (
    "this game's `done` does not tell an end from a time limit, so each one counts as an end; if its episodes have a "
    "limit, set collection.truncate_after to it, in decisions"
)


@dataclass(slots=True)
class GodotMessage(EngineMessage):
    """A message from a game."""

    said: dict[str, Any] = field(default_factory=dict)
    """Its content."""


def parse_message(data: bytes) -> GodotMessage:
    """Read a message. Raises DecodeError."""
    try:
        said = json.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also: not UTF-8, a number of thousands of digits, too deep
        if isinstance(error, json.JSONDecodeError) and _NO_NUMBER.match(error.doc, error.pos):
            raise DecodeError("the game sent a number that is NaN or infinite; look for a division by zero") from None
        raise DecodeError(f"received {len(data):,} bytes that are not JSON") from error
    if not isinstance(said, dict):
        raise DecodeError(f"received {len(data):,} bytes of JSON that are not an object")
    introduced = EngineInitialization("Godot") if said.get("type") == INTRODUCTION else None
    return GodotMessage(STATUS_OK, introduced, said=said)


@dataclass(slots=True)
class _Group:
    """The agents of one behavior."""

    spec: BehaviorSpec
    ids: IndexArray
    """intp [n]: their positions."""
    sensors: tuple[GodotSensor, ...]
    obs: Observations
    """Their last observations; zeros before the first message."""


class GodotCodec:
    """See :class:`~tau_trainer.bridge.dialect.Codec`."""

    def __init__(self, introduction: Json, truncate_after: int | None, notes: list[str], *, flat: bool = False) -> None:
        """``flat``: the values of pictures come in the order of their shape; else as Godot's images, [H, W, C].

        ``notes``: gets notes for the user. Raises DecodeError.
        """
        self._agents = read_agents(introduction)
        self._limit, self._notes = truncate_after, notes
        self._expected = ""
        self._age = np.zeros(len(self._agents), np.int64)
        """int64 [agents]: number of decisions in the running episode."""
        self._groups: dict[str, _Group] = {}
        for name in dict.fromkeys(agent.policy for agent in self._agents):
            ids = [i for i, agent in enumerate(self._agents) if agent.policy == name]
            first, *others = (self._agents[i] for i in ids)
            if any(other != first for other in others):
                raise DecodeError(
                    f"agents of the policy '{name}' have different observations or actions; give those that differ "
                    "another policy_name"
                )
            sensors = read_sensors(first.observations, name, flat=flat)
            spec = BehaviorSpec(name, tuple(sensor.spec for sensor in sensors), read_actions(first.actions, name))
            nothing = empty_terminals(spec.observations, len(ids)).obs
            self._groups[name] = _Group(spec, np.array(ids, np.intp), sensors, nothing)
        self.specs = {name: group.spec for name, group in self._groups.items()}
        self.unsettled: dict[str, tuple[str, ...]] = {}

    def parse(self, data: bytes) -> GodotMessage:
        """See :func:`parse_message`."""
        return parse_message(data)

    def steps(self, message: EngineMessage) -> list[StepBatch]:
        """See :class:`~tau_trainer.bridge.dialect.Codec`."""
        assert isinstance(message, GodotMessage)
        said = message.said
        if said.get("type") != self._expected:
            raise DecodeError(f"the game sent a message of type '{said.get('type')}' instead of '{self._expected}'")
        seen, infos = self._column(said, "obs"), self._infos(said)
        agents = len(self._agents)
        reward = np.zeros(agents, np.float32)
        done = np.zeros(agents, np.bool_)
        cut = np.zeros(agents, np.bool_)
        if self._expected == "step":
            reward = self._floats(said, "reward")
            done = self._floats(said, "done") != 0
            self._age += 1
            cut = self._cut(done, infos)
        elif self._limit is None and not any(key in info for info in infos for key in _LIMIT_KEYS):
            self._notes.append(_UNTOLD)
        batches = [self._batch(group, seen, infos, reward, done, cut) for group in self._groups.values()]
        self._age[done | (self._expected == "reset")] = 0
        return batches

    def _cut(self, done: BoolArray, infos: Sequence[Json]) -> BoolArray:
        """Bool [agents]: whose episode was ended by a limit."""
        long = done & (self._age >= self._limit) if self._limit is not None else np.zeros_like(done)
        for i in np.flatnonzero(done).tolist():
            long[i] |= any(infos[i].get(key) is True for key in _LIMIT_KEYS)
        return long

    def _batch(
        self,
        group: _Group,
        seen: Sequence[Any],
        infos: Sequence[Json],
        reward: FloatArray,
        done: BoolArray,
        cut: BoolArray,
    ) -> StepBatch:
        spec, ids, over = group.spec, group.ids, done[group.ids]
        before, group.obs = group.obs, _observed(group.sensors, [seen[i] for i in ids])
        none, unpaid = np.zeros(len(ids), np.int32), np.zeros(len(ids), np.float32)
        nobody = empty_terminals(spec.observations)
        last = StepBatch(spec.name, ids.astype(np.int32), before, reward[ids], none, unpaid, nobody)
        check_finite(spec, last.agent_ids, group.obs, last.reward, unpaid)
        terminals = last.ended(over, cut[ids])
        _correct(terminals.obs, group.sensors, [infos[i] for i in ids[over]])
        return replace(last, obs=group.obs, reward=np.where(over, np.float32(0), last.reward), terminals=terminals)

    def _column(self, said: Json, key: str) -> list[Any]:
        """The list with one item for each agent."""
        values = said.get(key)
        if not isinstance(values, list) or len(values) != len(self._agents):
            raise DecodeError(f"'{key}' of the game's message is not a list with one item for each of its agents")
        return values

    def _floats(self, said: Json, key: str) -> FloatArray:
        try:
            with np.errstate(over="ignore"):  # infinity, which is refused later
                values = np.array(self._column(said, key), np.float32)
        except (TypeError, ValueError, OverflowError):
            values = np.zeros(0, np.float32)
        if values.shape != (len(self._agents),):
            raise DecodeError(f"'{key}' of the game's message holds something else than one value for each agent")
        return values

    def _infos(self, said: Json) -> Sequence[Json]:
        infos = self._column(said, "info") if said.get("info") is not None else [{}] * len(self._agents)
        if not all(isinstance(info, dict) for info in infos):
            raise DecodeError("'info' of the game's message holds something else than a dictionary for each agent")
        return infos

    def reply(self, command: Command, actions: Mapping[str, Actions], side_channel: bytes = b"") -> bytes:
        """See :class:`~tau_trainer.bridge.dialect.Codec`; nothing can be sent beside the actions."""
        self._expected = _ANSWERS.get(command, "")
        if command is not Command.STEP:
            return json.dumps({"type": "reset" if command is Command.RESET else "close"}).encode()
        rows: list[dict[str, Any]] = [{} for _ in self._agents]
        for name, group in self._groups.items():
            chosen = actions.get(name) or Actions.zeros(group.spec.actions, len(group.ids))
            start = branch = 0
            for action in group.spec.actions.named:
                if action.discrete:
                    values = chosen.discrete[:, branch].tolist()
                    branch += 1
                else:
                    values = chosen.continuous[:, start : start + action.size].tolist()
                    start += action.size
                for i, value in zip(group.ids, values, strict=True):
                    rows[i][action.name] = value
        return json.dumps({"type": "action", "action": rows}, separators=(",", ":")).encode()


def _observed(sensors: tuple[GodotSensor, ...], seen: Sequence[Any]) -> Observations:
    """One array [n, *shape] for each sensor. Raises DecodeError."""
    for agent in seen:
        missing = [s.key for s in sensors if not isinstance(agent, dict) or s.key not in agent]
        if missing:
            raise DecodeError(f"an agent's observation has no '{missing[0]}', which the game announced")
    return tuple(sensor.read([agent[sensor.key] for agent in seen]) for sensor in sensors)


def _correct(last: Observations, sensors: tuple[GodotSensor, ...], infos: Sequence[Json]) -> None:
    """Put the last observations that the game tells in place of those of the message before."""
    for i, info in enumerate(infos):
        if _LAST_KEY in info:
            for sensor, seen in zip(last, _observed(sensors, [info[_LAST_KEY]]), strict=True):
                sensor[i] = seen[0]
