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
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.base import Publish, Setup, State
from tau_trainer.algorithms.minibatches import Numbers, Rows, Samples, SplitRows, exact, shuffled
from tau_trainer.algorithms.on_policy import OnPolicy
from tau_trainer.algorithms.policy_update import Learned, PolicyUpdate, Reader
from tau_trainer.columns import Arrays
from tau_trainer.memory import Rollout, WorkData
from tau_trainer.memory.advantages import gae
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic, Normalizer
from tau_trainer.models.actor_critic import MEMORY, as_tensor
from tau_trainer.models.observation_encoder import Inputs

if TYPE_CHECKING:
    from tau_trainer.settings import PPOHyperparameters

_FRESH = 0.5
"""Share of the newly drawn weights."""


class RolloutReader(Reader):
    """Samples in order of arrival; for recurrent networks, in the order of :meth:`Rollout.sequences`.

    Args:
        rollout: the experience to learn from.
        network: the network to train; its device is the samples'.
        version: of its policy. Data of older policies is compared with the policy that the update starts from:
        otherwise
            much of it would be outside the clip range before the first step. That is the proximal policy of the
            decoupled objective (Hilton et al. 2022) without its weight pi_proximal / pi_behavior: stale data counts as
            if it were fresh.
        generator: draws the minibatches.
        sequence_length: steps of a sequence; None: the network has no memory.
    """

    def __init__(
        self,
        rollout: Rollout,
        network: ActorCritic,
        version: int,
        generator: torch.Generator,
        sequence_length: int | None = None,
    ) -> None:
        self._rollout, self._network, self._version = rollout, network, version
        self._device = network.action.weight.device
        self.rows, self.new = Rows(len(rollout), generator), len(rollout) - rollout.older
        self._sequences = None if sequence_length is None else rollout.sequences(sequence_length)
        self._arrived: tuple[Inputs, torch.Tensor] | None = None
        """Inputs and recurrent states [N, towers, M] in order of arrival, if the network has a memory."""

    @override
    def observe(self, normalizer: Normalizer) -> None:
        # The previous update took in the older ones.
        new = tuple(sensor[self._rollout.older :] for sensor in self._rollout.observations)
        normalizer.merge(self._network.vectors(new))

    @override
    def samples(self, network: ActorCritic) -> Samples:
        rollout, nothing = self._rollout, torch.zeros(0)
        samples = Samples(
            inputs=network.prepare(rollout.observations),
            state=nothing,
            # Raw samples, before they are clipped for the environment.
            continuous=self._tensor(rollout.column("continuous")),
            discrete=self._tensor(rollout.column("discrete").astype(np.int64)),
            mask=nothing if rollout.mask is None else self._tensor(network.action.forbidden(rollout.mask)),
            log_prob=self._tensor(rollout.column("log_prob")),
            advantage=nothing,
            returns=nothing,
            begins=nothing,
        )
        if self._sequences is None:
            return samples
        order, begins = self._sequences
        # In order of arrival, for states after bootstrapped transitions.
        self._arrived = samples.inputs, self._tensor(rollout.column(MEMORY))
        samples = samples._replace(state=self._arrived[1])
        return shuffled(samples, self._tensor(order))._replace(begins=self._tensor(begins))

    @override
    def advantages(self, values: torch.Tensor, update: PolicyUpdate) -> tuple[torch.Tensor, torch.Tensor]:
        rollout, lambd = self._rollout, update.hyperparameters.lambd
        # Row of each sample in the order of arrival.
        order = slice(None) if self._sequences is None else self._tensor(self._sequences[0])
        current = exact(torch.empty_like(values))  # float64 [N, R], in order of arrival
        current[order] = exact(values)
        # [m, R].
        bootstrap = update.values(self._network.prepare(rollout.bootstrap_observations), *self._states_after(update))
        # Rows of decisions, of bootstrapped ends, and a 0 for real ends.
        table = torch.cat((current, exact(bootstrap), current.new_zeros(1, current.shape[1])))
        after, beyond = (table.index_select(0, self._tensor(rows)) for rows in (rollout.after, rollout.beyond))
        # 0 at the end of a trace; row of the next decision of the same agent.
        goes_on, following = self._tensor(rollout.goes_on).to(current.dtype), self._tensor(rollout.next)
        advantages, widths = list[torch.Tensor](), [stream.width for stream in update.streams]
        columns = (torch.split(values, widths, dim=1) for values in (current, after, beyond))
        for stream, now, in_episode, in_life in zip(update.streams, *columns, strict=True):
            later = in_episode if stream.episodic else in_life
            rewards = exact(self._tensor(stream.rewards(rollout))) * stream.strength
            advantages.append(gae(rewards, now, later, goes_on * (stream.gamma * lambd), stream.gamma, following))
        returns = torch.cat(advantages, dim=1) + current  # lambda-returns, [N, R]
        # Streams add up; [N, 1] counts for all K.
        return sum(advantages[1:], advantages[0])[order].float(), returns[order].float()

    @override
    def stale(self, *, renormalized: bool) -> torch.Tensor | slice | None:
        stale = np.flatnonzero(self._rollout.version < self._version)
        if renormalized or (len(stale) and self._sequences is not None):  # recompute whole sequences
            return slice(None)
        return self._tensor(stale) if len(stale) else None

    def _states_after(self, update: PolicyUpdate) -> tuple[torch.Tensor, ...]:
        """Recurrent state [M, towers, M] after the bootstrapped transitions; empty without a memory."""
        if self._arrived is None:
            return ()
        inputs, state = self._arrived
        rows = self._tensor(self._rollout.bootstrapped)
        some = [values[rows] for values in inputs]  # rows [m, ...]
        return (update.in_pieces(lambda *piece: self._network(*piece).state, some, state[rows]),)

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return as_tensor(values).to(self._device)


class PPO(OnPolicy):
    """The learner of one behavior.

    Args:
        setup: see :class:`Setup`.
        fused: plain networks learn through hand-written minibatches; False = torch's own differentiation throughout,
            the same numbers.

    Attributes:
        policy_update: updates its network.
    """

    name = "ppo"
    data_parallel = True

    def __init__(self, setup: Setup, *, fused: bool = True) -> None:
        self._hyperparameters = cast("PPOHyperparameters", setup.settings.hyperparameters)
        super().__init__(setup)
        memory = setup.settings.network_settings.memory
        self._sequence_length = None if memory is None else memory.sequence_length
        self._fused = fused
        self._shrink_at: float | None = getattr(self._hyperparameters, "shrink_at", None)
        self._shrunk = False
        self.policy_update = self.new_update()
        self.large = len(self.network.encoders) > 0
        self.holds_lock = not self.policy_update.scripted or bool(self._beside)

    def new_update(self) -> PolicyUpdate:
        """An update for the network and the current place of its parameters."""
        hyper, steps = self._hyperparameters, self.settings.max_steps
        update = PolicyUpdate(self.network, self.parameters, hyper, self.streams, steps, self.ranks)
        if not self._fused:
            update.differentiate()
        return update

    def lie_in(self, **vectors: torch.Tensor) -> None:
        """Move the parameters to these vectors and learn there: see :meth:`FlatParameters.lie_in`."""
        self.parameters.lie_in(**vectors)
        self.policy_update = self.new_update()

    @cached_property
    @override
    def rollout_size(self) -> int:
        return self._hyperparameters.rollout_size

    @override
    def learn_from(
        self, work: WorkData, rollout: Rollout, progress: float, publish: Publish | None
    ) -> dict[str, float]:
        statistics = super().learn_from(work, rollout, progress, publish)
        if self._shrink_at is not None and progress >= self._shrink_at and not self._shrunk:
            self._shrink()
        return statistics

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
    def learn(self, rollout: Rollout, progress: float, publish: Publish | None) -> dict[str, float]:
        numbers = self.numbers(progress)
        learned = self.learn_read(self.reader(rollout), numbers, publish)
        losses = dict(zip(learned.statistics, torch.stack(list(learned.statistics.values())).tolist(), strict=True))
        return losses | self.policy_update.told(numbers) | {keys.MINIBATCHES: float(learned.minibatches)}

    def reader(self, rollout: Rollout) -> Reader:
        """The reader of a rollout for an update; with several ranks, this rank takes its part of each minibatch."""
        reader = self.read(rollout)
        if not self.ranks.alone:
            reader.rows = SplitRows(self.ranks, len(rollout), self.generator)
        return reader

    def read(self, rollout: Rollout) -> RolloutReader:
        """A reader of the whole rollout."""
        return RolloutReader(rollout, self.network, self.version, self.generator, self._sequence_length)

    def learn_read(self, reader: Reader, numbers: Numbers, publish: Publish | None = None) -> Learned:
        """Update from any reader. Raises NonFiniteError; then the network is not as before."""

        def show() -> None:
            if publish is not None and self.parameters.finite():  # NaN must not act
                publish(self.policy(self.weights(), self.version + 1))

        learned = self.policy_update.learn(reader, numbers, None if publish is None else show, self.on_batch)
        self.check_finite(learned.epochs)
        return learned

    def numbers(self, progress: float) -> Numbers:
        """The hyperparameters at ``progress``, see :meth:`Algorithm.update`."""
        return self.policy_update.numbers(progress, self.learning_rate(progress))

    @override
    def state(self) -> State:
        arrays, facts = super().state()
        return arrays, facts | ({} if self._shrink_at is None else {"shrunk": self._shrunk})

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        super().load(arrays, facts, fresh=fresh)
        # A run that was trained without shrinking continues without: too little of it may be left to learn again.
        self._shrunk = not fresh and bool(facts.get("shrunk", True))
        self.policy_update.loaded()
