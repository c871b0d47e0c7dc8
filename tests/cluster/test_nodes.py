"""What nodes have, and whether they can play."""

from __future__ import annotations

import sys

from tau_trainer.cluster.nodes import Node, amounts, options_of, rays_names

ROOMY = Node("1", "roomy", {"CPU": 4.0, "GPU": 1.0, "unity": 2.0, "memory": 1e9, "node:10.0.0.1": 1.0})


def test_so_many_processes_fit_as_the_scarcest_resource_lets() -> None:
    asked = rays_names({"cpu": 1, "gpu": 0, "unity": 1})
    assert asked == {"CPU": 1, "GPU": 0, "unity": 1}
    assert ROOMY.room(asked) == 2
    assert ROOMY.room({"CPU": 0.1}) == 40
    assert ROOMY.room({"CPU": 8.0}) == 0
    assert ROOMY.room({"license": 1.0}) == 0
    assert ROOMY.room({"CPU": 0.0}) == sys.maxsize
    assert str(ROOMY) == "roomy has 4 CPU, 1 GPU, 2 unity"
    assert str(Node("2", "bare", {"node:10.0.0.2": 1.0})) == "bare has nothing"
    assert amounts({"CPU": 0.5, "GPU": 0.0}) == "0.5 CPU"


def test_rays_own_options() -> None:
    spread = {"scheduling_strategy": "SPREAD"}
    assert options_of({"CPU": 2.0, "unity": 1.0}) == {
        "num_cpus": 2.0, "num_gpus": 0.0, "resources": {"unity": 1.0}, **spread
    }  # fmt: skip
    assert options_of({"GPU": 1.0}) == {"num_cpus": 0.0, "num_gpus": 1.0, "resources": {}, **spread}
