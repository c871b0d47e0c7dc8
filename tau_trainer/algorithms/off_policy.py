"""What off-policy algorithms share: a replay memory, and so many gradient steps for so many decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from tau_trainer.algorithms.base import Counters, Publish, Setup, State
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.parameters import FlatParameters
from tau_trainer.algorithms.transitions import Transitions
from tau_trainer.columns import Arrays, Column, Rows
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import (
    ACHIEVED,
    Hindsight,
    Links,
    Priorities,
    Replay,
    RewardDone,
    Rollout,
    RolloutMemory,
    Work,
)
from tau_trainer.metrics import keys
from tau_trainer.models.actor_critic import MEMORY
from tau_trainer.models.blocks import kind_of
from tau_trainer.rewards.goals import goal_rule
from tau_trainer.rewards.learned import Experience
from tau_trainer.rewards.streams import EXTRINSIC
from tau_trainer.settings import HindsightSettings, OffPolicyHyperparameters
from tau_trainer.specs import BoolArray, FloatArray, ObservationType

_STEPS_AN_UPDATE = 4
"""Gradient steps for which an update is worth beginning: what is done once in each takes longer than one of them."""
_DECISIONS_AN_UPDATE = 40
"""Decisions that may have been made by then, if they earn one step at all: weights should not be old."""
_STEPS_AT_ONCE = 64
"""Minibatches that are drawn together: large enough for full speed, small enough for the cache."""
_BYTES_AT_ONCE = 2**26
"""The same for images."""

_NEWEST = 16
"""Minibatches of the newest transitions, which learned reward streams tell from demonstrations."""

_REPLAY = "replay."
"""What the names of the replay memory's columns begin with in a checkpoint."""
_PRIORITIES = "priorities"
_NOBODY: Rows = np.zeros(0, np.intp)
_NO_GOALS: FloatArray = np.zeros((0, 1), np.float32)


class OffPolicy(GradientAlgorithm):
    """Keeps ``buffer_size`` transitions and learns from minibatches of them, a gradient step for ``steps_per_update``.

    Transitions are handed over as they come; the ring of them is on the learning side. A subclass names its
    :attr:`name`, builds its network, and takes gradient steps.

    Raises:
        SettingsError: rewards come by component; or the network has a memory, and ``prioritized``, ``n_step`` or
            ``hindsight`` is set; or there are no goals that hindsight could change.
    """

    on_policy = False
    masks_after: bool = False
    """Whether gradient steps ask what was forbidden when the next decision was made."""
    parts: Sequence[str] = ("",)
    """Of :attr:`parameters`: what lies together because it is learned alone."""
    rewards_kept: int | None = None
    """Columns of :meth:`rewards`; None: one for each stream."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.numbers = cast("OffPolicyHyperparameters", setup.settings.hyperparameters)
        self.recurrence = setup.settings.network_settings.memory
        if setup.reward_width > 1:
            raise SettingsError(f"{self.name} learns from one reward a decision; set the reward's credit to aggregate")
        if self.recurrence and (self.numbers.prioritized or self.numbers.hindsight or self.numbers.n_step > 1):
            key = "prioritized: null" if self.numbers.prioritized else "hindsight: null"
            key = "n_step: 1" if self.numbers.n_step > 1 else key
            raise SettingsError(f"{self.name} learns from sequences where the network has a memory; set {key}")
        self.parameters = FlatParameters(self.build(), self.device, self.numbers, self.parts)
        self.gammas = np.array([stream.gamma for stream in self.streams][: self.rewards_kept], np.float32)
        """Discounts of the rewards that the ring keeps, float32 [S]."""
        self.achieved, self.goal = self._goal_sensors()
        """Which sensors say what is reached and what is wanted, for hindsight; -1: none does."""
        self.memory: RolloutMemory = self.new_memory(self._first, horizon=1, ends=self.goal >= 0)
        self.replay, self.priorities = self._new_replay(), self._new_priorities()
        self.signals = self.make_signals()
        if self.signals and self.numbers.n_step > 1:
            raise SettingsError(f"{self.signals[0].name} pays for single steps; set n_step: 1")
        if setup.environment:
            _ = self.hindsight  # what is wrong with it is said before anything is played
        self.seen = 0
        """Transitions so far, in all runs."""
        self.steps = 0
        """Gradient steps that they have earned, and that were taken or passed by."""
        self.signal_steps = 0
        """The same, of learned reward streams."""

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """Make everything that is learned, with :attr:`network` as a part of it; weights come from the generator."""

    @abstractmethod
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        """Take a gradient step from each of ``steps`` consecutive minibatches; called without gradients.

        Returns:
            Numbers to report, float32 [steps, m].
        """

    @abstractmethod
    def report(self, means: list[float]) -> dict[str, float]:
        """Statistics by TensorBoard name, from the means of what :meth:`learn` returned."""

    @property
    def _first(self) -> int:
        """Decisions before the first gradient step."""
        return max(self.numbers.buffer_init_steps, self.numbers.batch_size)

    @override
    def ready(self, counters: Counters) -> Work | None:
        every = self.numbers.steps_per_update
        worth = every * max(min(_STEPS_AN_UPDATE, _DECISIONS_AN_UPDATE // every), 1)
        least = counters.push or (worth if counters.updates else self._first)
        return self.memory.take() if self.memory.completed >= max(least, 1) else None

    @property
    @override
    def missing(self) -> str:
        return f"{self._first:,} decisions"

    @override
    def learn_from(self, work: Work, rollout: Rollout, progress: float, publish: Publish | None) -> dict[str, float]:
        before = self.seen, self.steps, self.signal_steps
        for signal in self.signals:  # they pay when transitions are drawn
            rollout.rewards[signal.name] = np.zeros((len(rollout), 1), np.float32)
        source = work.source
        if work.anew:
            self.replay.forget_all()
        undo: Callable[[], None] = partial(self.replay.forget, source) if len(rollout) else lambda: None
        try:
            if len(rollout):
                self.check_input(rollout)
                undo = self._store(rollout, source)
                self.observe(rollout.observations)
                self.network.tick(rollout.column("discrete"))
                self.seen += len(rollout)
            elif self.priorities is not None:
                self.priorities.mark()
                undo = self.priorities.undo
            return self._descend(self._due() if work.gradient_steps is None else work.gradient_steps, progress)
        except BaseException:
            undo()
            self.seen, self.steps, self.signal_steps = before
            raise

    def _store(self, rollout: Rollout, source: int) -> Callable[[], None]:
        """Put a collector's transitions into the ring; returns what takes them, and their priorities, out again."""
        replay, priorities = self.replay, self.priorities
        take_out = replay.append(self._rows(rollout), self._links(rollout), source)
        if priorities is None:
            return take_out
        priorities.append(replay.newest)

        def undo() -> None:
            take_out()
            priorities.undo()

        return undo

    def _due(self) -> int:
        """Gradient steps that the transitions so far have earned and that were not taken.

        Those that were earned while there was no minibatch are not made up for: a burst of them would learn the few
        transitions there are by heart.
        """
        own = self.numbers
        earned = self._earned(own.steps_per_update)
        if len(self.replay) < own.batch_size:
            self.steps = max(self.steps, earned)
            self.signal_steps = max(self.signal_steps, self._earned(own.reward_signal_steps_per_update))
        return max(0, earned - self.steps)

    def _earned(self, every: float) -> int:
        """Steps that the transitions so far have earned, at one for every so many decisions."""
        return int((self.seen - self.numbers.buffer_init_steps) / every)

    def _descend(self, steps: int, progress: float) -> dict[str, float]:
        own, rate = self.numbers, self.learning_rate(progress)
        if not steps:
            return {}
        told = self._teach_signals()
        most = max(1, min(_STEPS_AT_ONCE, _BYTES_AT_ONCE // (own.batch_size * self.replay.row_bytes)))
        most = 1 if self.recurrence or self.priorities else most
        blocks = [min(most, steps - begin) for begin in range(0, steps, most)]
        numbers = torch.cat([self._stretch(block, rate) for block in blocks])
        self.check_finite(numbers)
        self.steps += steps
        return {
            **self.report(numbers.mean(dim=0).tolist()),
            **told,
            keys.LEARNING_RATE: rate,
            keys.MINIBATCHES: float(steps),
        }

    def _stretch(self, minibatches: int, rate: float) -> torch.Tensor:
        """The same as :meth:`_learn_once`, told to whoever asks."""
        if self.on_batch is None:
            return self._learn_once(minibatches, rate)
        self.on_batch(minibatches, None)
        numbers = self._learn_once(minibatches, rate)
        self.on_batch(minibatches, self.report(numbers.mean(dim=0).tolist()))
        return numbers

    def _learn_once(self, minibatches: int, rate: float) -> torch.Tensor:
        """Gradient steps from minibatches that are drawn together."""
        if self.priorities is None:
            return self.learn(self.draw(minibatches), minibatches, rate)
        shape = minibatches, self.numbers.batch_size
        uniform = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        places, weights = self.priorities.draw(uniform.numpy())
        errors = torch.zeros(places.size, device=self.device)
        drawn = self._taken(places.ravel())._replace(weights=self.tensor(weights.ravel()), errors=errors)
        numbers = self.learn(drawn, minibatches, rate)
        self.priorities.update(places.ravel(), errors.cpu().numpy())
        return numbers

    def _teach_signals(self) -> dict[str, float]:
        """The gradient steps of learned reward streams that are due, numbers by TensorBoard name.

        They see the newest transitions: of older ones it is too late to ask how likely they are.
        """
        own = self.numbers
        earned = self._earned(own.reward_signal_steps_per_update)
        due, self.signal_steps = max(0, earned - self.signal_steps), max(earned, self.signal_steps)
        told: dict[str, float] = {}
        if self.signals and due:
            newest = self._experience(self.replay.take(self.replay.recent(_NEWEST * own.batch_size)))
            for signal in self.signals:
                told |= signal.steps(newest, due)
        return told

    def draw(self, minibatches: int) -> Transitions:
        """So many minibatches, one after the other, each drawn uniformly and with replacement.

        Of recurrent networks: sequences whose first transitions are drawn so, cut where the minibatch is full.
        """
        rows = minibatches * self.numbers.batch_size
        if self.recurrence is None:
            return self._taken(self._drawn(rows))
        sequences = [
            self.replay.walk(self._drawn(rows // self.recurrence.sequence_length), self.recurrence.sequence_length)
        ]
        while (lacking := rows - sum(len(places) for places, _ in sequences)) > 0:
            places, begins = sequences[-1]  # they tell how long sequences are
            starts = self._drawn(-(-lacking * int(begins.sum()) // len(places)))
            sequences.append(self.replay.walk(starts, self.recurrence.sequence_length))
        places, begins = (np.concatenate(parts)[:rows] for parts in zip(*sequences, strict=True))
        return self._taken(places)._replace(begins=self.tensor(begins))

    def _drawn(self, count: int) -> Rows:
        return torch.randint(len(self.replay), (max(1, count),), generator=self.generator).numpy()

    def _taken(self, places: Rows) -> Transitions:
        """What is in these places, as hindsight looks at it, with the rewards of ``n_step`` of them added up."""
        rows, n_step, chosen, goals = self.replay.take(places), self.numbers.n_step, _NOBODY, _NO_GOALS
        ahead = places[:, None] if n_step == 1 else self.replay.follow(places, n_step)
        rewards, ended = rows["rewards"][:, None], rows["terminated"][:, None]
        if n_step > 1:
            rewards, ended = (self.replay.column(name, np.maximum(ahead, 0)) for name in ("rewards", "terminated"))
        if self.hindsight is not None:
            chances = torch.rand(2, len(places), generator=self.generator, dtype=torch.float64).numpy()
            chosen, goals = self.hindsight.relabel(rewards, ended, ahead, self.replay, chances)
        goes_on = 1.0 - ended[:, 0].astype(np.float32)[:, None]
        if n_step > 1:
            there = ahead >= 0
            there[:, 1:] &= ~np.logical_or.accumulate(ended, axis=1)[:, :-1]
            steps, every = there.sum(axis=1), np.arange(len(ahead))
            discounts = self.gammas ** np.arange(n_step, dtype=np.float32)[:, None]
            rows["rewards"] = np.einsum("nks,ks->ns", rewards * there[:, :, None], discounts)
            after = self.replay.take(ahead[every, steps - 1])
            rows |= {name: after[name] for name in self.replay.followed}
            goes_on = (1.0 - ended[every, steps - 1].astype(np.float32)[:, None]) * discounts[steps - 1]
        if self.hindsight is not None:
            for name in ("input_0", "next_0"):
                rows[name][chosen, self.hindsight.goal] = goals
        return self._transitions(rows, goes_on)

    @cached_property
    def hindsight(self) -> Hindsight | None:
        """What gives rows that are drawn another goal. Raises SettingsError where nobody knows what that is worth."""
        chosen = self.numbers.hindsight
        if chosen is None:
            return None
        names = [stream.name for stream in self.streams]
        if EXTRINSIC not in names:
            raise SettingsError("hindsight is about the extrinsic reward; add it to reward_signals")
        if len(names) > len(self.gammas):
            raise SettingsError(f"{self.name} adds all rewards up, and hindsight changes one; leave the others out")
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
        """What reaching a goal is worth. Raises SettingsError where nobody knows."""
        return goal_rule(chosen, self._setup.environment)

    def _goal_sensors(self) -> tuple[int, int]:
        chosen = self.numbers.hindsight
        if chosen is None:
            return -1, -1
        sensors = self.spec.observations
        names = [sensor.name for sensor in sensors]
        signals = [one.name for one in sensors if one.observation_type is ObservationType.GOAL_SIGNAL]
        if chosen.goal is None and len(signals) != 1:
            what = f"{len(signals)} goal signals ({', '.join(signals)})" if signals else "no goal signal"
            raise SettingsError(f"has {what} among its sensors; name the one that is wanted with hindsight.goal")
        wanted = {"achieved": chosen.achieved, "goal": chosen.goal or signals[0]}
        for key, name in wanted.items():
            if name not in names:
                raise SettingsError(f"has no sensor '{name}' for hindsight.{key}; it has {', '.join(names)}")
            if kind_of(sensors[names.index(name)]) != "vector":
                raise SettingsError(f"hindsight.{key}: sensor '{name}' is no vector, and goals must be vectors")
        achieved, goal = (names.index(name) for name in wanted.values())
        if sensors[achieved].shape != sensors[goal].shape or sensors[goal].hidden or achieved == goal:
            raise SettingsError(
                f"hindsight: what '{wanted['achieved']}' says {sensors[achieved].shape} cannot be wanted by "
                f"'{wanted['goal']}' {sensors[goal].shape}; name two sensors of one shape"
            )
        return achieved, goal

    def _transitions(self, rows: Mapping[str, NDArray[Any]], goes_on: FloatArray | None = None) -> Transitions:
        """What was stored, on the device and normalised; ``goes_on``: see there, None: as for single steps."""
        if goes_on is None:
            goes_on = 1.0 - rows["terminated"].astype(np.float32)[:, None]
        tensors = {name: torch.from_numpy(values) for name, values in rows.items()}
        nothing = torch.zeros(0, device=self.device)
        count = sum(name.startswith("input_") for name in tensors)
        inputs, following = (
            self.network.normalize([tensors[f"{side}_{i}"] for i in range(count)]) for side in ("input", "next")
        )
        return Transitions(
            inputs,
            following,
            continuous=tensors["continuous"].to(self.device),
            discrete=tensors["discrete"].to(self.device, torch.int64),
            forbidden=tensors["forbidden"].to(self.device),
            rewards=self._rewards(rows).to(self.device),
            goes_on=self.tensor(goes_on),
            state=tensors.get(MEMORY, nothing).to(self.device),
            begins=nothing,
            forbidden_after=tensors.get("next_forbidden", nothing).to(self.device),
            weights=nothing,
            errors=nothing,
        )

    def _new_priorities(self) -> Priorities | None:
        own = self.numbers.prioritized
        return None if own is None else Priorities(self.numbers.buffer_size, **own.model_dump())

    def _rewards(self, rows: Mapping[str, NDArray[Any]]) -> torch.Tensor:
        """What is paid for stored transitions [n, S]: learned streams pay what their models think of them now."""
        paid = torch.from_numpy(rows["rewards"])
        if not self.signals:
            return paid
        own, columns = self._experience(rows), list(torch.split(paid, 1, dim=1))
        models = {signal.name: signal for signal in self.signals}
        for place, stream in enumerate(self.streams):
            if stream.name in models:
                columns[place] = models[stream.name].rewards(own, soft=self.soft).cpu() * stream.strength
        return torch.cat(columns, dim=1)

    def _experience(self, rows: Mapping[str, NDArray[Any]]) -> Experience:
        """Stored transitions as reward models see them."""
        tensors = {name: torch.from_numpy(values).to(self.device) for name, values in rows.items()}
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

    def _new_replay(self) -> Replay:
        nobody = tuple(column.empty(0) for column in self.memory.columns[: len(self.spec.observations)])
        seen = [
            Column(f"input_{i}", values.shape[1:], values.dtype)
            for i, values in enumerate(self.network.arrange(nobody))
        ]
        choices = self.network.action.choices
        linked = self.recurrence is not None or self.numbers.n_step > 1
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
        return Replay(columns, self.numbers.buffer_size, followed, episodes=self.goal >= 0)

    def _links(self, rollout: Rollout) -> Links | None:
        """Which transition came after which, where that is asked for."""
        if not self.replay.linked:
            return None
        last = {f"input_{i}": values for i, values in enumerate(self.network.arrange(rollout.bootstrap_observations))}
        last["forbidden"] = self._forbidden(rollout.bootstrap_mask, len(rollout.bootstrapped))
        return Links.of(rollout, {column.name: last[column.name] for column in self.replay.followed.values()})

    def _rows(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """Transitions as the ring keeps them."""
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
            rows["next_forbidden"] = self._forbidden(rollout.next_mask, len(rollout))
        rewards = [stream.rewards(rollout) * np.float32(stream.strength) for stream in self.streams]
        return rows | {
            "continuous": rollout.column("continuous"),
            "discrete": rollout.column("discrete"),
            "forbidden": self._forbidden(rollout.mask, len(rollout)),
            "rewards": self.paid(np.concatenate(rewards, axis=1)),
            "terminated": rollout.terminated,
        }

    def paid(self, rewards: FloatArray) -> FloatArray:
        """What is learned from [n, W], of what some streams say, times their strength, float32 [n, S]."""
        return rewards

    def _forbidden(self, mask: BoolArray | None, rows: int) -> BoolArray:
        """A mask over all that is drawn, [rows, sum of branches]; None forbids nothing."""
        head = self.network.action
        return np.zeros((rows, head.choices.mask_size), np.bool_) if mask is None else head.forbidden(mask)

    @override
    def state(self) -> State:
        arrays, facts = super().state()
        facts |= {"seen": self.seen, "steps": self.steps, "signal_steps": self.signal_steps}
        if self.numbers.save_replay_buffer:
            rows, facts["replay"] = self.replay.state()
            arrays |= {_REPLAY + name: values for name, values in rows.items()}
            if self.priorities is not None:
                arrays[_PRIORITIES], facts["priorities"] = self.priorities.state()
        return arrays, facts

    @override
    def load(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        replay, priorities = self._new_replay(), self._new_priorities()
        if "replay" in facts and "version" in facts:
            rows = {name.removeprefix(_REPLAY): rows for name, rows in arrays.items() if name.startswith(_REPLAY)}
            try:
                replay.load(rows, facts["replay"])
                if priorities is not None and _PRIORITIES in arrays:
                    priorities.load(arrays[_PRIORITIES], facts["priorities"])
                elif priorities is not None:  # an earlier run drew evenly
                    priorities.append(np.arange(len(replay)))
            except ValueError as error:
                raise CheckpointError(f"{error}; use the settings that the run was started with") from error
        super().load(arrays, facts)
        if "version" not in facts:
            self.network.begin_anew()
        else:
            self.priorities = priorities
            self.replay, self.seen, self.steps = replay, int(facts["seen"]), int(facts["steps"])
            self.signal_steps = int(facts.get("signal_steps", 0))  # older checkpoints have none

    @override
    def lost(self, facts: Mapping[str, Any]) -> str:
        if "replay" in facts:
            return ""
        return (
            f"the replay memory of '{self.spec.short_name}' was not kept, so learning goes on once "
            f"{self.numbers.batch_size:,} new decisions are made; save_replay_buffer: true keeps it"
        )
