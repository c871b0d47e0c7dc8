"""Base of off-policy algorithms: a number of gradient steps per decision, from a replay memory."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.accelerators.steps import FusedSteps
from tau_trainer.algorithms.base import Counters, Publish, Setup, State
from tau_trainer.algorithms.off_policy.replayed import Replayed
from tau_trainer.algorithms.off_policy.tensor_replay import TensorReplay
from tau_trainer.algorithms.off_policy.transitions import Transitions, minibatches
from tau_trainer.algorithms.signals import experience_of
from tau_trainer.columns import Arrays, Rows, prefixed, unprefixed
from tau_trainer.errors import CheckpointError
from tau_trainer.memory import Replay, Rollout, TensorRollout, Work, WorkData, experience
from tau_trainer.metrics import keys
from tau_trainer.models.actor_critic import CLOCK, as_tensor
from tau_trainer.rewards.learned import Experience
from tau_trainer.specs import FloatArray, Json

_STEPS_AN_UPDATE = 4
"""Gradient steps that make an update worthwhile: the fixed work of an update takes longer than one of them."""
_DECISIONS_AN_UPDATE = 40
"""Most decisions before an update, if they earn at least one step: weights should not be old."""
_STEPS_AT_ONCE = 64
"""Minibatches to draw together: large enough for full speed, small enough for the cache."""
_BYTES_AT_ONCE = 2**26
"""The same for images."""

_NEWEST = 16
"""Number of minibatches of the newest transitions for reward streams that need the probability of actions."""

_REPLAY = "replay."
"""Prefix of the names of the replay memory's columns in a checkpoint."""
_ENDS = "ends."
_PRIORITIES = "priorities"


class OffPolicy(Replayed):
    """Learns from minibatches of current and earlier transitions, one gradient step per ``steps_per_update``.

    Transitions are handed over as they come; those of copies on tensors stay on the device. A subclass sets its
    :attr:`name`, builds its network, and takes gradient steps.

    Raises:
        SettingsError: as :class:`Replayed`.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.signals, self.cloning = self.make_signals(), self.make_cloning()
        if setup.environment:
            _ = self.hindsight  # report its errors before anything is played
        self.seen = 0
        """Number of transitions so far, in all sessions."""
        self.steps = 0
        """Gradient steps that they have earned, and that were taken or skipped."""
        self.signal_steps = 0
        """The same for learned reward streams."""
        self._clock = 0.0
        """Decisions of the run at the newest update on tensors, on which exploration depends."""

    @override
    def ready(self, counters: Counters) -> Work | None:
        least, every = self.hyperparameters.decisions_per_step
        every = least if counters.idle else every
        # Number of decisions that earn the steps of an update.
        worth = every * max(min(_STEPS_AN_UPDATE, _DECISIONS_AN_UPDATE // every), 1)
        least = counters.push or (worth if counters.updates else self._first)  # take an actor's push in any size
        return self.memory.take() if self.memory.completed >= max(least, 1) else None

    @property
    @override
    def missing(self) -> str:
        return f"{self._first:,} decisions"

    @abstractmethod
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        """Take a gradient step from each of ``steps`` consecutive minibatches; called without gradients.

        Returns:
            Numbers to report, float32 [steps, m].
        """

    @abstractmethod
    def report(self, means: Sequence[float]) -> dict[str, float]:
        """Statistics by TensorBoard name, from the means of :meth:`learn`'s numbers."""

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal noise, float32; drawn on the CPU for engines, so that it is the same on every device."""
        source = self.generator
        return torch.randn(*shape, generator=source, device=source.device).to(self.device)

    def exploring(self) -> FloatArray:
        """The current values of exploration's changing numbers (epsilon, sigma); empty if there are none."""
        exploration = self.network.exploration
        if exploration is None or self.copies is None:
            return self.network.exploring()
        return exploration.numbers(self._clock, np.zeros(0))  # the network's clock may be on another device

    @override
    @torch.no_grad()
    def update(self, work: WorkData, progress: float, publish: Publish | None) -> dict[str, float]:
        started, work = time.perf_counter(), Work.of(work)
        rollout = experience(work)
        if len(rollout) == 0 and work.gradient_steps is None:
            raise ValueError("an update needs at least one transition")
        with self.whole_or_nothing():
            statistics = self._learn_from(work, rollout, progress)
        return statistics | self.finished(rollout if isinstance(rollout, Rollout) else None, started)

    def _learn_from(self, work: Work, rollout: Rollout | TensorRollout, progress: float) -> dict[str, float]:
        before = self.seen, self.steps, self.signal_steps, self._clock
        source, statistics = work.source, dict[str, float]()
        if work.anew:
            self.replay.forget_all()
        new = len(rollout) and isinstance(rollout, Rollout)
        undo: Callable[[], None] = partial(self.replay.forget, source) if new else lambda: None
        try:
            if isinstance(rollout, TensorRollout):
                undo = self._store(rollout, source)
                self._observe(rollout, progress)
                self.seen += len(rollout)
            elif len(rollout):
                self.check_input(rollout)
                statistics = self._meet(rollout, source) if self.signals else {}
                undo = self._store(rollout, source)
                self.observe(rollout.observations)
                self.network.tick(rollout.column("discrete"))
                self.seen += len(rollout)
            elif self.priorities is not None:
                self.priorities.mark()  # so that the draws below can be undone
                undo = self.priorities.undo
            steps = self._due() if work.gradient_steps is None else work.gradient_steps
            statistics |= self._descend(steps, progress)
            # Filling steps have no fixed number, so recordings are only learned from together with new experience.
            if self.cloning is not None and steps and (len(rollout) or not self.hyperparameters.auto):
                statistics |= self.cloning.learn(progress)
            return statistics
        except BaseException:
            undo()
            self.seen, self.steps, self.signal_steps, self._clock = before
            raise

    def _observe(self, rollout: TensorRollout, progress: float) -> None:
        """Let the normaliser take in new observations, and exploration the run's progress."""
        if self.network.normalizer is not None:
            # A single agent is there as long as its copy is.
            there = rollout.present.flatten() if rollout.present.shape[2] > 1 else slice(None)
            self.network.normalizer.take_in(rollout.observations.flatten(0, 2).flatten(1)[there])
        if self.network.exploration is not None:
            self._clock = progress * self._setup.decisions
            self.network.get_buffer(CLOCK)[0].fill_(self._clock)

    def _meet(self, rollout: Rollout, source: int) -> dict[str, float]:
        """Show new transitions to the learned reward streams.

        Returns episodes' rewards from them, by TensorBoard name.
        """
        new = experience_of(rollout, self.network, self.device)
        for signal in self.signals:
            if not signal.settings.asks_policy:
                signal.model.observe(new, expert=False)
            paid = signal.rewards(new, soft=self.soft)
            rollout.rewards[signal.name] = paid.cpu().numpy()
        return self.earned(rollout, source)

    def _store(self, rollout: Rollout | TensorRollout, source: int) -> Callable[[], None]:
        """Put a collector's transitions into the ring; returns a function that removes them and their priorities again.

        The ring stores zeros for learned streams, whose rewards are computed when transitions are drawn.
        """
        if isinstance(rollout, TensorRollout):
            assert isinstance(self.held, TensorReplay)
            return self.held.append(rollout, self.paid(self.streamed(rollout)))
        replay, priorities = self.replay, self.priorities
        for signal in self.signals:
            rollout.rewards[signal.name] = np.zeros((len(rollout), 1), np.float32)
        undone = [replay.append(self._rows(rollout), self._links(rollout), source)]
        if self.ends is not None:
            undone.append(self.ends.append(replay.take(replay.newest[replay.column("terminated", replay.newest)])))
        if priorities is not None:
            priorities.append(replay.newest)
            undone.append(priorities.undo)

        def undo() -> None:
            for each in undone:
                each()

        return undo

    def _due(self) -> int:
        """Gradient steps that the transitions so far have earned and that were not taken.

        For auto, those of its minimum.

        Steps that were earned before there was a minibatch are skipped: a burst of them would overfit the few
        transitions.
        """
        hyper = self.hyperparameters
        earned = self._earned(hyper.decisions_per_step[1])
        self.steps = min(self.steps, max(earned, 0))  # more steps were taken while the trainer counted them
        if len(self.held) < hyper.batch_size:
            self.steps = max(self.steps, earned)
            self.signal_steps = max(self.signal_steps, self._earned(hyper.decisions_per_signal_step))
        return max(0, earned - self.steps)

    def _earned(self, every: float) -> int:
        """Number of steps that the transitions so far have earned, at one per ``every`` decisions."""
        return int((self.seen - self.hyperparameters.buffer_init_steps) / every)

    def _descend(self, steps: int, progress: float) -> dict[str, float]:
        hyper, rate = self.hyperparameters, self.learning_rate(progress)
        if not steps:
            return {}
        rewarded = self._teach_signals()
        most = max(1, min(_STEPS_AT_ONCE, _BYTES_AT_ONCE // (hyper.batch_size * self.held.row_bytes)))
        # Priorities change at every step; sequences start at the beginning of a minibatch.
        most = 1 if self.recurrence or self.priorities else most
        blocks = [min(most, steps - begin) for begin in range(0, steps, most)]
        numbers = torch.cat([self._stretch(block, rate) for block in blocks])  # float32 [steps, m]
        self.check_finite(numbers)
        self.steps += steps
        return {
            **self.report(numbers.mean(dim=0).tolist()),
            **rewarded,
            keys.LEARNING_RATE: rate,
            keys.MINIBATCHES: float(steps),
        }

    def _stretch(self, minibatches: int, rate: float) -> torch.Tensor:
        """The same as :meth:`_learn_once`, with calls of :attr:`on_batch`."""
        if self.on_batch is None:
            return self._learn_once(minibatches, rate)
        self.on_batch(minibatches, None)
        numbers = self._learn_once(minibatches, rate)
        self.on_batch(minibatches, self.report(numbers.mean(dim=0).tolist()))
        return numbers

    def _learn_once(self, minibatches: int, rate: float) -> torch.Tensor:
        """Gradient steps from minibatches that are drawn together."""
        if self.priorities is None:
            return self.ranks.mean(self.learn(self.draw(minibatches), minibatches, rate))
        shape = minibatches, self.hyperparameters.batch_size
        # float64 [1, B]: float32 could not reach every leaf of a large tree.
        uniform = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        places, weights = self.priorities.draw(uniform.numpy())
        # [B], written by the gradient step; each rank writes its own part.
        errors = torch.zeros(places.size, device=self.device)
        drawn = self._taken(places.ravel())._replace(weights=as_tensor(weights.ravel(), self.device), errors=errors)
        numbers = self.ranks.mean(self.learn(drawn, minibatches, rate))
        self.priorities.update(places.ravel(), self.ranks.add(errors).cpu().numpy())
        return numbers

    def _teach_signals(self) -> dict[str, float]:
        """Take the due gradient steps of learned reward streams; returns numbers by TensorBoard name.

        Streams that need the probability of actions see only the newest transitions, because it changes with the
        policy. The others see all, because otherwise forgotten states would count as new again.
        """
        hyper = self.hyperparameters
        earned = self._earned(hyper.decisions_per_signal_step)
        due = max(0, earned - self.signal_steps)
        self.signal_steps = max(earned, self.signal_steps)
        statistics: dict[str, float] = {}
        for signal in self.signals if due else ():
            places = np.arange(len(self.replay))
            if signal.settings.asks_policy:
                places = self.replay.recent(_NEWEST * hyper.batch_size)
                newest = self._experience(self.replay.take(places))
                signal.model.observe(newest, expert=False)
            draw = partial(self._experience_at, places)
            statistics |= signal.steps(draw, len(places), due)
        return statistics

    def _experience_at(self, places: Rows, rows: Rows) -> Experience:
        """Some of these places of the ring, in the form for reward models."""
        return self._experience(self.replay.take(places[rows]))

    @override
    def state(self) -> State:
        arrays, metadata = super().state()
        metadata |= {"seen": self.seen, "steps": self.steps, "signal_steps": self.signal_steps}
        metadata["steps_per_update"] = self.hyperparameters.steps_per_update
        if self.hyperparameters.save_replay_buffer:
            rows, metadata["replay"] = self.held.state()
            arrays |= prefixed(_REPLAY, rows)
            if self.ends is not None:
                rows, metadata["ends"] = self.ends.state()
                arrays |= prefixed(_ENDS, rows)
            if self.priorities is not None:
                arrays[_PRIORITIES], metadata["priorities"] = self.priorities.state()
        return arrays, metadata

    @override
    def load(self, arrays: Arrays, metadata: Json, *, fresh: bool) -> None:
        held, priorities, ends = self._new_held(), self._new_priorities(), self._new_ends()
        if "replay" in metadata and not fresh:
            try:
                held.load(unprefixed(_REPLAY, arrays), metadata["replay"])
                if ends is not None and "ends" in metadata:
                    ends.load(unprefixed(_ENDS, arrays), metadata["ends"])
                elif ends is not None and isinstance(held, Replay):  # an earlier session drew uniformly
                    ends.append(held.take(held.where("terminated")))
                if priorities is not None and _PRIORITIES in arrays:
                    priorities.load(arrays[_PRIORITIES], metadata["priorities"])
                elif priorities is not None:  # an earlier session drew uniformly
                    priorities.append(np.arange(len(held)))
            except ValueError as error:
                raise CheckpointError(f"{error}; use the settings that the run was started with") from error
        super().load(arrays, metadata, fresh=fresh)
        if fresh:
            self.network.begin_anew()
        else:
            self._clock = 0.0 if self.network.exploration is None else float(self.network.get_buffer(CLOCK)[0])
            self.priorities, self.ends = priorities, ends
            self.held, self.seen, self.steps = held, int(metadata["seen"]), int(metadata["steps"])
            self.signal_steps = int(metadata.get("signal_steps", 0))  # older checkpoints have none
            every = self.hyperparameters.steps_per_update
            # If the pace has changed, past decisions must not be learned again at the new one.
            if metadata.get("steps_per_update", every) != every:
                self.steps = max(0, self._earned(self.hyperparameters.decisions_per_step[1]))

    @override
    def lost(self, metadata: Json) -> str:
        if "replay" in metadata or metadata.get("held"):  # the latter of earlier versions, on tensors
            return ""
        return (
            f"the replay memory of '{self.spec.short_name}' was not saved, so learning continues once "
            f"{self.hyperparameters.batch_size:,} new decisions are made; save_replay_buffer: true keeps it"
        )


class Stepwise(OffPolicy):
    """Takes every gradient step from one minibatch, by hand if the network is plain."""

    fused: FusedSteps | None = None
    """Hand-written steps; None = torch's own differentiation, the same numbers."""

    def fuse(self, make: Callable[[], FusedSteps]) -> None:
        """Take hand-written steps if the network is plain and learns in one process."""
        if self.network.plain and self.ranks.alone:
            self.fused = make()
            self.holds_lock = not self.fused.scripted or bool(self._beside)

    def noise(self, drawn: Transitions) -> torch.Tensor:
        """Random numbers for ``n`` transitions, [draws, n, ...]; none if steps need none."""
        return drawn.rewards.new_zeros(1, len(drawn.rewards), 0)

    @abstractmethod
    def step(self, batch: Transitions, noise: torch.Tensor, learning_rate: float) -> torch.Tensor:
        """Take a gradient step with torch's own differentiation; returns the numbers to report, [m].

        Args:
            batch: the minibatch, of ``n`` transitions.
            noise: its part of :meth:`noise`, [draws, n, ...].
            learning_rate: step size.
        """

    @override
    def learn(self, drawn: Transitions, steps: int, learning_rate: float) -> torch.Tensor:
        rows = len(drawn.rewards) // steps
        noise = self.noise(drawn)  # for all steps at once: one call
        noise = noise.view(len(noise), steps, rows, *noise.shape[2:])
        if self.fused is not None:
            return self.fused.run(drawn, noise, learning_rate)
        here = self.ranks.part(rows)  # of each minibatch
        each = zip(minibatches(drawn, steps, self.ranks), noise[:, :, here].unbind(dim=1), strict=True)
        return torch.stack([self.step(batch, part, learning_rate) for batch, part in each])
