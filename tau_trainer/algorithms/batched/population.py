"""A population: many policies of one shape that learn by PPO side by side, each only from its own copies.

Their weights are stacked, and one batched product per layer acts for all members. Members share nothing: each has its
own weights, moments, normaliser, order of samples and random numbers, so it learns the same as it would alone, to float
tolerance. A member's state is in an ordinary :class:`PPO`, whose vectors are rows of the stack, so code that reads
checkpoints or makes policies needs no special case.

On a GPU, all members also learn by one batched product per layer (:mod:`.stacked`). On a CPU, each learns separately,
with a thread for every core: its weights, moments and samples fit into caches, and scripted epochs do not hold the
interpreter's lock. In both cases updates are PPO's own.

Shapes: ``P`` members with ``E`` copies each, those of a member in a row; ``T`` steps; ``R`` numbers in a reward; ``S``
floats of one member's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from gymnasium import spaces
from typing_extensions import override

from tau_trainer.algorithms.base import State
from tau_trainer.algorithms.batched.acting import Drawn, ToEnv, draw
from tau_trainer.algorithms.batched.contract import Acted, ActorInput, TensorActor
from tau_trainer.algorithms.batched.stacked import STACKED, StackedNetwork, StackedNormalizer, StackedParameters
from tau_trainer.algorithms.minibatches import Coefficients, exact
from tau_trainer.algorithms.parameters import fitting
from tau_trainer.algorithms.ppo import PPO, PolicyUpdate
from tau_trainer.algorithms.readers import PopulationReader, TensorReader
from tau_trainer.columns import EXTRINSIC, Arrays
from tau_trainer.envs.batched import Draws
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics import keys

if TYPE_CHECKING:
    from tau_trainer.algorithms.parameters import FlatParameters
    from tau_trainer.models import ActorCritic
    from tau_trainer.settings import PPOHyperparameters

_AGE = "population.age"

Item = TypeVar("Item")
Found = TypeVar("Found")


class Population(TensorActor):
    """``P`` policies; :meth:`act` and :meth:`learn` serve all of them, in order.

    Args:
        members: the initial state: plain networks of one shape on one device, with the same settings.
        copies: ``E``.
        threads: number of threads for learning on a CPU.
        stacked: whether all learn by the same products; None: unless they are on a CPU.

    Attributes:
        horizon: steps of every copy between two updates.
        frozen: bool [P]: members that met NaN. They keep their last good weights and stop learning.
        resting: bool [P]: members that have reached their criterion and keep their weights.

    Raises:
        SettingsError: these policies cannot form a population.
    """

    def __init__(self, members: Sequence[PPO], copies: int, threads: int = 1, *, stacked: bool | None = None) -> None:
        first = members[0]
        self._refuse(first)
        self.members = list(members)
        self.horizon = -(-first.rollout_size // copies)  # steps, rounded up: no less than a buffer of PPO's
        self._copies = copies
        self._hyperparameters = cast("PPOHyperparameters", first.settings.hyperparameters)
        self._stream, self._action, self._device = first.streams[0], first.network.action, first.device
        count = len(members)
        self._normalizer: StackedNormalizer | None = None
        normalizers = [member.network.normalizer for member in members if member.network.normalizer is not None]
        if normalizers:
            self._normalizer = StackedNormalizer(normalizers)
        shape = count, first.parameters.optimizer.parameters.numel()  # [P, S]
        self._stack = {name: torch.zeros(shape, device=self._device) for name in STACKED}
        for index, member in enumerate(members):
            # Its weights and moments become rows.
            member.lie_in(**{name: rows[index] for name, rows in self._stack.items()})
        self.frozen = torch.zeros(count, dtype=torch.bool, device=self._device)
        self.resting = torch.zeros_like(self.frozen)
        self.steps = 0
        """Number of decisions of each copy so far."""
        self.moves = 0
        """Grows with every decision and update, so that callers can see progress."""
        # int64 [P E]: a member draws by its own seed, independent of the other members.
        self._seeds = torch.cat([seeds_of(member.seed, copies, self._device) for member in members])
        self._age = torch.zeros(count * copies, dtype=torch.int64, device=self._device)
        """For each copy, the decisions since its episode started or its trace was cut."""
        on_cpu = self._device.type == "cpu"
        threaded = on_cpu and threads > 1
        # Each pool thread uses one thread: torch's own would compete for the cores.
        self._pool = ThreadPoolExecutor(threads, "population", torch.set_num_threads, (1,)) if threaded else None
        together = -(-count // threads) if threaded else count  # members per thread, rounded up
        self._parts = [
            (slice(begin * copies, (begin + together) * copies), self._network_of(slice(begin, begin + together)))
            for begin in range(0, count, together)
        ]
        """Copies whose members act together, and these members' networks."""
        box = spaces.Box(-1.0, 1.0, (first.spec.actions.continuous_size,), np.float32)
        self._to_env = ToEnv(box, self._action, self._device)
        self._together: PolicyUpdate | None = None
        """The update of all members at once, if they learn together."""
        if stacked or (stacked is None and not on_cpu):
            parameters = self._parameters = StackedParameters(first.parameters, self._stack)
            network = StackedNetwork(first.network, parameters.weights, self._normalizer)
            numbers, steps = self._hyperparameters, first.settings.max_steps
            stands = cast("ActorCritic", network), cast("FlatParameters", parameters)
            self._together = PolicyUpdate(*stands, numbers, first.streams, steps)

    def _network_of(self, some: slice) -> StackedNetwork:
        """The acting network of some members."""
        normalizer = None if self._normalizer is None else self._normalizer.part(some)
        weights = self.members[0].parameters.views(self._stack["parameters"][some])
        return StackedNetwork(self.members[0].network, weights, normalizer)

    @property
    def foresees(self) -> bool:
        """Whether future rewards count; otherwise final observations are not needed."""
        return self._stream.gamma > 0.0

    @staticmethod
    def _refuse(ppo: PPO) -> None:
        hyperparameters, choices = ppo.settings.hyperparameters, ppo.network.action.choices
        assert isinstance(ppo, PPO)
        reasons = {
            "its network must be hidden layers over vectors: no memory, images, lists or goals": not ppo.network.plain,
            "its actions must be continuous": ppo.spec.actions.discrete_size > 0 or not choices.components,
            "the only reward must be extrinsic": [stream.name for stream in ppo.streams] != [EXTRINSIC],
            "optimizer must not be nadam": hyperparameters.optimizer == "nadam",
            "updates_per_buffer must be 1": ppo.rollout_size != hyperparameters.buffer_size,
            "layer_statistics must be false": hyperparameters.layer_statistics,
            "target_kl must be null": getattr(hyperparameters, "target_kl", None) is not None,
            "shrink_at must be null": getattr(hyperparameters, "shrink_at", None) is not None,
        }
        wrong = [reason for reason, is_so in reasons.items() if is_so]
        if wrong:
            raise SettingsError(f"'{ppo.spec.short_name}' cannot be a population: {'; '.join(wrong)}")

    def state_of(self, index: int) -> State:
        """One member's :meth:`PPO.state`, and the population's state that it needs for an exact resume."""
        arrays, metadata = self.members[index].state()
        age = self._age.view(-1, self._copies)[index]  # int64 [E]
        frozen = bool(self.frozen[index])
        return arrays | {_AGE: age.cpu().numpy()}, metadata | {"population": {"steps": self.steps, "frozen": frozen}}

    def load_of(self, index: int, arrays: Arrays, metadata: Mapping[str, Any], *, fresh: bool) -> None:
        """Restore one member from :meth:`state_of`, or initialize it from any other PPO's. Raises CheckpointError."""
        kept = None if fresh else metadata.get("population")
        age = None if kept is None else fitting(arrays, _AGE, (self._copies,))
        self.members[index].load(arrays, metadata, fresh=fresh)
        if self._together is not None:
            self._together.loaded()
        if kept is not None and age is not None:
            self._age.view(-1, self._copies)[index] = torch.from_numpy(age.copy()).to(self._device)
            self.steps, self.frozen[index] = max(self.steps, int(kept["steps"])), bool(kept["frozen"])

    # Acting.

    @override
    @torch.no_grad()
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        choices = self._action.choices
        # A hash of seed and step, without state.
        draws = Draws(self._seeds, torch.zeros_like(self._seeds), torch.full_like(self._seeds, self.steps))
        noise = (draws.uniform if self._action.leveled else draws.normal)(0, choices.components)  # float32 [P E, K]

        def decide(part: tuple[slice, StackedNetwork]) -> Drawn:
            some, network = part
            # Means or logits [n E, c + M] of this part's members.
            outputs = network.outputs(network.normalize([seen.observations[some].flatten(1)]))
            return draw(network.action, outputs, None, None if deterministic else noise[some])

        parts = self._each(decide, self._parts)
        drawn = Drawn(*(torch.cat(values) for values in zip(*parts, strict=True)))  # order of copies again
        self.steps += 1
        self.moves += 1
        # A frozen member may act NaN, which must not stop its environment.
        actions = torch.nan_to_num(self._to_env(drawn, len(seen.observations), 1))
        # [P E, 1, ...]: one agent per copy.
        return Acted(actions, {name: values.unsqueeze(1) for name, values in drawn._asdict().items()})

    # Learning.

    def learn(self, rollout: TensorRollout, progress: float) -> Mapping[str, torch.Tensor]:
        """Update all members from the newest :attr:`horizon` steps.

        Args:
            rollout: its ``rewards`` may be [T, P E, 1, R].
            progress: finished share of the run's steps, 0 to 1, for schedules.

        Returns:
            Statistics by TensorBoard name: [P], with NaN for frozen members.
        """
        hyper = self.members[0].schedule(progress)
        age, self._age = self._ages(rollout)
        cut = age.unsqueeze(2) == self.members[0].settings.time_horizon - 1  # bool [T, P E, 1]
        rollout = replace(rollout, rewards=exact(rollout.rewards))  # as precise as PPO with engines
        resting = self.resting & ~self.frozen
        learns = ~(self.frozen | resting)
        # One sum per member [P] is finite only if all its numbers are; checking each number costs more.
        for values in (rollout.observations, rollout.rewards):
            learns &= torch.isfinite(values.view(len(values), len(self.members), -1).sum(dim=(0, 2)))
        learn = self._learn_alone if self._together is None else partial(self._learn_together, self._together)
        statistics, learned = learn(rollout, cut, hyper, learns)
        self.frozen = ~(learned | resting)  # resting is not a failure
        for member in self.members:
            member.version += 1
        count = self.horizon * self._copies
        minibatches = self._hyperparameters.num_epoch * (count // min(self._hyperparameters.batch_size, count))
        common = self.members[0].policy_update.as_metrics(hyper) | {keys.MINIBATCHES: float(minibatches)}
        statistics |= {name: torch.full(learned.shape, value, device=self._device) for name, value in common.items()}
        # NaN for members that did not learn, so that old numbers do not look new.
        return {name: torch.where(learned, values, torch.nan).float() for name, values in statistics.items()}

    def _ages(self, rollout: TensorRollout) -> tuple[torch.Tensor, torch.Tensor]:
        """Age [T, P E] of every decision, and the age after the last one."""
        limit, age, ages = self.members[0].settings.time_horizon, self._age, []
        for ended in (rollout.terminated | rollout.truncated)[..., 0]:  # bool [P E]
            ages.append(age)
            age = torch.where(ended | (age == limit - 1), 0, age + 1)
        return torch.stack(ages), age

    def _learn_alone(
        self, rollout: TensorRollout, cut: torch.Tensor, hyper: Coefficients, learns: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Update each member separately; returns statistics [P], and bool [P], whether each has learned."""

        def learn(index: int) -> Mapping[str, torch.Tensor]:
            member = self.members[index]
            copies = slice(index * self._copies, (index + 1) * self._copies)
            self.moves += 1
            if learns[index]:
                reader = TensorReader(rollout.part(copies), member.generator, cut=cut[:, copies])
                with suppress(NonFiniteError), member.whole_or_nothing():
                    learned = member.policy_update.learn(reader, hyper)
                    member.check_finite(learned.epochs)
                    return learned.statistics
            return {}

        found = self._each(learn, range(len(self.members)))
        nan, names = torch.tensor(torch.nan), max(found, key=len)  # a failed member has no names
        # Each [P].
        statistics = {name: torch.stack([of_member.get(name, nan) for of_member in found]) for name in names}
        return statistics, torch.tensor([bool(of_member) for of_member in found])

    def _learn_together(
        self,
        update: PolicyUpdate,
        rollout: TensorRollout,
        cut: torch.Tensor,
        hyper: Coefficients,
        learns: torch.Tensor,
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """The same by one update of all members.

        A member that meets NaN does not affect the others, and is restored.
        """
        # All [P, ...].
        stack = [*self._stack.values(), *(() if self._normalizer is None else self._normalizer.buffers())]
        backup, taken = [rows.clone() for rows in stack], self._parameters.optimizer.step
        # One count for all members, for Adam's bias correction.
        taken.fill_(max(int(member.parameters.optimizer.step) for member in self.members))
        learned = update.learn(PopulationReader(rollout, [member.generator for member in self.members], cut), hyper)
        for member in self.members:
            member.parameters.optimizer.step.copy_(taken)
        # [P], NaN or infinite if any weight or loss is.
        sums = self._stack["parameters"].sum(dim=1) + learned.epochs.sum(dim=(0, 2))
        whole = learns & torch.isfinite(sums)  # bool [P]
        for rows, before in zip(stack, backup, strict=True):
            # `where` instead of a product: 0 * NaN is NaN.
            rows.copy_(torch.where(whole.view(-1, *[1] * (rows.dim() - 1)), rows, before))
        self.moves += 1
        return learned.statistics, whole

    def _each(self, work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        """Apply ``work`` to every item, in threads if there are several."""
        return list(self._pool.map(work, items)) if self._pool is not None else [work(item) for item in items]

    def close(self) -> None:
        """End its threads."""
        if self._pool is not None:
            self._pool.shutdown()
