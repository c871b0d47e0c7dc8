"""Runs inside the environment of mlagents-envs: launches a build as `UnityEnvironment` and tells what it saw.

With every `mlagents_envs.` replaced by `tau_trainer.envs.mlagents.` it does the same with our own.

The argument of `main` is a `Request`. Actions are a fixed function of step, agent and action index in
whole numbers, so that another program can play the very same game.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, TypedDict

import numpy as np
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.float_properties_channel import FloatPropertiesChannel
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel


class Request(TypedDict):
    """What to do: `steps` exchanges, with a reset instead of a step at the numbers in `resets`."""

    build: str
    port: int
    seed: int
    areas: int
    steps: int
    resets: list[int]
    parameters: dict[str, float]
    uniform: dict[str, tuple[float, float, int]]
    later: dict[str, dict[str, float]]
    log_folder: str


def action_value(step: int, agent: int, index: int) -> float:
    """A continuous action in [-1, 1]: thousandths, exactly the same in every program."""
    return float((step * 7919 + agent * 104729 + index * 1299709) % 2001 - 1000) / 1000.0


def action_branch(step: int, agent: int, index: int, size: int) -> int:
    """A discrete action: one of `size`."""
    return (step * 3 + agent * 5 + index * 7 + (step * agent) % 4) % size


def main(request: Request) -> dict[str, Any]:
    """Plays the request; returns everything that was seen."""
    parameters = EnvironmentParametersChannel()
    stats = StatsSideChannel()
    configuration = EngineConfigurationChannel()
    configuration.set_configuration_parameters(width=84, height=84, quality_level=1, time_scale=20.0)
    for name, value in request["parameters"].items():
        parameters.set_float_parameter(name, value)
    for name, (low, high, seed) in request["uniform"].items():
        parameters.set_uniform_sampler_parameters(name, low, high, seed)
    properties = FloatPropertiesChannel()
    properties.set_property("unheard", 1.0)
    environment = UnityEnvironment(
        file_name=request["build"],
        base_port=request["port"],
        seed=request["seed"],
        no_graphics=True,
        timeout_wait=30,
        num_areas=request["areas"],
        log_folder=request["log_folder"],
        side_channels=[parameters, stats, configuration, properties],
    )
    process = getattr(environment, "_process", None)  # of mlagents-envs alone
    try:
        seen = play(environment, request, parameters, stats)
    finally:
        began = time.monotonic()
        environment.close()
    return {**seen, "exit_code": process and process.poll(), "close_seconds": time.monotonic() - began}


def play(
    environment: UnityEnvironment, request: Request, parameters: EnvironmentParametersChannel, stats: StatsSideChannel
) -> dict[str, Any]:
    """Resets, steps, and records every exchange."""
    environment.reset()
    collected: dict[str, list[list[float]]] = {}
    exchanges = [observe(environment, stats, collected)]
    for step in range(request["steps"]):
        for name, value in request["later"].get(str(step), {}).items():
            parameters.set_float_parameter(name, value)
        if step in request["resets"]:
            environment.reset()
        else:
            act(environment, step)
            environment.step()
        exchanges.append(observe(environment, stats, collected))
    specs = {name: describe(environment.behavior_specs[name]) for name in environment.behavior_specs}
    return {"specs": specs, "exchanges": exchanges, "stats": collected}


def act(environment: UnityEnvironment, step: int) -> None:
    """Sets the fixed actions of every agent that asks."""
    for name, spec in environment.behavior_specs.items():
        decisions, _ = environment.get_steps(name)
        agents = [int(agent) for agent in decisions.agent_id]
        size, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_branches
        continuous = [[action_value(step, agent, k) for k in range(size)] for agent in agents]
        discrete = [[action_branch(step, agent, k, n) for k, n in enumerate(branches)] for agent in agents]
        action = ActionTuple(
            np.array(continuous, np.float32).reshape(len(agents), size),
            np.array(discrete, np.int32).reshape(len(agents), len(branches)),
        )
        environment.set_actions(name, action)


def observe(
    environment: UnityEnvironment, stats: StatsSideChannel, collected: dict[str, list[list[float]]]
) -> dict[str, Any]:
    """One exchange of every behavior as numbers and digests."""
    for key, values in stats.get_and_reset_stats().items():
        collected.setdefault(key, []).extend([float(value), int(kind.value)] for value, kind in values)
    behaviors = {}
    for name in environment.behavior_specs:
        decisions, terminals = environment.get_steps(name)
        behaviors[name] = {
            "ids": decisions.agent_id.tolist(),
            "rewards": decisions.reward.tolist(),
            "groups": [int(group) for group in decisions.group_id],
            "group_rewards": decisions.group_reward.tolist(),
            "observations": digest(decisions.obs),
            "finite": all(bool(np.isfinite(sensor).all()) for sensor in decisions.obs),
            "masks": None if decisions.action_mask is None else [mask.tolist() for mask in decisions.action_mask],
            "ended": terminals.agent_id.tolist(),
            "ended_rewards": terminals.reward.tolist(),
            "interrupted": terminals.interrupted.tolist(),
            "ended_groups": [int(group) for group in terminals.group_id],
            "ended_group_rewards": terminals.group_reward.tolist(),
            "ended_observations": digest(terminals.obs),
        }
    return behaviors


def digest(sensors: list[Any]) -> str:
    """One hash over the float32 bytes of all sensors."""
    total = hashlib.sha256()
    for sensor in sensors:
        total.update(np.ascontiguousarray(sensor, np.float32).tobytes())
    return total.hexdigest()


def describe(spec: Any) -> dict[str, Any]:
    """A behavior's spec as the reference reads it."""
    return {
        "observations": [
            {
                "name": sensor.name,
                "shape": list(sensor.shape),
                "dimensions": [int(flag) for flag in sensor.dimension_property],
                "type": int(sensor.observation_type.value),
            }
            for sensor in spec.observation_specs
        ],
        "continuous": spec.action_spec.continuous_size,
        "branches": list(spec.action_spec.discrete_branches),
    }
