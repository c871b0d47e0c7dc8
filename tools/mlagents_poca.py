"""Write ``tests/algorithms/mlagents_poca.npz``: the results of ML-Agents' MA-POCA for one minibatch.

Run by the interpreter of an environment with mlagents 1.1.0 (Python 3.10)::

    PEER/bin/python tools/mlagents_poca.py

The file has the minibatch, the weights of actor and critic, the values, baselines and losses, and the gradient of the
loss. The minibatch covers every branch of both trust regions. The functions get old values as such, whereas ML-Agents'
trainer passes returns instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from mlagents.trainers.poca.optimizer_torch import TorchPOCAOptimizer
from mlagents.trainers.settings import NetworkSettings
from mlagents.trainers.torch_entities.agent_action import AgentAction
from mlagents.trainers.torch_entities.networks import SimpleActor
from mlagents.trainers.torch_entities.utils import ModelUtils
from mlagents_envs.base_env import ActionSpec, DimensionProperty, ObservationSpec, ObservationType

FIXTURE = Path(__file__).resolve().parents[1] / "tests" / "algorithms" / "mlagents_poca.npz"
SIZES = (3, 1, 4, 2, 4, 1, 2)
"""Members of each group."""
SENSORS, CONTINUOUS, BRANCHES = (5, 3), 2, (3, 2)
STREAMS = ("extrinsic", "curiosity")
EPSILON, BETA = 0.2, 0.01


def main() -> None:
    """Compute and write."""
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    specs = [
        ObservationSpec((size,), (DimensionProperty.NONE,), ObservationType.DEFAULT, f"vector_{size}")
        for size in SENSORS
    ]
    settings, actions = NetworkSettings(hidden_units=16, num_layers=2), ActionSpec(CONTINUOUS, BRANCHES)
    actor = SimpleActor(specs, settings, actions)
    critic = TorchPOCAOptimizer.POCAValueNetwork(list(STREAMS), specs, settings, actions)
    with torch.no_grad():  # with initial weights, layers after the attention have almost no effect
        for parameter in critic.parameters():
            if parameter.is_floating_point():
                parameter.add_(0.3 * torch.randn_like(parameter))

    rows, most = sum(SIZES), max(SIZES)
    group = np.repeat(np.arange(len(SIZES)), SIZES)
    obs = [rng.normal(size=(rows, size)).astype(np.float32) for size in SENSORS]
    continuous = rng.normal(size=(rows, CONTINUOUS)).astype(np.float32)
    discrete = np.stack([rng.integers(size, size=rows) for size in BRANCHES], axis=1)
    allowed = np.ones((rows, sum(BRANCHES)), np.float32)
    allowed[np.arange(0, rows, 3), (discrete[::3, 0] + 1) % BRANCHES[0]] = 0.0

    def action(of: Any) -> AgentAction:
        """The actions of rows; -1: no agent."""
        chosen = torch.from_numpy(discrete[of])
        return AgentAction(torch.from_numpy(continuous[of]), [chosen[:, i] for i in range(len(BRANCHES))])

    mates = np.full((rows, most - 1), -1)
    for row in range(rows):
        others = [other for other in np.flatnonzero(group == group[row]) if other != row]
        mates[row, : len(others)] = others
    mine = [torch.from_numpy(sensor) for sensor in obs]
    theirs = []
    for place in range(most - 1):
        seen = [sensor[mates[:, place]].copy() for sensor in obs]
        for sensor in seen:
            sensor[mates[:, place] < 0] = np.nan
        theirs.append([torch.from_numpy(sensor) for sensor in seen])
    values, _ = critic.critic_pass([mine, *theirs])
    baselines, _ = critic.baseline(mine, (theirs, [action(mates[:, place]) for place in range(most - 1)]))
    told = actor.get_stats(mine, action(np.arange(rows)), masks=torch.from_numpy(allowed))
    log_probs, entropy = told["log_probs"].flatten(), told["entropy"]

    def near(numbers: dict[str, torch.Tensor], by: float) -> dict[str, torch.Tensor]:
        return {name: (value + by * torch.randn_like(value)).detach() for name, value in numbers.items()}

    old_values, old_baselines, returns = near(values, 0.25), near(baselines, 0.25), near(values, 0.4)
    old_log_probs = (log_probs + 0.3 * torch.randn_like(log_probs)).detach()
    advantages, everybody = torch.randn(rows), torch.ones(rows, dtype=torch.bool)
    value_loss = ModelUtils.trust_region_value_loss(values, old_values, returns, EPSILON, everybody)
    baseline_loss = ModelUtils.trust_region_value_loss(baselines, old_baselines, returns, EPSILON, everybody)
    policy_loss = ModelUtils.trust_region_policy_loss(advantages, log_probs, old_log_probs, everybody, EPSILON)
    loss = policy_loss + 0.5 * (value_loss + 0.5 * baseline_loss) - BETA * ModelUtils.masked_mean(entropy, everybody)
    loss.backward()

    def joined(numbers: dict[str, torch.Tensor]) -> Any:
        return torch.stack([numbers[name] for name in STREAMS], dim=1).detach().numpy()

    arrays: dict[str, Any] = {
        "sizes": np.array(SIZES),
        "continuous": continuous,
        "discrete": discrete,
        "forbidden": allowed == 0.0,
        "advantages": advantages.numpy(),
        "old_log_probs": old_log_probs.numpy(),
        "old_values": joined(old_values),
        "old_baselines": joined(old_baselines),
        "returns": joined(returns),
        "values": joined(values),
        "baselines": joined(baselines),
        "log_probs": log_probs.detach().numpy(),
        "losses": np.array([float(one) for one in (policy_loss, value_loss, baseline_loss, entropy.mean(), loss)]),
        **{f"obs_{i}": sensor for i, sensor in enumerate(obs)},
    }
    for kind, module in (("actor", actor), ("critic", critic)):
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                arrays[f"{kind}.{name}"] = parameter.detach().numpy()
                arrays[f"gradient.{kind}.{name}"] = parameter.grad.numpy()
    np.savez_compressed(FIXTURE, **arrays)
    print(f"{FIXTURE.name}: {FIXTURE.stat().st_size:,} bytes, {len(arrays)} arrays")


if __name__ == "__main__":
    main()
