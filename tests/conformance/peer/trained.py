"""Runs inside the environment of mlagents-envs, with this checkout on the path: a real `UnityEnvironment` as a pair.

Tells what a pair sees through our adapter, and beside it the same game through the API alone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

from tau_trainer.bridge.side_channels import Sampler, SamplerKind, Stat
from tau_trainer.envs.base_env import BaseEnvEnvironment
from tau_trainer.envs.restarts import RestartBudget
from tau_trainer.specs import Actions, StepBatch

STEPS = 45


def started(request: dict[str, Any], *channels: Any) -> UnityEnvironment:
    """The real one."""
    channels = channels or (EnvironmentParametersChannel(), StatsSideChannel())
    return UnityEnvironment(
        file_name=request["build"], base_port=request["port"], seed=4, timeout_wait=30, side_channels=list(channels)
    )


def told(ids: Any, rewards: Any, obs: Any, ended: Any, interrupted: Any, masks: Any) -> list[Any]:
    """One exchange."""
    sums = [np.asarray(sensor).astype(np.float64).sum().item() for sensor in obs]
    return [np.asarray(part).tolist() for part in (ids, rewards, ended, interrupted, masks)] + [sums]


def by_hand(request: dict[str, Any]) -> dict[str, Any]:
    """The API alone."""
    parameters, stats = EnvironmentParametersChannel(), StatsSideChannel()
    env = started(request, parameters, stats)
    parameters.set_float_parameter("max_decisions", 9.0)
    parameters.set_gaussian_sampler_parameters("gravity", 9.0, 1.0, 5)
    env.reset()
    ((name, spec),) = env.behavior_specs.items()
    seen: list[Any] = []
    reported: dict[str, list[Any]] = {}
    for step in range(STEPS):
        for key, values in stats.get_and_reset_stats().items():
            reported.setdefault(key, []).extend([value, kind.value] for value, kind in values)
        decisions, terminals = env.get_steps(name)
        masks = None if decisions.action_mask is None else np.concatenate(decisions.action_mask, axis=1)
        ends = terminals.agent_id, terminals.interrupted
        seen.append(told(decisions.agent_id, decisions.reward, decisions.obs, *ends, masks))
        actions = spec.action_spec.empty_action(len(decisions))
        actions.continuous[:] = step / STEPS
        env.set_actions(name, actions)
        env.step()
    env.close()
    return {"seen": seen, "stats": reported}


async def as_a_pair(request: dict[str, Any]) -> dict[str, Any]:
    """Through our adapter."""
    stats: list[Stat] = []
    environment = BaseEnvEnvironment(0, lambda: started(request), None, RestartBudget(0, 0, 1.0), stats.append)
    batches = await environment.start({"max_decisions": 9.0, "gravity": Sampler(SamplerKind.GAUSSIAN, 5, (9.0, 1.0))})
    seen = []
    for step in range(STEPS):
        (batch,) = batches
        seen.append(shown(batch))
        actions = Actions.zeros(environment.specs[batch.behavior].actions, len(batch))
        actions.continuous[:] = step / STEPS
        environment.answer({batch.behavior: actions})
        batches = await environment.next()
    await environment.close()
    reported: dict[str, list[Any]] = {}
    for stat in stats:
        reported.setdefault(stat.key, []).append([stat.value, int(stat.aggregation)])
    return {"seen": seen, "stats": reported}


def shown(batch: StepBatch) -> list[Any]:
    """A step as a pair gets it."""
    ended = batch.terminals
    return told(batch.agent_ids, batch.reward, batch.obs, ended.agent_ids, ended.truncated, batch.action_mask)


def main(request: dict[str, Any]) -> dict[str, Any]:
    """The same game both ways."""
    return {"by_hand": by_hand(request), "as_a_pair": asyncio.run(as_a_pair({**request, "port": request["port"] + 1}))}
