"""Behavioral cloning during reinforcement learning: after every update, a few gradient steps towards demonstrations.

The steps minimize the same loss as :mod:`.offline.bc`, the negative log-likelihood of whole actions. They have their
own optimizer over the policy's parameters, Adam as in ML-Agents, and their step size falls to 0 over ``steps``
decisions. Recurrent networks learn from sequences that start without a past.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.minibatches import shuffled_order
from tau_trainer.algorithms.offline.recordings import demonstrated
from tau_trainer.algorithms.parameters import Beside, FlatParameters, optimizer_step_from_python
from tau_trainer.algorithms.schedules import learning_rate
from tau_trainer.errors import NonFiniteError
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import MEMORY, as_tensor
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.distributions import LEAST_LOG_SIGMA, action_log_prob

if TYPE_CHECKING:
    from tau_trainer.algorithms.base import Setup
    from tau_trainer.settings.signals import BehavioralCloningSettings

_EPOCHS = 3


def likelihood(network: ActorCritic, outputs: torch.Tensor, actions: Sequence[torch.Tensor]) -> torch.Tensor:
    """Log-likelihood [n] of whole actions, from the actor's outputs; see :data:`LEAST_LOG_SIGMA`.

    ``actions``: continuous, discrete and forbidden ones, [n, ...] each, as in the memory.
    """
    continuous, discrete, forbidden = actions
    each = action_log_prob(
        network.action,
        outputs,
        continuous,
        discrete,
        forbidden if forbidden.shape[1] else None,
        LEAST_LOG_SIGMA,
    )
    return each.sum(dim=1)


class Cloning(Beside):
    """Gradient steps towards the demonstrations at ``demo_path``.

    Args:
        settings: ``behavioral_cloning``.
        setup: of the algorithm.
        network: the network that acts.
        parameters: the flat parameters of the network.

    Raises:
        DataError: the demonstrations cannot be read, or are of other agents.
    """

    prefix = "cloning."
    generator: torch.Generator

    def __init__(
        self, settings: BehavioralCloningSettings, setup: Setup, network: ActorCritic, parameters: FlatParameters
    ) -> None:
        self._settings = settings
        self._network = network
        self._parameters = parameters
        hyper, steps = setup.settings.hyperparameters, setup.settings.max_steps
        self._rate = learning_rate(hyper, 0.0, steps) * settings.strength
        self._decisions = setup.decisions
        self._batch = settings.batch_size or hyper.batch_size
        self.generator = torch.Generator().manual_seed(setup.seed)
        vector = parameters.optimizer.parameters
        self._moments = {
            "exp_avg": torch.zeros_like(vector),
            "exp_avg_sq": torch.zeros_like(vector),
        }
        self._step = torch.zeros((), dtype=torch.int64)
        self._taken = torch.zeros((), device=vector.device)
        self._inputs: list[torch.Tensor] = []
        self._actions: list[torch.Tensor] = []
        """Continuous, discrete and forbidden actions, [k, ...] each."""
        self._past = NO_PAST
        if setup.learns:
            self._read(setup)

    def _read(self, setup: Setup) -> None:
        network, memory = self._network, setup.settings.network_settings.memory
        rollout = demonstrated(self._settings.demo_path, setup, network)
        forbidden = network.action.forbids(rollout.mask, len(rollout))
        inputs = network.arrange(rollout.observations)
        discrete = rollout.column("discrete").astype(np.int64)
        order = np.arange(len(rollout))
        if memory is not None:
            order, begins = rollout.sequences(memory.sequence_length)
            self._past = Past(*self._on_device((rollout.column(MEMORY)[order], begins)))
        self._inputs = self._on_device(values[order] for values in inputs)
        self._actions = self._on_device(values[order] for values in (rollout.column("continuous"), discrete, forbidden))

    def _on_device(self, columns: Iterable[NDArray[Any]]) -> list[torch.Tensor]:
        device = self._taken.device
        return [as_tensor(values, device) for values in columns]

    def rate(self, progress: float) -> float:
        """Step size at ``progress``, see :meth:`Algorithm.update`; 0 once the ``steps`` are over."""
        steps = self._settings.steps
        if not steps:
            return self._rate
        return self._rate * max(0.0, 1.0 - progress * self._decisions / steps)

    def learn(self, progress: float) -> dict[str, float]:
        """``num_epoch`` passes, each over at most ``samples_per_update`` decisions; numbers by TensorBoard name.

        Raises:
            NonFiniteError: the policy became NaN or infinite.
        """
        rate, count = self.rate(progress), len(self._actions[0])
        if not rate:
            return {}
        size = min(self._batch, count)
        most = max(size, self._settings.samples_per_update or count)
        begins = torch.zeros(0) if self._past.begins is None else self._past.begins
        losses = list[torch.Tensor]()
        for _ in range(self._settings.num_epoch or _EPOCHS):
            order = shuffled_order(begins, count, self.generator)
            order = order[:most].to(self._taken.device)
            for begin in range(0, len(order) - size + 1, size):
                rows = order[begin : begin + size]
                losses.append(self._descend(rows, rate))
        loss = float(torch.stack(losses).mean())
        if not np.isfinite(loss) or not self._parameters.finite():
            raise NonFiniteError("behavioral_cloning made the policy NaN or infinite; lower its strength")
        return {keys.PRETRAINING_LOSS: loss}

    def _descend(self, rows: torch.Tensor, rate: float) -> torch.Tensor:
        """A gradient step from a minibatch; returns its loss []."""
        flat = self._parameters.optimizer
        flat.gradient.zero_()
        with torch.enable_grad():
            loss = self.loss(rows)
            self._parameters.differentiate(loss)
        self._step.add_(1)
        adam = flat._replace(**self._moments, kind="adam", weight_decay=0.0)  # type: ignore[arg-type]
        optimizer_step_from_python(adam, rate, int(self._step), self._taken)
        flat.gradient.zero_()
        return loss.detach()

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Loss of these rows [n] of the demonstrations, []: the mean over them."""
        inputs = self._network.normalize([values[rows] for values in self._inputs])
        outputs = self._network.outputs(inputs, self._past.of(rows))
        actions = [values[rows] for values in self._actions]
        return -likelihood(self._network, outputs, actions).mean()

    @override
    def tensors(self) -> dict[str, torch.Tensor]:
        return {**self._moments, "step": self._step}
