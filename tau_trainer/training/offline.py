"""Training from recordings: no engine and no pairs, but the same run folder as any other run.

It writes the same files as :class:`.PairsCollector`, so you can play such a run (``--inference``), export it, report on
it, and start another from it (``--initialize-from``).
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from tau_trainer.bridge.demonstrations import read_demonstrations
from tau_trainer.bridge.package import order_of_recordings
from tau_trainer.columns import Arrays
from tau_trainer.errors import SettingsError
from tau_trainer.evaluation.candidates import ScoredPolicy
from tau_trainer.export import export_onnx
from tau_trainer.memory import NO_TRANSITIONS, Work
from tau_trainer.metrics import BehaviorSnapshot, keys
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.runs.run import Run
from tau_trainer.settings import (
    OfflineTrainerSettings,
    RunSettings,
    TrainerSettings,
)
from tau_trainer.specs import Json
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.learning.learner import Learner, Shared, UpdateResult
from tau_trainer.training.lessons import Lessons

if TYPE_CHECKING:
    from tau_trainer.algorithms import State
    from tau_trainer.algorithms.offline.base import Offline

_STEPS = 100
"""Gradient steps between two checks of the clock and of Ctrl-C; a resumed run takes them in the same portions."""


class _Learner(Learner):
    """Learns one behavior from recordings; its decisions are gradient steps."""

    algorithm: Offline
    settings: OfflineTrainerSettings
    episodes = 0
    """Episodes of all evaluations."""
    mean_return: float | None = None
    """Of the latest evaluation."""

    @override
    def report(self, outcome: UpdateResult) -> None:
        self.progress.decisions += int(outcome.statistics.get(keys.MINIBATCHES, 0))
        super().report(outcome)

    @override
    def best_mark(self) -> float:
        """Gradient steps of the best policy; if policies are not compared, each counts as better."""
        return self.decisions if self.tracker.best is None else self.tracker.best.decisions

    @override
    def state(self) -> State:
        arrays, values = super().state()
        return arrays, {**values, "mean_reward": self.mean_return}

    @override
    def restore(self, arrays: Arrays, values: Json) -> None:
        super().restore(arrays, values)
        self.mean_return = values["mean_reward"]


class RecordingsCollector(Collector):
    """Trains the behaviors one after another from recordings.

    Raises:
        SettingsError, DataError, CheckpointError: the run cannot start.
    """

    command = "learn"
    unit = "gradient steps"
    subject = "recordings"

    def __init__(self, settings: RunSettings, run: Run) -> None:
        self.settings, self.run = settings, run
        self._plays = settings.env_settings.env_path is not None
        self.learners = [self._make(name, trainer) for name, trainer in _trainers(settings)]
        self.checkpointer = Checkpointer(run, None if run.folder.resumed else InitialWeights(settings))
        self.checkpointer.newest([learner.name for learner in self.learners])
        for learner in self.learners:
            # Without names in the settings, the recording names the behavior.
            self.checkpointer.register(learner, () if settings.behaviors else (learner.name,))
            learner.announce(self.unit)
        self._first, self._started = self.steps, time.monotonic()

    @property
    @override
    def steps(self) -> int:
        return sum(learner.decisions for learner in self.learners)

    @property
    @override
    def max_steps(self) -> int:
        return sum(learner.settings.max_steps for learner in self.learners)

    @property
    @override
    def done(self) -> bool:
        return all(learner.done for learner in self.learners)

    @property
    @override
    def learned(self) -> bool:
        return self.steps > self._first

    def _make(self, name: str, settings: OfflineTrainerSettings) -> _Learner:
        from tau_trainer.algorithms import Setup, check_shared, make_algorithm
        from tau_trainer.algorithms.offline.base import Offline

        images = order_of_recordings(self.settings.collection)
        demonstration = read_demonstrations([settings.demo_path], images=images)
        name = name or demonstration.spec.short_name
        spec = replace(demonstration.spec, name=name)
        device = self.settings.device
        setup = Setup(spec, settings, self.settings.env_settings.seed, 1, device, images=images)
        algorithm = make_algorithm(setup)
        assert isinstance(algorithm, Offline)
        check_shared(algorithm, spec, self.settings.devices)
        assert algorithm.data is not None
        returns, aside = algorithm.data.returns, len(algorithm.held_out)
        worth = f" of mean return {returns.mean():.4g}" if len(returns) else ""
        self.run.say(
            f"'{name}' learns from {len(algorithm.replay):,} decisions{worth}; {aside:,} more are set aside to see "
            "how well it generalizes"
        )
        return _Learner(name, setup, algorithm, Shared(self.run.hub, callbacks=self.run.callbacks))

    @override
    def advance(self) -> bool:
        """Take a few gradient steps of the first behavior that has not finished learning."""
        learner = next((learner for learner in self.learners if not learner.done), None)
        if learner is None or self.run.ending:
            for learner in self.learners:
                if learner.decisions > 0 and not learner.done:
                    self._break_off(learner)
            return False
        if self._plays and not learner.decisions:
            self._evaluate(learner)  # the starting point, and a check that it is the right environment
        self._learn(learner)
        return True

    def _learn(self, learner: _Learner) -> None:
        settings, hub = learner.settings, self.run.hub
        every = settings.summary_every(settings.max_steps)
        ends = [(learner.decisions // step + 1) * step for step in (_STEPS, every, settings.checkpoint_every)]
        steps = min(*ends, settings.max_steps) - learner.decisions
        if learner.update(Work(NO_TRANSITIONS, gradient_steps=steps)).error is not None:
            return
        checkpoint = learner.decisions % settings.checkpoint_every == 0 or learner.done
        if checkpoint:
            self._judge(learner)
        if learner.decisions % every == 0 or learner.done:
            if not checkpoint:
                hub.add_all(learner.name, learner.algorithm.assess())
            learner.flush()
        if checkpoint:
            self._checkpoint(learner)

    def _break_off(self, learner: _Learner) -> None:
        """The run ends before this behavior is done: save it."""
        if learner.decisions % learner.settings.checkpoint_every:
            if not self._plays:
                self._judge(learner)  # playing takes too long after Ctrl-C
            self._checkpoint(learner)

    def _judge(self, learner: _Learner) -> None:
        """Score the policy: on the set-aside recordings, and in the environment if one is named."""
        held = learner.algorithm.assess()
        self.run.hub.add_all(learner.name, held)
        loss = held.get(keys.held_out(keys.POLICY_LOSS))
        # A clone is as good as its predictions of the player; the other algorithms aim to be better than the player.
        score = -loss if loss is not None and learner.algorithm.name == "bc" else None
        if self._plays:
            score = self._evaluate(learner)
        if score is not None:
            learner.tracker.take(ScoredPolicy(learner.policy, learner.decisions, {}, (0.0, score)))

    def _evaluate(self, learner: _Learner) -> float:
        """Mean return of the most likely actions."""
        from tau_trainer.evaluation.play import evaluate

        policies = {other.name: other.policy for other in self.learners}
        parameters = Lessons(self.settings.environment_parameters or {}).parameters
        wanted = learner.settings.evaluation_episodes
        found = evaluate(self.settings, policies, wanted, parameters, self.run.asked.is_set)
        if learner.name not in found:
            raise SettingsError(
                f"the environment has no behavior '{learner.name}', only {', '.join(found)}; use its "
                "name in the settings"
            )
        episodes = found[learner.name]
        if episodes.mean_return is not None:
            learner.mean_return = episodes.mean_return
        learner.episodes += len(episodes)
        self.run.hub.episode(learner.name, None, episodes.returns, episodes.lengths)
        return learner.mean_return if learner.mean_return is not None else -np.inf

    def _checkpoint(self, learner: _Learner) -> None:
        """Write a checkpoint of a behavior. With ``save_best_only``, write it only if the policy is the best so far."""
        content = {"pairs": {}, "generation": 0, "task": {}, "lessons": Lessons({}).state()}
        for unsaved in self.checkpointer.unsaved([learner]):
            self.checkpointer.writing([unsaved], content)()

    @override
    def save(self) -> None:
        """Do nothing: every behavior was saved when it finished."""

    @override
    def conclude(self) -> Conclusion:
        chosen = {learner.name: self._described(learner) for learner in self.learners}
        return Conclusion([self._export(learner) for learner in self.learners], chosen=chosen)

    def _best(self, learner: _Learner) -> ScoredPolicy | None:
        """The best policy if it is to be exported; None: export the last one."""
        return learner.tracker.best if self.settings.checkpoint_settings.export == "best" else None

    def _export(self, learner: _Learner) -> Export:
        best = self._best(learner)
        policy = learner.policy if best is None else best.policy
        made_of = learner.decisions if best is None else best.decisions
        reward = best.rank[1] if best is not None and self._plays else None
        return Export(learner.name, partial(export_onnx, policy, learner.spec), made_of, reward)

    def _described(self, learner: _Learner) -> str:
        """The exported policy, in words."""
        best = self._best(learner)
        if best is None:
            return f"the last policy, of gradient step {learner.decisions:,}"
        score = best.rank[1]
        worth = f"mean reward {score:.3f}" if self._plays else f"a loss of {-score:.4g} on the set-aside recordings"
        return f"the best policy, of gradient step {best.decisions:,} of {learner.decisions:,}, with {worth}"

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(
            BehaviorSnapshot(
                learner.name,
                learner.decisions,
                learner.settings.max_steps,
                learner.episodes,
                learner.mean_return,
                window="evaluation",
            )
            for learner in self.learners
        )

    @property
    @override
    def status(self) -> Json:
        return {
            "policy_version": sum(learner.version for learner in self.learners),
            "update_seconds": time.monotonic() - self._started,
        }


def _trainers(settings: RunSettings) -> list[tuple[str, OfflineTrainerSettings]]:
    """Trainer settings with the behavior's name; an empty name means the name in the recording."""
    named: list[tuple[str, TrainerSettings | None]] = [*settings.behaviors.items()]
    trainers = named or [("", settings.default_settings)]
    return [(name, trainer) for name, trainer in trainers if isinstance(trainer, OfflineTrainerSettings)]
