"""Runs that learn from recordings: no engine, no pairs, and the folder of any other run.

What is written is what :class:`~tau_trainer.training.run.TrainingRun` writes, so that such a run can be played
(``--inference``), exported, reported on, and begun from (``--initialize-from``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from typing_extensions import override

from tau_trainer.bridge.demonstrations import read_demonstrations
from tau_trainer.bridge.image_order import order_of_recordings
from tau_trainer.errors import CheckpointError, SettingsError, TauError
from tau_trainer.evaluation.candidates import ScoredPolicy, best_to_keep, stored_best
from tau_trainer.metrics import BehaviorSnapshot, MetricsHub, RunReport, TerminalMode, keys
from tau_trainer.settings import (
    OfflineTrainerSettings,
    RunSettings,
    TrainerSettings,
    check_device,
    dump_settings,
    resolve_seed,
)
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.checkpoints import latest_checkpoint
from tau_trainer.training.lessons import Lessons
from tau_trainer.training.manager import lasting
from tau_trainer.training.origins import Origins
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.shell import Kept, Say, Shell, in_foreground
from tau_trainer.training.status import write_status

if TYPE_CHECKING:
    from tau_trainer.algorithms.offline import Offline
    from tau_trainer.models import Policy

_STEPS = 100
"""Gradient steps between two looks at the clock and at Ctrl-C; a resumed run takes them in the same portions."""


def is_offline(settings: RunSettings) -> bool:
    """Whether these settings learn from recordings alone, and learn at all."""
    trainers = _trainers(settings)
    return isinstance(trainers[0][1], OfflineTrainerSettings) and not settings.checkpoint_settings.inference


@dataclass(slots=True)
class _Learner:
    """One behavior."""

    name: str
    settings: OfflineTrainerSettings
    algorithm: Offline
    best: ScoredPolicy | None = None
    mean_return: float | None = None
    """Of the newest evaluation."""
    episodes: int = 0

    @property
    def steps(self) -> int:
        """Gradient steps so far, in all runs."""
        return self.algorithm.steps

    @property
    def done(self) -> bool:
        return self.steps >= self.settings.max_steps


class OfflineRun(Shell):
    """Everything of one run. Belongs to one thread.

    Raises:
        SettingsError, DataError, CheckpointError, RunFinishedError: it cannot begin, or need not go on.
    """

    command = "learn"
    unit = "gradient steps"
    subject = "recordings"

    def __init__(self, settings: RunSettings, folder: RunFolder, hub: MetricsHub, shown: Say) -> None:
        super().__init__(settings, folder, hub)
        self.settings = settings
        self.learners = [self._make(name, own, shown) for name, own in _trainers(settings)]
        self.begin()

    @property
    @override
    def steps(self) -> int:
        return sum(learner.steps for learner in self.learners)

    @property
    @override
    def max_steps(self) -> int:
        return sum(learner.settings.max_steps for learner in self.learners)

    @property
    @override
    def done(self) -> bool:
        return all(learner.done for learner in self.learners)

    def _make(self, name: str, settings: OfflineTrainerSettings, shown: Say) -> _Learner:
        from tau_trainer.algorithms import Setup, make_algorithm

        images = order_of_recordings(self.settings.collection)
        demonstration = read_demonstrations([settings.demo_path], images=images)
        name = name or demonstration.spec.short_name
        spec = replace(demonstration.spec, name=name)
        device = self.settings.torch_settings.device or "cpu"
        setup = Setup(spec, settings, self.settings.env_settings.seed, 1, device, images=images)
        algorithm = cast("Offline", make_algorithm(setup))
        assert algorithm.data is not None
        returns, aside = algorithm.data.returns, len(algorithm.held_out)
        worth = f" of mean return {returns.mean():.4g}" if len(returns) else ""
        shown(
            f"'{name}' learns from {len(algorithm.replay):,} decisions{worth}; {aside:,} more are set aside to see "
            "how well it generalises"
        )
        learner = _Learner(name, settings, algorithm)
        self._restore(learner)
        self.hub.begin(
            name,
            step=learner.steps,
            max_steps=settings.max_steps,
            hyperparameters=settings.model_dump(mode="json"),
        )
        return learner

    def _restore(self, learner: _Learner) -> None:
        chosen = self.settings.checkpoint_settings
        if not chosen.resume:
            origin = Origins(self.settings).of(learner.name, learner.name)
            if origin is not None:
                facts = dict(origin.manifest["learner"]["algorithm"])
                facts.pop("version", None)
                learner.algorithm.load(origin.tensors, facts)
            return
        found = latest_checkpoint(self.folder.checkpoints, learner.name)
        for warning in found.warnings:
            self.hub.warning(warning)
        if found.checkpoint is None:
            raise CheckpointError(
                f"the run in '{self.folder.path}' saved nothing of '{learner.name}' that can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        values = found.checkpoint.manifest["learner"]
        learner.algorithm.load(found.checkpoint.tensors, values["algorithm"])
        learner.best = stored_best(learner.algorithm, found.checkpoint.tensors, values)
        learner.mean_return = values["mean_reward"]

    @override
    def collect_and_learn(self) -> None:
        """All behaviors, one after the other."""
        for learner in self.learners:
            if self.settings.env_settings.env_path is not None and not learner.steps:
                self._evaluate(learner)  # where it begins, and whether that is the right environment
            self._learn(learner)

    def _learn(self, learner: _Learner) -> None:
        own = learner.settings
        every = own.summary_every(own.max_steps)
        while not learner.done and not self.asked.is_set():
            ends = [(learner.steps // step + 1) * step for step in (_STEPS, every, own.checkpoint_every)]
            steps = min(*ends, own.max_steps) - learner.steps
            stats = learner.algorithm.train(steps, learner.steps / own.max_steps)
            self.hub.add_all(learner.name, stats)
            checkpoint = learner.steps % own.checkpoint_every == 0 or learner.done
            if checkpoint:
                self._judge(learner)
            if learner.steps % every == 0 or learner.done:
                if not checkpoint:
                    self.hub.add_all(learner.name, learner.algorithm.assess())
                self.hub.flush(learner.name, learner.steps, training=not learner.done)
            if checkpoint:
                self.save(learner)
            self.show()
        if not learner.done:
            if learner.steps % own.checkpoint_every and self.settings.env_settings.env_path is None:
                self._judge(learner)  # playing takes longer than whoever pressed Ctrl-C would wait
            self.save(learner)

    def _judge(self, learner: _Learner) -> None:
        """What the policy is worth: on what was set aside, and in the environment where one is named."""
        held = learner.algorithm.assess()
        self.hub.add_all(learner.name, held)
        loss = held.get(keys.held_out(keys.POLICY_LOSS))
        # A clone is as good as it foretells the player; the others are to be better than him.
        score = -loss if loss is not None and learner.algorithm.name == "bc" else None
        if self.settings.env_settings.env_path is not None:
            score = self._evaluate(learner)
        if score is not None:
            policy = learner.algorithm.snapshot()
            learner.best = ScoredPolicy(policy, learner.steps, {}, (0.0, score)).or_kept(learner.best)

    def _evaluate(self, learner: _Learner) -> float:
        """Mean return of the most likely actions."""
        from tau_trainer.evaluation.play import evaluate

        policies = {one.name: one.algorithm.snapshot() for one in self.learners}
        parameters = Lessons(self.settings.environment_parameters or {}).parameters
        wanted = learner.settings.evaluation_episodes
        found = evaluate(self.settings, policies, wanted, parameters, self.asked.is_set)
        if learner.name not in found:
            raise SettingsError(
                f"the environment shows no behavior '{learner.name}', only {', '.join(found)}; give the "
                "behavior in the settings its name"
            )
        episodes = found[learner.name]
        if episodes.mean_return is not None:
            learner.mean_return = episodes.mean_return
        learner.episodes += len(episodes)
        self.hub.episode(learner.name, None, episodes.returns, episodes.lengths)
        return learner.mean_return if learner.mean_return is not None else -np.inf

    def save(self, learner: _Learner) -> None:
        """Write a checkpoint: see :meth:`save_moment`."""
        self.save_moment([learner.name], learner.settings.keep_checkpoints)

    @override
    def keep(self, name: str) -> Kept:
        learner = self._learner_of(name)
        arrays, facts = learner.algorithm.state()
        weights, best = best_to_keep(learner.best)
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": learner.steps,
            "mean_reward": learner.mean_return,
            "acting_rng": np.random.default_rng([self.settings.env_settings.seed, 1]).bit_generator.state,
            "behavior": behavior_json.to_json(learner.algorithm.spec),
            "reward_components": 1,
            "best": best,
        }
        manifest = {"learner": values, "pairs": {}, "generation": 0, "task": {}, "lessons": Lessons({}).state()}
        return Kept(learner.steps, {**arrays, **weights}, manifest)

    @override
    def policy_of(self, name: str) -> tuple[Policy | None, BehaviorSpec]:
        algorithm = self._learner_of(name).algorithm
        return algorithm.snapshot(), algorithm.spec

    def _learner_of(self, name: str) -> _Learner:
        return next(learner for learner in self.learners if learner.name == name)

    @override
    def conclude(self) -> Mapping[str, Path]:
        chosen = self.settings.checkpoint_settings.export
        for learner in () if self.hurried.is_set() else self.learners:
            best = learner.best if chosen == "best" else None
            policy = learner.algorithm.snapshot() if best is None else best.policy
            self.export(learner.name, policy, learner.algorithm.spec)
            try:
                made_of = learner.steps if best is None else best.decisions
                write_status(self.folder.path, {}, {learner.name: made_of})
            except TauError as error:
                self.failures.append(str(error))
        return {}

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(
            BehaviorSnapshot(
                learner.name,
                learner.steps,
                learner.settings.max_steps,
                learner.episodes,
                learner.mean_return,
                window="evaluation",
            )
            for learner in self.learners
        )

    @property
    @override
    def more_of_snapshot(self) -> Mapping[str, Any]:
        return {
            "seed": self.settings.env_settings.seed,
            "policy_version": sum(learner.algorithm.version for learner in self.learners),
            "update_seconds": time.monotonic() - self.started,
        }


def _trainers(settings: RunSettings) -> list[tuple[str, OfflineTrainerSettings]]:
    """By name; empty: the name that the recording says."""
    named: list[tuple[str, TrainerSettings | None]] = [*settings.behaviors.items()]
    return [(name, cast("OfflineTrainerSettings", own)) for name, own in named or [("", settings.default_settings)]]


def learn_offline(
    settings: RunSettings, terminal: TerminalMode = "auto", command_line: Sequence[str] | None = None
) -> RunReport:
    """Learn from recordings, in the foreground; Ctrl-C ends it after what it is at, and saves.

    Raises:
        TauError: nothing could be learned; nothing is left behind.
    """
    settings = resolve_seed(settings)
    check_device(settings)
    seed = settings.env_settings.seed

    @contextmanager
    def begin(folder: RunFolder, hub: MetricsHub, say: Say) -> Iterator[Shell]:
        import torch

        torch.set_num_threads(1)
        yield OfflineRun(settings, folder, hub, say)

    return in_foreground(
        settings,
        dump_settings(lasting(settings)),
        seed,
        begin,
        starting=f"reading recordings, seed {seed}",
        terminal=terminal,
        command_line=command_line,
    )
