"""Proximal Policy Optimization (Schulman et al. 2017), with the details that ML-Agents' users rely on.

- Clipped surrogate, separate or shared critic, one optimizer for both, linear or constant schedules.
- Loss = policy loss + 0.5 * value loss - beta * entropy. No value clipping: ML-Agents' has no effect either.
- One probability ratio for each action component, all with the same advantage; the policy loss is their mean
  (what ML-Agents does; the paper's single ratio of the whole action is the same where there is one component).
- Advantages by GAE, normalised once a buffer or in each minibatch; ends by a limit are bootstrapped, real ends not.
- Every epoch shuffles anew; ``floor(N / batch_size)`` minibatches, the rest of that epoch's order is left out.
- Where a half of what is learned from is new (``updates_per_buffer`` 2), there are half as many epochs, so that every
  decision is learned from ``num_epoch`` times in all. Reusing the last rollouts is GePPO's idea (Queeney, Paschalidis
  and Cassandras 2021); here with the proximal policy described below in place of its clip range.
- Gaussian entropy is the mean over dimensions, branch entropies are summed, as in ML-Agents' ``Policy/Entropy``.
- The observation statistics take in a rollout *after* it was learned from, so that the probability ratio of fresh data
  is exactly 1 when learning starts. Only the very first rollout comes before: it turns "no statistics" into statistics,
  and the log-probabilities of its actions are computed again with them.

**Component credit.** A reward stream as wide as the action has a value, an advantage and a return for each component.
Given the observation, components are drawn independently, so where a component's reward depends on that component
alone (as in the Tau task) the gradient is the same in expectation and free of the noise that the other components'
rewards add.

**Recurrent networks** learn from sequences of up to ``sequence_length`` decisions of one agent in one episode.
Gradients flow through time within a sequence, which begins with the state that was stored when its first decision was
made; no burn-in freshens it (as in ML-Agents; Kapturowski et al. 2019 compare both). Sequences are shuffled as wholes
and laid end to end, and a minibatch has ``batch_size`` decisions all the same: where it cuts a sequence, the rest
begins with its own stored state. So nothing is padded to full length; short episodes cost no more than they bring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.base import Publish, Setup
from tau_trainer.algorithms.batch import Samples, in_parts, new_statistics, normalized, shuffled, shuffled_order
from tau_trainer.algorithms.fused import FusedEpochs, Numbers
from tau_trainer.algorithms.on_policy import OnPolicy
from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, scheduled
from tau_trainer.algorithms.statistics import UpdateSummary, explained_variance, summarize_epoch
from tau_trainer.columns import Rows
from tau_trainer.memory import Rollout
from tau_trainer.metrics import keys
from tau_trainer.models.actor_critic import MEMORY
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.models.observation_encoder import Inputs

if TYPE_CHECKING:
    from tau_trainer.settings import PPOHyperparameters

_PARTS = 4
"""How often the policy is published in a whole epoch, where anybody asks for it."""


class PPO(OnPolicy):
    """The learner of one behavior.

    Args:
        setup: what it is made from.
        fused: plain networks learn through hand-written minibatches; False = torch's own differentiation throughout,
            the same numbers.
    """

    name = "ppo"

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        self._own = cast("PPOHyperparameters", setup.settings.hyperparameters)
        self._memory = setup.settings.network_settings.memory
        super().__init__(setup)
        plain = fused and self.network.plain
        self._epochs = (FusedEpochs if plain else AutogradEpochs)(self.network, self.parameters)
        self.large = len(self.network.encoders) > 0
        self.holds_lock = not (isinstance(self._epochs, FusedEpochs) and self._epochs.scripted) or bool(self.signals)

    @property
    @override
    def rollout_size(self) -> int:
        return self._own.rollout_size

    @override
    def learn(self, rollout: Rollout, progress: float, publish: Publish | None) -> dict[str, float]:
        first = self.network.normalizer is not None and self.network.normalizer.untouched
        if first:
            self.observe(rollout.observations)
        # Data of older policies is compared with the policy that this update starts from: else much of it would be
        # outside the clip range before the first step. That is the proximal policy of the decoupled objective (Hilton
        # et al. 2022) without its weight pi_proximal / pi_behavior: stale data counts as if it were fresh.
        stale = np.arange(len(rollout)) if first else np.flatnonzero(rollout.version < self.version)
        samples, values = self._samples(rollout, stale)
        numbers = self.numbers(progress)
        summary = self.descend(samples, numbers, len(rollout) - rollout.older, publish)
        if not first:
            self.observe(tuple(sensor[rollout.older :] for sensor in rollout.observations))
        return {
            keys.POLICY_LOSS: summary.policy_loss,
            keys.VALUE_LOSS: summary.value_loss,
            keys.POLICY_ENTROPY: summary.entropy,
            keys.LEARNING_RATE: numbers.learning_rate,
            keys.POLICY_EPSILON: numbers.epsilon,
            keys.POLICY_BETA: numbers.beta,
            **self._estimates(values),
            keys.APPROXIMATE_KL: summary.kl,
            keys.CLIP_FRACTION: summary.clip_fraction,
            keys.EXPLAINED_VARIANCE: explained_variance(values, samples.returns.cpu().numpy()),
            keys.GRADIENT_NORM: summary.gradient_norm,
            keys.MINIBATCHES: float(summary.minibatches),
        }

    def numbers(self, progress: float) -> Numbers:
        """The hyperparameters at ``progress``, see :meth:`Algorithm.update`."""
        own, steps = self._own, self.settings.max_steps
        return Numbers(
            continuous=self.network.action.choices.continuous_size,
            branches=list(self.network.action.choices.discrete_branches),
            epsilon=scheduled(own.epsilon, own.epsilon_schedule, progress, EPSILON_FLOOR, steps),
            beta=scheduled(own.beta, own.beta_schedule, progress, BETA_FLOOR, steps),
            learning_rate=self.learning_rate(progress),
            max_grad_norm=own.max_grad_norm or 0.0,
        )

    def _samples(self, rollout: Rollout, stale: Rows) -> tuple[Samples, NDArray[np.float64]]:
        """The update's data, those in ``stale`` with log-probabilities of now, and the values [N, R] of now.

        Of recurrent networks in the order of :meth:`Rollout.sequences`.
        """
        inputs, bootstrap = (
            self.network.prepare(obs) for obs in (rollout.observations, rollout.bootstrap_observations)
        )
        nothing = torch.zeros(0)
        samples = Samples(
            inputs=inputs,
            state=nothing,
            continuous=self.tensor(rollout.column("continuous")),
            discrete=self.tensor(rollout.column("discrete").astype(np.int64)),
            mask=nothing if rollout.mask is None else self.tensor(self.network.action.forbidden(rollout.mask)),
            log_prob=self.tensor(rollout.column("log_prob")),
            advantage=nothing,
            returns=nothing,
            begins=nothing,
        )
        order: Rows | slice = slice(None)
        after = None
        if self._memory is not None:
            state = self.tensor(rollout.column(MEMORY))
            after = self._states_after(inputs, state, self.tensor(rollout.bootstrapped))
            order, begins = rollout.sequences(self._memory.sequence_length)
            samples = shuffled(samples._replace(state=state), self.tensor(order))._replace(begins=self.tensor(begins))
            stale = np.arange(len(rollout)) if len(stale) else stale  # a sequence is of one policy or of none
        values = np.empty((len(rollout), sum(stream.width for stream in self.streams)))
        values[order] = self._values(samples.inputs, *samples.past)
        advantage, returns = self._advantages(rollout, values, self._values(bootstrap, after))
        samples = samples._replace(
            advantage=self.tensor(advantage[order].astype(np.float32)),
            returns=self.tensor(returns[order].astype(np.float32)),
        )
        if len(stale):
            rows = torch.from_numpy(stale).to(self.device)
            samples = samples._replace(log_prob=samples.log_prob.index_copy(0, rows, self._log_prob(samples, rows)))
        if self._own.normalize_advantage == "buffer":
            samples = samples._replace(advantage=normalized(samples.advantage))
        return samples, values[order]

    def _states_after(self, inputs: Inputs, state: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Recurrent state [n, towers, M] after the transitions in ``rows``, from that at all of them."""
        some = [one[rows] for one in inputs]
        return self.in_pieces(lambda *piece: self.network(*piece).state, some, state[rows])

    def _values(self, inputs: Inputs, *past: torch.Tensor | None) -> NDArray[np.float64]:
        """The critic's values, [n, R] of all streams side by side."""
        return self.in_pieces(self.network.values, inputs, *past).cpu().numpy().astype(np.float64)

    def _advantages(
        self, rollout: Rollout, values: NDArray[np.float64], after: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum of all streams' advantages [N, 1 or K], and their returns side by side [N, R]."""
        advantages, returns, begin = [], [], 0
        for stream in self.streams:
            own = slice(begin, begin + stream.width)
            rewards = stream.rewards(rollout).astype(np.float64) * stream.strength
            advantage, target = rollout.gae(rewards, values[:, own], after[:, own], stream.gamma, self._own.lambd)
            advantages.append(advantage)
            returns.append(target)
            begin += stream.width
        return sum(advantages[1:], advantages[0]), np.concatenate(returns, axis=1)

    def _estimates(self, values: NDArray[np.float64]) -> dict[str, float]:
        """Mean value of each stream."""
        estimates, begin = {}, 0
        for stream in self.streams:
            estimates[keys.value_estimate(stream.name)] = float(values[:, begin : begin + stream.width].mean())
            begin += stream.width
        return estimates

    def descend(
        self, samples: Samples, numbers: Numbers, new: int | None = None, publish: Publish | None = None
    ) -> UpdateSummary:
        """Epochs of minibatches over all samples: ``num_epoch`` times as many as the ``new`` ones fill; None: all are.

        Raises:
            NonFiniteError: a loss or a weight is no finite number; the weights are not as before.
        """
        own, count = self._own, len(samples.returns)
        batch = min(own.batch_size, count)
        steps = own.num_epoch * max(1, (count if new is None else new) // batch)
        per_epoch: list[torch.Tensor] = []
        for done in range(0, steps, count // batch):
            minibatches = min(count // batch, steps - done)
            rows = minibatches * batch
            order = shuffled_order(samples.begins, count, self.generator)[:rows].to(self.device)
            epoch = shuffled(samples, order)
            if own.normalize_advantage == "minibatch":
                stacked = epoch.advantage.view(minibatches, batch, -1)
                epoch = epoch._replace(advantage=normalized(stacked).view(rows, -1))
            statistics = new_statistics(epoch, rows, minibatches)
            parts = 1 if publish is None else max(1, _PARTS * minibatches * batch // count)
            for samples_part, statistics_part in in_parts(epoch, statistics, parts):
                if self.on_batch is not None:
                    self.on_batch(len(statistics_part.entropy), None)
                self._epochs.run(numbers, samples_part, statistics_part, batch)
                if self.on_batch is not None:
                    entropy, norm = (float(values.mean()) for values in statistics_part[2:])
                    told = {keys.POLICY_ENTROPY: entropy, keys.GRADIENT_NORM: norm}
                    self.on_batch(len(statistics_part.entropy), told)
                if publish is not None and self.parameters.finite():
                    publish(self.policy(self.weights(), self.version + 1))
            per_epoch.append(summarize_epoch(epoch, statistics, numbers.epsilon))
            if own.target_kl is not None and UpdateSummary.kl_of(per_epoch[-1]) > own.target_kl:
                break
        self.check_finite(torch.stack(per_epoch))
        return UpdateSummary.mean_of(per_epoch, done + minibatches)

    def _log_prob(self, samples: Samples, rows: torch.Tensor) -> torch.Tensor:
        """Log-probabilities under the network of now of the actions in ``rows`` [n]: [n, K]."""
        samples = shuffled(samples, rows)
        outputs = self.in_pieces(self.network.outputs, samples.inputs, *samples.past)
        mask = samples.mask if len(samples.mask) else None
        actions, log_sigma = self.network.action.choices, self.network.action.log_sigma
        return evaluate_actions(actions, outputs, log_sigma, samples.continuous, samples.discrete, mask)[0]
