"""All learners of a run: one per behavior if pairs share, otherwise one per behavior and pair."""

from __future__ import annotations

import asyncio
import itertools
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tau_trainer.algorithms import Algorithm, Setup, check_served, check_shared, make_algorithm
from tau_trainer.bridge.package import order_of_recordings
from tau_trainer.collection.decisions import DecisionBatcher, TauAgent
from tau_trainer.remote.process import Machines, Place
from tau_trainer.rewards import EngineReward, Rewarder
from tau_trainer.settings import OffPolicyHyperparameters, shared_out
from tau_trainer.settings.parameters import Curriculum
from tau_trainer.settings.run import learner_name
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training.learning.group import LearnerGroup, Ranked
from tau_trainer.training.learning.handles import LearnerHandle, LocalLearner, MemberLearner
from tau_trainer.training.learning.learner import Learner, Shared
from tau_trainer.training.learning.loop import UpdateLoop, Watcher
from tau_trainer.training.learning.opponents import Opponents
from tau_trainer.training.learning.parameter_server import ParameterServer
from tau_trainer.training.learning.process import LearnerProcess, Learning, RemoteLearner
from tau_trainer.training.learning.self_play import SelfPlay
from tau_trainer.training.plan import RunPlan

_MOST_THREADS = 4
"""Most threads of a learner's process inside one large operation.

As in ML-Agents, and half of the cores at most, because engines play at the same time.
"""


class LearnerPool:
    """Makes learners when behaviors appear in environments, and gives every pair its TauAgents and rewards."""

    def __init__(
        self,
        plan: RunPlan,
        shared: Shared,
        watcher: Watcher | None = None,
        machines: Machines | None = None,
    ) -> None:
        """``machines``: further machines on which they may learn.

        ``watcher``: restores and saves learners; None: they are neither restored nor saved.
        """
        self.learners: dict[str, Learner] = {}
        self.loops: dict[str, UpdateLoop] = {}
        """By learner: what makes its updates."""
        self.shown: dict[str, BehaviorSpec] = {}
        """By learner: the behavior with all its sensors, as the first engine sent it."""
        self.batcher = DecisionBatcher()
        self.self_play = SelfPlay(shared.hub)
        self._plan = plan
        self._workers = 1 if plan.shared else max(1, (os.cpu_count() or 2) - 1)
        self._served = plan.settings.strategy == "parameter_server" and not plan.inference
        self._teams: dict[str, set[int]] = {}
        self._machines, self._away = machines, list[Place]()
        self._processes: list[Learning] = []
        self._remote = itertools.count()
        # As in the thread that acts: small networks gain nothing from a second thread inside one operation.
        self.executor = ThreadPoolExecutor(
            max(self._workers, plan.settings.devices if self._served else 1),
            thread_name_prefix="learner",
            initializer=torch.set_num_threads,
            initargs=(1,),
        )
        self._watcher = watcher
        self.shared = shared
        """The objects that all learners share."""

    def of_pair(self, pair: int) -> list[Learner]:
        """The learners that ``pair`` feeds."""
        if self._plan.shared:
            return list(self.learners.values())
        suffix = self.name("", pair)
        return [learner for name, learner in self.learners.items() if name.endswith(suffix)]

    def name(self, behavior: str, pair: int) -> str:
        """A learner's key in metrics and files."""
        return behavior if self._plan.shared else learner_name(behavior, pair)

    def agent(self, pair: int, spec: BehaviorSpec) -> TauAgent:
        """The TauAgent of ``pair`` for a behavior. Raises as :meth:`learner`."""
        learner = self.learner(pair, spec)
        hand_over = self.loops[learner.name].hand_over
        if learner.opponents is not None:
            return self.self_play.agent(learner, spec, self.batcher, hand_over)
        return TauAgent(learner, spec, self.batcher, hand_over)

    def learner(self, pair: int, spec: BehaviorSpec) -> Learner:
        """The learner of a behavior for ``pair``, which the :class:`~.door.Door` has let in.

        Raises SettingsError if the settings have no such behavior, CheckpointError if its saved state does not fit.
        """
        name = self.name(spec.short_name, pair)
        learner = self.learners.get(name)
        if learner is None:
            learner = self.learners[name] = self._make(name, self.visible(spec), self.rewarder(spec).width)
            self.shown[name] = spec
        self._warn_of_teams(learner, spec)
        return learner

    @property
    def independent(self) -> int:
        """Number of pairs with policies of their own."""
        return 0 if self._plan.shared else self._plan.pairs

    def visible(self, spec: BehaviorSpec) -> BehaviorSpec:
        """The behavior with the sensors that the policy sees."""
        return self._plan.task.visible(spec) if self._plan.task is not None else spec

    def forget(self, learner: Learner) -> None:
        """Remove a learner as if its behavior had never appeared. No agent may act for it, and no update may run."""
        name = learner.name
        del self.learners[name], self.loops[name], self.shown[name]
        self._teams.pop(name, None)
        self.self_play.forget(name)
        for key in [key for key in self.batcher.actors if key[0] == name]:
            del self.batcher.actors[key]
        self.shared.hub.forget(name)

    def _warn_of_teams(self, learner: Learner, spec: BehaviorSpec) -> None:
        """Warn that teams share a learner, as ML-Agents does (``OnPolicyTrainer.add_policy``)."""
        teams = self._teams.setdefault(learner.name, set())
        new = spec.team not in teams
        teams.add(spec.team)
        if new and len(teams) == 2 and learner.opponents is None and not self._plan.inference:
            self.shared.hub.warning(
                f"'{learner.name}' plays in several teams, and all of them share one learner and one policy, so it "
                "learns against its current self; add self_play: {} to let it play against earlier versions too, or "
                "give the teams different behavior names to train them separately"
            )

    def rewarder(self, spec: BehaviorSpec) -> Rewarder:
        """The rewards of one pair for a behavior."""
        return self._plan.task.rewarder(spec) if self._plan.task is not None else EngineReward()

    def _make(self, name: str, spec: BehaviorSpec, reward_width: int) -> Learner:
        settings = self._plan.settings.of_behavior(spec.short_name)
        if self._served:
            settings = shared_out(settings, self._plan.settings.devices)
        device = self._plan.settings.device
        env = self._plan.settings.env_settings
        # The same for the same run seed and name, in whatever order learners appear.
        (seed,) = np.random.SeedSequence([self._plan.seed, zlib.crc32(name.encode())]).generate_state(1)
        setup = Setup(
            spec,
            settings,
            int(seed),
            reward_width,
            device,
            (env.env_path or "", *(env.env_args or ())),
            learns=not self._plan.inference,
            images=order_of_recordings(self._plan.settings.collection),
            max_steps=self._plan.max_steps(spec.short_name),
            on_batch=self.shared.callbacks.on_batch(name),
        )
        algorithm = make_algorithm(setup)
        if self._served:
            check_served(algorithm, spec)
        else:
            check_shared(algorithm, spec, self._plan.settings.devices)
        learner = Learner(name, setup, algorithm, self.shared, self._handle(name, setup, algorithm))
        # Returns from other lessons or opponents are not comparable; with actors, the evaluator scores policies.
        lessons = any(isinstance(value, Curriculum) for value in self._plan.parameters.values())
        comparable = settings.self_play is None and not (lessons or self._plan.asynchronous)
        learner.tracker.watches |= algorithm.falls and comparable and not settings.save_best_only
        if settings.self_play is not None and not self._plan.inference:
            learner.opponents = Opponents(settings.self_play, setup.seed, lambda: learner.policy, spec)
        if self._watcher is not None:
            self._watcher.appears(learner)
        loop = self.loops[name] = UpdateLoop(learner, self.executor, self._plan.max_policy_age, self._watcher)
        self._tell_steps(loop)
        learner.announce()
        return learner

    def _tell_steps(self, loop: UpdateLoop) -> None:
        """Report that gradient steps fill no time although ``steps_per_update`` is auto."""
        plan, learner = self._plan, loop.learner
        hyper = learner.settings.hyperparameters
        if plan.inference or not isinstance(hyper, OffPolicyHyperparameters) or not hyper.auto:
            return
        repeatable = plan.deterministic or plan.lock_step
        why = "the same seed must give the same run" if repeatable else "" if plan.asynchronous else loop.unfilled
        if why:
            every = f"{hyper.decisions_per_step[1]:g}"
            text = f"steps_per_update: auto means {every} here, because {why}"
            self.shared.hub.event("steps", behavior=learner.name, message=f"'{learner.name}': {text}")

    def _handle(self, name: str, setup: Setup, algorithm: Algorithm) -> LearnerHandle:
        """The handle to learn with: as the settings say, or a process if learning in a thread would hold up acting."""
        if self._plan.population:
            return MemberLearner(algorithm)
        if self._plan.settings.devices > 1 and not self._plan.inference:
            return RemoteLearner(self._group(), name, setup, algorithm)
        where = self._plan.settings.collection.learner
        taking_turns = self._plan.max_policy_age == 0 or self._plan.inference
        if where == "thread" or (where == "auto" and (taking_turns or not algorithm.holds_lock)):
            return LocalLearner(algorithm)
        if len(self._processes) < self._workers:
            log = self._plan.log_folder / f"Learner-{len(self._processes)}.log"
            self._processes.append(LearnerProcess(log, threads=_threads(self._workers)))
        return RemoteLearner(self._processes[next(self._remote) % self._workers], name, setup, algorithm)

    def _group(self) -> Learning:
        """The processes that learn together: on one behavior after another, or each on its own piece of work."""
        if not self._processes:
            settings, machines = self._plan.settings, self._machines
            count, device = settings.devices, settings.device
            ranked = Ranked(count, device, self._plan.log_folder, _threads(count if machines is None else 1))
            if machines is not None:
                self._away.append(machines.place(0, 0))
                ranked = replace(ranked, place=self._away[0], host=machines.address)
            self._processes.append(
                ParameterServer(ranked, settings.staleness_bound, self.shared.hub.warning)
                if self._served
                else LearnerGroup(ranked, self.shared.hub.warning)
            )
        return self._processes[0]

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` in a learner's thread, after earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work, *arguments)

    def figures(self) -> list[str]:
        """The final figures of a parameter server."""
        return [process.words() for process in self._processes if isinstance(process, ParameterServer)]

    def close(self) -> None:
        """End the learners' threads and processes, after the running update."""
        self.executor.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.close()
        for place in self._away:
            place.close()


def _threads(workers: int) -> int:
    """Number of threads that each of ``workers`` processes uses inside one large operation."""
    return max(1, min(_MOST_THREADS, (os.cpu_count() or 1) // (2 * workers)))
