"""Assigns agents to policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tau_trainer.errors import SettingsError
from tau_trainer.settings import TrainerSettings
from tau_trainer.settings.problems import did_you_mean


def assigned(policies: Mapping[str, TrainerSettings], agents: Sequence[str]) -> dict[str, list[int]]:
    """Numbers of the agents of each policy, each once, ascending.

    Raises:
        SettingsError: an agent has no policy or two, or a policy has no agents or names an unknown one.
    """
    found = {name: _numbers(name, policy, agents) for name, policy in policies.items()}
    owner: dict[int, str] = {}
    for name, numbers in found.items():
        for number in numbers:
            if number in owner:
                raise SettingsError(
                    f"behaviors.{name}.agents: agent '{agents[number]}' has the policy '{owner[number]}' already; "
                    "assign each agent to one policy"
                )
            owner[number] = name
    without = [agent for number, agent in enumerate(agents) if number not in owner]
    if without:
        more = f" and {len(without) - 1} more have" if len(without) > 1 else " has"
        raise SettingsError(f"behaviors: agent '{without[0]}'{more} no policy; name it in the `agents` of one")
    return found


def _numbers(policy: str, settings: TrainerSettings, agents: Sequence[str]) -> list[int]:
    if settings.agents is None:
        return list(range(len(agents)))
    groups: dict[str, list[int]] = {}
    for number, agent in enumerate(agents):
        for name in {agent, agent.rstrip("0123456789").removesuffix("_")}:
            groups.setdefault(name, []).append(number)
    numbers: set[int] = set()
    for name in settings.agents:
        if name not in groups:
            text = did_you_mean(name, sorted(groups, key=lambda one: groups[one]))
            raise SettingsError(f"behaviors.{policy}.agents: there is no agent and no group '{name}'; {text}")
        numbers |= set(groups[name])
    if not numbers:
        raise SettingsError(f"behaviors.{policy}.agents: is empty; name its agents, or remove the policy")
    return sorted(numbers)
