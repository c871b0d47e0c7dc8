"""Runs inside the environment of mlagents-envs: what its classes are and do where no engine is needed.

With every `mlagents_envs` replaced by `tau_trainer.envs.mlagents` it says the same of our own.
"""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import numpy as np
from mlagents_envs import exception
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionStep,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalStep,
    TerminalSteps,
)
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel import DefaultTrainingAnalyticsSideChannel, SideChannel
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfig, EngineConfigurationChannel
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.float_properties_channel import FloatPropertiesChannel
from mlagents_envs.side_channel.incoming_message import IncomingMessage
from mlagents_envs.side_channel.outgoing_message import OutgoingMessage
from mlagents_envs.side_channel.raw_bytes_channel import RawBytesChannel
from mlagents_envs.side_channel.side_channel_manager import SideChannelManager
from mlagents_envs.side_channel.stats_side_channel import StatsAggregationMethod, StatsSideChannel

ID = uuid.UUID(int=7)
NONE, MANY = DimensionProperty.NONE, DimensionProperty.VARIABLE_SIZE
SPEC = BehaviorSpec(
    [
        ObservationSpec((3,), (NONE,), ObservationType.DEFAULT, "a"),
        ObservationSpec((2, 4), (MANY, NONE), ObservationType.GOAL_SIGNAL, "b"),
    ],
    ActionSpec.create_hybrid(2, (3, 2)),
)


def shown(value: Any) -> Any:
    """Anything as JSON, arrays with their types."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, np.generic):
        return [str(value.dtype), value.item()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [shown(item) for item in value]]
    return value


def action(value: ActionTuple) -> Any:
    return shown([value.continuous, value.discrete])


def raised(work: Any, *arguments: Any) -> str:
    """The name of the exception that a call raises."""
    try:
        work(*arguments)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def members(kind: type) -> list[str]:
    """Public names, with the parameters of methods."""
    return [
        f"{name} {list(inspect.signature(value).parameters) if inspect.isfunction(value) else ''}"
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_")
    ]


def steps() -> dict[str, Any]:
    decisions = DecisionSteps(
        [np.arange(6, dtype=np.float32).reshape(2, 3)],
        np.array([0.5, -1.0], np.float32),
        np.array([7, 3], np.int32),
        [np.array([[True, False], [False, False]])],
        np.array([0, 1], np.int32),
        np.array([0.0, 2.0], np.float32),
    )
    terminals = TerminalSteps(
        [np.ones((1, 3), np.float32)],
        np.array([1.0], np.float32),
        np.array([True]),
        np.array([9], np.int32),
        np.array([1], np.int32),
        np.array([0.25], np.float32),
    )
    return {
        "sizes": [len(decisions), len(terminals)],
        "ids": [[int(agent) for agent in part] for part in (decisions, terminals)],
        "index": [
            {int(agent): place for agent, place in part.agent_id_to_index.items()} for part in (decisions, terminals)
        ],
        "in": [7 in decisions, 4 in decisions, np.int32(3) in decisions, 9 in terminals],
        "one": [shown(decisions[3]), shown(decisions[np.int32(7)]), shown(terminals[9])],
        "kinds": [isinstance(decisions[3], DecisionStep), isinstance(terminals[9], TerminalStep)],
        "fields": [list(DecisionStep._fields), list(TerminalStep._fields)],
        "missing": [raised(decisions.__getitem__, 4), raised(terminals.__getitem__, 3)],
        "empty": [
            {name: shown(getattr(part, name)) for name in names}
            for part, names in (
                (DecisionSteps.empty(SPEC), ["obs", "reward", "agent_id", "action_mask", "group_id", "group_reward"]),
                (TerminalSteps.empty(SPEC), ["obs", "reward", "agent_id", "interrupted", "group_id", "group_reward"]),
            )
        ],
    }


def actions() -> dict[str, Any]:
    hybrid, continuous, discrete = SPEC.action_spec, ActionSpec.create_continuous(2), ActionSpec.create_discrete((3,))
    before = np.random.get_state()
    np.random.seed(5)
    drawn = [action(spec.random_action(4)) for spec in (hybrid, continuous, discrete)]
    np.random.set_state(before)
    later = ActionTuple()
    later.add_discrete(np.array([[1], [2]], np.int64))
    return {
        "specs": [
            [str(spec), spec.is_continuous(), spec.is_discrete(), spec.continuous_size, spec.discrete_size, list(spec)]
            for spec in (hybrid, continuous, discrete)
        ],
        "equal": [hybrid == ActionSpec(2, (3, 2)), hybrid == continuous, hybrid != continuous],
        "empty": [action(spec.empty_action(2)) for spec in (hybrid, continuous, discrete)],
        "drawn": drawn,
        "tuples": [action(ActionTuple(continuous=np.ones((2, 2)))), action(later), str(np.dtype(later.discrete_dtype))],
        "wrong": [
            raised(hybrid._validate_action, given, 2, "b")
            for given in (
                hybrid.empty_action(3),
                continuous.empty_action(2),
                ActionTuple(continuous=np.zeros((2, 2))),
                hybrid.empty_action(2),
            )
        ],
    }


def sent() -> dict[str, Any]:
    """What every channel sends, in hexadecimal."""
    configuration, parameters, floats = (
        EngineConfigurationChannel(), EnvironmentParametersChannel(), FloatPropertiesChannel(),
    )  # fmt: skip
    configuration.set_configuration(EngineConfig.default_config())
    configuration.set_configuration_parameters(time_scale=3.5)
    parameters.set_float_parameter("gravity", 9.81)
    parameters.set_uniform_sampler_parameters("u", 1.0, 2.0, 3)
    parameters.set_gaussian_sampler_parameters("g", 0.5, 0.25, -4)
    parameters.set_multirangeuniform_sampler_parameters("m", [(0.0, 1.0), (5.0, 6.0)], 5)
    floats.set_property("speed", 2.5)
    raw = RawBytesChannel(ID)
    raw.send_raw_data(b"abc")
    raw.send_raw_data(bytearray(b""))
    channels = [configuration, parameters, floats, raw, StatsSideChannel()]
    manager = SideChannelManager(channels)
    first = bytes(manager.generate_side_channel_messages()).hex()
    return {
        "all": first,
        "again": bytes(manager.generate_side_channel_messages()).hex(),
        "ids": [str(channel.channel_id) for channel in channels],
        "analytics": str(DefaultTrainingAnalyticsSideChannel.CHANNEL_ID),
        "half": raised(lambda: configuration.set_configuration_parameters(width=3)),
        "twice": raised(SideChannelManager, [raw, RawBytesChannel(ID)]),
    }


def received() -> dict[str, Any]:
    """What every channel makes of messages."""
    message = OutgoingMessage()
    message.write_bool(True)
    message.write_int32(-5)
    message.write_float32(0.1)
    message.write_float32_list([1.5, -2.5])
    message.write_string("key")
    reader = IncomingMessage(bytes(message.buffer))
    read = [reader.read_bool(), reader.read_int32(), reader.read_float32(), reader.read_float32_list()]
    read += [reader.read_string(), reader.read_bool(True), reader.read_int32(4), reader.read_float32(0.5)]
    read += [reader.read_string("none"), reader.read_float32_list([3.0]), reader.read_float32_list()]
    read += [IncomingMessage(bytes(message.buffer), 1).read_int32(), bytes(reader.get_raw_bytes()).hex()]
    stats, floats, raw = StatsSideChannel(), FloatPropertiesChannel(), RawBytesChannel(ID)
    stat, number = OutgoingMessage(), OutgoingMessage()
    stat.write_string("Reward")
    stat.write_float32(2.0)
    stat.write_int32(2)
    number.write_string("speed")
    number.write_float32(7.0)
    manager = SideChannelManager([stats, floats, raw])
    for channel, one in ((stats, stat), (floats, number), (raw, number), (stats, stat)):
        head = channel.channel_id.bytes_le + len(one.buffer).to_bytes(4, "little")
        manager.process_side_channel_message(head + bytes(one.buffer))
    told = stats.get_and_reset_stats()
    return {
        "read": read,
        "stats": {key: [[value, kind.name, kind.value] for value, kind in told[key]] for key in told},
        "stats_again": dict(stats.get_and_reset_stats()),
        "floats": [floats.list_properties(), floats.get_property("speed"), floats.get_property("x")],
        "copy": floats.get_property_dict_copy(),
        "raw": [bytes(one).hex() for one in raw.get_and_clear_received_messages()],
        "raw_again": raw.get_and_clear_received_messages(),
        "short": raised(manager.process_side_channel_message, ID.bytes_le + b"\x09\x00\x00\x00abc"),
        "none": raised(manager.process_side_channel_message, b"abc"),
        "to_us": [
            raised(channel.on_message_received, IncomingMessage(b""))
            for channel in (EngineConfigurationChannel(), EnvironmentParametersChannel())
        ],
        "kinds": {kind.name: kind.value for kind in StatsAggregationMethod},
    }


def names(port: int) -> dict[str, Any]:
    errors = inspect.getmembers(exception, inspect.isclass)
    classes = [
        BaseEnv, ActionSpec, ActionTuple, DecisionSteps, TerminalSteps, BehaviorMapping, SideChannel,
        EngineConfigurationChannel, EnvironmentParametersChannel, StatsSideChannel, FloatPropertiesChannel,
        RawBytesChannel, IncomingMessage, OutgoingMessage, SideChannelManager,
    ]  # fmt: skip
    return {
        "exceptions": sorted(name for name, kind in errors if issubclass(kind, exception.UnityException)),
        "members": {kind.__name__: members(kind) for kind in classes},
        "tuples": {kind.__name__: list(kind._fields) for kind in (BehaviorSpec, ObservationSpec, EngineConfig)},
        "environment": {
            name: repr(parameter.default)
            for name, parameter in inspect.signature(UnityEnvironment.__init__).parameters.items()
        },
        "ports": [UnityEnvironment.DEFAULT_EDITOR_PORT, UnityEnvironment.BASE_ENVIRONMENT_PORT],
        "api": UnityEnvironment.API_VERSION,
        "dimensions": {one.name: one.value for one in DimensionProperty},
        "observations": {one.name: one.value for one in ObservationType},
        "no_program": raised(lambda: UnityEnvironment("no/such/build", base_port=port)),
        "second_editor": raised(lambda: UnityEnvironment(worker_id=1, base_port=port)),
    }


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Everything; `port` is a free one."""
    return {
        "names": names(request["port"]),
        "steps": steps(),
        "actions": actions(),
        "sent": sent(),
        "received": received(),
    }
