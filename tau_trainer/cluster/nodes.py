"""The resources of a cluster's nodes, and checks of the nodes. Ray is imported once there is a connection."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tau_trainer import __version__
from tau_trainer.cluster import host
from tau_trainer.errors import ClusterError

_NAMES = {"cpu": "CPU", "gpu": "GPU"}
"""Our names of resources that have other names in Ray."""
_RAYS = ("node:", "memory", "object_store_memory", "accelerator_type:")
"""Prefixes of resources that every node has."""
LOOK_S = 60.0


@dataclass(frozen=True)
class Node:
    """A node of a cluster: a machine, or a simulated one."""

    id: str
    name: str
    resources: Mapping[str, float]
    """Amounts by Ray's names."""

    def room(self, asked: Mapping[str, float]) -> int:
        """Number of processes with the resources ``asked`` that fit on the empty node."""
        fits = [self.resources.get(name, 0.0) / amount for name, amount in asked.items() if amount]
        return int(min(fits) + 1e-9) if fits else sys.maxsize

    def __str__(self) -> str:
        shown = {name: amount for name, amount in self.resources.items() if not name.startswith(_RAYS)}
        return f"{self.name} has {amounts(shown) or 'nothing'}"


def rays_names(resources: Mapping[str, float]) -> dict[str, float]:
    """Resources with Ray's names."""
    return {_NAMES.get(name.lower(), name): amount for name, amount in resources.items()}


def options_of(asked: Mapping[str, float]) -> dict[str, Any]:
    """Options of a Ray actor with the resources ``asked``, spread over the nodes."""
    others = {name: amount for name, amount in asked.items() if name not in _NAMES.values() and amount}
    plain = {"num_cpus": asked.get("CPU", 0.0), "num_gpus": asked.get("GPU", 0.0)}
    return {**plain, "resources": others, "scheduling_strategy": "SPREAD"}


def amounts(resources: Mapping[str, float]) -> str:
    """Resources as text: ``1 CPU, 2 unity``."""
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(resources.items()) if amount)


def alive() -> list[Node]:
    """The nodes of the cluster, by name."""
    import ray

    found = [node for node in ray.nodes() if node["Alive"]]
    names = {node["NodeID"]: _name(node) for node in found}
    often = Counter(names.values())
    return sorted(
        (
            Node(
                node["NodeID"],
                name if often[name := names[node["NodeID"]]] == 1 else f"{name}:{node['NodeManagerPort']}",
                node["Resources"],
            )
            for node in found
        ),
        key=lambda node: node.name,
    )


def _name(node: Mapping[str, Any]) -> str:
    """The name that its administrator gave it, else its host."""
    given = node.get("NodeName") or ""
    return str(node["NodeManagerHostname"] if given in ("", node["NodeManagerAddress"]) else given)


def survey(nodes: Sequence[Node], program: str | None) -> None:
    """Check that each node has our version, and ``program``. Raises ClusterError for the first that does not."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = ray.remote(num_cpus=0, max_retries=0)(host.look)
    asked = []
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node.id, soft=False)
        asked.append(look.options(scheduling_strategy=there).remote(__version__, program))
    for node, reference in zip(nodes, asked, strict=True):
        try:
            problem = ray.get(reference, timeout=LOOK_S)
        except GetTimeoutError:
            problem = f"has not answered within {LOOK_S:g} s; check whether Ray runs there"
        except RayError as error:
            text = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
            problem = f"cannot run tau_trainer ({text}); install tau-trainer=={__version__} there, as here"
        if problem:
            raise ClusterError(f"node {node.name} {problem}")
