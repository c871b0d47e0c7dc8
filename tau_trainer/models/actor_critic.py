"""The network of a policy and its values: normalise, encode, hidden layers (the last one by goal), memory, heads.

Actor and critic are two *towers* with separate layers, or share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer import plugins
from tau_trainer.columns import Column
from tau_trainer.exploration import Exploration, make_exploration
from tau_trainer.models.blocks import NO_PAST, Past, Recurrent, drawn_from
from tau_trainer.models.heads import SAMPLED, Acting, ActionHead, ValueHead
from tau_trainer.models.hyper import make_body
from tau_trainer.models.mlp import MLP, Noise
from tau_trainer.models.observation_encoder import (
    Inputs,
    ObservationEncoder,
    TowerFeatures,
    make_encoders,
    normalizer_of,
    sensors_of,
)
from tau_trainer.specs import BehaviorSpec, Float64Array, FloatArray, Observations

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import MemorySettings, NetworkSettings
    from tau_trainer.settings.exploration import ExplorationSettings

ACTOR = 0
"""Index of the actor's tower. The critic's is the last."""
MEMORY = "memory"
"""Column of the recurrent state, [towers, M]."""
CLOCK = "clock"
"""Buffer of a network with an exploration: its counts, float64; see :mod:`tau_trainer.exploration.base`."""


class NetworkOutput(NamedTuple):
    """A network's outputs for ``n`` observations."""

    outputs: torch.Tensor
    """[n, c + M]: means of continuous actions, then logits of all branches; see :class:`ActionHead`."""
    values: torch.Tensor
    """[n, R]: of all reward streams side by side."""
    state: torch.Tensor
    """[n, towers, M]: recurrent state for the next decision; M is 0 without memory."""


class ActorCritic(torch.nn.Module):
    """Policy and values of one behavior.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: its shape.
        streams: name of each reward stream and its width.
        shared_critic: one tower for both.
        acting: how its outputs become actions.
        generator: source of the initial weights.

    Raises:
        SettingsError: networks do not support a sensor, or the settings name an unknown memory.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        streams: Mapping[str, int],
        *,
        shared_critic: bool = False,
        acting: Acting = SAMPLED,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._see(spec, 1 if shared_critic else 2, normalize=settings.normalize)
        self.noisy = acting.noisy
        self.encoders, size, goal = make_encoders(spec, settings, self.towers, generator)
        self.body, self.hyper = make_body(size, goal, settings, self.towers, generator, noisy=acting.noisy)
        size = self.body.size if self.hyper is None else self.hyper.size
        if settings.memory is not None:
            self.memories, size = make_memories(size, settings.memory, self.towers, generator)
        self.action = (acting.head or ActionHead)(size, spec.actions, generator, settings.action_levels, acting)
        self.value = ValueHead(size, streams, noisy=acting.noisy)
        self._explore(acting.exploration)

    def _see(self, spec: BehaviorSpec, towers: int, *, normalize: bool) -> None:
        """Set up the vector sensors and their normaliser; no encoders or memories yet."""
        self.spec = spec
        self.towers = towers
        self.noisy = False
        self._vectors, self._encoded = sensors_of(spec)
        self.normalizer = normalizer_of(spec, normalize=normalize)
        self.encoders, self.memories = torch.nn.ModuleList(), torch.nn.ModuleList()

    def _explore(self, settings: ExplorationSettings | None) -> None:
        """Set how the best action is disturbed; None: actions are sampled from the outputs."""
        self.exploration: Exploration | None = None
        if settings is not None:
            self.exploration = make_exploration(settings, self.action.choices)
            self.register_buffer(CLOCK, torch.from_numpy(self.exploration.clock()))  # float64: counts beyond 2^24

    @cached_property
    def plain(self) -> bool:
        """Whether it has only hidden layers: then faster paths work."""
        special = self.encoders or self.memories or self.noisy or type(self.action) is not ActionHead
        return not special and isinstance(self.body, MLP)

    @cached_property
    def state_columns(self) -> tuple[Column, ...]:
        """State to keep for each agent from decision to decision: the column :data:`MEMORY`, or nothing."""
        if not self.memories:
            return ()
        return (Column(MEMORY, (self.towers, self._memory(ACTOR).state_size)),)

    def tick(self, discrete: NDArray[np.integer[Any]]) -> None:
        """Count decisions whose branches had these values [n, b], if exploration depends on it."""
        if self.exploration is not None:
            self.get_buffer(CLOCK).copy_(torch.from_numpy(self.exploration.tick(self._clock(), discrete)))

    def exploring(self) -> FloatArray:
        """Current values of exploration's changing numbers: epsilon, widths; empty if there are none."""
        if self.exploration is None:
            return np.zeros(0, np.float32)
        clock = self._clock()
        return self.exploration.numbers(float(clock[0]), clock[1:])

    def begin_anew(self) -> None:
        """Reset exploration to its start."""
        if self.exploration is not None:
            self.get_buffer(CLOCK).copy_(torch.from_numpy(self.exploration.clock()))

    def _clock(self) -> Float64Array:
        return self.get_buffer(CLOCK).cpu().numpy()

    def vectors(self, obs: Observations) -> FloatArray:
        """All vector sensors side by side: float32 [n, D]."""
        rows = [obs[i] for i in self._vectors]
        if len(rows) == 1:  # no copy of a single sensor's
            return rows[0]
        return np.concatenate(rows, axis=1) if rows else np.zeros((len(obs[0]), 0), np.float32)

    def part_of(self, sensor: int) -> slice:
        """Columns of a vector sensor in :meth:`vectors`. Raises ValueError for any other sensor."""
        before = self._vectors[: self._vectors.index(sensor)]
        begin = sum(self.spec.observations[i].size for i in before)
        return slice(begin, begin + self.spec.observations[sensor].size)

    def prepare(self, obs: Observations) -> Inputs:
        """Observations [n, *shape] of each sensor in the form for the layers, on the network's device."""
        return self.normalize([as_tensor(values) for values in self.arrange(obs)])

    def arrange(self, obs: Observations) -> list[NDArray[Any]]:
        """Vectors side by side, then every other sensor as it is: the input of :meth:`normalize`."""
        return [self.vectors(obs), *(obs[i] for i in self._encoded)]

    def normalize(self, arranged: Sequence[torch.Tensor]) -> Inputs:
        """Arranged observations in the form for the layers, on the network's device."""
        weight = self.action.weight
        # Images stay bytes: their encoder turns them to floats on the device.
        x, *others = (part.to(weight.device, weight.dtype if part.is_floating_point() else None) for part in arranged)
        return [x if self.normalizer is None else self.normalizer(x), *others]

    def forward(self, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None) -> NetworkOutput:
        """Outputs, values and the new state.

        Args:
            inputs: from :meth:`prepare`.
            past: of recurrent networks. There is no new state after sequences (M = 0).
            noise: of noisy weights; None = without.
        """
        actor, actor_state = self._tower(inputs, past, ACTOR, noise)
        critic, critic_state = actor, actor_state  # one tower: both heads see the same
        if self.towers > 1:
            critic, critic_state = self._tower(inputs, past, self.towers - 1, noise)
        states = [actor_state, critic_state][: self.towers]  # [n, towers, M]
        return NetworkOutput(self.action(actor, noise), self.value(critic, noise), torch.stack(states, dim=1))

    def outputs(self, inputs: Inputs, past: Past = NO_PAST, noise: Noise | None = None) -> torch.Tensor:
        """Only the actor: means and logits [n, c + M]."""
        result: torch.Tensor = self.action(self.features(inputs, past, noise), noise)
        return result

    def features(
        self, inputs: Inputs | TowerFeatures, past: Past = NO_PAST, noise: Noise | None = None
    ) -> torch.Tensor:
        """The inputs of the actor's head, [n, H]; also from what its encoder has seen."""
        return self._tower(inputs, past, ACTOR, noise)[0]

    def values(self, inputs: Inputs, past: Past = NO_PAST) -> torch.Tensor:
        """Only the critic: values [n, R]."""
        result: torch.Tensor = self.value(self._tower(inputs, past, self.towers - 1)[0])
        return result

    def write(self, graph: GraphWriter, observations: Sequence[str], state: str | None) -> str | None:
        """The actor as nodes: from the names of the sensors' inputs to the actions; returns the new state's name."""
        x, goal = self._write_vectors(graph, observations), ""
        if self.encoders:
            encoder = self._encoder(ACTOR)
            x = encoder.write(graph, x, [observations[i] for i in self._encoded])
            goal = "" if self.hyper is None else encoder.write_goal(graph, x)
        x = self.body.write(graph, x, ACTOR)
        if self.hyper is not None:
            x = self.hyper.write(graph, x, goal, ACTOR)
        if state is not None:
            x, state = self._memory(ACTOR).write(graph, x, state)
        self.action.write(graph, x)
        return state

    def _write_vectors(self, graph: GraphWriter, observations: Sequence[str]) -> str:
        """All vector sensors side by side, normalised; an empty text if there are none."""
        x = graph.concat([observations[i] for i in self._vectors], "observation") if self._vectors else ""
        return x if self.normalizer is None else self.normalizer.write(graph, x)

    def _tower(
        self, inputs: Inputs | TowerFeatures, past: Past, tower: int, noise: Noise | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, goal = inputs if isinstance(inputs, TowerFeatures) else self._seen(inputs, tower)
        x = self.body(x, tower, noise)
        if self.hyper is not None:
            x = self.hyper(x, goal, tower)
        if not self.memories:
            return x, x.new_zeros(len(x), 0)
        memory = self._memory(tower)
        # Zeros at the start.
        before = x.new_zeros(len(x), memory.state_size) if past.state is None else past.state[:, tower]
        if past.begins is not None:
            return memory.unrolled(x, before, past.begins), x.new_zeros(len(x), 0)
        features, after = memory(x, before)
        return features, after

    def _seen(self, inputs: Inputs, tower: int) -> TowerFeatures:
        return (
            self._encoder(tower)(inputs) if self.encoders else TowerFeatures(inputs[0], inputs[0])
        )  # no goals without encoders

    def _encoder(self, tower: int) -> ObservationEncoder:
        encoder = self.encoders[tower]
        assert isinstance(encoder, ObservationEncoder)
        return encoder

    def _memory(self, tower: int) -> Recurrent:
        memory = self.memories[tower]
        assert isinstance(memory, Recurrent)
        return memory


def as_tensor(values: NDArray[Any], device: torch.device | str = "cpu") -> torch.Tensor:
    """An array as a tensor on a device, on the CPU without a copy if torch allows it (not of read-only memory)."""
    # Policies have read-only weights, and torch warns about them.
    source = values if values.flags.writeable else values.copy()
    return torch.from_numpy(np.ascontiguousarray(source)).to(device)


def make_memories(
    inputs: int, settings: MemorySettings, towers: int, generator: torch.Generator
) -> tuple[torch.nn.ModuleList, int]:
    """A recurrent memory for each tower, and the number of their features."""
    make = plugins.load("memories", settings.type)
    with drawn_from(generator):
        memories = [make(inputs, settings) for _ in range(towers)]
    return torch.nn.ModuleList(memories), memories[0].size
