"""A2C and PPO on tensors: act with the current network, then learn once from that experience.

Updates are the common ones (:class:`tau_trainer.algorithms.ppo.PolicyUpdate`). A2C's follow Mnih et al. 2016 with
WarpDrive's coefficients: one pass, ``- mean(A log pi) + c_v mean((V - R)²) - c_e H``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import torch
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batched.acting import Drawn, ToEnv, draw, noise_of
from tau_trainer.algorithms.batched.contract import Acted, LearnerSetup, TensorRollout
from tau_trainer.algorithms.batched.gradient import GradientLearner
from tau_trainer.algorithms.batched.signals import TensorSignals
from tau_trainer.algorithms.losses import Objective, policy_gradient
from tau_trainer.algorithms.minibatches import Numbers, Rows, Samples
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.ppo import PolicyUpdate
from tau_trainer.algorithms.readers import TensorReader
from tau_trainer.algorithms.schedules import BETA_FLOOR, learning_rate, scheduled
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.rewards.streams import EXTRINSIC, paid_streams
from tau_trainer.settings.batched import A2CHyperparameters
from tau_trainer.settings.hyperparameters import PPOHyperparameters
from tau_trainer.specs import ActionSpec

_FEW = 0.8
"""Share of present agents below which only those decide: at 0.9 of 10,000, selecting them took as long as it saved."""


class A2CUpdate(PolicyUpdate):
    """A2C's updates (Mnih et al. 2016): one pass over all decisions, by default in a single gradient step."""

    @property
    def _a2c(self) -> A2CHyperparameters:
        return cast("A2CHyperparameters", self.hyperparameters)

    @cached_property
    @override
    def objective(self) -> Objective:
        return Objective(policy_gradient, (self._a2c.vf_loss_coeff,))

    @override
    def coefficients(self, progress: float) -> tuple[float, float]:
        a2c, steps = self._a2c, self._max_steps
        beta = scheduled(a2c.entropy_coeff, a2c.entropy_coeff_schedule, progress, BETA_FLOOR, steps)
        return 0.0, beta  # no ratio is clipped

    @override
    def told(self, numbers: Numbers) -> dict[str, float]:
        return {keys.LEARNING_RATE: numbers.learning_rate, keys.POLICY_BETA: numbers.beta}

    @override
    def _prepared(self, samples: Samples, rows: Rows) -> Samples:
        samples = super()._prepared(samples, rows)
        if self._a2c.normalize_return:
            samples = samples._replace(returns=rows.normalized(samples.returns))
        return samples

    @override
    def _epoch(self, samples: Samples, rows: Rows, minibatches: int, batch: int) -> tuple[Samples, Sequence[int]]:
        if batch == rows.count:  # a single minibatch needs no order
            return samples, [len(samples.returns)]
        # An incomplete last minibatch is left out.
        return rows.minibatches(samples, rows.order(samples.begins)[: minibatches * batch], batch)

    @override
    def _losses(self, epochs: torch.Tensor) -> dict[str, torch.Tensor]:
        unknown = keys.APPROXIMATE_KL, keys.CLIP_FRACTION  # nothing is clipped
        return {name: value for name, value in super()._losses(epochs).items() if name not in unknown}


class OnPolicyLearner(GradientLearner):
    """Base of A2C and PPO. Use: :meth:`act` ``horizon`` times, then :meth:`learn`.

    A subclass sets its :attr:`name` and the class of its :attr:`updates`.

    Raises:
        SettingsError: the buffer is smaller than one step of all copies.
    """

    updates: type[PolicyUpdate]

    def __init__(self, setup: LearnerSetup) -> None:
        hyper = setup.settings.hyperparameters
        each = setup.num_envs * setup.agents  # decisions in one step of all copies
        gathered = hyper.gathered(each) if isinstance(hyper, A2CHyperparameters) else hyper.buffer_size
        self.horizon = gathered // each
        if self.horizon < 1:
            raise SettingsError(
                f"behaviors.{setup.spec.name}: hyperparameters.buffer_size {hyper.buffer_size:,} is less than one step "
                f"of {setup.num_envs:,} copies with {setup.agents:,} agents each; raise it to a multiple of {each:,}, "
                "or lower environment.num_envs (--num-envs)"
            )
        super().__init__(setup)
        self._settings = setup.settings
        drawn = torch.Generator().manual_seed(setup.seed)  # on the CPU, for the same weights on every device
        # The environment's own rewards have been multiplied by their strength already.
        streams = tuple(
            replace(stream, strength=1.0) if stream.name == EXTRINSIC else stream
            for stream in paid_streams(self._settings.reward_signals, 1)
        )
        self.network = ActorCritic(
            setup.spec,
            self._settings.network_settings,
            {stream.name: stream.width for stream in streams},
            shared_critic=getattr(hyper, "shared_critic", False),
            generator=drawn,
        )
        self.parameters = FlatParameters(self.network, self.device, hyper)
        self._to_env = ToEnv(setup.action_space, self.network.action, self.device)
        self._sampled: Callable[..., Drawn] = self._decide
        """The same function, possibly compiled."""
        numbers = cast("PPOHyperparameters | A2CHyperparameters", hyper)
        self._update = self.updates(self.network, self.parameters, numbers, streams, setup.max_steps, setup.ranks)
        self.signals = TensorSignals(setup, streams, self.network)
        """The learned streams, which pay for the policy's actions."""
        self.sees_ends = bool(self.signals.signals)

    @property
    def _choices(self) -> ActionSpec:
        return self.network.action.choices

    @override
    @torch.no_grad()
    def act(
        self,
        observations: torch.Tensor,
        mask: torch.Tensor | None,
        present: torch.Tensor | None = None,
        *,
        deterministic: bool = False,
    ) -> Acted:
        envs, agents = observations.shape[:2]
        count = envs * agents
        rows = observations.reshape(count, -1)  # [E A, D]
        # bool [E A, M].
        forbidden = None if mask is None else forbidden_of(mask.reshape(count, -1), self._choices.discrete_branches)
        still = deterministic or self._settings.network_settings.deterministic
        # Also drawn for agents that have left, so that draws do not depend on which agents are there.
        noise = None if still else self._noise(envs, agents)
        some = self._deciding(present)
        if some is None:
            drawn = (self._decide if still else self._sampled)(rows, forbidden, noise)
        else:
            picked = (None if values is None else values.index_select(0, some) for values in (forbidden, noise))
            few = self._decide(rows.index_select(0, some), *picked)
            # Back to all rows; zeros for agents that had left, which are not learned from.
            drawn = Drawn(*(values.new_zeros(count, values.shape[1]).index_copy_(0, some, values) for values in few))
        return Acted(self._to_env(drawn, envs, agents), self._kept(drawn, envs, agents))

    def _deciding(self, present: torch.Tensor | None) -> torch.Tensor | None:
        """Rows int64 [n] of agents that have not left, if only those need to decide; None: all decide.

        On other devices all decide, because selecting them would wait for the device.
        """
        if present is None or present.shape[1] == 1 or self.device.type != "cpu":  # a copy ends with its only agent
            return None
        there = present.flatten().nonzero().squeeze(1)
        return there if len(there) < _FEW * present.numel() else None

    def _noise(self, envs: int, agents: int) -> torch.Tensor:
        """Random numbers of this rank's copies, drawn for those of all ranks."""
        ranks, head = self._setup.ranks, self.network.action
        # Every rank draws for the copies of all, as a single process would.
        noise = noise_of(head, envs * ranks.count * agents, self.generator)
        # float32 [e A, c + b] of this rank's e copies.
        return noise.view(envs * ranks.count, agents, -1)[ranks.share(envs * ranks.count)].flatten(0, 1)

    @override
    def compile(self, observations: torch.Tensor, mask: torch.Tensor | None) -> None:
        drawn = self.generator.get_state()
        self._sampled = torch.compile(self._decide, dynamic=False)  # E and A never change, so one compilation serves
        try:
            self.act(observations, mask)
        except Exception:
            self._sampled = self._decide
            raise
        finally:
            self.generator.set_state(drawn)

    def _decide(self, rows: torch.Tensor, forbidden: torch.Tensor | None, noise: torch.Tensor | None) -> Drawn:
        network = self.network
        return draw(network.action, network.outputs(network.normalize([rows])), forbidden, noise)

    def _kept(self, drawn: Drawn, envs: int, agents: int) -> dict[str, torch.Tensor]:
        kept = {"log_prob": drawn.log_prob}
        kept |= {"continuous": drawn.continuous} if self._choices.continuous_size else {}
        kept |= {"discrete": drawn.discrete} if self._choices.discrete_branches else {}
        return {name: values.view(envs, agents, -1) for name, values in kept.items()}

    @override
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        paid, plain = self.signals.pay(rollout)
        reader = TensorReader(rollout, self.generator, self._setup.ranks, paid=paid)
        if reader.rows.count == 0:  # all of its agents had left in every copy
            return {}
        rate = learning_rate(self._settings.hyperparameters, progress, self._setup.max_steps)
        numbers = self._update.numbers(progress, rate)
        learned = self._update.learn(reader, numbers).statistics
        like = learned[keys.POLICY_LOSS]
        learned |= self.parameters.layer_statistics()
        plain |= self._update.told(numbers)
        return learned | {name: torch.full_like(like, value) for name, value in plain.items()}

    @override
    def state(self) -> State:
        arrays, facts = super().state()
        return arrays | self.signals.state(), facts

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any], *, fresh: bool) -> None:
        if not fresh:
            self.check_resumed(facts)  # first, because another algorithm may lack the signals
        earned, models = self.signals.earned.clone(), [signal.backup() for signal in self.signals.signals]
        try:
            self.signals.load(arrays, fresh=fresh)
            super().load(arrays, facts, fresh=fresh)
        except CheckpointError:
            self.signals.earned.copy_(earned)
            for signal, model in zip(self.signals.signals, models, strict=True):
                signal.restore(model)
            raise
        self._update.loaded()


class PPOLearner(OnPolicyLearner):
    """PPO: epochs of shuffled minibatches of a clipped objective."""

    name = "ppo"
    updates = PolicyUpdate


class A2CLearner(OnPolicyLearner):
    """Advantage actor-critic: every decision is learned from once."""

    name = "a2c"
    updates = A2CUpdate
