"""One update of PPO or A2C, for experience from any collector and in any layout.

A :class:`Reader` makes samples of experience: of a ragged rollout of engines' agents, of a dense one of tensors, or of
that of all members of a population. All that follows is here, on the samples' device:

1. The very first rollout initializes the statistics of observations.
2. Current values, advantages and returns; current log-probabilities for data from another policy.
3. Epochs of minibatches: by hand if the network is plain (:mod:`.fused`), otherwise by torch's differentiation.
4. Observation statistics take in a rollout *after* it was learned from, so that the probability ratio of fresh data is
   exactly 1 when learning starts.

``N`` samples, ``R`` numbers in all rewards, ``K`` components of an action, ``P`` members of a population.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from tau_trainer.algorithms.accelerators.fused import FusedEpochs
from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.base import OnBatch
from tau_trainer.algorithms.losses import CLIPPED, Objective, evaluate, summarize_epoch
from tau_trainer.algorithms.minibatches import Numbers, Rows, Samples, exact, in_parts, new_statistics, shuffled
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, scheduled
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic, Normalizer
from tau_trainer.models.observation_encoder import Inputs
from tau_trainer.rewards.streams import RewardStream

if TYPE_CHECKING:
    from tau_trainer.settings import PPOHyperparameters
    from tau_trainer.settings.batched import A2CHyperparameters

_ROWS = 8192
"""Rows of one forward pass without gradient: large enough for full speed, small enough for the cache."""
_NUMBERS = 2**21
"""Most observation numbers in one forward pass, because bytes of images become floats."""
_PARTS = 4
"""Number of times that the policy is published in a whole epoch, if requested."""


class Reader(ABC):
    """Experience in the form that an update needs.

    Attributes:
        rows: decides which samples make a minibatch.
        new: number of samples that no update has learned from before.
    """

    rows: Rows
    new: int

    @abstractmethod
    def observe(self, normalizer: Normalizer) -> None:
        """Let the normaliser take in the new observations."""

    @abstractmethod
    def samples(self, network: ActorCritic) -> Samples:
        """Samples without advantages and returns, on the network's device, normalised with the current statistics."""

    @abstractmethod
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        """Sum of all streams' advantages float32 [N, 1 or K], and their returns side by side [N, R].

        Args:
            values: current values, [N, R], in the order of the samples.
            update: its :meth:`~PolicyUpdate.values` are used for the next observations.
        """

    def stale(self, *, renormalized: bool) -> torch.Tensor | slice | None:
        """Rows whose log-probability has to be recomputed with the current network; None: the current policy acted.

        ``renormalized``: whether the statistics were initialized after acting.
        """
        return slice(None) if renormalized else None


class Learned(NamedTuple):
    """Results of an update, on the device."""

    statistics: dict[str, torch.Tensor]
    """By TensorBoard name, [] or [P]."""
    epochs: torch.Tensor
    """[epochs, 6], or [epochs, P, 6]: rows of :func:`~tau_trainer.algorithms.losses.summarize_epoch`."""
    minibatches: int
    """Gradient steps taken."""


class PolicyUpdate:
    """PPO's updates of one network.

    Args:
        network: the network to train.
        parameters: its parameters.
        hyperparameters: of the algorithm.
        streams: reward streams, in the order of the network's values.
        max_steps: of the run, for schedules.
        ranks: the processes that learn together.
    """

    def __init__(
        self,
        network: ActorCritic,
        parameters: FlatParameters,
        hyperparameters: PPOHyperparameters | A2CHyperparameters,
        streams: Sequence[RewardStream],
        max_steps: float,
        ranks: Ranks | None = None,
    ) -> None:
        self.network, self.parameters, self.streams = network, parameters, streams
        self.hyperparameters, self._max_steps = hyperparameters, max_steps
        self.ranks = ranks
        self.epochs: FusedEpochs | AutogradEpochs
        if self.objective is CLIPPED and network.plain and (ranks is None or ranks.alone):
            self.epochs = FusedEpochs(network, parameters)
        else:
            self.epochs = AutogradEpochs(network, parameters, ranks, self.objective)
        self._whole = parameters.optimizer.gradient.dim() > 1  # members' rows must stay together
        self._passes: int = getattr(hyperparameters, "num_epoch", 1)
        self._target_kl: float | None = getattr(hyperparameters, "target_kl", None)
        self._observed = False
        """Whether the normaliser is known to have statistics: a query waits for the device."""

    @property
    def objective(self) -> Objective:
        """The objective to minimize."""
        return CLIPPED

    @property
    def _own(self) -> PPOHyperparameters:
        return cast("PPOHyperparameters", self.hyperparameters)

    @property
    def scripted(self) -> bool:
        """Whether epochs run without the interpreter's lock."""
        return isinstance(self.epochs, FusedEpochs) and self.epochs.scripted

    def differentiate(self) -> None:
        """Learn by torch's own differentiation, for any network: the same numbers."""
        self.epochs = AutogradEpochs(self.network, self.parameters, self.ranks, self.objective)

    def loaded(self) -> None:
        """The network may have been restored to a state without statistics."""
        self._observed = False

    def numbers(self, progress: float, rate: float) -> Numbers:
        """The hyperparameters at ``progress``, with a learning rate."""
        hyper, steps = self._own, self._max_steps
        return self._numbers(
            epsilon=scheduled(hyper.epsilon, hyper.epsilon_schedule, progress, EPSILON_FLOOR, steps),
            beta=scheduled(hyper.beta, hyper.beta_schedule, progress, BETA_FLOOR, steps),
            learning_rate=rate,
            max_grad_norm=hyper.max_grad_norm,
        )

    def _numbers(self, epsilon: float, beta: float, learning_rate: float, max_grad_norm: float | None) -> Numbers:
        choices = self.network.action.choices
        branches = list(choices.discrete_branches)
        return Numbers(choices.continuous_size, branches, epsilon, beta, learning_rate, max_grad_norm or 0.0)

    def told(self, numbers: Numbers) -> dict[str, float]:
        """Hyperparameters of an update by TensorBoard name."""
        return {
            keys.LEARNING_RATE: numbers.learning_rate,
            keys.POLICY_EPSILON: numbers.epsilon,
            keys.POLICY_BETA: numbers.beta,
        }

    @torch.no_grad()
    def learn(
        self,
        reader: Reader,
        numbers: Numbers,
        publish: Callable[[], None] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Learned:
        """Change the network. NaN or infinity shows only in the returned values, so that the device is not waited for.

        Args:
            reader: of at least one sample, over all ranks.
            numbers: of this update.
            publish: called a few times per epoch, when the policy so far may be published.
            on_batch: called for minibatches; waits for the device.
        """
        normalizer = self.network.normalizer
        # Waits for the device, so it is only checked until there are statistics.
        first = normalizer is not None and not self._observed and normalizer.untouched
        self._observed = not first
        if normalizer is not None and first:
            reader.observe(normalizer)
        samples = reader.samples(self.network)
        values = self.values(samples.inputs, *samples.past)  # [N, R]; from the critic before the update
        advantage, returns = reader.advantages(values, self)  # [N, 1 or K] and [N, R]
        samples = samples._replace(advantage=advantage, returns=returns)
        stale = reader.stale(renormalized=first)
        if stale is not None:
            samples = samples._replace(log_prob=self._log_prob(samples, stale))
        epochs, minibatches = self._descend(samples, numbers, reader, publish, on_batch)
        if normalizer is not None and not first:
            reader.observe(normalizer)
        statistics = self._losses(epochs) | self._of_values(values, returns, reader.rows)
        return Learned(statistics, epochs, minibatches)

    def values(self, inputs: Inputs, *past: torch.Tensor | None) -> torch.Tensor:
        """The critic's values, [n, R] of all streams side by side."""
        return self.in_pieces(self.network.values, inputs, *past)

    def in_pieces(
        self,
        forward: Callable[..., torch.Tensor],
        inputs: Inputs,
        state: torch.Tensor | None = None,
        begins: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``forward`` over all rows, a piece at a time; sequences stay whole."""
        past = [values for values in (state, begins) if values is not None]
        # Floats of a row, all sensors together.
        rows, numbers = len(inputs[0]), sum(math.prod(values.shape[1:]) for values in inputs)
        if rows <= (piece := max(1, min(_ROWS, _NUMBERS // max(1, numbers)))) or self._whole:
            return forward(inputs, *past)
        cuts = np.arange(0, rows, piece)  # first rows of equal pieces
        if begins is not None:
            first = begins.nonzero()[:, 0].cpu().numpy()  # first row of each sequence
            # Each cut moves back to the start of its sequence.
            cuts = np.unique(first[np.searchsorted(first, cuts, side="right") - 1])
        parts = [slice(*ends) for ends in zip(cuts, (*cuts[1:], rows), strict=True)]
        pieces = [forward([values[part] for values in inputs], *(values[part] for values in past)) for part in parts]
        return torch.cat(pieces)

    def _log_prob(self, samples: Samples, rows: torch.Tensor | slice) -> torch.Tensor:
        """Log-probabilities [N, K] of the samples' actions: by the current network in ``rows``, otherwise as stored."""
        some = samples if isinstance(rows, slice) else shuffled(samples, rows)  # no copy if all rows are selected
        now, _ = evaluate(self.network, self.in_pieces(self.network.outputs, some.inputs, *some.past), some)
        return now if isinstance(rows, slice) else samples.log_prob.index_copy(0, rows, now)

    def _prepared(self, samples: Samples, rows: Rows) -> Samples:
        """The samples, with advantages normalised if that is per buffer."""
        if self._own.normalize_advantage == "buffer":
            samples = samples._replace(advantage=rows.normalized(samples.advantage))
        return samples

    def _epoch(self, samples: Samples, rows: Rows, minibatches: int, batch: int) -> tuple[Samples, Sequence[int]]:
        """Newly drawn minibatches, one after another, and their local sizes."""
        # int64 [m * batch], or [P, m * batch]; an incomplete minibatch is left out, with other rows in each epoch.
        order = rows.order(samples.begins)[..., : minibatches * batch]
        epoch, sizes = rows.minibatches(samples, order, batch)
        if self._own.normalize_advantage == "minibatch":
            epoch = epoch._replace(advantage=rows.normalized(epoch.advantage, sizes, batch))
        return epoch, sizes

    def _descend(
        self,
        samples: Samples,
        numbers: Numbers,
        reader: Reader,
        publish: Callable[[], None] | None,
        on_batch: OnBatch | None,
    ) -> tuple[torch.Tensor, int]:
        """Epochs of minibatches over all samples: ``num_epoch`` times as many as the new ones fill."""
        rows = reader.rows
        samples = self._prepared(samples, rows)
        batch = min(self.hyperparameters.batch_size, rows.count)
        # Older samples make epochs longer, but do not add steps: those depend only on the new ones.
        whole, steps = rows.count // batch, self._passes * max(1, reader.new // batch)
        summaries: list[torch.Tensor] = []
        taken = 0
        while taken < steps:
            minibatches = min(whole, steps - taken)  # the last epoch may be a part of one
            epoch, sizes = self._epoch(samples, rows, minibatches, batch)
            statistics = new_statistics(epoch, len(epoch.returns), minibatches, rows.members)
            parts = 1 if publish is None else max(1, _PARTS * minibatches * batch // rows.count)
            for part, found, part_sizes in in_parts(epoch, statistics, sizes, parts):
                if on_batch is not None:
                    on_batch(len(part_sizes), None)
                self.epochs.run(numbers, part, found, batch, part_sizes)
                if on_batch is not None:
                    entropy, norm = (float(values.mean()) for values in (found.entropy, found.gradient_norm))
                    on_batch(len(part_sizes), {keys.POLICY_ENTROPY: entropy, keys.GRADIENT_NORM: norm})
                if publish is not None:
                    publish()
            summary = summarize_epoch(epoch, statistics, numbers.epsilon, self.objective)
            summaries.append(rows.summed(summary, len(epoch.returns), minibatches * batch))  # [6], or [P, 6]
            taken += minibatches
            if self._target_kl is not None and bool(summaries[-1][3] > self._target_kl):  # waits for the device
                break
        return torch.stack(summaries), taken

    def _losses(self, epochs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Means over all epochs; KL and clip fraction of the last epoch, which show how far the policy has moved."""
        mean, last = epochs.mean(dim=0), epochs[-1]
        return {
            keys.POLICY_LOSS: mean[..., 0],
            keys.VALUE_LOSS: mean[..., 1],
            keys.POLICY_ENTROPY: mean[..., 2],
            keys.APPROXIMATE_KL: last[..., 3],
            keys.CLIP_FRACTION: last[..., 4],
            keys.GRADIENT_NORM: mean[..., 5],
        }

    def _of_values(self, values: torch.Tensor, returns: torch.Tensor, rows: Rows) -> dict[str, torch.Tensor]:
        """The critic's values [N, R]: each stream's mean, and the share of the returns' variance that it explains.

        1 = all, 0 = none, negative = worse than a constant. The share is the mean over columns; a column whose returns
        do not vary counts as 0.
        """
        # For each stream [width], or [P, width].
        means = torch.split(rows.mean(values), [stream.width for stream in self.streams], dim=-1)
        names = [keys.value_estimate(stream.name) for stream in self.streams]
        estimates = {name: mean.mean(dim=-1) for name, mean in zip(names, means, strict=True)}
        # [R], or [P, R]; float64, for large returns that hardly vary.
        variance, unexplained = rows.variance(returns), rows.variance(exact(returns) - values)
        # A constant has no variance to explain.
        shares = torch.where(variance > 1e-12, 1.0 - unexplained / variance.clamp(min=1e-12), 0.0)
        return estimates | {keys.EXPLAINED_VARIANCE: shares.mean(dim=-1)}
