"""A population: many policies of one shape that learn by PPO side by side, each from its own copies alone.

Their weights are stacked, and one batched product a layer acts for all members. Nothing is shared: every member has its
own weights, moments, normaliser, order of samples and random numbers, so it learns what it would learn alone, to float
tolerance. What it has learned belongs to an ordinary :class:`PPO`, from which the stack is filled and into which it is
emptied: whoever reads checkpoints or makes policies meets nothing new.

Off a CPU all members learn by one batched product a layer too (:mod:`.stacked`). On a CPU each learns by PPO's own
epochs, a thread for every core: its weights, moments and samples fit into caches, and scripted epochs do not hold the
interpreter's lock.

Shapes: ``P`` members with ``E`` copies each, which are theirs in order; ``C`` members that are looked at; ``N = T * E``
samples of a member's rollout; ``R`` numbers in a reward; ``S`` floats of one member's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batch import Samples, normalized
from tau_trainer.algorithms.batched.contract import Acted, BatchedLearner, TensorRollout
from tau_trainer.algorithms.batched.stacked import ROWS, StackedEpochs, features, head
from tau_trainer.algorithms.fused import Numbers
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.columns import Arrays
from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.metrics import keys
from tau_trainer.models.action_head import ACTION_LIMIT
from tau_trainer.models.actor_critic import ACTOR
from tau_trainer.models.distributions import LOG_SQRT_2PI, evaluate_actions
from tau_trainer.models.normalizer import OBSERVATION_CLIP
from tau_trainer.rewards.streams import EXTRINSIC

if TYPE_CHECKING:
    from tau_trainer.settings import PPOHyperparameters

_AGE = "population.age"

Item = TypeVar("Item")
Found = TypeVar("Found")


class Population(BatchedLearner):
    """``P`` policies; :meth:`act` and :meth:`learn` are of all of them, in order.

    Args:
        members: what each begins from: plain networks of one shape on one device, with the same settings.
        copies: ``E``.
        threads: that a CPU learns with.
        stacked: whether all learn by the same products; None: unless they are on a CPU.

    Attributes:
        frozen: bool [P]: members that met NaN. They keep the weights from before, and learn no more.
        resting: bool [P]: members that have learned enough, and keep the weights that they have.

    Raises:
        SettingsError: these policies cannot be one population.
    """

    def __init__(self, members: Sequence[PPO], copies: int, threads: int = 1, *, stacked: bool | None = None) -> None:
        first = members[0]
        self._refuse(first)
        self.members = list(members)
        self.horizon = -(-first.rollout_size // copies)
        self._copies = copies
        self._own = cast("PPOHyperparameters", first.settings.hyperparameters)
        self._stream = first.streams[0]
        self._network, self._device = first.network, first.device
        count, parameters = len(members), first.parameters
        shape = count, parameters.optimizer.parameters.numel()
        self._rows = {name: torch.zeros(shape, device=self._device) for name in ROWS}
        self._taken = [0] * count
        """Steps of the optimizer."""
        self._normalizer: dict[str, torch.Tensor] = {}
        """``count`` [P, 1], ``mean`` and ``squares`` [P, D], float64; empty: nothing is normalised."""
        if first.network.normalizer is not None:
            buffers = dict(first.network.normalizer.named_buffers())
            self._normalizer = {
                name: one.new_zeros(count, max(1, one.numel())).to(self._device) for name, one in buffers.items()
            }
        self._untouched = [False] * count
        self.frozen = torch.zeros(count, dtype=torch.bool, device=self._device)
        self.resting = torch.zeros_like(self.frozen)
        self.steps = 0
        """Decisions of each copy so far."""
        self.moves = 0
        """Grows with every decision and with what is learned, for who asks whether anything goes on."""
        self._seeds = torch.cat([seeds_of(one.seed, copies, self._device) for one in members])
        self._age = torch.zeros(count * copies, dtype=torch.int64, device=self._device)
        """Of each copy the decisions since its episode began or its trace was cut."""
        on_cpu = self._device.type == "cpu"
        threaded = on_cpu and threads > 1
        self._pool = ThreadPoolExecutor(threads, "population", torch.set_num_threads, (1,)) if threaded else None
        self._parts = self._cut(-(-count // threads)) if threaded else [slice(0, count)]
        """Members that act together."""
        stacked = not on_cpu if stacked is None else stacked
        self._epochs = StackedEpochs(self.members, self._rows) if stacked else None
        for index in range(count):
            self.fill(index)

    @property
    def foresees(self) -> bool:
        """Whether what comes after counts: else final observations are not needed."""
        return self._stream.gamma > 0.0

    @staticmethod
    def _refuse(one: PPO) -> None:
        own, choices = one.settings.hyperparameters, one.network.action.choices
        assert isinstance(one, PPO)
        reasons = {
            "its network must be hidden layers over vectors: no memory, images, lists or goals": not one.network.plain,
            "its actions must be continuous": one.spec.actions.discrete_size > 0 or not choices.components,
            "the reward must be extrinsic alone": [stream.name for stream in one.streams] != [EXTRINSIC],
            "optimizer must not be nadam": own.optimizer == "nadam",
            "updates_per_buffer must be 1": one.rollout_size != own.buffer_size,
            "target_kl must be null": getattr(own, "target_kl", None) is not None,
        }
        wrong = [reason for reason, is_so in reasons.items() if is_so]
        if wrong:
            raise SettingsError(f"'{one.spec.short_name}' cannot be a population: {'; '.join(wrong)}")

    def _cut(self, size: int) -> list[slice]:
        count = len(self.members)
        return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]

    # Between the stack and its members.

    @torch.no_grad()
    def fill(self, index: int) -> None:
        """Take over what a member knows: it was loaded anew, say."""
        one = self.members[index]
        for name, rows in self._rows.items():
            rows[index].copy_(getattr(one.parameters.optimizer, name))
        self._taken[index] = int(one.parameters.optimizer.step)
        if one.network.normalizer is not None:
            self._untouched[index] = one.network.normalizer.untouched
            for name, values in one.network.normalizer.named_buffers():
                self._normalizer[name][index].copy_(values.view(-1))

    @torch.no_grad()
    def empty(self, index: int) -> PPO:
        """The member with all that it has learned: whoever saves it or makes a policy of it asks here first."""
        one = self.members[index]
        for name, rows in self._rows.items():
            getattr(one.parameters.optimizer, name).copy_(rows[index])
        one.parameters.optimizer.step.fill_(self._taken[index])
        if one.network.normalizer is not None:
            for name, values in one.network.normalizer.named_buffers():
                values.copy_(self._normalizer[name][index].view(values.shape))
        return one

    def state_of(self, index: int) -> State:
        """One member's :meth:`PPO.state`, and what it needs of the population to go on bit for bit."""
        arrays, facts = self.empty(index).state()
        age = self._age.view(-1, self._copies)[index]
        frozen = bool(self.frozen[index])
        return arrays | {_AGE: age.cpu().numpy()}, facts | {"population": {"steps": self.steps, "frozen": frozen}}

    def load_of(self, index: int, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        """One member goes on from :meth:`state_of`, or begins from any other PPO's. Raises CheckpointError."""
        own = facts.get("population") if "version" in facts else None
        age = None if own is None else fitting(arrays, _AGE, (self._copies,))
        self.members[index].load(arrays, facts)
        self.fill(index)
        if own is not None and age is not None:
            self._age.view(-1, self._copies)[index] = torch.from_numpy(age.copy()).to(self._device)
            self.steps, self.frozen[index] = max(self.steps, int(own["steps"])), bool(own["frozen"])

    @override
    def state(self) -> State:
        arrays, facts = dict[str, Any](), dict[str, Any]()
        for index in range(len(self.members)):
            own, facts[str(index)] = self.state_of(index)
            arrays |= {f"{index}.{name}": values for name, values in own.items()}
        return arrays, facts

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        for index in range(len(self.members)):
            begin = f"{index}."
            own = {name.removeprefix(begin): values for name, values in arrays.items() if name.startswith(begin)}
            self.load_of(index, own, facts[str(index)])

    # Acting.

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
        size = observations.shape[-1]
        rows = observations.view(len(self.members), self._copies, size)
        draws = Draws(self._seeds, torch.zeros_like(self._seeds), torch.full_like(self._seeds, self.steps))
        draw = draws.uniform if self._network.action.leveled else draws.normal
        noise = draw(0, self._network.action.choices.components).view(*rows.shape[:2], -1)

        def decide(some: slice) -> tuple[torch.Tensor, ...]:
            return self._decide(some, rows[some], None if deterministic else noise[some])

        parts = zip(*self._each(decide, self._parts), strict=True)
        actions, raw, discrete, log_prob = (torch.cat(part).flatten(0, 1).unsqueeze(1) for part in parts)
        self.steps += 1
        self.moves += 1
        return Acted(actions, {"continuous": raw, "discrete": discrete, "log_prob": log_prob})

    def _decide(
        self, members: slice, rows: torch.Tensor, noise: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of [C, E, D]: actions [C, E, c] for the environment; raw samples, branches and log-probabilities as kept."""
        action, weights = self._network.action, self._views(members)
        outputs = head(
            "action", weights, features(self._network, weights, self._normalized(members, rows.clone()), ACTOR)
        )
        if not action.leveled:
            mean, log_sigma = outputs, weights["action.log_sigma"].unsqueeze(1)
            sample = torch.zeros_like(mean) if noise is None else noise
            raw = mean + sample * log_sigma.exp()
            log_prob = -0.5 * sample.square() - log_sigma - LOG_SQRT_2PI
            sent = raw.clamp(-ACTION_LIMIT, ACTION_LIMIT) / ACTION_LIMIT
            return torch.nan_to_num(sent), raw, sample.new_zeros((*sample.shape[:2], 0), dtype=torch.int64), log_prob
        logits = outputs.view(*outputs.shape[:2], action.leveled, -1).log_softmax(dim=3)
        if noise is None:
            chosen = logits.argmax(dim=3)
        else:  # the first value at which the sum of probabilities is above the number that was drawn
            sums = logits.exp().cumsum(dim=3)
            chosen = (sums <= noise.unsqueeze(3) * sums[..., -1:]).sum(dim=3)
        chosen = chosen.clamp_(max=logits.shape[3] - 1)  # where all is NaN
        log_prob = logits.gather(3, chosen.unsqueeze(3)).squeeze(3)
        assert action.levels is not None
        return chosen * (2.0 / (action.levels - 1)) - 1.0, outputs[..., :0], chosen, log_prob

    # Learning.

    @override
    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        """See the contract; ``rewards`` may be [T, P E, 1, R], and statistics are [P]: NaN of whoever is frozen."""
        numbers = self.members[0].numbers(progress)
        age, self._age = self._ages(rollout)
        parts = self._cut(1 if self._epochs is None else len(self.members))
        told = self._each(lambda some: self._learn(some, rollout, age, numbers), parts)
        self._untouched = [False] * len(self.members)
        count = self.horizon * self._copies
        minibatches = self._own.num_epoch * (count // min(self._own.batch_size, count))
        self._taken = [taken + minibatches for taken in self._taken]
        for one in self.members:
            one.version += 1
        stats = {name: torch.cat([one[name] for one in told]) for name in told[0]}
        same = {
            keys.LEARNING_RATE: numbers.learning_rate,
            keys.POLICY_EPSILON: numbers.epsilon,
            keys.POLICY_BETA: numbers.beta,
            keys.MINIBATCHES: float(minibatches),
        }
        return stats | {name: torch.full_like(stats[keys.POLICY_LOSS], value) for name, value in same.items()}

    def _ages(self, rollout: TensorRollout) -> tuple[torch.Tensor, torch.Tensor]:
        """Age [T, P E] of every decision, and what it is after the last."""
        limit, age, ages = self.members[0].settings.time_horizon, self._age, []
        for ended in (rollout.terminated | rollout.truncated)[..., 0]:
            ages.append(age)
            age = torch.where(ended | (age == limit - 1), 0, age + 1)
        return torch.stack(ages), age

    @torch.no_grad()
    def _learn(
        self, some: slice, rollout: TensorRollout, age: torch.Tensor, numbers: Numbers
    ) -> dict[str, torch.Tensor]:
        """One update of some members: all, or a single one."""
        weights = self._views(some)
        inputs, rewards = self._of(some, rollout.observations[:, :, 0]), self._of(some, rollout.rewards[:, :, 0])
        told = [self._of(some, one[:, :, 0]) for one in rollout.kept.values()]
        kept = dict(zip(rollout.kept, told, strict=True))
        merged, first = self._merged(some, inputs), any(self._untouched[some])
        whole = torch.isfinite(inputs.sum(dim=(1, 2))) & torch.isfinite(rewards.sum(dim=(1, 2)))
        if first:
            self._take(some, merged, whole)
        self._normalized(some, inputs)
        if first:
            kept["log_prob"] = self._log_prob(weights, inputs, kept)
        values = self._values(weights, inputs)
        advantage, returns = self._gae(some, rollout, rewards, values, age)
        if self._own.normalize_advantage == "buffer":
            advantage = normalized(advantage)
        nothing = inputs[:0]
        acted = kept["continuous"], kept["discrete"], nothing, kept["log_prob"]
        samples = Samples([inputs], nothing, *acted, advantage, returns, nothing)
        learns = whole & ~self.frozen[some] & ~self.resting[some]
        if self._epochs is None:
            summary = self._alone(some.start, samples, numbers, bool(learns))
        else:
            summary = self._epochs.run(samples, numbers, max(self._taken), learns)
            self.moves += 1
        learned = learns & torch.isfinite(summary.sum(dim=1))
        if not first:
            self._take(some, merged, learned)
        self.frozen[some] |= ~(learned | self.resting[some])
        stats = {
            keys.POLICY_LOSS: summary[:, 0],
            keys.VALUE_LOSS: summary[:, 1],
            keys.POLICY_ENTROPY: summary[:, 2],
            keys.value_estimate(EXTRINSIC): values.mean(dim=(1, 2)),
            keys.APPROXIMATE_KL: summary[:, 3],
            keys.CLIP_FRACTION: summary[:, 4],
            keys.EXPLAINED_VARIANCE: _explained(values, returns),
            keys.GRADIENT_NORM: summary[:, 5],
        }
        return {name: torch.where(learned, one, torch.nan) for name, one in stats.items()}

    def _alone(self, index: int, samples: Samples, numbers: Numbers, learns: bool) -> torch.Tensor:
        """One member's epochs by PPO, of samples [1, N, ...]; [1, 6] as :meth:`StackedEpochs.run`."""
        one, nothing = self.members[index], torch.full((1, 6), torch.nan)
        self.moves += 1
        if not learns:
            return nothing
        try:
            summary = one.descend(samples.map(lambda values: values.flatten(0, 1)), numbers)
        except NonFiniteError:  # the stack knows nothing of this update, and whoever asks for the member asks it
            return nothing
        for name, rows in self._rows.items():
            rows[index].copy_(getattr(one.parameters.optimizer, name))
        return torch.tensor(astuple(summary)[:6]).unsqueeze(0)

    def _gae(
        self, members: slice, rollout: TensorRollout, rewards: torch.Tensor, values: torch.Tensor, age: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages and returns, float32 [C, N, R]: what :meth:`Rollout.gae` gives."""
        gamma, lambd, steps = self._stream.gamma, self._own.lambd, self.horizon
        shape = len(rewards), steps, self._copies, -1
        reward = rewards.double().view(shape) * self._stream.strength
        current = values.double().view(shape)
        if gamma == 0.0:  # nothing that comes after counts
            return (reward - current).flatten(1, 2).float(), reward.flatten(1, 2).float()
        weights, limit = self._views(members), self.members[0].settings.time_horizon

        def value(observations: torch.Tensor) -> torch.Tensor:
            return self._values(weights, self._normalized(members, self._of(members, observations)))

        after = value(rollout.after[None, :, 0]).double().view(len(rewards), 1, self._copies, -1)
        follows = torch.cat((current[:, 1:], after), dim=1)
        terminated, truncated, cut = (
            self._of(members, one[..., None]).view(shape)
            for one in (rollout.terminated[:, :, 0], rollout.truncated[:, :, 0], age == limit - 1)
        )
        if rollout.final is not None:
            final = value(rollout.final[:, :, 0]).double().view(shape)
            follows = torch.where(truncated, final, follows)
        delta = reward + gamma * torch.where(terminated, 0.0, follows) - current
        trace = torch.where(terminated | truncated | cut, 0.0, gamma * lambd)
        advantage, last = torch.empty_like(delta), torch.zeros_like(delta[:, 0])
        for step in reversed(range(steps)):
            last = delta[:, step] + trace[:, step] * last
            advantage[:, step] = last
        return advantage.flatten(1, 2).float(), (advantage + current).flatten(1, 2).float()

    def _log_prob(
        self, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, kept: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Log-probabilities [C, N, K] of what was done, under the weights of now."""
        outputs = head("action", weights, features(self._network, weights, inputs, ACTOR))
        sigma = weights["action.log_sigma"].unsqueeze(1).expand(-1, inputs.shape[1], -1)
        said = [one.flatten(0, 1) for one in (outputs, sigma, kept["continuous"], kept["discrete"])]
        log_prob, _ = evaluate_actions(self._network.action.choices, said[0], said[1], said[2], said[3], None)
        return log_prob.view(kept["log_prob"].shape)

    def _values(self, weights: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        """The critics' values [C, N, R]."""
        return head("value", weights, features(self._network, weights, inputs, self._network.towers - 1))

    def _views(self, members: slice) -> dict[str, torch.Tensor]:
        """Parameters [C, ...] by name."""
        return self.members[0].parameters.views(self._rows["parameters"][members])

    def _of(self, members: slice, values: torch.Tensor) -> torch.Tensor:
        """[C, N, ...] of [T, P E, ...]: a copy, in the order of time."""
        own = values.view(len(values), len(self.members), self._copies, *values.shape[2:])[:, members]
        return own.transpose(0, 1).clone(memory_format=torch.contiguous_format).flatten(1, 2)

    # Normalising.

    def _normalized(self, members: slice, inputs: torch.Tensor) -> torch.Tensor:
        """``inputs`` [C, n, D] themselves, normalised with the statistics of now."""
        if not self._normalizer:
            return inputs
        count, mean, squares = (self._normalizer[name][members] for name in ("count", "mean", "squares"))
        inputs -= mean.float().unsqueeze(1)
        inputs *= torch.sqrt(squares / count).float().reciprocal().unsqueeze(1)
        return inputs.clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def _merged(self, members: slice, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The statistics of these members with ``inputs`` [C, n, D] taken in; see :meth:`Normalizer.merge`."""
        if not self._normalizer:
            return {}
        count, mean, squares = (self._normalizer[name][members] for name in ("count", "mean", "squares"))
        rows, total = inputs.shape[1], count + inputs.shape[1]
        own = inputs.mean(dim=1, dtype=torch.float64)
        spread = torch.stack([(one - at).square_().sum(dim=0) for one, at in zip(inputs, own, strict=True)])
        delta = own - mean
        return {
            "count": total,
            "mean": mean + delta * (rows / total),
            "squares": squares + spread + delta.square() * (count * rows / total),
        }

    def _take(self, members: slice, merged: Mapping[str, torch.Tensor], whole: torch.Tensor) -> None:
        """Go on with ``merged`` statistics, but for members that are not ``whole``, bool [C]."""
        for name, values in merged.items():
            own = self._normalizer[name][members]
            own.copy_(torch.where(whole[:, None], values, own))

    def _each(self, work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        """``work`` on every item, in threads where there are several."""
        return list(self._pool.map(work, items)) if self._pool is not None else [work(one) for one in items]

    def close(self) -> None:
        """End its threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _explained(values: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
    """[C] of [C, N, R]; see :func:`~tau_trainer.algorithms.statistics.explained_variance`."""
    variance, unexplained = (one.double().var(dim=1, correction=0) for one in (returns, returns - values))
    varies = variance > 1e-12
    return torch.where(varies, 1.0 - unexplained / torch.where(varies, variance, 1.0), 0.0).mean(dim=1).float()
