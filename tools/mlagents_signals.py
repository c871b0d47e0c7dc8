"""Results of mlagents 1.1.0's reward signals and imitation for a small batch, for our tests.

Runs inside its own environment (`tools/peers.py`, MLAGENTS): `PYTHON tools/mlagents_signals.py FOLDER` writes a `.npz`
for each case: the batch, the weights (`w.*`), the random draws (`drawn.*`, in order), losses and statistics (`said.*`),
the gradient of the loss (`g.*`) and, for signals, the rewards before learning from the batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from mlagents.trainers import settings
from mlagents.trainers.buffer import AgentBuffer, BufferKey
from mlagents.trainers.torch_entities.components.bc.module import BCModule
from mlagents.trainers.torch_entities.components.reward_providers import curiosity_reward_provider, rnd_reward_provider
from mlagents.trainers.torch_entities.components.reward_providers.base_reward_provider import BaseRewardProvider
from mlagents.trainers.torch_entities.components.reward_providers.gail_reward_provider import (
    DiscriminatorNetwork,
    GAILRewardProvider,
)
from mlagents.trainers.torch_entities.networks import SimpleActor
from mlagents.trainers.trajectory import ObsUtil
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType

ROWS, SIZE, UNITS = 8, 5, 16
HYBRID, CONTINUOUS, DISCRETE = ActionSpec(2, (3, 2)), ActionSpec(2, ()), ActionSpec(0, (3, 2))
Arrays = dict[str, Any]


def spec_of(actions: ActionSpec) -> BehaviorSpec:
    """One vector, and these actions."""
    sensor = ObservationSpec((SIZE,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "vector")
    return BehaviorSpec([sensor], actions)


def rows_of(actions: ActionSpec, rng: np.random.Generator, shift: float) -> Arrays:
    """Transitions by name."""
    branches = [rng.integers(size, size=ROWS) for size in actions.discrete_branches]
    return {
        "obs": (rng.normal(size=(ROWS, SIZE)) + shift).astype(np.float32),
        "next": (rng.normal(size=(ROWS, SIZE)) + shift).astype(np.float32),
        "continuous": rng.normal(size=(ROWS, actions.continuous_size)).astype(np.float32),
        "discrete": np.array(branches, np.int64).reshape(len(branches), ROWS).T,
        "done": (np.arange(ROWS) % 3 == 2).astype(np.float32),
    }


def buffer_of(rows: Arrays, actions: ActionSpec) -> AgentBuffer:
    """The same as a buffer of mlagents."""
    buffer = AgentBuffer()
    columns = {ObsUtil.get_name_at(0): "obs", ObsUtil.get_name_at_next(0): "next", BufferKey.DONE: "done"}
    if actions.continuous_size:
        columns[BufferKey.CONTINUOUS_ACTION] = "continuous"
    if actions.discrete_size:
        columns[BufferKey.DISCRETE_ACTION] = "discrete"
    for key, name in columns.items():
        for value in rows[name]:
            buffer[key].append(value)
    for _ in range(ROWS):
        buffer[BufferKey.MASKS].append(np.float32(1.0))
    return buffer


def network() -> Any:
    """Settings of two small layers."""
    return settings.NetworkSettings(hidden_units=UNITS, num_layers=2)


class Drawn:
    """Records torch's random draws while mlagents computes."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []

    def keeping(self, draw: Any) -> Any:
        """``draw``, with its results recorded."""

        def watched(*arguments: Any, **options: Any) -> torch.Tensor:
            values: torch.Tensor = draw(*arguments, **options)
            self.kept.append(values.detach().numpy().copy())
            return values

        return watched


def module_arrays(prefix: str, module: torch.nn.Module) -> Arrays:
    """Weights, and gradients if there are any."""
    weights = {f"w.{prefix}{name}": value.detach().numpy().copy() for name, value in module.named_parameters()}
    gradients = {
        f"g.{prefix}{name}": value.grad.numpy().copy()
        for name, value in module.named_parameters()
        if value.grad is not None
    }
    return weights | gradients


def novelty(provider: Any, module: torch.nn.Module, rows: Arrays, actions: ActionSpec) -> Arrays:
    """Arrays of a signal that rewards novelty; its optimizer does not change weights."""
    batch = buffer_of(rows, actions)
    provider.optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    provider._has_updated_once = True
    rewards = np.array(provider.evaluate(batch))
    said = {f"said.{name}": np.float64(value) for name, value in provider.update(batch).items()}
    return {**rows, **said, "rewards": rewards}


def curiosity(rng: np.random.Generator) -> Arrays:
    """Arrays of curiosity with hybrid actions."""
    chosen = settings.CuriositySettings(strength=0.02, network_settings=network())
    provider = curiosity_reward_provider.CuriosityRewardProvider(spec_of(HYBRID), chosen)
    arrays = novelty(provider, provider._network, rows_of(HYBRID, rng, 0.0), HYBRID)
    return arrays | module_arrays("", provider._network)


def rnd(rng: np.random.Generator) -> Arrays:
    """Arrays of RND with discrete actions, which it ignores."""
    chosen = settings.RNDSettings(strength=0.01, network_settings=network())
    provider = rnd_reward_provider.RNDRewardProvider(spec_of(DISCRETE), chosen)
    arrays = novelty(provider, provider._training_network, rows_of(DISCRETE, rng, 0.0), DISCRETE)
    networks = (("predictor.", provider._training_network), ("target.", provider._random_network))
    return arrays | {key: value for prefix, module in networks for key, value in module_arrays(prefix, module).items()}


def gail(rng: np.random.Generator, *, actions: bool = False, vail: bool = False) -> Arrays:
    """Arrays of GAIL with hybrid actions. With them, its penalty, which uses only the first sensor, is omitted."""
    chosen = settings.GAILSettings(demo_path="", use_actions=actions, use_vail=vail, network_settings=network())
    discriminator = DiscriminatorNetwork(spec_of(HYBRID), chosen)
    if actions:
        discriminator.gradient_penalty_weight = 0.0
    if vail:
        discriminator._beta.data.fill_(0.3)
    provider = GAILRewardProvider.__new__(GAILRewardProvider)
    BaseRewardProvider.__init__(provider, spec_of(HYBRID), chosen)
    provider._discriminator_network = discriminator
    played, expert = rows_of(HYBRID, rng, 0.0), rows_of(HYBRID, rng, 0.5)
    batches = [buffer_of(rows, HYBRID) for rows in (played, expert)]
    rewards, drawn = provider.evaluate(batches[0]), Drawn()
    watched = {name: drawn.keeping(getattr(torch, name)) for name in ("rand", "randn_like")}
    with mock.patch.multiple(torch, **watched):
        loss, said = discriminator.compute_loss(*batches)
    loss.backward()
    arrays = {**played, **{f"expert.{name}": values for name, values in expert.items()}, "rewards": rewards}
    arrays |= {f"said.{name}": np.float64(value) for name, value in said.items()}
    arrays |= {f"drawn.{index}": values for index, values in enumerate(drawn.kept)}
    return arrays | {"loss": loss.detach().numpy()} | module_arrays("", discriminator)


def cloning(rng: np.random.Generator, actions: ActionSpec) -> Arrays:
    """Arrays of a policy whose continuous samples are its means; otherwise its imitation would use random samples."""
    spec, rows = spec_of(actions), rows_of(actions, rng, 0.0)
    actor = SimpleActor(spec.observation_specs, network(), spec.action_spec)
    module = BCModule.__new__(BCModule)
    module.policy = SimpleNamespace(behavior_spec=spec, actor=actor, use_recurrent=False, sequence_length=1, m_size=0)
    module.n_sequences = ROWS
    module.optimizer = torch.optim.SGD(actor.parameters(), lr=0.0)
    with mock.patch.object(torch, "randn_like", torch.zeros_like):
        loss = module._update_batch(buffer_of(rows, actions), ROWS)["loss"]
    return {**rows, "loss": np.float64(loss), **module_arrays("", actor)}


def main(folder: Path) -> None:
    """Write every case."""
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    cases = {
        "curiosity": curiosity(rng),
        "rnd": rnd(rng),
        "gail": gail(rng),
        "gail_actions": gail(rng, actions=True),
        "vail": gail(rng, vail=True),
        "cloning_continuous": cloning(rng, CONTINUOUS),
        "cloning_discrete": cloning(rng, DISCRETE),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, arrays in cases.items():
        np.savez_compressed(folder / f"{name}.npz", **arrays)
        print(f"{folder / name}.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
