"""A2C and PPO on tensors: act with the network of now, learn once from what that brought.

``N`` is the number of decisions in a rollout whose agents had not left; only these are learned from.

- Advantages by GAE (Schulman et al. 2016); an episode that a limit cut is bootstrapped from its final observation.
- PPO is the house's own: its minibatch (:mod:`tau_trainer.algorithms.autograd`, or the fused one of plain networks).
- A2C is Mnih et al. 2016 with WarpDrive's coefficients: one pass, ``- mean(A log pi) + c_v mean((V - R)²) - c_e H``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from typing_extensions import override

from tau_trainer.algorithms.autograd import AutogradEpochs
from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batch import Samples, new_statistics
from tau_trainer.algorithms.batched.acting import Drawn, ToEnv, draw, forbidden_of, noise_of
from tau_trainer.algorithms.batched.contract import Acted, BatchedLearner, LearnerSetup, TensorRollout
from tau_trainer.algorithms.batched.sharing import Rows, SharedRows
from tau_trainer.algorithms.fused import FusedEpochs, Numbers
from tau_trainer.algorithms.parameters import FlatParameters, fitting
from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, LEARNING_RATE_FLOOR, scheduled
from tau_trainer.algorithms.statistics import summarize_epoch
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models import ActorCritic, Policy, make_policy
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.settings import PPOHyperparameters
from tau_trainer.settings.hyperparameters import A2CHyperparameters
from tau_trainer.specs import ActionSpec

_ROWS = 8192
"""Rows that go through a network at once: what lies between its layers stays in the cache."""
_FEW = 0.8
"""Share of agents below which only those decide: at 0.9 of 10,000 picking them took as long as it saved."""
_STREAM = "extrinsic"


def gae(
    rewards: torch.Tensor, values: torch.Tensor, after: torch.Tensor, ended: torch.Tensor, gamma: float, lambd: float
) -> torch.Tensor:
    """Advantages [T, ...]: ``A_t = d_t + gamma lambda (1 - ended_t) A_t+1``, ``d_t = r_t + gamma V'_t - V_t``.

    Args:
        rewards: [T, ...].
        values: of what was decided upon.
        after: ``V'``, of what came after; 0 where nothing did.
        ended: bool, where no later reward counts: by a real end or by a limit.
        gamma: discount.
        lambd: of GAE.
    """
    advantages = rewards + gamma * after - values
    decay = (gamma * lambd) * ~ended
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t].addcmul_(decay[t], advantages[t + 1])
    return advantages


class OnPolicyLearner(BatchedLearner):
    """What A2C and PPO share. Use: :meth:`act` ``horizon`` times, then :meth:`learn`.

    A subclass names its :attr:`name` and says how it descends.

    Raises:
        SettingsError: the buffer is smaller than one step of all copies.
    """

    name: str

    def __init__(self, setup: LearnerSetup) -> None:
        own = setup.settings.hyperparameters
        each = setup.num_envs * setup.agents
        gathered = own.gathered(each) if isinstance(own, A2CHyperparameters) else own.buffer_size
        self.horizon = gathered // each
        if self.horizon < 1:
            raise SettingsError(
                f"policies.{setup.spec.name}: hyperparameters.buffer_size {own.buffer_size:,} is less than one step of "
                f"{setup.num_envs:,} copies with {setup.agents:,} agents each; raise it to a multiple of {each:,}, or "
                "lower environment.num_envs (--num-envs)"
            )
        self._setup, self._settings = setup, setup.settings
        self.device = setup.device
        drawn = torch.Generator().manual_seed(setup.seed)
        self.network = ActorCritic(
            setup.spec,
            self._settings.network_settings,
            {_STREAM: 1},
            shared_critic=getattr(own, "shared_critic", False),
            generator=drawn,
        )
        self.parameters = FlatParameters(self.network, self.device, own)
        self.generator = torch.Generator(self.device).manual_seed(setup.seed)
        """Of samples and of the order in which is learned."""
        self._to_env = ToEnv(setup.action_space, self.network.action, self.device)
        self._sampled: Callable[..., Drawn] = self._decide
        """The same, perhaps compiled."""
        self._touched = False
        """Whether the normaliser has seen anything."""

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
        rows = observations.reshape(count, -1)
        forbidden = None if mask is None else self._forbidden(mask.reshape(count, -1))
        still = deterministic or self._settings.network_settings.deterministic
        noise = None if still else self._noise(envs, agents)
        some = self._deciding(present)
        if some is None:
            drawn = (self._decide if still else self._sampled)(rows, forbidden, noise)
        else:
            picked = (None if values is None else values.index_select(0, some) for values in (forbidden, noise))
            few = self._decide(rows.index_select(0, some), *picked)
            drawn = Drawn(*(one.new_zeros(count, one.shape[1]).index_copy_(0, some, one) for one in few))
        return Acted(self._to_env(drawn, envs, agents), self._kept(drawn, envs, agents))

    def _deciding(self, present: torch.Tensor | None) -> torch.Tensor | None:
        """Rows int64 [n] of agents that have not left, where only those are to decide; None: everybody.

        Everybody does on other devices, which would have to be waited for.
        """
        if present is None or present.shape[1] == 1 or self.device.type != "cpu":  # who leaves alone begins anew
            return None
        there = present.flatten().nonzero().squeeze(1)
        return there if len(there) < _FEW * present.numel() else None

    def _noise(self, envs: int, agents: int) -> torch.Tensor:
        """Of this rank's copies: drawn for those of all."""
        ranks, head = self._setup.ranks, self.network.action
        noise = noise_of(head, envs * ranks.count * agents, self.generator)
        return noise.view(envs * ranks.count, agents, -1)[ranks.share(envs * ranks.count)].flatten(0, 1)

    @override
    def compile(self) -> None:
        self._sampled = torch.compile(self._decide, dynamic=False)

    def _decide(self, rows: torch.Tensor, forbidden: torch.Tensor | None, noise: torch.Tensor | None) -> Drawn:
        network = self.network
        return draw(network.action, network.outputs(network.normalize([rows])), forbidden, noise)

    def _kept(self, drawn: Drawn, envs: int, agents: int) -> dict[str, torch.Tensor]:
        kept = {"log_prob": drawn.log_prob}
        kept |= {"continuous": drawn.continuous} if self._choices.continuous_size else {}
        kept |= {"discrete": drawn.discrete} if self._choices.discrete_branches else {}
        return {name: values.view(envs, agents, -1) for name, values in kept.items()}

    def _forbidden(self, mask: torch.Tensor) -> torch.Tensor:
        return forbidden_of(mask, self._choices.discrete_branches)

    @override
    @torch.no_grad()
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        there = slice(None) if rollout.present.shape[2] == 1 else rollout.present.flatten().nonzero().squeeze(1)
        shared = self._rows(there, rollout.present)
        if shared.count == 0:  # all of its agents had left, of every copy
            return {}
        rows = rollout.observations.flatten(0, 2).flatten(1)[there]
        normalizer = self.network.normalizer
        first = normalizer is not None and not self._touched
        if normalizer is not None and first:
            self._take_in(normalizer, rows, shared)
            self._touched = True
        samples, values = self._samples(rollout, rows, there)
        if first:  # they were decided without statistics
            samples = samples._replace(log_prob=self._log_prob(samples))
        told = self._descend(samples, shared, progress)
        if normalizer is not None and not first:
            self._take_in(normalizer, rows, shared)
        returns = samples.returns
        spread, unexplained = shared.variance(returns), shared.variance(returns - values)
        return told | {
            keys.value_estimate(_STREAM): shared.mean(values),
            keys.EXPLAINED_VARIANCE: torch.where(spread > 1e-12, 1.0 - unexplained / spread.clamp(min=1e-12), 0.0),
        }

    def _rows(self, there: torch.Tensor | slice, present: torch.Tensor) -> Rows:
        """Which rows are learned from, among those of all ranks."""
        if self._setup.ranks.alone:
            return Rows(present.numel() if isinstance(there, slice) else len(there))
        return SharedRows(self._setup.ranks, torch.ones_like(present) if isinstance(there, slice) else present)

    def _take_in(self, normalizer: Normalizer, rows: torch.Tensor, shared: Rows) -> None:
        normalizer.take_in(rows, shared.count, self._setup.ranks.add)

    def _samples(
        self, rollout: TensorRollout, rows: torch.Tensor, there: torch.Tensor | slice
    ) -> tuple[Samples, torch.Tensor]:
        """What is learned from, and the values [N, 1] of now.

        ``rows``: observations [N, D] of agents that had not left, ``there`` among the rollout's; one alone is there as
        its copy is.
        """
        inputs = self.network.normalize([rows])
        values = self._in_pieces(self.network.values, inputs[0])
        everybody = values.new_zeros(rollout.rewards.numel())
        everybody[there] = values.squeeze(1)
        advantage = self._advantages(rollout, everybody.view_as(rollout.rewards)).view(-1, 1)[there]
        nothing = torch.zeros(0, device=self.device)
        flat = {name: kept.flatten(0, 2)[there] for name, kept in rollout.kept.items()}
        none = rows[:, :0]
        mask = rollout.mask
        samples = Samples(
            inputs=inputs,
            state=nothing,
            continuous=flat.get("continuous", none),
            discrete=flat.get("discrete", none.to(torch.int64)),
            mask=nothing if mask is None else self._forbidden(mask.flatten(0, 2)[there]),
            log_prob=flat["log_prob"],
            advantage=advantage,
            returns=advantage + values,
            begins=nothing,
        )
        return samples, values

    def _advantages(self, rollout: TensorRollout, values: torch.Tensor) -> torch.Tensor:
        """[T, E, A]."""
        last = self._values(rollout.after).view_as(values[:1])
        after = torch.cat((values[1:], last)) * ~rollout.terminated
        if rollout.final is not None:
            if self.device.type == "cpu":  # looking costs nothing here, and values of all would
                at = rollout.truncated.nonzero(as_tuple=True)
                after[at] = self._values(rollout.final[at]).squeeze(1)
            else:
                after = torch.where(rollout.truncated, self._values(rollout.final).view_as(after), after)
        own = cast("PPOHyperparameters | A2CHyperparameters", self._settings.hyperparameters)
        ended = rollout.terminated | rollout.truncated
        return gae(rollout.rewards, values, after, ended, self._settings.gamma, own.lambd)

    def _values(self, observations: torch.Tensor) -> torch.Tensor:
        """The critic's [n, 1] of observations [..., D] with ``n`` of them."""
        size = self._setup.spec.observations[0].size
        return self._in_pieces(self.network.values, self.network.normalize([observations.reshape(-1, size)])[0])

    def _in_pieces(self, forward: Callable[..., torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        if len(rows) <= _ROWS:
            return forward([rows])
        return torch.cat([forward([part]) for part in torch.split(rows, _ROWS)])

    def _log_prob(self, samples: Samples) -> torch.Tensor:
        """Log-probabilities [N, K] under the network of now."""
        head = self.network.action
        outputs = self._in_pieces(self.network.outputs, samples.inputs[0])
        mask = samples.mask if len(samples.mask) else None
        return evaluate_actions(head.choices, outputs, head.log_sigma, samples.continuous, samples.discrete, mask)[0]

    def _learning_rate(self, progress: float) -> float:
        own = self._settings.hyperparameters
        steps = self._setup.max_steps
        return scheduled(own.learning_rate, own.learning_rate_schedule, progress, LEARNING_RATE_FLOOR, steps)

    def _number(self, value: float) -> torch.Tensor:
        return torch.full((), value, device=self.device)

    def _order(self, count: int) -> torch.Tensor:
        return torch.randperm(count, generator=self.generator, device=self.device)

    @abstractmethod
    def _descend(self, samples: Samples, shared: Rows, progress: float) -> dict[str, torch.Tensor]:
        """Change the network; statistics."""

    @property
    @override
    def module(self) -> torch.nn.Module:
        return self.network

    @override
    def policy(self, version: int) -> Policy:
        tensors = self.network.state_dict().items()
        weights = {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in tensors}
        return make_policy(self.network, weights, version)

    @override
    def state(self) -> State:
        arrays = self.parameters.state()
        arrays["random.generator"] = self.generator.get_state().numpy()
        return arrays, {"trainer_type": self.name, "optimizer": self.parameters.optimizer.kind}

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        kind = self.parameters.optimizer.kind
        if facts.get("optimizer") != kind:  # moments of another optimizer are of no use
            if "trainer_type" in facts:
                raise CheckpointError(
                    f"The checkpoint's optimizer is {facts.get('optimizer')!r}, policy '{self._setup.spec.name}' needs "
                    f"{kind!r}; use the settings that the run was started with."
                )
            moments = {name: tensor.numpy(force=True) for name, tensor in self.parameters.moments().items()}
            arrays = {**arrays, **moments}
        generator = None
        if "trainer_type" in facts:
            generator = fitting(arrays, "random.generator", tuple(self.generator.get_state().shape))
        with torch.no_grad():
            self.parameters.load(arrays)
        if generator is not None:
            self.generator.set_state(torch.from_numpy(generator.copy()))
        normalizer = self.network.normalizer
        self._touched = normalizer is not None and not normalizer.untouched


class PPOLearner(OnPolicyLearner):
    """PPO: epochs of shuffled minibatches of a clipped objective."""

    name = "ppo"

    def __init__(self, setup: LearnerSetup) -> None:
        super().__init__(setup)
        self._own = cast("PPOHyperparameters", self._settings.hyperparameters)
        self._epochs: FusedEpochs | AutogradEpochs
        if self.network.plain and setup.ranks.alone:
            self._epochs = FusedEpochs(self.network, self.parameters)
        else:
            self._epochs = AutogradEpochs(self.network, self.parameters, setup.ranks)

    @override
    def _descend(self, samples: Samples, shared: Rows, progress: float) -> dict[str, torch.Tensor]:
        own, count, steps = self._own, shared.count, self._setup.max_steps
        batch = min(own.batch_size, count)
        if not batch:
            return {}
        if own.normalize_advantage == "buffer":
            samples = samples._replace(advantage=shared.normalized(samples.advantage))
        numbers = Numbers(
            continuous=self._choices.continuous_size,
            branches=list(self._choices.discrete_branches),
            epsilon=scheduled(own.epsilon, own.epsilon_schedule, progress, EPSILON_FLOOR, steps),
            beta=scheduled(own.beta, own.beta_schedule, progress, BETA_FLOOR, steps),
            learning_rate=self._learning_rate(progress),
            max_grad_norm=own.max_grad_norm or 0.0,
        )
        minibatches = count // batch
        rows = minibatches * batch
        told = []
        for _ in range(own.num_epoch):
            epoch, sizes = shared.minibatches(samples, self._order(count)[:rows], batch)
            if own.normalize_advantage == "minibatch":
                epoch = epoch._replace(advantage=shared.normalized(epoch.advantage, sizes, batch))
            statistics = new_statistics(epoch, sum(sizes), minibatches)
            if isinstance(self._epochs, FusedEpochs):
                self._epochs.run(numbers, epoch, statistics, batch)
            else:
                self._epochs.run(numbers, epoch, statistics, batch, sizes)
            told.append(shared.summed(summarize_epoch(epoch, statistics, numbers.epsilon), sum(sizes), rows))
            if own.target_kl is not None and bool(told[-1][3] > own.target_kl):  # whoever asks for it waits for it
                break
        mean = torch.stack(told).mean(dim=0)
        return {
            keys.POLICY_LOSS: mean[0],
            keys.VALUE_LOSS: mean[1],
            keys.POLICY_ENTROPY: mean[2],
            keys.APPROXIMATE_KL: told[-1][3],
            keys.CLIP_FRACTION: told[-1][4],
            keys.GRADIENT_NORM: mean[5],
            keys.LEARNING_RATE: self._number(numbers.learning_rate),
            keys.POLICY_EPSILON: self._number(numbers.epsilon),
            keys.POLICY_BETA: self._number(numbers.beta),
        }


def a2c_loss(
    network: ActorCritic, samples: Samples, vf_loss_coeff: float, entropy_coeff: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """``- mean(A log pi(a)) + c_v mean((V - R)²) - c_e H`` (Mnih et al. 2016), the logarithm summed over components.

    Returns:
        The loss [], and its parts without their factors, [3]: policy loss, value loss, entropy.
    """
    answer = network(samples.inputs)
    mask = samples.mask if len(samples.mask) else None
    head = network.action
    log_prob, entropies = evaluate_actions(
        head.choices, answer.outputs, head.log_sigma, samples.continuous, samples.discrete, mask
    )
    policy_loss = -(log_prob.sum(dim=1, keepdim=True) * samples.advantage).mean()
    value_loss = (answer.values - samples.returns).square().mean()
    entropy = entropies.mean()
    loss = policy_loss + vf_loss_coeff * value_loss - entropy_coeff * entropy
    return loss, torch.stack((policy_loss, value_loss, entropy)).detach()


class A2CLearner(OnPolicyLearner):
    """Advantage actor-critic: every decision is learned from once, all of them in one gradient step by default."""

    name = "a2c"

    def __init__(self, setup: LearnerSetup) -> None:
        super().__init__(setup)
        self._own = cast("A2CHyperparameters", self._settings.hyperparameters)

    @override
    def _descend(self, samples: Samples, shared: Rows, progress: float) -> dict[str, torch.Tensor]:
        own, count = self._own, shared.count
        if not count:
            return {}
        if own.normalize_advantage:
            samples = samples._replace(advantage=shared.normalized(samples.advantage))
        if own.normalize_return:
            samples = samples._replace(returns=shared.normalized(samples.returns))
        rate = self._learning_rate(progress)
        steps = self._setup.max_steps
        entropy_coeff = scheduled(own.entropy_coeff, own.entropy_coeff_schedule, progress, BETA_FLOOR, steps)
        batch = min(own.batch_size, count)
        sizes = [len(samples.returns)]
        if batch < count:
            samples, sizes = shared.minibatches(samples, self._order(count)[: count // batch * batch], batch)
        told, end = [], 0
        for size in sizes:
            rows = slice(end, end + size)
            end += size
            part = samples.map(lambda values, rows=rows: values[rows])  # type: ignore[misc]
            told.append(self._step(part, batch, entropy_coeff, rate))
        mean = torch.stack(told).mean(dim=0)
        return {
            keys.POLICY_LOSS: mean[0],
            keys.VALUE_LOSS: mean[1],
            keys.POLICY_ENTROPY: mean[2],
            keys.GRADIENT_NORM: mean[3],
            keys.LEARNING_RATE: self._number(rate),
            keys.POLICY_BETA: self._number(entropy_coeff),
        }

    def _step(self, samples: Samples, batch: int, entropy_coeff: float, rate: float) -> torch.Tensor:
        """One step along the mean gradient of a ``batch``, of which ``samples`` are here, a piece at a time.

        Returns:
            Loss parts and gradient norm [4].
        """
        own, ranks = self._own, self._setup.ranks
        gradient = self.parameters.optimizer.gradient
        gradient.zero_()
        told = torch.zeros(3, device=self.device)
        for begin in range(0, len(samples.returns), _ROWS):
            piece = samples.map(lambda values, begin=begin: values[begin : begin + _ROWS])  # type: ignore[misc]
            share = len(piece.returns) / batch
            with torch.enable_grad():
                loss, parts = a2c_loss(self.network, piece, own.vf_loss_coeff, entropy_coeff)
                (loss * share).backward()  # type: ignore[no-untyped-call]
            told += share * parts
        ranks.add(gradient)
        ranks.add(told)
        norm = torch.linalg.vector_norm(gradient)
        if own.max_grad_norm is not None:
            gradient.mul_(torch.clamp(own.max_grad_norm / (norm + 1e-6), max=1.0))
        self.parameters.descend(rate)
        return torch.cat((told, norm[None]))
