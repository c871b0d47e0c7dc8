"""Experience from a batched environment: act, step and learn in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from tau_trainer import plugins
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import LearnerError, SettingsError
from tau_trainer.evaluation.batched import BatchedEvaluation
from tau_trainer.metrics import BehaviorSnapshot, keys
from tau_trainer.runs.callbacks import EvaluationInfo
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.runs.run import Run
from tau_trainer.settings import RunSettings
from tau_trainer.settings.tasks import Compile
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import CopiesLearner, copies_in
from tau_trainer.training.checkpointing import Checkpointer
from tau_trainer.training.learning.learner import Shared


class CopiesCollector(Collector):
    """Plays the copies, and updates each policy when its rollout is complete.

    Raises:
        SettingsError, CheckpointError: it cannot start.
    """

    command = "batch"

    def __init__(self, settings: RunSettings, run: Run, ranks: Ranks | None = None) -> None:
        self.check(settings)
        self.settings, self.run = settings, run
        self.playing = self.make_playing(settings, ranks or Ranks())
        self.playing.plays = run.plays
        networks = [entry.network for entry in self.playing.policies if entry.network is not None]
        self.saved = [network for network in networks if network.settings.learns]
        """The policies that learn."""
        self.checkpointer = Checkpointer(run, None if run.folder.resumed or run.plays else InitialWeights(settings))
        compiled = self._begin(networks)
        self.playing.share_weights()
        if run.plays:
            self.playing.explore_nothing()
        self.evaluation = BatchedEvaluation(settings, self.playing.policies, self.playing.make_env)
        self.compiled = self._choose(compiled or settings.compile)
        """Whether steps are compiled, which may change the last bit of a number."""
        self.playing.restart_clock()
        self._first = self._flushed = self._saved = self._evaluated = self.steps
        for learner in self.saved:
            learner.announce()

    @staticmethod
    def check(settings: RunSettings) -> None:
        """Raise SettingsError if it cannot play with these settings. Also called before other ranks start."""
        return

    def make_playing(self, settings: RunSettings, ranks: Ranks) -> Playing:
        """Make the copies and their policies."""
        return Playing(settings, ranks, self.shared)

    @property
    def shared(self) -> Shared:
        """The objects that the learners share."""
        return Shared(self.run.hub, callbacks=self.run.callbacks)

    def _begin(self, networks: Sequence[CopiesLearner]) -> Compile | None:
        """Go on from the newest checkpoint set, or start as the settings say. Raises CheckpointError.

        Returns:
            Whether the earlier part of this run compiled its steps, because compiled steps may differ in the last bit;
            None: that is not to be kept.
        """
        found = self.checkpointer.newest([saved.name for saved in self.saved], together=True)
        if found and not self.run.plays:
            first = found[self.saved[0].name]
            self.playing.load_copies(first.manifest["steps"], copies_in(first.tensors))
        for network in self.saved if found else networks:
            self.checkpointer.register(network, [network.name for network in networks])
        if not found or self.run.plays or self.settings.compile != "auto":
            return None
        return "on" if found[self.saved[0].name].manifest["compiled"] else "off"

    def _choose(self, mode: Compile) -> bool:
        playing = self.playing
        left = (self.max_steps - self.steps) // (playing.copies * playing.env.num_agents)
        if mode == "auto" and not playing.ranks.alone:  # all ranks would have to choose the same
            mode = "off"
        acting = [(entry.actor, entry.agents) for entry in playing.policies]
        with self.run.abandonable():
            compiled, said = choose(mode, playing.env, acting, left, self.run.say)
        if said:
            self.run.hub.event("compiled", message=said)
        return compiled

    @property
    @override
    def steps(self) -> int:
        return self.playing.decisions

    @property
    @override
    def max_steps(self) -> int:
        return 0 if self.run.plays else self.settings.clock.max_steps

    @property
    @override
    def subject(self) -> str:
        return f"{self.playing.env.num_envs:,} x {self.settings.played.name}"

    @property
    @override
    def done(self) -> bool:
        """Whether all decisions are made, or all policies that learn have reached their criterion."""
        if self.run.plays:
            return False
        return self.steps >= self.max_steps or all(learner.stopped for learner in self.saved)

    @override
    def announce(self) -> None:
        """Say where the run ends, if that is not at ``max_steps``: only whole rounds are played."""
        steps = math.lcm(*(learner.algorithm.horizon for learner in self.saved))
        whole = steps * self.playing.copies * self.playing.env.num_agents
        rounds = math.ceil(self.max_steps / whole)
        if self.max_steps % whole:
            message = (
                f"training ends after {rounds * whole:,} decisions instead of {self.max_steps:,}, because the policies "
                f"learn from rounds of {whole:,} decisions; choose a multiple of it for --max-steps to end there"
            )
            self.run.hub.event("rounds", message=message)

    @property
    @override
    def learned(self) -> bool:
        return self.steps > self._first

    @override
    def advance(self) -> bool:
        playing, clock, over = self.playing, self.settings.clock, self.playing.round_over
        if over and (self.done or self.run.ending):
            return False
        if self.run.plays:
            playing.play()
            playing.count_episodes()
            return True
        try:
            playing.advance()
        except RuntimeError as error:
            death = playing.ranks.death()
            if death is None:
                raise
            raise LearnerError(death) from error
        over = playing.round_over
        first = over and self._flushed == 0  # a curve begins with the first round, however rare summaries are
        if first or self._due(self._flushed, clock.summary_every(clock.max_steps)) or (self.done and over):
            self.flush()
        if over and self._due(self._evaluated, self.settings.evaluation.interval):
            self._evaluate()
        if over and self._due(self._saved, clock.checkpoint_every) and not self.done:
            self._saved = self.steps
            if any(map(self.checkpointer.better, self.saved)):
                self.checkpoint()
        return True

    def _due(self, last: int, interval: int) -> bool:
        return interval > 0 and self.steps // interval > last // interval

    def flush(self) -> None:
        """Read the counts from the device, and pass them to the recorders."""
        hub, playing = self.run.hub, self.playing
        ended = playing.count_episodes()
        self._flushed = self.steps
        for key, value in playing.speeds().items():
            hub.keep(key, value)
        for entry in playing.learning:
            if entry.name in ended:
                episodes = ended[entry.name]
                hub.carry(entry.name, {keys.CUMULATIVE_REWARD: episodes.returns})
                hub.add(entry.name, keys.EPISODE_LENGTH, episodes.mean_length)
            entry.learner.progress.flush(training=not self.done)

    def _evaluate(self, *, last: bool = False) -> Mapping[str, Mapping[str, float]]:
        """Play evaluation episodes during or after learning; stop early if the user asks to end or hurry.

        Returns:
            See :meth:`scores`.
        """
        self._evaluated = self.steps
        infos = {each.name: EvaluationInfo(each.name, each.version, each.decisions) for each in self.saved}
        for info in infos.values():
            self.run.callbacks.tell("on_evaluation_begin", info)
        scores = self.scores((self.run.hurried if last else self.run.asked).is_set)
        for name, numbers in scores.items():
            for key, value in numbers.items():
                self.run.hub.add(name, key, value)
        for name, info in infos.items():
            self.run.callbacks.tell("on_evaluation_end", replace(info, scores=scores.get(name, {})))
        return scores

    def scores(self, stopped: Callable[[], bool]) -> dict[str, dict[str, float]]:
        """Current scores of every policy, by metric key; without those that were stopped too early."""
        found = {name: episodes.mean_return for name, episodes in self.evaluation.run(stopped=stopped).items()}
        return {name: {keys.EPISODE_RETURN: mean} for name, mean in found.items() if mean is not None}

    def checkpoint(self) -> None:
        """Write a checkpoint of every policy that learns; together they are one checkpoint set."""
        self._saved = self.steps
        self.checkpointer.writing(self.saved, {"steps": self.playing.collector.steps, "compiled": self.compiled})()

    @override
    def save(self) -> None:
        if self.run.error is None and self.checkpointer.unsaved(self.saved, together=True):
            self.checkpoint()

    @override
    def conclude(self) -> Conclusion:
        exports, chosen = list[Export](), dict[str, str]()
        found: Mapping[str, Mapping[str, float]] = {}
        hurried = self.run.hurried.is_set()
        if self.run.error is None and not hurried and self.settings.evaluation.episodes:
            found = self._evaluate(last=True)
            for learner in self.saved:
                self.run.hub.flush(learner.name, learner.decisions, training=False)
        for learner in self.saved if self.run.error is None else ():
            reward = found.get(learner.name, {}).get(keys.EPISODE_RETURN)
            worth = "" if reward is None else f", with mean reward {reward:.3f}"
            chosen[learner.name] = f"the last policy, after {learner.decisions:,} decisions{worth}"
            if not hurried and (model := learner.model()) is not None:
                exports.append(Export(learner.name, model, learner.decisions, reward))
        files = self.evaluation.write_trace(self.run.folder.path)
        return Conclusion(exports, files=files, chosen=chosen)

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(
            BehaviorSnapshot(
                entry.name,
                self.playing.steps_of(entry),
                self.max_steps * len(entry.agents) // self.playing.env.num_agents,
                entry.episodes,
                entry.mean_return,
                entry.mean_length,
            )
            for entry in self.playing.policies
        )

    @property
    @override
    def status(self) -> Mapping[str, Any]:
        speeds, shown, parts = self.playing.speeds(), tuple[str, ...](), dict[str, float]()
        if speeds:
            environments, agents, *shares = speeds.values()
            names = [*self.playing.collector.seconds, "learning"]
            shown = (
                f"{environments:,.0f} environment steps/s",
                f"{agents:,.0f} agent steps/s",
            )
            parts = dict(zip(names, shares, strict=True))
        return {
            "time_shares": parts,
            "policy_version": sum(learner.version for learner in self.saved),
            "update_seconds": self.playing.learning_seconds,
            "figures": shown,
        }


def collector_type(environment: str) -> type[CopiesCollector]:
    """The collector for the batched environment of this name: its own if it has one.

    Raises:
        SettingsError: it cannot be loaded, or is no :class:`CopiesCollector`.
    """
    if environment not in plugins.names("collectors"):
        return CopiesCollector
    found = plugins.load("collectors", environment)
    if not (isinstance(found, type) and issubclass(found, CopiesCollector)):
        raise SettingsError(f"the collector of '{environment}' is no subclass of CopiesCollector; name a class that is")
    return found
