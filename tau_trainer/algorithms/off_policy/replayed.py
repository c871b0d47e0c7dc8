"""Storing experience in a replay memory, and reading minibatches for gradient steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.base import Setup
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.off_policy.tensor_replay import RING_FOR_AN_END, TensorReplay
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.columns import EXTRINSIC, Column, Rows
from tau_trainer.errors import SettingsError
from tau_trainer.memory import (
    ACHIEVED,
    Hindsight,
    Links,
    Priorities,
    Replay,
    RewardDone,
    Rollout,
    RolloutMemory,
    TensorRollout,
)
from tau_trainer.models.actor_critic import MEMORY, as_tensor
from tau_trainer.models.blocks import kind_of
from tau_trainer.rewards.goals import goal_rule
from tau_trainer.rewards.learned import Experience
from tau_trainer.settings import HindsightSettings, OffPolicyHyperparameters
from tau_trainer.specs import FloatArray, ObservationType

_NOBODY: Rows = np.zeros(0, np.intp)
_NO_GOALS: FloatArray = np.zeros((0, 1), np.float32)


class Replayed(GradientAlgorithm):
    """Keeps ``buffer_size`` transitions in a ring, on the learning side, and draws minibatches of them.

    Attributes:
        held: the ring; for copies on tensors it is on the device.

    Raises:
        SettingsError: the network has a memory, and ``prioritized`` or ``hindsight`` is set; or there are no goals that
            hindsight could change.
    """

    on_policy = by_component = False
    masks_after: bool = False
    """Whether gradient steps need the mask of the next decision."""
    parts: Sequence[str] = ("",)
    """Parts of :attr:`parameters` that are stored together, because each is trained separately."""
    rewards_kept: int | None = None
    """Number of reward columns to keep; None: one for each stream."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.hyperparameters = hyper = OffPolicyHyperparameters.of(setup.settings.hyperparameters)
        self.recurrence = setup.settings.network_settings.memory
        if self.recurrence and (hyper.prioritized or hyper.hindsight):
            key = "prioritized: null" if hyper.prioritized else "hindsight: null"
            raise SettingsError(f"{self.name} learns from sequences if the network has a memory; set {key}")
        self.parameters = FlatParameters(self.build(), self.device, self.hyperparameters, self.parts)
        self.gammas = np.array([stream.gamma for stream in self.streams][: self.rewards_kept], np.float32)
        """Discounts of the rewards that the ring keeps, float32 [S]."""
        self.discounts = torch.from_numpy(self.gammas).to(self.device)
        self._ends = np.array([stream.episodic for stream in self.streams][: self.rewards_kept], np.float32)
        """Which of them end with an episode, float32 [S]; [1] if all do."""
        self._ends = self._ends[:1] if self._ends.all() else self._ends
        self._episodic = torch.from_numpy(self._ends).to(self.device)
        self.achieved, self.goal = self._goal_sensors()
        """Sensors for hindsight: what is achieved and what is the goal; -1: no hindsight."""
        if setup.copies is None:
            self.memory: RolloutMemory = self.new_memory(self._first, horizon=1, ends=self.goal >= 0)
        else:
            # Copies step together, so a gradient step that needs fewer decisions than one step of all has to wait.
            self.horizon = max(1, math.ceil(hyper.decisions_per_step[1] / setup.copies.decisions))
            self.generator = torch.Generator(self.device).manual_seed(setup.seed)  # for acting, too
        self.held, self.priorities = self._new_held(), self._new_priorities()
        self.ends = self._new_ends()

    @property
    def replay(self) -> Replay:
        """The ring of engines' transitions."""
        assert isinstance(self.held, Replay)
        return self.held

    @override
    def unshared(self, ranks: int) -> str:
        size = self.hyperparameters.batch_size
        uneven = f"minibatches of {size} (batch_size) cannot be divided evenly" if size % ranks else ""
        return super().unshared(ranks) or uneven

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """Make all trained modules, including :attr:`network`; weights come from the generator."""

    @property
    def _first(self) -> int:
        """Number of decisions before the first gradient step."""
        return max(self.hyperparameters.buffer_init_steps, self.hyperparameters.batch_size)

    def draw(self, minibatches: int) -> Transitions:
        """Draw ``minibatches`` minibatches, one after another, each uniformly and with replacement.

        With ``terminal_share``, this share of each comes from :attr:`ends`, at most as many as there are: their values
        are not bootstrapped, so they keep values near an end from drifting with the others.

        For recurrent networks: sequences whose first transitions are drawn uniformly, cut at the end of the minibatch.
        """
        if isinstance(self.held, TensorReplay):
            return self._transitions(self.held.draw(minibatches, self.generator))
        size, ends = self.hyperparameters.batch_size, self.ends
        rows = minibatches * size  # transitions
        if self.recurrence is None:
            if not ends:  # none yet, or no memory of them
                return self._taken(self._drawn(rows))
            drawn, goes_on = self._read(self._drawn(rows))
            share = min(int(self.hyperparameters.terminal_share * size), len(ends))  # of each minibatch
            replaced = np.arange(rows).reshape(minibatches, size)[:, :share].ravel()
            chosen = torch.randint(len(ends), (len(replaced),), generator=self.generator).numpy()
            last = ends.take(chosen)
            for name, values in (last | {"rewards": self._rewards(last)}).items():
                drawn[name][replaced] = values
            goes_on[replaced] = 1.0 - self._ends
            return self._transitions(drawn, goes_on)
        sequences = [
            # As many as needed if all had full length.
            self.replay.walk(self._drawn(rows // self.recurrence.sequence_length), self.recurrence.sequence_length)
        ]
        while (lacking := rows - sum(len(places) for places, _ in sequences)) > 0:
            places, begins = sequences[-1]  # they show the lengths of sequences
            # Missing sequences, estimated by the mean length so far.
            starts = self._drawn(-(-lacking * int(begins.sum()) // len(places)))
            sequences.append(self.replay.walk(starts, self.recurrence.sequence_length))
        places, begins = (np.concatenate(parts)[:rows] for parts in zip(*sequences, strict=True))  # the last one is cut
        return self._taken(places)._replace(begins=as_tensor(begins, self.device))

    def _drawn(self, count: int) -> Rows:
        return torch.randint(len(self.replay), (max(1, count),), generator=self.generator).numpy()

    def _taken(self, places: Rows) -> Transitions:
        """The transitions in these places, as :meth:`_read` reads them."""
        return self._transitions(*self._read(places))

    def _read(self, places: Rows) -> tuple[dict[str, NDArray[Any]], FloatArray]:
        """The rows in these places, after hindsight, with the rewards of ``n_step`` steps added up, and ``goes_on``."""
        rows, chosen, goals = self.replay.take(places), _NOBODY, _NO_GOALS
        n_step = 1 if self.recurrence else self.hyperparameters.n_step  # for sequences, see :func:`targets`
        # [n, k] places; -1: no further step.
        ahead = places[:, None] if n_step == 1 else self.replay.follow(places, n_step)
        rewards, ended = rows["rewards"][:, None], rows["terminated"][:, None]  # [n, 1, S], [n, 1]
        if n_step > 1:
            # [n, k, S], [n, k]; a -1 reads place 0, which is masked below.
            rewards, ended = (self.replay.column(name, np.maximum(ahead, 0)) for name in ("rewards", "terminated"))
        if self.hindsight is not None:
            chances = torch.rand(2, len(places), generator=self.generator, dtype=torch.float64).numpy()  # [2, n]
            chosen, goals = self.hindsight.relabel(rewards, ended, ahead, self.replay, chances)
        if n_step == 1:
            rows = self._with_goals(rows, 1, chosen, goals)
            rows["rewards"] = self._rewards(rows)
            return rows, 1.0 - ended.astype(np.float32) * self._ends  # [n, S]
        if self.signals:
            played = self._with_goals(self.replay.take(np.maximum(ahead, 0).ravel()), n_step, chosen, goals)
            played |= {"rewards": rewards.reshape(ahead.size, -1), "terminated": ended.ravel()}
            rewards = self._rewards(played).reshape(rewards.shape)
        there = ahead >= 0  # bool [n, k]
        # Nothing after a real end counts, including hindsight's ends.
        there[:, 1:] &= ~np.logical_or.accumulate(ended, axis=1)[:, :-1]
        steps, every = there.sum(axis=1), np.arange(len(ahead))  # int [n]: steps that count
        discounts = self.gammas ** np.arange(n_step, dtype=np.float32)[:, None]  # [k, S]: 1, gamma, gamma²...
        rows["rewards"] = np.einsum("nks,ks->ns", rewards * there[:, :, None], discounts)
        after = self.replay.take(ahead[every, steps - 1])  # the last step that counts
        rows |= {name: after[name] for name in self.replay.followed}
        # gamma^(steps - 1): the algorithm multiplies once more.
        goes_on = (1.0 - ended[every, steps - 1, None].astype(np.float32) * self._ends) * discounts[steps - 1]
        return self._with_goals(rows, 1, chosen, goals), goes_on

    def _with_goals(
        self, rows: dict[str, NDArray[Any]], length: int, chosen: Rows, goals: FloatArray
    ) -> dict[str, NDArray[Any]]:
        """Set hindsight's ``goals`` [m, G] in the ``chosen`` ones [m] of stretches of ``length`` rows each."""
        if self.hindsight is not None:
            for name in ("input_0", "next_0"):
                vectors = rows[name].reshape(-1, length, rows[name].shape[1])
                vectors[chosen, :, self.hindsight.goal] = goals[:, None]  # the same goal before and after
        return rows

    @cached_property
    def hindsight(self) -> Hindsight | None:
        """Hindsight, which replaces goals of drawn rows.

        Raises SettingsError if the rewards of new goals are unknown.
        """
        chosen = self.hyperparameters.hindsight
        if chosen is None:
            return None
        names = [stream.name for stream in self.streams]
        if EXTRINSIC not in names:
            raise SettingsError("hindsight changes the extrinsic reward; add it to reward_signals")
        if len(names) > len(self.gammas):
            raise SettingsError(f"{self.name} adds all rewards up, but hindsight changes only one; remove the others")
        stream = names.index(EXTRINSIC)
        strength = np.float32(self.streams[stream].strength)
        return Hindsight(
            chosen.strategy,
            chosen.k / (chosen.k + 1),
            self.network.part_of(self.goal),
            stream,
            lambda rewards: self.paid(rewards[:, None] * strength)[:, 0],
            self.goal_rule(chosen),
        )

    def goal_rule(self, chosen: HindsightSettings) -> RewardDone:
        """The reward rule for goals. Raises SettingsError if there is none."""
        return goal_rule(chosen, self._setup.environment)

    def _goal_sensors(self) -> tuple[int, int]:
        chosen = self.hyperparameters.hindsight
        if chosen is None:
            return -1, -1
        sensors = self.spec.observations
        names = [sensor.name for sensor in sensors]
        signals = [sensor.name for sensor in sensors if sensor.observation_type is ObservationType.GOAL_SIGNAL]
        if chosen.goal is None and len(signals) != 1:
            what = f"{len(signals)} goal signals ({', '.join(signals)})" if signals else "no goal signal"
            raise SettingsError(f"has {what} among its sensors; name the one to use with hindsight.goal")
        wanted = {"achieved": chosen.achieved, "goal": chosen.goal or signals[0]}
        for key, name in wanted.items():
            if name not in names:
                raise SettingsError(f"has no sensor '{name}' for hindsight.{key}; it has {', '.join(names)}")
            if kind_of(sensors[names.index(name)]) != "vector":
                raise SettingsError(f"hindsight.{key}: sensor '{name}' is not a vector, but goals must be vectors")
        achieved, goal = (names.index(name) for name in wanted.values())
        if sensors[achieved].shape != sensors[goal].shape or sensors[goal].hidden or achieved == goal:
            raise SettingsError(
                f"hindsight: '{wanted['achieved']}' has shape {sensors[achieved].shape}, but "
                f"'{wanted['goal']}' has {sensors[goal].shape}; name two sensors of one shape"
            )
        return achieved, goal

    def _transitions(
        self, rows: Mapping[str, NDArray[Any] | torch.Tensor], goes_on: FloatArray | None = None
    ) -> Transitions:
        """Stored transitions, on the device and normalised; ``goes_on``: see there, None: as for single steps."""
        tensors = {name: torch.as_tensor(values) for name, values in rows.items()}
        ended = tensors["terminated"][:, None].to(self.device, torch.float32)  # [n, 1]
        nothing = torch.zeros(0, device=self.device)
        count = sum(name.startswith("input_") for name in tensors)  # inputs of the network, vectors first
        inputs, following = (
            self.network.normalize([tensors[f"{side}_{i}"] for i in range(count)]) for side in ("input", "next")
        )
        return Transitions(
            inputs,
            following,
            continuous=tensors["continuous"].to(self.device),
            discrete=tensors["discrete"].to(self.device, torch.int64),
            forbidden=tensors["forbidden"].to(self.device),
            rewards=tensors["rewards"].to(self.device),
            goes_on=1.0 - ended * self._episodic if goes_on is None else as_tensor(goes_on, self.device),
            state=tensors.get(MEMORY, nothing).to(self.device),
            begins=nothing,
            forbidden_after=tensors.get("next_forbidden", nothing).to(self.device),
            weights=nothing,
            errors=nothing,
        )

    def _new_priorities(self) -> Priorities | None:
        prioritized = self.hyperparameters.prioritized
        return None if prioritized is None else Priorities(self.hyperparameters.buffer_size, **prioritized.model_dump())

    def _new_ends(self) -> Replay | None:
        """A memory of the newest transitions that ended an episode; None if minibatches hold no share of them.

        The ring forgets ends if a good policy makes no new ones; values near them drift then, until it makes them.
        """
        hyper = self.hyperparameters
        if not hyper.terminal_share or hyper.prioritized or self.recurrence or self.copies is not None:
            return None
        following = [Column(name, of.shape, of.dtype) for name, of in self.replay.followed.items()]
        columns = [*self.replay.columns, *following]
        return Replay(columns, max(hyper.batch_size, hyper.buffer_size // RING_FOR_AN_END))

    def _rewards(self, rows: Mapping[str, NDArray[Any]]) -> FloatArray:
        """Rewards of stored transitions [n, S]: learned streams pay by their current models."""
        paid: FloatArray = rows["rewards"]
        if not self.signals:
            return paid
        experience = self._experience(rows)
        models = {signal.name: signal for signal in self.signals}
        columns = np.split(paid, paid.shape[1], axis=1)
        for place, stream in enumerate(self.streams):
            if stream.name in models:
                learned = models[stream.name].rewards(experience, soft=self.soft)
                columns[place] = learned.cpu().numpy() * np.float32(stream.strength)
        return np.concatenate(columns, axis=1)

    def _experience(self, rows: Mapping[str, NDArray[Any] | torch.Tensor]) -> Experience:
        """Stored transitions in the form for reward models."""
        tensors = {name: torch.as_tensor(values).to(self.device) for name, values in rows.items()}
        count = sum(name.startswith("input_") for name in tensors)
        return Experience(
            [tensors[f"input_{i}"] for i in range(count)],
            [tensors[f"next_{i}"] for i in range(count)],
            1.0 - tensors["terminated"].to(torch.float32),
            tensors["continuous"],
            tensors["discrete"].to(torch.int64),
            tensors["forbidden"],
            torch.zeros(0, device=self.device),
        )

    def _new_held(self) -> Replay | TensorReplay:
        """An empty ring."""
        if self.copies is None:
            return self._new_replay()
        return TensorReplay(self.network, self.hyperparameters, masks_after=self.masks_after)

    def _new_replay(self) -> Replay:
        nobody = tuple(column.empty(0) for column in self.memory.columns[: len(self.spec.observations)])
        seen = [
            Column(f"input_{i}", values.shape[1:], values.dtype)
            for i, values in enumerate(self.network.arrange(nobody))
        ]
        choices = self.network.action.choices
        # Next observations are looked up instead of stored twice.
        linked = self.recurrence is not None or self.hyperparameters.n_step > 1
        twice = [] if linked else [seen[0], Column("next_0", seen[0].shape)]
        followed = {f"next_{i}": seen[i] for i in range(bool(twice), len(seen))}
        forbidden = [Column("forbidden", (choices.mask_size,), np.bool_)]
        if self.masks_after and linked:
            followed["next_forbidden"] = forbidden.pop()
        elif self.masks_after:
            forbidden.append(Column("next_forbidden", (choices.mask_size,), np.bool_))
        columns = [
            *twice,
            *self.network.state_columns,
            Column("continuous", (choices.continuous_size,)),
            Column("discrete", (choices.discrete_size,), np.int32),
            *forbidden,
            Column("rewards", (len(self.gammas),)),
            Column("terminated", (), np.bool_),
        ]
        if self.goal >= 0:
            columns.append(Column(ACHIEVED, self.spec.observations[self.achieved].shape))
        return Replay(columns, self.hyperparameters.buffer_size, followed, episodes=self.goal >= 0)

    def _links(self, rollout: Rollout) -> Links | None:
        """The links between successive transitions, if the ring needs them."""
        if not self.replay.linked:
            return None
        last = {f"input_{i}": values for i, values in enumerate(self.network.arrange(rollout.bootstrap_observations))}
        last["forbidden"] = self.network.action.forbids(rollout.bootstrap_mask, len(rollout.bootstrapped))
        return Links.of(rollout, {column.name: last[column.name] for column in self.replay.followed.values()})

    def _rows(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """Transitions in the ring's form."""
        rows = {f"input_{i}": values for i, values in enumerate(self.network.arrange(rollout.observations))}
        if "next_0" not in self.replay.followed:
            rows["next_0"] = self.network.vectors(
                tuple(
                    rollout.next_observations(i) if len(sensor.shape) == 1 else rollout.observations[i]
                    for i, sensor in enumerate(self.spec.observations)
                )
            )
        rows |= {column.name: rollout.column(column.name) for column in self.network.state_columns}
        if self.goal >= 0:
            rows[ACHIEVED] = rollout.next_observations(self.achieved)
        if self.masks_after:
            rows["next_forbidden"] = self.network.action.forbids(rollout.next_mask, len(rollout))
        return rows | {
            "continuous": rollout.column("continuous"),
            "discrete": rollout.column("discrete"),
            "forbidden": self.network.action.forbids(rollout.mask, len(rollout)),
            "rewards": self.paid(self.streamed(rollout)),
            "terminated": rollout.terminated,
        }

    def streamed(self, rollout: Rollout | TensorRollout) -> Any:
        """Rewards of all streams times their strength, [N, S]: an array of transitions, or a tensor of decisions."""
        if isinstance(rollout, TensorRollout):
            return rollout.rewards.reshape(-1, 1) * self.streams[0].strength
        rewards = [rollout.earned(stream.name) * np.float32(stream.strength) for stream in self.streams]
        return np.concatenate(rewards, axis=1)

    def paid(self, rewards: Any) -> Any:
        """The learned rewards [N, W], from those of all streams, :meth:`streamed`; array or tensor."""
        return rewards
