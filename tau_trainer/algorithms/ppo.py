"""Proximal Policy Optimization (Schulman et al. 2017), with the details that ML-Agents' users rely on.

- Clipped surrogate, separate or shared critic, one Adam for both (epsilon 1e-8), linear or constant schedules.
- Loss = policy loss + 0.5 * value loss - beta * entropy. No value clipping: ML-Agents' has no effect either.
- Advantages by GAE, normalised once a buffer or in each minibatch; ends by a limit are bootstrapped, real ends not.
- Every epoch shuffles anew; ``floor(N / batch_size)`` minibatches, the rest of that epoch's order is left out.
- Gaussian entropy is the mean over dimensions, branch entropies are summed, as in ML-Agents' ``Policy/Entropy``.
- The observation statistics take in a rollout *after* it was learned from, so that the probability ratio of fresh data
  is exactly 1 when learning starts. Only the very first rollout comes before: it turns "no statistics" into statistics,
  and the log-probabilities of its actions are computed again with them.

**Component credit.** With one reward for each action component (``reward_components`` = components) every component
has its own value output, advantage, probability ratio and clip; the policy loss is the mean over components. Given the
observation, components are drawn independently, so where a component's reward depends on that component alone (as in
the Tau task) the gradient is the same in expectation and free of the noise that the other components' rewards add.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.algorithms import autograd, fused
from tau_trainer.algorithms.batch import EpochStatistics, Samples, in_parts, new_statistics, normalized, shuffled
from tau_trainer.algorithms.learner_state import copy_of, fitting, load_tensors, new_optimizer, restore, tensors_of
from tau_trainer.algorithms.schedules import BETA_FLOOR, EPSILON_FLOOR, LEARNING_RATE_FLOOR, scheduled
from tau_trainer.algorithms.statistics import Summary, explained_variance, summarize
from tau_trainer.errors import CheckpointError, NonFiniteError
from tau_trainer.memory.trajectories import Rollout
from tau_trainer.models.actor_critic import ActorCritic
from tau_trainer.models.distributions import evaluate_actions
from tau_trainer.models.masks import effective_mask
from tau_trainer.models.normalizer import OBSERVATION_CLIP, RunningNormalizer
from tau_trainer.models.policy import Policy, PolicyWeights, all_finite, flatten
from tau_trainer.specs import BehaviorSpec, FloatArray

if TYPE_CHECKING:
    from tau_trainer.settings import TrainerSettings

_FORWARD_ROWS = 2048
"""Rows of one forward pass without gradient: large enough for full speed, small enough for the cache."""

_PARTS = 4
"""How often the policy is published in an epoch, where anybody asks for it."""

compiled_epoch = functools.cache(fused.compiled)
"""The fused epoch, compiled once a process."""


class PPO:
    """The learner of one behavior.

    Not thread-safe: one thread updates. Policies from :meth:`snapshot` are independent copies for any thread.
    torch's number of threads is a setting of the *calling thread*: call ``torch.set_num_threads`` in the thread that
    updates.

    Args:
        spec: the behavior with the sensors that the policy sees.
        settings: hyperparameters, network, reward signals; ``extrinsic`` is the signal that is learned from.
        reward_components: ``R``: 1, or the number of action components (credit for each component).
        seed: of weights and minibatch order.
        device: where learning happens.
        fused: hand-written minibatches; False = automatic differentiation, same numbers.
        ratio: ``joint`` = one probability ratio for the whole action (the paper); ``component`` = one for each action
            component, all with the same advantage (what ML-Agents does). Always ``component`` where R > 1.

    Raises:
        ValueError: ``reward_components`` is neither 1 nor the number of action components.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        *,
        reward_components: int = 1,
        seed: int,
        device: str | torch.device = "cpu",
        fused: bool = True,
        ratio: Literal["joint", "component"] = "joint",
    ) -> None:
        if reward_components not in (1, spec.actions.components):
            raise ValueError(f"reward_components must be 1 or {spec.actions.components}, not {reward_components}")
        network = settings.network_settings
        self.spec = spec
        self.settings = settings
        self.device = torch.device(device)
        self.reward_components = reward_components
        self.groups = spec.actions.components if reward_components > 1 or ratio == "component" else 1
        self.version = 0
        self.network = ActorCritic(
            observation_size=sum(sensor.size for sensor in spec.observations),
            actions=spec.actions,
            hidden_units=network.hidden_units,
            num_layers=network.num_layers,
            values=reward_components,
            shared_critic=settings.hyperparameters.shared_critic,
        )
        self.normalizer = RunningNormalizer(self.network.observation_size)
        self._generator = torch.Generator().manual_seed(seed)
        self._optimizer = new_optimizer(self.network, self._generator, self.device)
        self._parameters = self.network.layout.views(self._optimizer.parameters)
        self._fused = _FusedEpochs(self.network, self._optimizer, self.groups) if fused else None

    def update(
        self, rollout: Rollout, progress: float, *, publish: Callable[[Policy], None] | None = None
    ) -> dict[str, float]:
        """Learn from a rollout; the policy's version grows by one.

        Args:
            rollout: at least one transition with ``R`` reward components. Not released here.
            progress: share of ``max_steps`` that is behind us, 0 to 1, for the schedules.
            publish: called a few times an epoch, in this thread, with the policy so far (its numbers are finite, its
                version is that of before the update). Agents that act while learning goes on then act with weights
                that are little behind, not a whole update; fewer decisions are needed to learn the same.

        Returns:
            Statistics by TensorBoard name.

        Raises:
            NonFiniteError: NaN or infinity in the rollout, the loss or a gradient. Weights, optimizer, normaliser and
                random numbers are then as they were before the call.
        """
        if len(rollout) == 0 or rollout.reward.shape[1] != self.reward_components:
            raise ValueError(f"an update needs transitions with {self.reward_components} reward components each")
        started = time.perf_counter()
        backup, random_state = copy_of(self._optimizer), self._generator.get_state()
        statistics = self.normalizer.count, self.normalizer.mean, self.normalizer.squares
        try:
            result = self._update(rollout, progress, publish)
        except NonFiniteError:
            restore(self._optimizer, backup)
            self._generator.set_state(random_state)
            self.normalizer.load(*statistics)
            raise
        self.version += 1
        result["Train/Update Seconds"] = time.perf_counter() - started
        return result

    def snapshot(self) -> Policy:
        """The policy of now, as an independent copy."""
        own = {name: view.detach().to("cpu", copy=True).numpy() for name, view in self._parameters.items()}
        body = tuple(
            (own[f"body.{layer}.weight"][0].copy(), own[f"body.{layer}.bias"][0, 0].copy())
            for layer in range(self.network.num_layers)
        )
        weights = PolicyWeights(
            normalizer=self.normalizer.state() if self.settings.network_settings.normalize else None,
            body=body,
            action_weight=own["action.weight"],
            action_bias=own["action.bias"],
            log_sigma=own["action.log_sigma"],
        )
        return Policy(self.spec, weights, self.version)

    def state_dict(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Everything needed to go on bit for bit: CPU tensors by name, and facts that JSON can hold."""
        tensors = tensors_of(self.network, self._optimizer, self.normalizer)
        tensors["random.generator"] = self._generator.get_state()
        return tensors, {**self._shape(), "version": self.version}

    def load_state_dict(
        self,
        tensors: Mapping[str, torch.Tensor | FloatArray],
        metadata: Mapping[str, Any],
        *,
        weights_only: bool = False,
    ) -> None:
        """Go on from :meth:`state_dict`; nothing is changed unless everything fits.

        Args:
            tensors: may hold numpy arrays in place of tensors.
            metadata: of the same state.
            weights_only: take weights and normaliser and start anew otherwise (optimizer, version, random numbers).

        Raises:
            CheckpointError: the state belongs to another behavior or network, or is damaged.
        """
        for key, wanted in self._shape().items():
            if metadata.get(key) != wanted:
                raise CheckpointError(
                    f"The checkpoint's {key.replace('_', ' ')} is {metadata.get(key)!r}, behavior "
                    f"'{self.spec.short_name}' needs {wanted!r}; use the settings that the run was started with."
                )
        random_state = None if weights_only else fitting(tensors, "random.generator", None)
        load_tensors(self.network, self._optimizer, self.normalizer, tensors, weights_only=weights_only)
        if random_state is not None:
            self._generator.set_state(random_state)
            self.version = int(metadata["version"])

    def _shape(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        return {
            "algorithm": "ppo",
            "observations": [[sensor.name, list(sensor.shape)] for sensor in self.spec.observations],
            "continuous_actions": self.spec.actions.continuous_size,
            "discrete_branches": list(self.spec.actions.discrete_branches),
            "reward_components": self.reward_components,
            "hidden_units": self.network.hidden_units,
            "num_layers": self.network.num_layers,
            "shared_critic": self.network.shared_critic,
            "normalize": self.settings.network_settings.normalize,
        }

    @torch.no_grad()
    def _update(self, rollout: Rollout, progress: float, publish: Callable[[Policy], None] | None) -> dict[str, float]:
        observations = flatten(rollout.observations)
        self._check_input(rollout)
        first = self.normalizer.count == 1.0
        if first and self.settings.network_settings.normalize:
            self.normalizer.merge(observations)
        # Data of older policies is compared with the policy that this update starts from: else much of it would be
        # outside the clip range before the first step (a proximal policy apart from the one that acted, as in
        # Hilton et al. 2022, "Batch size-invariance for policy optimization").
        stale = bool((rollout.version < self.version).any())
        samples, values, returns = self._samples(rollout, observations, recompute=first or stale)
        numbers = self._numbers(progress)
        summary = self._learn(samples, numbers, publish)
        if not first and self.settings.network_settings.normalize:
            self.normalizer.merge(observations)
        return {
            "Losses/Policy Loss": summary.policy_loss,
            "Losses/Value Loss": summary.value_loss,
            "Policy/Entropy": summary.entropy,
            "Policy/Learning Rate": numbers.learning_rate,
            "Policy/Epsilon": numbers.epsilon,
            "Policy/Beta": numbers.beta,
            "Policy/Extrinsic Value Estimate": float(values.mean()),
            "Train/KL": summary.kl,
            "Train/Clip Fraction": summary.clip_fraction,
            "Train/Explained Variance": explained_variance(values, returns),
            "Train/Gradient Norm": summary.gradient_norm,
            "Train/Minibatches": float(summary.minibatches),
        }

    def _numbers(self, progress: float) -> fused.Numbers:
        own = self.settings.hyperparameters
        return fused.Numbers(
            continuous=self.spec.actions.continuous_size,
            branches=list(self.spec.actions.discrete_branches),
            epsilon=scheduled(own.epsilon, own.epsilon_schedule, progress, EPSILON_FLOOR),
            beta=scheduled(own.beta, own.beta_schedule, progress, BETA_FLOOR),
            learning_rate=scheduled(own.learning_rate, own.learning_rate_schedule, progress, LEARNING_RATE_FLOOR),
            max_grad_norm=own.max_grad_norm or 0.0,
            weight_decay=own.weight_decay,
            decayed=self.network.layout.decayed_size,
        )

    def _samples(
        self, rollout: Rollout, observations: FloatArray, *, recompute: bool
    ) -> tuple[Samples, NDArray[np.float64], NDArray[np.float64]]:
        """The update's data, with values and returns, float64 [N, R]."""
        signal, own = self.settings.reward_signals["extrinsic"], self.settings.hyperparameters
        inputs, bootstrap = self._inputs(observations), self._inputs(flatten(rollout.bootstrap_observations))
        values, bootstrap_values = self._values(inputs), self._values(bootstrap)
        advantage, returns = rollout.gae(values, bootstrap_values, signal.gamma, own.lambd, strength=signal.strength)
        mask = np.zeros((0, 0), np.bool_)
        if rollout.mask is not None:
            mask = effective_mask(rollout.mask, self.spec.actions.discrete_branches)
        samples = Samples(
            observations=inputs,
            continuous=self._tensor(rollout.continuous),
            discrete=self._tensor(rollout.discrete.astype(np.int64)),
            mask=self._tensor(mask),
            log_prob=self._tensor(rollout.log_prob),
            advantage=self._tensor(advantage.astype(np.float32)),
            returns=self._tensor(returns.astype(np.float32)),
        )
        if recompute:
            samples = samples._replace(log_prob=self._log_prob(samples))
        if self.groups == 1:
            samples = samples._replace(log_prob=samples.log_prob.sum(dim=1, keepdim=True))
        if own.normalize_advantage == "buffer":
            samples = samples._replace(advantage=normalized(samples.advantage))
        return samples, values.astype(np.float64), returns

    def _learn(self, samples: Samples, numbers: fused.Numbers, publish: Callable[[Policy], None] | None) -> Summary:
        own, count = self.settings.hyperparameters, len(samples.observations)
        batch = min(own.batch_size, count)
        minibatches = count // batch
        rows = minibatches * batch
        per_epoch: list[torch.Tensor] = []
        for _ in range(own.num_epoch):
            order = torch.randperm(count, generator=self._generator)[:rows].to(self.device)
            epoch = shuffled(samples, order)
            if own.normalize_advantage == "minibatch":
                stacked = epoch.advantage.view(minibatches, batch, -1)
                epoch = epoch._replace(advantage=normalized(stacked).view(rows, -1))
            statistics = new_statistics(epoch, rows, minibatches)
            for samples_part, statistics_part in in_parts(epoch, statistics, 1 if publish is None else _PARTS):
                self._run_epoch(numbers, samples_part, statistics_part, batch)
                if publish is not None and self._parameters_finite():
                    publish(self.snapshot())
            per_epoch.append(summarize(epoch, statistics, numbers.epsilon))
            if own.target_kl is not None and Summary.kl_of(per_epoch[-1]) > own.target_kl:
                break
        self._check_output(per_epoch)
        return Summary.mean_of(per_epoch, minibatches)

    def _run_epoch(self, numbers: fused.Numbers, epoch: Samples, statistics: EpochStatistics, batch: int) -> None:
        if self._fused is not None:
            self._fused.run(numbers, epoch, statistics, batch)
        else:
            autograd.run_epoch(self.network, numbers, self._optimizer, epoch, statistics)

    def _inputs(self, observations: FloatArray) -> torch.Tensor:
        """Normalised observations [n, D] on the device."""
        if not self.settings.network_settings.normalize:
            return self._tensor(observations)
        state = self.normalizer.state()
        inputs = self._tensor(observations) - self._tensor(state.mean)
        return inputs.mul_(self._tensor(np.float32(1.0) / state.std)).clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def _values(self, inputs: torch.Tensor) -> FloatArray:
        """The critic's values, float32 [n, R]."""
        parts = [self.network.value(self._parameters, rows) for rows in _pieces(inputs)]
        values: FloatArray = torch.cat(parts).cpu().numpy()
        return values

    def _log_prob(self, samples: Samples) -> torch.Tensor:
        """Log-probabilities of the samples' actions under the network of now, [N, components]."""
        outputs = torch.cat(
            [self.network.action_outputs(self._parameters, rows) for rows in _pieces(samples.observations)]
        )
        mask = samples.mask if len(samples.mask) else None
        log_sigma = self._parameters["action.log_sigma"]
        actions = self.spec.actions
        return evaluate_actions(actions, outputs, log_sigma, samples.continuous, samples.discrete, mask)[0]

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        # A read-only array must be copied before torch may wrap it; learning itself never writes to its data.
        source = array if array.flags.writeable else array.copy()
        return torch.from_numpy(np.ascontiguousarray(source)).to(self.device)

    def _check_input(self, rollout: Rollout) -> None:
        named = {"reward": rollout.reward, "log-probability": rollout.log_prob, "action": rollout.continuous}
        named |= {
            f"observation '{sensor.name}'": values
            for sensor, values in zip(self.spec.observations, rollout.observations, strict=True)
        }
        for name, values in named.items():
            if all_finite(values):
                continue
            wrong = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
            raise NonFiniteError(
                f"Behavior '{self.spec.name}': {name} is NaN or infinite in {len(wrong)} of {len(values)} "
                f"transitions (first: agent slot {int(rollout.slots[wrong[0]])}); nothing was learned from them."
            )

    def _parameters_finite(self) -> bool:
        return bool(torch.isfinite(self._optimizer.parameters).all())

    def _check_output(self, per_epoch: list[torch.Tensor]) -> None:
        if bool(torch.isfinite(torch.stack(per_epoch)).all()) and self._parameters_finite():
            return
        names = [
            name
            for name, value in self.network.layout.views(self._optimizer.gradient).items()
            if not bool(torch.isfinite(value).all())
        ]
        where = f"gradient of {', '.join(names)}" if names else "loss"
        raise NonFiniteError(
            f"Behavior '{self.spec.name}': the {where} became NaN or infinite in update {self.version + 1}; the "
            "weights from before it were kept. Lower learning_rate or the size of the rewards."
        )


def _pieces(rows: torch.Tensor) -> list[torch.Tensor]:
    return [rows[begin : begin + _FORWARD_ROWS] for begin in range(0, max(1, len(rows)), _FORWARD_ROWS)]


class _FusedEpochs:
    """The fused path with the memory that it works in."""

    def __init__(self, network: ActorCritic, optimizer: fused.Optimizer, groups: int) -> None:
        self._network, self._optimizer, self._groups = network, optimizer, groups
        self._weights = fused.named_weights(network, optimizer.parameters)
        self._gradient = fused.named_weights(network, optimizer.gradient)
        self._space: fused.Workspace | None = None
        self._epoch = compiled_epoch()

    def run(self, numbers: fused.Numbers, samples: Samples, statistics: EpochStatistics, batch: int) -> None:
        """One epoch over shuffled samples in minibatches of ``batch``."""
        if self._space is None or len(self._space.outputs) != batch:
            device = self._optimizer.parameters.device
            self._space = fused.new_workspace(self._network, batch, self._groups, device)
        self._epoch(numbers, self._weights, self._gradient, self._optimizer, self._space, samples, statistics)
