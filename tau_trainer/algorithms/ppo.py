"""Proximal Policy Optimization (Schulman et al. 2017), with the details that ML-Agents' users rely on.

- Clipped surrogate, separate or shared critic, one optimizer for both, linear or constant schedules.
- Loss = policy loss + 0.5 * value loss - beta * entropy. No value clipping: ML-Agents' has no effect either.
- One probability ratio for each action component, all with the same advantage; the policy loss is their mean (as in
  ML-Agents; with one component, it is the same as the paper's single ratio of the whole action).
- Advantages by GAE, normalised per buffer or per minibatch; ends by a limit are bootstrapped, real ends are not.
- Every epoch shuffles again; ``floor(N / batch_size)`` minibatches, the rest of that epoch's order is left out.
- If half of the experience in an update is new (``updates_per_buffer`` 2), there are half as many epochs, so that every
  decision is learned from ``num_epoch`` times in all. Reusing the last rollouts is GePPO's idea (Queeney, Paschalidis
  and Cassandras 2021); here with the proximal policy described below instead of its clip range.
- ``shrink_at`` shrinks and perturbs once (Ash and Adams 2020, section 4.1): half of each weight plus half of a newly
  drawn one, for actor and critic, and an optimizer without moments. A network that first learned from experience that
  was mostly noise generalises worse than a fresh one does from the same later experience (Igl et al. 2021).
- Gaussian entropy is the mean over dimensions, branch entropies are summed, as in ML-Agents' ``Policy/Entropy``.
- The observation statistics take in a rollout *after* it was learned from. Only the very first is taken in before, and
  the log-probabilities of its actions are recomputed with these statistics.

**Component credit.** A reward stream as wide as the action has a value, an advantage and a return for each component.
Given the observation, components are drawn independently. So if a component's reward depends on that component alone
(as in the Tau task), the gradient is the same in expectation, and free of the noise from the other components' rewards.

**Recurrent networks** learn from sequences of up to ``sequence_length`` decisions of one agent in one episode.
Gradients flow through time within a sequence, which starts with the state that was stored at its first decision; no
burn-in refreshes it (as in ML-Agents; Kapturowski et al. 2019 compare both). Sequences are shuffled as wholes and laid
end to end, and a minibatch still has ``batch_size`` decisions: if it cuts a sequence, the rest starts with its own
stored state. So nothing is padded to full length, and short episodes cost no more than their length.

**The update** is :meth:`PPO.update`, also of POCA, MAPPO and A2C; its middle, :meth:`PolicyUpdate.learn`, also serves
populations. A reader (:mod:`.readers`) makes samples of any experience, and all that follows works on their device.
``N`` samples, ``R`` numbers in all rewards, ``K`` components of an action, ``P`` members of a population.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.fused import FusedEpochs
from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.base import Counters, OnBatch, Publish, Setup, State
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.losses import CLIPPED, Objective, evaluate, summarize_epoch
from tau_trainer.algorithms.minibatches import Coefficients, Rows, Samples, exact, in_parts, new_statistics, shuffled
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.algorithms.readers import Reader, RolloutReader, SequenceReader, TensorReader
from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, scheduled
from tau_trainer.columns import Arrays, Column, unprefixed
from tau_trainer.memory import Rollout, RolloutMemory, TensorRollout, Work, WorkData, experience, joined
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.blocks import NO_PAST, Past
from tau_trainer.models.observation_encoder import Inputs
from tau_trainer.rewards.streams import RewardStream
from tau_trainer.settings.hyperparameters import A2CHyperparameters, POCAHyperparameters

_FRESH = 0.5
"""Share of the newly drawn weights."""
_ROWS = 8192
"""Rows of one forward pass without gradient: large enough for full speed, small enough for the cache."""
_NUMBERS = 2**21
"""Most observation numbers in one forward pass, because bytes of images become floats."""
_PARTS = 4
"""Number of times that the policy is published in a whole epoch, if requested."""


class PPO(GradientAlgorithm):
    """The learner of one behavior.

    It learns from the newest ``buffer_size`` transitions, of which :attr:`rollout_size` are new in every update.

    Attributes:
        policy_update: updates its network.
    """

    name = "ppo"
    starts_from: tuple[str, ...] = ("bc", "a2c")
    data_parallel = True
    reader_kind: type[RolloutReader] = RolloutReader
    """Reader of the experience of engines."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        hyper = setup.settings.hyperparameters
        assert isinstance(hyper, POCAHyperparameters | A2CHyperparameters)
        self._hyperparameters = hyper
        memory = setup.settings.network_settings.memory
        self._sequence_length = None if memory is None else memory.sequence_length
        self._shrink_at: float | None = getattr(self._hyperparameters, "shrink_at", None)
        self._shrunk = False
        self._older: WorkData | None = None
        """Experience that was new in the last update, if the next update learns from it again."""
        self.module = self.network = self.build_network()
        self.parameters = FlatParameters(self.network, self.device, self._hyperparameters)
        if setup.copies is None:
            self.memory: RolloutMemory = self.new_memory(self.rollout_size, self.settings.time_horizon)
        else:
            self.horizon = setup.copies.steps_in(self.rollout_size)
            self.generator = torch.Generator(self.device).manual_seed(setup.seed)  # for acting, too
        self.signals, self.cloning = self.make_signals(), self.make_cloning()
        self.policy_update = self.new_update()
        self.holds_lock = not self.policy_update.scripted or bool(self._beside)

    @override
    def ready(self, counters: Counters) -> Work | None:
        return self.memory.take() if self.memory.completed >= (counters.push or self.rollout_size) else None

    @property
    @override
    def missing(self) -> str:
        return f"a buffer of {self.rollout_size:,}"

    @override
    @torch.no_grad()
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        started, new, older = time.perf_counter(), experience(work), self._older
        if isinstance(new, Rollout) and not len(new):
            raise ValueError("an update needs at least one transition")

        def show() -> None:
            if publish is not None and self.parameters.finite():  # NaN must not act
                publish(self.policy(self.weights(), self.version + 1))

        self._older = None  # first, so that nothing is reused after a failure
        with self.whole_or_nothing():
            if isinstance(new, Rollout):
                self.check_input(new)
            reader = self.read(new if older is None else Rollout(joined(older, work)))
            if reader.rows.count == 0:  # in every copy, all agents had left
                return {}
            statistics = dict[str, Any](self._pay(reader, new) if self.signals else {})
            update, hyper = self.policy_update, self.schedule(progress)
            learned = update.learn(reader, hyper, None if publish is None else show, self.on_batch)
            statistics |= learned.statistics | update.as_metrics(hyper)
            self.check_finite(learned.epochs)
            losses = torch.stack(list(learned.statistics.values())).tolist()
            statistics |= dict(zip(learned.statistics, losses, strict=True))
            statistics[keys.MINIBATCHES] = float(learned.minibatches)
            if self.cloning is not None:
                statistics |= self.cloning.learn(progress)
            if isinstance(new, Rollout) and self.rollout_size < (self._hyperparameters.buffer_size or 0):
                self._older = self._kept(work, new)
            if self._shrink_at is not None and progress >= self._shrink_at and not self._shrunk:
                self._shrink()
        return statistics | self.finished(new if isinstance(new, Rollout) else None, started)

    def read(self, rollout: Rollout | TensorRollout) -> Reader:
        """The reader of a rollout for an update."""
        rng, length = self.generator, self._sequence_length
        if isinstance(rollout, TensorRollout):
            return TensorReader(rollout, rng, self.ranks) if length is None else SequenceReader(rollout, rng, length)
        return self.reader_kind(rollout, self.network, self.version, rng, length, self.ranks)

    def schedule(self, progress: float) -> Coefficients:
        """The hyperparameters at ``progress``, see :meth:`Algorithm.update`."""
        return self.policy_update.schedule(progress, self.learning_rate(progress))

    def _pay(self, reader: Reader, new: Rollout | TensorRollout) -> dict[str, float]:
        """Let the learned reward streams learn from the new part and pay for everything.

        Paid novelty stays as it is.
        """
        statistics: dict[str, float] = {}
        everything = reader.experience(self.network)
        fresh = everything.part(slice(reader.rows.count - reader.new, None))
        for signal in self.signals:
            found, losses = signal.learn_and_pay(fresh, everything, soft=self.soft)
            statistics |= losses
            reader.pay(signal.name, found)
            if isinstance(new, Rollout):
                new.rewards[signal.name] = found[-reader.new :].cpu().numpy()
        if isinstance(reader, TensorReader) and self.copy_sums is not None:
            return statistics | self.of_episodes(reader.earned(self.streams, self.copy_sums))
        return statistics | (self.earned(new) if isinstance(new, Rollout) else {})

    def _kept(self, data: WorkData, rollout: Rollout) -> WorkData:
        """A copy of a paid rollout's data, for the next update."""
        kept = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in data.items()}
        for signal in self.signals:
            if signal.settings.novelty:
                kept[f"reward.{signal.name}"] = rollout.as_column(rollout.rewards[signal.name])
        return kept

    def _shrink(self) -> None:
        """See the module. The observation statistics stay, because they are not weights."""
        optimizer, fresh = self.parameters.optimizer, self.build_network().to(self.device)
        drawn = dict(fresh.named_parameters())
        for name, weights in self.parameters.views(optimizer.parameters).items():
            weights.lerp_(drawn[name], _FRESH)
        for moments in (optimizer.exp_avg, optimizer.exp_avg_sq, optimizer.step):
            moments.zero_()
        optimizer.mu_product.fill_(1.0)
        self._shrunk = True

    @override
    def state(self) -> State:
        arrays, metadata = super().state()
        older = {} if self._older is None else self._older
        arrays |= {f"older.{name}": np.asarray(value) for name, value in older.items()}
        return arrays, metadata | ({} if self._shrink_at is None else {"shrunk": self._shrunk})

    @override
    def load(self, arrays: Arrays, metadata: Mapping[str, Any], *, fresh: bool) -> None:
        super().load(arrays, metadata, fresh=fresh)
        # A run that was trained without shrinking continues without: too little of it may be left to learn again.
        self._shrunk = not fresh and bool(metadata.get("shrunk", True))
        self.policy_update.loaded()
        if fresh:
            return
        older = unprefixed("older.", arrays).items()
        self._older = {name: values if values.ndim else values.item() for name, values in older} or None

    def build_network(self) -> ActorCritic:
        """The network; its weights are drawn from :attr:`generator`."""
        return ActorCritic(
            self.spec,
            self.settings.network_settings,
            self.widths,
            shared_critic=getattr(self.settings.hyperparameters, "shared_critic", False),
            generator=self.generator,
        )

    @property
    def update_kind(self) -> type[PolicyUpdate]:
        """Class of :attr:`policy_update`."""
        return PolicyUpdate

    def new_update(self) -> PolicyUpdate:
        """An update for the network and the current place of its parameters."""
        hyper, steps = self._hyperparameters, self.settings.max_steps
        return self.update_kind(self.network, self.parameters, hyper, self.streams, steps, self.ranks)

    def lie_in(self, **vectors: torch.Tensor) -> None:
        """Move the parameters to these vectors and learn there: see :meth:`FlatParameters.lie_in`."""
        self.parameters.lie_in(**vectors)
        self.policy_update = self.new_update()

    @cached_property
    @override
    def rollout_size(self) -> int:  # all of the buffer, or a half of it
        hyper = POCAHyperparameters.of(self._hyperparameters)
        return hyper.rollout_size if self.copies is None else hyper.buffer_size

    @cached_property
    @override
    def columns(self) -> tuple[Column, ...]:
        return (Column("log_prob", (self.spec.actions.components,)), *super().columns)


class Learned(NamedTuple):
    """Results of an update, on the device."""

    statistics: dict[str, torch.Tensor]
    """By TensorBoard name, [] or [P]."""
    epochs: torch.Tensor
    """[epochs, 6], or [epochs, P, 6]: rows of :func:`~tau_trainer.algorithms.losses.summarize_epoch`."""
    minibatches: int
    """Gradient steps taken."""


class PolicyUpdate:
    """PPO's updates of one network, from any reader.

    Args:
        network: the network to train.
        parameters: its parameters.
        hyperparameters: of the algorithm.
        streams: reward streams, in the order of the network's values.
        max_steps: of the run, for schedules.
        ranks: the processes that learn together.

    Attributes:
        fuses: whether plain networks learn by hand-written minibatches; False: all learn by torch's own
            differentiation, the same numbers.
    """

    fuses = True
    _reader: Reader
    """Of the update that is made now."""

    def __init__(
        self,
        network: ActorCritic,
        parameters: FlatParameters,
        hyperparameters: POCAHyperparameters | A2CHyperparameters,
        streams: Sequence[RewardStream],
        max_steps: float,
        ranks: Ranks | None = None,
    ) -> None:
        self.network, self.parameters, self.streams = network, parameters, streams
        self.hyperparameters, self._max_steps = hyperparameters, max_steps
        self.ranks = ranks
        self.epochs: FusedEpochs | AutogradEpochs
        if self.fuses and self.objective is CLIPPED and network.plain and (ranks is None or ranks.alone):
            self.epochs = FusedEpochs(network, parameters)
        else:
            self.epochs = AutogradEpochs(network, parameters, ranks, self.objective)
        self._whole = parameters.optimizer.gradient.dim() > 1  # members' rows must stay together
        self._normalize = hyperparameters.normalize_advantage
        self._passes: int = getattr(hyperparameters, "num_epoch", 1)
        self._target_kl: float | None = getattr(hyperparameters, "target_kl", None)
        self._estimates = [keys.value_estimate(each.name) for each in streams]
        self._observed = False
        """Whether the normaliser is known to have statistics: a query waits for the device."""

    @cached_property
    def objective(self) -> Objective:
        """The objective to minimize."""
        return CLIPPED

    @property
    def scripted(self) -> bool:
        """Whether epochs run without the interpreter's lock."""
        return isinstance(self.epochs, FusedEpochs) and self.epochs.scripted

    def loaded(self) -> None:
        """The network may have been restored to a state without statistics."""
        self._observed = False

    def schedule(self, progress: float, rate: float) -> Coefficients:
        """The hyperparameters at ``progress``, with a learning rate."""
        choices, (epsilon, beta) = self.network.action.choices, self.coefficients(progress)
        branches, limit = list(choices.discrete_branches), self.hyperparameters.max_grad_norm
        return Coefficients(choices.continuous_size, branches, epsilon, beta, rate, limit or 0.0)

    def coefficients(self, progress: float) -> tuple[float, float]:
        """Half width of the clip range, and weight of the entropy."""
        hyper, steps = self.hyperparameters, self._max_steps
        assert isinstance(hyper, POCAHyperparameters), "A2C has coefficients of its own"
        epsilon = scheduled(hyper.epsilon, hyper.epsilon_schedule, progress, EPSILON_FLOOR, steps)
        return epsilon, scheduled(hyper.beta, hyper.beta_schedule, progress, BETA_FLOOR, steps)

    def as_metrics(self, hyper: Coefficients) -> dict[str, float]:
        """Hyperparameters of an update by TensorBoard name."""
        return {
            keys.LEARNING_RATE: hyper.learning_rate,
            keys.POLICY_EPSILON: hyper.epsilon,
            keys.POLICY_BETA: hyper.beta,
        }

    @torch.no_grad()
    def learn(
        self,
        reader: Reader,
        hyper: Coefficients,
        publish: Callable[[], None] | None = None,
        on_batch: OnBatch | None = None,
    ) -> Learned:
        """Change the network. NaN or infinity shows only in the returned values, so that the device is not waited for.

        Args:
            reader: of at least one sample, over all ranks.
            hyper: of this update.
            publish: called a few times per epoch, when the policy so far may be published.
            on_batch: called for minibatches; waits for the device.
        """
        # 1. The very first rollout initializes the statistics of observations. Whether it is the first waits for the
        # device, so that is only checked until there are statistics.
        self._reader, normalizer = reader, self.network.normalizer
        first = normalizer is not None and not self._observed and normalizer.untouched
        self._observed = not first
        if normalizer is not None and first:
            reader.observe(normalizer)
        # 2. The critic's values before the update, advantages and returns.
        samples = reader.samples(self.network)
        values = self.values(samples.inputs, samples.past)  # [N, R]
        advantage, returns = reader.advantages(values, self)  # [N, 1 or K] and [N, R]
        samples = samples._replace(advantage=advantage, returns=returns)
        # 3. Log-probabilities of today for data from another policy.
        stale = reader.stale(renormalized=first)
        if stale is not None:
            samples = samples._replace(log_prob=self._log_prob(samples, stale))
        # 4. Epochs of minibatches.
        epochs, minibatches = self._descend(samples, hyper, publish, on_batch)
        # 5. Later rollouts are taken in only now, so that the ratio of fresh data is exactly 1 when learning starts.
        if normalizer is not None and not first:
            reader.observe(normalizer)
        statistics = self._losses(epochs) | self._of_values(values, returns, reader.rows)
        del self._reader  # nor its experience
        return Learned(statistics, epochs, minibatches)

    def _descend(
        self,
        samples: Samples,
        hyper: Coefficients,
        publish: Callable[[], None] | None,
        on_batch: OnBatch | None,
    ) -> tuple[torch.Tensor, int]:
        """Epochs of minibatches over all samples: ``num_epoch`` times as many as the new ones fill."""
        rows, new = self._reader.rows, self._reader.new
        samples = self._prepared(samples, rows)
        batch = min(self.hyperparameters.batch_size, rows.count)
        # Older samples make epochs longer, but do not add steps: those depend only on the new ones.
        whole, steps = rows.count // batch, self._passes * max(1, new // batch)
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
                self.epochs.run(hyper, part, found, batch, part_sizes)
                if on_batch is not None:
                    entropy, norm = (float(values.mean()) for values in (found.entropy, found.gradient_norm))
                    on_batch(len(part_sizes), {keys.POLICY_ENTROPY: entropy, keys.GRADIENT_NORM: norm})
                if publish is not None:
                    publish()
            summary = summarize_epoch(epoch, statistics, hyper.epsilon, self.objective)
            summaries.append(rows.summed(summary, len(epoch.returns), minibatches * batch))  # [6], or [P, 6]
            taken += minibatches
            if self._target_kl is not None and bool(summaries[-1][3] > self._target_kl):  # waits for the device
                break
        return torch.stack(summaries), taken

    def _prepared(self, samples: Samples, rows: Rows) -> Samples:
        """The samples, with advantages normalised if that is per buffer."""
        if self._normalize in ("buffer", True):
            samples = samples._replace(advantage=rows.normalized(samples.advantage))
        return samples

    def _epoch(self, samples: Samples, rows: Rows, minibatches: int, batch: int) -> tuple[Samples, Sequence[int]]:
        """Newly drawn minibatches, one after another, and their local sizes."""
        # int64 [m * batch], or [P, m * batch]; an incomplete minibatch is left out, with other rows in each epoch.
        order = rows.order(samples.begins)[..., : minibatches * batch]
        epoch, sizes = rows.minibatches(samples, order, batch)
        if self._normalize == "minibatch":
            epoch = epoch._replace(advantage=rows.normalized(epoch.advantage, sizes, batch))
        return epoch, sizes

    def values(self, inputs: Inputs, past: Past = NO_PAST) -> torch.Tensor:
        """The critic's values, [n, R] of all streams side by side."""
        return self.in_pieces(self.network.values, inputs, past)

    def in_pieces(self, forward: Callable[..., torch.Tensor], inputs: Inputs, past: Past) -> torch.Tensor:
        """``forward`` over all rows, a piece at a time; sequences stay whole."""
        # Floats of a row, all sensors together.
        rows, numbers = len(inputs[0]), sum(math.prod(values.shape[1:]) for values in inputs)
        if rows <= (piece := max(1, min(_ROWS, _NUMBERS // max(1, numbers)))) or self._whole:
            return forward(inputs, past)
        cuts = np.arange(0, rows, piece)  # first rows of equal pieces
        if past.begins is not None:
            first = past.begins.nonzero()[:, 0].cpu().numpy()  # first row of each sequence
            # Each cut moves back to the start of its sequence.
            cuts = np.unique(first[np.searchsorted(first, cuts, side="right") - 1])
        parts = [slice(*ends) for ends in zip(cuts, (*cuts[1:], rows), strict=True)]
        return torch.cat([forward([values[part] for values in inputs], past.of(part)) for part in parts])

    def _log_prob(self, samples: Samples, rows: torch.Tensor | slice) -> torch.Tensor:
        """Log-probabilities [N, K] of the samples' actions: by the current network in ``rows``, otherwise as stored."""
        some = samples if isinstance(rows, slice) else shuffled(samples, rows)  # no copy if all rows are selected
        now, _ = evaluate(self.network, self.in_pieces(self.network.outputs, some.inputs, some.past), some)
        return now if isinstance(rows, slice) else samples.log_prob.index_copy(0, rows, now)

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
        estimates = {name: mean.mean(dim=-1) for name, mean in zip(self._estimates, means, strict=True)}
        # [R], or [P, R]; float64, for large returns that hardly vary.
        variance, unexplained = rows.variance(returns), rows.variance(exact(returns) - values)
        # A constant has no variance to explain.
        shares = torch.where(variance > 1e-12, 1.0 - unexplained / variance.clamp(min=1e-12), 0.0)
        return estimates | {keys.EXPLAINED_VARIANCE: shares.mean(dim=-1)}
