"""Acting in copies on tensors with the current network of an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from tau_trainer.algorithms.batched.acting import ActionSpace, Drawn, ToEnv, draw, inputs_of, noise_of
from tau_trainer.algorithms.batched.contract import Acted, ActorInput, TensorActor
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.exploration.values import Greedy
from tau_trainer.models.actor_critic import MEMORY, NetworkOutput
from tau_trainer.models.blocks import Past
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.settings.exploration import GreedySettings

if TYPE_CHECKING:
    from tau_trainer.algorithms.gradient import GradientAlgorithm

_FEW = 0.8
"""Share of present agents below which only those decide: at 0.9 of 10,000, selecting them took as long as it saved."""


class SamplingActor(TensorActor):
    """Draws from a policy's distribution, and keeps what learning needs.

    Args:
        algorithm: its network decides, and its generator draws.
        space: actions of one agent.
    """

    def __init__(self, algorithm: GradientAlgorithm, space: ActionSpace) -> None:
        self.network, self.generator = algorithm.network, algorithm.generator
        self.sees_ends, self._scored = bool(algorithm.signals), algorithm.on_policy
        self._ranks, self._choices = algorithm.ranks, algorithm.network.action.choices
        self._deterministic = algorithm.settings.network_settings.deterministic
        self._to_env = ToEnv(space, self.network.action, algorithm.device)
        self._state = next((column.shape for column in self.network.state_columns), None)
        """Shape of an agent's recurrent state, ``(towers, M)``; None: the network has no memory."""
        self._sampled: Callable[..., tuple[Drawn, torch.Tensor | None]] = self._decide
        """The same function, possibly compiled."""

    @override
    def fresh_state(self, envs: int, agents: int) -> torch.Tensor | None:
        if self._state is None:
            return None
        return torch.zeros(envs, agents, *self._state, device=self.generator.device)

    @override
    @torch.no_grad()
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        envs, agents = seen.observations.shape[:2]
        count = envs * agents
        rows = seen.observations.flatten(0, 1)  # [E A, *obs]
        mask = None if seen.mask is None else seen.mask.reshape(count, -1)
        forbidden = None if mask is None else forbidden_of(mask, self._choices.discrete_branches)  # bool [E A, M]
        still = deterministic or self._deterministic
        # Also drawn for agents that have left, so that draws do not depend on which agents are there.
        noise = None if still else self._noise(envs, agents)
        state = self.fresh_state(envs, agents) if seen.state is None else seen.state
        before = None if state is None else state.flatten(0, 1)  # [E A, towers, M]
        some = self._deciding(seen.present)
        if some is None:
            drawn, after = (self._decide if still else self._sampled)(rows, forbidden, noise, before)
        else:
            picked = (None if values is None else values.index_select(0, some) for values in (forbidden, noise, before))
            few, after = self._decide(rows.index_select(0, some), *picked)
            # Back to all rows; zeros for agents that had left, which are not learned from.
            drawn = Drawn(*(_spread(values, some, count) for values in few))
            after = None if after is None else _spread(after, some, count)
        kept = kept_of(drawn, envs, agents) | ({} if state is None else {MEMORY: state})
        kept |= {"log_prob": drawn.log_prob.view(envs, agents, -1)} if self._scored else {}
        return Acted(self._to_env(drawn, envs, agents), kept, None if after is None else after.view_as(kept[MEMORY]))

    def _deciding(self, present: torch.Tensor | None) -> torch.Tensor | None:
        """Rows int64 [n] of agents that have not left, if only those need to decide; None: all decide.

        On other devices all decide, because selecting them would wait for the device.
        """
        # A copy ends with its only agent.
        if present is None or present.shape[1] == 1 or self.generator.device.type != "cpu":
            return None
        there = present.flatten().nonzero().squeeze(1)
        return there if len(there) < _FEW * present.numel() else None

    def _noise(self, envs: int, agents: int) -> torch.Tensor:
        """Random numbers of this rank's copies, drawn for those of all ranks."""
        ranks, head = self._ranks, self.network.action
        # Every rank draws for the copies of all, as a single process would.
        noise = noise_of(head, envs * ranks.count * agents, self.generator)
        # float32 [e A, c + b] of this rank's e copies.
        return noise.view(envs * ranks.count, agents, -1)[ranks.share(envs * ranks.count)].flatten(0, 1)

    @override
    def compile(self, seen: ActorInput) -> None:
        drawn = self.generator.get_state()
        self._sampled = torch.compile(self._decide, dynamic=False)  # E and A never change, so one compilation serves
        try:
            self.act(seen)  # with a fresh state
        except Exception:
            self._sampled = self._decide
            raise
        finally:
            self.generator.set_state(drawn)

    def _decide(
        self,
        rows: torch.Tensor,
        forbidden: torch.Tensor | None,
        noise: torch.Tensor | None,
        state: torch.Tensor | None,
    ) -> tuple[Drawn, torch.Tensor | None]:
        """The decisions, and the recurrent state [n, towers, M] after them."""
        network = self.network
        inputs = network.normalize(inputs_of(rows))
        if state is None:
            return draw(network.action, network.outputs(inputs), forbidden, noise), None
        # Both towers: the critic's has a state of its own.
        answer: NetworkOutput = network(inputs, Past(state))
        return draw(network.action, answer.outputs, forbidden, noise), answer.state


def _spread(values: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
    """[count, ...] with ``values`` in these rows and zeros in all others."""
    return values.new_zeros(count, *values.shape[1:]).index_copy_(0, rows, values)


class ExploringActor(TensorActor):
    """Disturbs the best action: explores among the values of discrete ones, and adds noise to continuous ones.

    Args:
        algorithm: its network decides, and its generator draws.
        space: actions of one agent.
    """

    def __init__(self, algorithm: OffPolicy, space: ActionSpace) -> None:
        self._algorithm = algorithm
        exploration, head = algorithm.network.exploration, algorithm.network.action
        assert exploration is not None
        self._exploration, self._choices = exploration, head.choices
        self._greedy = Greedy(GreedySettings(), head.choices)
        self._to_env = ToEnv(space, head, algorithm.device)

    @override
    @torch.no_grad()
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        algorithm, network = self._algorithm, self._algorithm.network
        envs, agents = seen.observations.shape[:2]
        rows = seen.observations.reshape(envs * agents, -1)  # [E A, D]
        outputs = network.outputs(network.normalize([rows]))  # means [E A, c], or values of all branches [E A, M]
        best = torch.tanh(outputs[:, : self._choices.continuous_size])  # [E A, c]
        numbers, branches = algorithm.exploring(), self._choices.discrete_branches
        forbidden = None if seen.mask is None else forbidden_of(seen.mask.reshape(envs * agents, -1), branches)
        if self._choices.continuous_size and not deterministic:
            best = self._exploration.perturb(best, numbers, {}, algorithm.generator)[0].clamp(-1.0, 1.0)
        explored = self._greedy if deterministic else self._exploration
        # int64 [E A, b].
        chosen = explored.decide(outputs[:, best.shape[1] :], forbidden, numbers, algorithm.generator)
        drawn = Drawn(best, chosen, best[:, :0])
        return Acted(self._to_env(drawn, envs, agents), kept_of(drawn, envs, agents))


def kept_of(drawn: Drawn, envs: int, agents: int) -> dict[str, torch.Tensor]:
    """The decisions as learning needs them, [E, A, c] and [E, A, b] by name; without those of size 0."""
    kept = {"continuous": drawn.continuous, "discrete": drawn.discrete}
    return {name: values.view(envs, agents, -1) for name, values in kept.items() if values.shape[1]}


def actor_of(algorithm: GradientAlgorithm, space: ActionSpace) -> TensorActor:
    """The actor of an algorithm's network; ``space``: actions of one agent."""
    if isinstance(algorithm, OffPolicy) and algorithm.network.exploration is not None:
        return ExploringActor(algorithm, space)
    return SamplingActor(algorithm, space)
