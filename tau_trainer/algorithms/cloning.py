"""Behavioral cloning beside reinforcement learning: after every update some gradient steps towards demonstrations.

What they make smaller is what :mod:`.offline.bc` does, the negative log-likelihood of whole actions. Their optimizer is
one of its own over the policy's parameters, Adam as in ML-Agents, and their step size falls to 0 over ``steps``
decisions. Recurrent networks learn from sequences that begin without a past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms.batch import shuffled_order
from tau_trainer.algorithms.offline.recordings import demonstrated
from tau_trainer.algorithms.parameters import FlatParameters, fitting, optimizer_step_from_python
from tau_trainer.columns import Arrays
from tau_trainer.errors import NonFiniteError
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.actor_critic import MEMORY, as_tensor
from tau_trainer.models.distributions import LEAST_LOG_SIGMA, action_log_prob

if TYPE_CHECKING:
    from tau_trainer.algorithms.base import Setup
    from tau_trainer.settings.signals import BehavioralCloningSettings

_EPOCHS = 3
_PREFIX = "cloning."
_MOMENTS = "exp_avg", "exp_avg_sq"


def likelihood(
    network: ActorCritic,
    outputs: torch.Tensor,
    continuous: torch.Tensor,
    discrete: torch.Tensor,
    forbidden: torch.Tensor,
) -> torch.Tensor:
    """Log-likelihood [n] of whole actions, as the memory has them, from what the actor says; see LEAST_LOG_SIGMA."""
    mask = forbidden if forbidden.shape[1] else None
    return action_log_prob(network.action, outputs, continuous, discrete, mask, LEAST_LOG_SIGMA).sum(dim=1)


class Cloning:
    """Gradient steps towards the demonstrations at ``demo_path``.

    Args:
        settings: ``behavioral_cloning``.
        setup: of the algorithm.
        network: what acts.
        parameters: in which it lies.

    Raises:
        DataError: the demonstrations cannot be read, or are of other agents.
    """

    def __init__(
        self, settings: BehavioralCloningSettings, setup: Setup, network: ActorCritic, parameters: FlatParameters
    ) -> None:
        self._settings, self._network, self._parameters = settings, network, parameters
        self._rate = setup.settings.hyperparameters.learning_rate * settings.strength
        self._decisions = setup.decisions
        self._batch = settings.batch_size or setup.settings.hyperparameters.batch_size
        self.generator = torch.Generator().manual_seed(setup.seed)
        vector = parameters.optimizer.parameters
        self._moments = {name: torch.zeros_like(vector) for name in _MOMENTS}
        self._step, self._taken = torch.zeros((), dtype=torch.int64), torch.zeros((), device=vector.device)
        self._inputs: list[torch.Tensor] = []
        self._actions: list[torch.Tensor] = []
        """Continuous, discrete and what was forbidden, [k, ...] each."""
        self._past: list[torch.Tensor] = []
        """State and where sequences begin, of recurrent networks; the rows are sequences then."""
        if setup.learns:
            self._read(setup)

    def _read(self, setup: Setup) -> None:
        rollout, network = demonstrated(self._settings.demo_path, setup, self._network), self._network
        device, memory = self._parameters.optimizer.parameters.device, setup.settings.network_settings.memory
        order, begins = np.arange(len(rollout)), np.zeros(0, np.bool_)
        if memory is not None:
            order, begins = rollout.sequences(memory.sequence_length)
        nothing = np.zeros((len(rollout), network.action.choices.mask_size), np.bool_)
        forbidden = nothing if rollout.mask is None else network.action.forbidden(rollout.mask)
        actions = rollout.column("continuous"), rollout.column("discrete").astype(np.int64), forbidden
        past = [rollout.column(MEMORY)[order], begins] if memory is not None else []
        self._inputs, self._actions, self._past = (
            [as_tensor(values).to(device) for values in columns]
            for columns in (
                [values[order] for values in network.arrange(rollout.observations)],
                [values[order] for values in actions],
                past,
            )
        )

    def rate(self, progress: float) -> float:
        """Step size at ``progress``, see :meth:`Algorithm.update`; 0 once the ``steps`` are over."""
        steps = self._settings.steps
        return self._rate * max(0.0, 1.0 - progress * self._decisions / steps) if steps else self._rate

    def learn(self, progress: float) -> dict[str, float]:
        """``num_epoch`` passes, each over at most ``samples_per_update`` decisions; numbers by TensorBoard name.

        Raises:
            NonFiniteError: the policy became NaN or infinite.
        """
        rate, count = self.rate(progress), len(self._actions[0])
        if not rate:
            return {}
        size, begins, losses = min(self._batch, count), self._past[-1:], list[torch.Tensor]()
        most = max(size, self._settings.samples_per_update or count)
        for _ in range(self._settings.num_epoch or _EPOCHS):
            order = shuffled_order(begins[0] if begins else torch.zeros(0), count, self.generator)[:most]
            order = order.to(self._actions[0].device)
            losses += [self._descend(order[i : i + size], rate) for i in range(0, len(order) - size + 1, size)]
        loss = float(torch.stack(losses).mean())
        if not np.isfinite(loss) or not self._parameters.finite():
            raise NonFiniteError("behavioral_cloning made the policy NaN or infinite; lower its strength")
        return {keys.PRETRAINING_LOSS: loss}

    def _descend(self, rows: torch.Tensor, rate: float) -> torch.Tensor:
        """A gradient step from a minibatch; its loss []."""
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
        """Of these rows [n] of the demonstrations, []: the mean over them."""
        inputs = self._network.normalize([values[rows] for values in self._inputs])
        outputs = self._network.outputs(inputs, *(values[rows] for values in self._past))
        return -likelihood(self._network, outputs, *(values[rows] for values in self._actions)).mean()

    def backup(self) -> list[torch.Tensor]:
        """A copy of everything but the policy, to go back to."""
        return [self.generator.get_state(), *(values.clone() for values in (self._step, *self._moments.values()))]

    def restore(self, backup: list[torch.Tensor]) -> None:
        """Go back to a :meth:`backup`."""
        self.generator.set_state(backup[0])
        for values, saved in zip((self._step, *self._moments.values()), backup[1:], strict=True):
            values.copy_(saved)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything but the policy that is needed to go on bit for bit."""
        tensors = {**self._moments, "step": self._step, "generator": self.generator.get_state()}
        return {_PREFIX + name: values.to("cpu", copy=True).numpy() for name, values in tensors.items()}

    def load(self, arrays: Arrays, *, fresh: bool) -> None:
        """Go on from :meth:`state`; ``fresh``: as if nothing had been imitated yet. Raises CheckpointError."""
        if fresh:
            return
        tensors = {**self._moments, "step": self._step, "generator": self.generator.get_state()}
        found = {name: fitting(arrays, _PREFIX + name, tuple(values.shape)) for name, values in tensors.items()}
        self.restore([torch.from_numpy(np.array(found[name])) for name in ("generator", "step", *_MOMENTS)])
