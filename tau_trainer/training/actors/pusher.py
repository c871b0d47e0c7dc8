"""The collecting side of a behavior in an actor: the algorithm's memory, and the trainer in place of a learner."""

from __future__ import annotations

import numpy as np

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.collection.decisions import Actor, Sink
from tau_trainer.errors import SettingsError
from tau_trainer.memory import Work
from tau_trainer.settings import RunSettings, TrainerSettings
from tau_trainer.specs import FloatArray, Json
from tau_trainer.training import behavior_json
from tau_trainer.training.actors.parent import TrainerLink

EVERYTHING = 1


class Pusher(Sink):
    """The collecting side of a behavior. Implements :class:`~tau_trainer.collection.decisions.ExperienceSink`."""

    def __init__(self, trainer: TrainerLink, settings: RunSettings, begin: Json, data: Json) -> None:
        """``settings``: of the run; ``begin``: what the trainer says of this actor; ``data``: of this behavior."""
        self.name: str = data["name"]
        self.spec = behavior_json.from_json(data["behavior"])
        self._async = settings.async_trainer
        exploration = None if begin["evaluates"] else self._async.exploration_of(begin["index"])
        self.settings: TrainerSettings = exploring(settings.of_behavior(self.spec.short_name), exploration)
        self.left: int | None = None if begin["evaluates"] else data["left"]
        """Decisions allowed until the trainer's next answer; None: it stores no more transitions."""
        super().__init__(make_algorithm(Setup(self.spec, self.settings, data["seed"], data["reward_width"])))
        self.decisions = 0
        """Number of decisions made by this process."""
        self._weights = trainer.parent.newest(data["weights"])
        self._trainer = trainer
        self._uncounted = 0
        """Decisions not yet reported to the trainer."""
        self._seen, newest = self._weights.written, self._weights.read()
        self._opts = self._pushed_at = newest.opts
        self._words: tuple[int, int] = data["seed"], begin["index"]
        policy = self.algorithm.policy(newest.arrays, newest.version)
        deterministic = begin["evaluates"] or self.settings.network_settings.deterministic
        self.actor = Actor(policy, self._rng(begin["generation"], begin["lives"]), deterministic=deterministic)

    def _rng(self, generation: int, lives: int = 0) -> np.random.Generator:
        seed, index = self._words
        return np.random.default_rng([seed, 1, index, generation, lives])

    @property
    def _rollouts(self) -> bool:
        return self.algorithm.rollout_size > 0

    @property
    def _least(self) -> int:
        """Transitions in one push. In lock step with whole rollouts, an actor's share of the rollout."""
        share, few = -(-self.algorithm.rollout_size // self._async.actors), self._async.n_buffer
        return few if not share else share if self._async.mode == "lock_step" else min(few, share)

    @property
    def done(self) -> bool:
        """True once no more transitions are stored."""
        return self.left is None

    def begin_anew(self, generation: int) -> None:
        """Reset to the state of a new process; call this before the environment restarts."""
        self.memory.clear()
        self._uncounted = 0
        self.actor.rng = self._rng(generation)
        self.sync()

    def count(self, decisions: int) -> None:
        """Count decisions."""
        self._uncounted += decisions
        self.decisions += decisions

    def ended(self, returns: FloatArray) -> None:
        """Do nothing: the trainer counts the returns of all actors together."""

    async def hand_over(self) -> None:
        """Read newer weights; push transitions if there are enough, or before they get too old."""
        if self.left is None:
            return
        if self._weights.written > self._seen:
            self.sync()
        old = not self._rollouts and self._weights.opts - self._pushed_at >= max(self._async.max_policy_lag // 2, 1)
        self.push(EVERYTHING if old or self._uncounted >= self.left else self._least)

    def sync(self) -> None:
        """Act with the newest weights from now on."""
        self._seen = self._weights.written
        newest = self._weights.read()
        self.actor.policy = self.algorithm.policy(newest.arrays, newest.version)
        self._opts = newest.opts

    def push(self, least: int) -> None:
        """Push all transitions if there are at least ``least``; waits while the channel is full. Raises GoneError.

        Decisions beyond the allowed number are counted at the next push, if there is one.
        """
        if self.left is None:
            return
        work = self.algorithm.ready(Counters(0, self.actor.policy.version, least))
        if work is None and self._uncounted >= self.left:
            work = Work({})
        if work is None:
            if least == EVERYTHING:
                self._trainer.tell("current", {"name": self.name, "version": self.actor.policy.version})
                self._pushed_at = self._opts
            return
        data, arrays = work.sent()
        counted = min(self._uncounted, self.left)
        self._uncounted -= counted
        self._trainer.push({**data, "name": self.name, "decisions": counted}, arrays)
        work.release()
        if self._rollouts or self._async.mode == "lock_step":
            self._trainer.wait()
            self.sync()
        self._pushed_at = self._opts


def exploring(settings: TrainerSettings, exploration: Json | None) -> TrainerSettings:
    """Settings with this actor's own exploration. Raises SettingsError if the algorithm does not support it."""
    if exploration is None:
        return settings
    hyper = settings.hyperparameters
    if "exploration" not in type(hyper).model_fields:
        raise SettingsError(
            f"{settings.trainer_type} explores by its own noise, so it does not support "
            "async_trainer.exploration; remove it"
        )
    changed = type(hyper).model_validate(hyper.model_dump(mode="json") | {"exploration": dict(exploration)})
    return settings.model_copy(update={"hyperparameters": changed})
