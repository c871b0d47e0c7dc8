"""Experience from a batched environment: act, step and learn in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, LearnerError, NonFiniteError, SettingsError
from tau_trainer.evaluation.batched import BatchedEvaluation
from tau_trainer.export import export_onnx
from tau_trainer.metrics import BehaviorSnapshot, keys
from tau_trainer.runs.callbacks import EvaluationInfo, UpdateInfo
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint
from tau_trainer.runs.collector import Collector, Conclusion, Export
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.moments import newest_moment
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import Kept, ModelWriter
from tau_trainer.settings.batched import BatchedSettings, Compile
from tau_trainer.training import behavior_json
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.playing import Playing, Seat

_ENVIRONMENT = "environment."
"""What the names of the copies' tensors begin with in the checkpoint of the first policy that learns."""


class CopiesCollector(Collector):
    """Plays the copies, and lets policies learn whenever they have their rollout together.

    Raises:
        SettingsError, CheckpointError: it cannot begin.
    """

    command = "batch"

    def __init__(self, settings: BatchedSettings, run: Run, ranks: Ranks | None = None) -> None:
        self.settings, self.run = settings, run
        self.playing = self._make(settings, ranks or Ranks())
        self._best: dict[str, float] = {}
        """What policies of the newest checkpoint are worth, by their newest episodes."""
        self._begin_from_origins()
        compiled = self._restore() if run.folder.resumed or run.plays else None
        self.playing.share_weights()
        if run.plays:
            self.playing.explore_nothing()
        self.evaluation = BatchedEvaluation(settings, self.playing.seats, self.playing.make_env)
        self.compiled = self._choose(compiled or settings.compile)
        """Whether steps are compiled, which may change the last bit of a number."""
        self.playing.restart_clock()
        self._written = -1
        """Decisions at the newest checkpoint."""
        if run.callbacks.wants("on_update_begin") or run.callbacks.wants("on_update_end"):
            self.playing.tell_update = self._tell_update
        self._first = self._flushed = self._saved = self._evaluated = self.steps
        for seat in self.playing.learning:
            run.hub.begin(
                seat.name,
                step=self.playing.steps_of(seat),
                max_steps=self._most_of(seat),
                hyperparameters=seat.settings.model_dump(mode="json"),
            )

    def _make(self, settings: BatchedSettings, ranks: Ranks) -> Playing:
        return Playing(settings, ranks)

    def _choose(self, mode: Compile) -> bool:
        playing = self.playing
        left = (self.max_steps - self.steps) // (playing.copies * playing.env.num_agents)
        if mode == "auto" and not playing.ranks.alone:  # they would have to find the same
            mode = "off"
        compiled, said = choose(mode, playing.env, [seat.learner for seat in playing.seats], left)
        if said:
            self.run.hub.event("compiled", message=said)
        return compiled

    def _most_of(self, seat: Seat) -> int:
        """Decisions of one policy in the whole run."""
        return self.max_steps * len(seat.agents) // self.playing.env.num_agents

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
        return f"{self.playing.env.num_envs:,} x {self.settings.environment.name}"

    @property
    @override
    def done(self) -> bool:
        """Whether all decisions are made, or all that learn have learned enough."""
        if self.run.plays:
            return False
        return self.steps >= self.max_steps or all(seat.stopped for seat in self.playing.learning)

    @property
    @override
    def learned(self) -> bool:
        return self.steps > self._first

    def _begin_from_origins(self) -> None:
        for seat in self.playing.seats:
            origin = None if seat.settings.player is not None else self._origin(seat)
            if origin is not None:
                facts = dict(origin.manifest["learner"]["algorithm"])
                facts.pop("trainer_type", None)
                seat.learner.load(origin.tensors, facts)

    def _origin(self, seat: Seat) -> Checkpoint | None:
        """What a policy of a new run begins from; None: from nothing."""
        given, chosen = seat.settings.init_path, self.settings.checkpoint_settings
        if self.run.folder.resumed:
            return None
        if given is not None:
            if not Path(given).is_dir():
                raise SettingsError(
                    f"behaviors.{seat.name}.init_path {given}: there is no such checkpoint; name a folder such as "
                    "results/ID/checkpoints/NAME-100000"
                )
            return load_checkpoint(Path(given))
        if chosen.initialize_from is None:
            return None
        folder = RunFolder(Path(chosen.results_dir) / chosen.initialize_from, resumed=True).checkpoints
        found = latest_checkpoint(folder, seat.name)
        if found.checkpoint is None:
            why = found.warnings[0] if found.warnings else f"'{folder}' holds no checkpoint of '{seat.name}'"
            raise CheckpointError(f"checkpoint_settings.initialize_from {chosen.initialize_from}: {why}")
        return found.checkpoint

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
        if self._due(self._flushed, clock.summary_every(clock.max_steps)) or (self.done and over):
            self.flush()
        if over and self._due(self._evaluated, self.settings.evaluation.interval):
            self._evaluate()
        if over and self._due(self._saved, clock.checkpoint_every) and not self.done:
            self._saved = self.steps
            if self._better:
                self.checkpoint()
        return True

    def _due(self, last: int, interval: int) -> bool:
        return interval > 0 and self.steps // interval > last // interval

    def _tell_update(self, seat: Seat, statistics: Mapping[str, torch.Tensor] | None, seconds: float) -> None:
        """Callbacks hear of an update that begins (no statistics yet) or is over. The device is waited for."""
        info = UpdateInfo(seat.name, seat.updates, self.playing.steps_of(seat))
        if statistics is None:
            self.run.callbacks.tell("on_update_begin", info)
        else:
            numbers = {name: float(values) for name, values in statistics.items()}
            self.run.callbacks.tell("on_update_end", replace(info, statistics=numbers, seconds=seconds))

    def flush(self) -> None:
        """Read what was counted on the device, and hand it to the recorders.

        Raises:
            NonFiniteError: a policy has learned NaN or infinity.
        """
        hub, playing = self.run.hub, self.playing
        learned_enough = {seat.name for seat in playing.learning if seat.stopped}
        ended = playing.count_episodes()
        for seat in playing.learning:
            if seat.stopped and seat.name not in learned_enough:
                hub.event("criterion", behavior=seat.name, step=playing.steps_of(seat), message=_enough(seat, playing))
        self._flushed = self.steps
        for key, value in playing.speeds().items():
            hub.keep(key, value)
        for seat in playing.learning:
            if seat.name in ended:
                episodes = ended[seat.name]
                returns = episodes.ended, episodes.mean_return, episodes.return_deviation
                hub.tell(seat.name, keys.CUMULATIVE_REWARD, *returns)
                hub.add(seat.name, keys.EPISODE_LENGTH, episodes.mean_length)
            numbers = {name: values.cpu().numpy() for name, values in seat.take_told().items()}
            if wrong := next((name for name, values in numbers.items() if not np.isfinite(values).all()), None):
                raise NonFiniteError(
                    f"policy '{seat.name}': {wrong} became NaN or infinite; the checkpoints from before it are "
                    "kept. Lower its learning_rate or the size of the rewards."
                )
            for name, values in numbers.items():
                hub.add(seat.name, name, values)
            hub.flush(seat.name, playing.steps_of(seat), training=not self.done)

    def _evaluate(self, *, last: bool = False) -> None:
        """Play episodes beside learning, or after it; broken off where somebody asks for the end, or for haste."""
        self._evaluated = self.steps
        infos = {seat.name: self._info(seat) for seat in self.playing.learning}
        for info in infos.values():
            self.run.callbacks.tell("on_evaluation_begin", info)
        scores = self.scores((self.run.hurried if last else self.run.asked).is_set)
        for name, numbers in scores.items():
            for key, value in numbers.items():
                self.run.hub.add(name, key, value)
        for name, info in infos.items():
            self.run.callbacks.tell("on_evaluation_end", replace(info, scores=scores.get(name, {})))

    def _info(self, seat: Seat) -> EvaluationInfo:
        return EvaluationInfo(seat.name, seat.updates, self.playing.steps_of(seat))

    def scores(self, stopped: Callable[[], bool]) -> dict[str, dict[str, float]]:
        """What every policy is worth now, by metric key; nothing, where it was stopped before that was known."""
        found = {name: episodes.mean_return for name, episodes in self.evaluation.run(stopped=stopped).items()}
        return {name: {keys.EPISODE_RETURN: mean} for name, mean in found.items() if mean is not None}

    def checkpoint(self) -> None:
        """Write a checkpoint of every policy that learns: one moment."""
        self._saved = self.steps
        before, self._best = self._best, {seat.name: _rank(seat) for seat in self.playing.learning}
        models = not self.run.hurried.is_set()
        if self.run.store.save([self._kept(seat) for seat in self.playing.learning], models=models):
            self._written = self.steps
        else:
            self._best = before

    @property
    def _better(self) -> bool:
        """Whether a checkpoint is worth it: always, but where all policies keep their best alone and none became so."""
        return any(
            not seat.settings.save_best_only
            or seat.name not in self._best  # the first is worth it whatever it is
            or _rank(seat) > self._best[seat.name]
            for seat in self.playing.learning
        )

    def _kept(self, seat: Seat) -> Kept:
        model = self._model(seat)
        return Kept(
            seat.name, self.playing.steps_of(seat), partial(self._state, seat), model, seat.settings.keep_checkpoints
        )

    def _model(self, seat: Seat) -> ModelWriter | None:
        """Writes a policy as it stands; None: it is nothing that can be exported."""
        policy = None if self.run.hurried.is_set() else seat.learner.policy(seat.updates)
        return None if policy is None else partial(export_onnx, policy, seat.spec)

    def _state(self, seat: Seat) -> tuple[Arrays, Mapping[str, Any]]:
        arrays, facts = seat.learner.state()
        if seat is self.playing.learning[0]:
            copies = self.playing.copies_state().items()
            arrays = {**arrays, **{f"{_ENVIRONMENT}{name}": values.cpu().numpy() for name, values in copies}}
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": self.playing.steps_of(seat),
            "updates": seat.updates,
            "episodes": seat.episodes,
            "mean_reward": seat.mean_return,
            "mean_length": seat.mean_length,
            "newest": seat.newest,
            "best": self._best[seat.name] if self._best[seat.name] > -math.inf else None,
            "behavior": behavior_json.to_json(seat.spec),
        }
        return arrays, {"learner": values, "steps": self.playing.collector.steps, "compiled": self.compiled}

    def _restore(self) -> Compile | None:
        """Go on with the newest moment of which everything is whole.

        Returns:
            What the earlier part of this run has found: numbers of compiled steps may differ in their last bit.
        """
        found = self._newest()
        for seat in self.playing.learning:
            values = found[seat.name].manifest["learner"]
            lost = seat.learner.lost(values["algorithm"])
            if lost and not self.run.plays:
                self.run.hub.warning(lost)
            seat.learner.load(found[seat.name].tensors, values["algorithm"])
            if self.run.plays:
                continue
            seat.updates, seat.episodes = values["updates"], values["episodes"]
            seat.mean_return, seat.mean_length = values["mean_reward"], values["mean_length"]
            for episodes, mean in values.get("newest", ()):  # earlier checkpoints have none
                seat.count(episodes, mean)
            if values.get("best") is not None:
                self._best[seat.name] = values["best"]
        if self.run.plays:
            return None
        first = found[self.playing.learning[0].name]
        copies = {
            name.removeprefix(_ENVIRONMENT): torch.from_numpy(values.copy())
            for name, values in first.tensors.items()
            if name.startswith(_ENVIRONMENT)
        }
        try:
            self.playing.load_copies(first.manifest["steps"], copies)
        except KeyError as error:
            raise CheckpointError(
                f"'{first.path}' is of another environment, other arguments or another number of copies (its "
                f"{error} differs); use the settings that the run was started with"
            ) from None
        if self.settings.compile != "auto":
            return None
        return "on" if first.manifest["compiled"] else "off"

    def _newest(self) -> dict[str, Checkpoint]:
        """Of every policy that learns the checkpoint of one moment, the newest that is whole."""
        names = [seat.name for seat in self.playing.learning]
        whole = newest_moment(self.run.folder.checkpoints, names)
        for warning in whole.warnings:
            self.run.hub.warning(warning)
        found = {checkpoint.name: checkpoint for checkpoint in whole.checkpoints.values()}
        if found.keys() != set(names) or len({checkpoint.manifest["steps"] for checkpoint in found.values()}) != 1:
            raise CheckpointError(
                f"the run in '{self.run.folder.path}' saved no moment of which everything can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        return found

    @override
    def save(self) -> None:
        if self.run.error is not None or self._written == self.steps:
            return
        if self._better:
            self.checkpoint()
        else:
            for seat in self.playing.learning:
                text = f"'{seat.name}' is no better than in its newest checkpoint, which stays that (save_best_only)"
                self.run.hub.event("checkpoint", behavior=seat.name, step=self.playing.steps_of(seat), message=text)

    @override
    def conclude(self) -> Conclusion:
        exports: list[Export] = []
        if self.run.error is None and not self.run.hurried.is_set():
            if self.settings.evaluation.episodes:
                self._evaluate(last=True)
                for seat in self.playing.learning:
                    self.run.hub.flush(seat.name, self.playing.steps_of(seat), training=False)
            models = {seat.name: (self._model(seat), self.playing.steps_of(seat)) for seat in self.playing.learning}
            exports = [Export(name, model, steps) for name, (model, steps) in models.items() if model is not None]
        return Conclusion(exports, files=self.evaluation.write_trace(self.run.folder.path))

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(
            BehaviorSnapshot(
                seat.name,
                self.playing.steps_of(seat),
                self._most_of(seat),
                seat.episodes,
                seat.mean_return,
                seat.mean_length,
            )
            for seat in self.playing.seats
        )

    @property
    @override
    def status(self) -> Mapping[str, Any]:
        speeds, shown = self.playing.speeds(), tuple[str, ...]()
        if speeds:
            environments, agents, *shares = speeds.values()
            names = [*self.playing.collector.seconds, "learning"]
            shown = (
                f"{environments:,.0f} environment steps/s",
                f"{agents:,.0f} agent steps/s",
                ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True)),
            )
        return {
            "policy_version": sum(seat.updates for seat in self.playing.seats),
            "update_seconds": self.playing.learning_seconds,
            "figures": shown,
        }


def _rank(seat: Seat) -> float:
    """What a policy is worth by its newest episodes; before there were enough, less than anything."""
    mean = seat.recent_return
    return -math.inf if mean is None else mean


def _enough(seat: Seat, playing: Playing) -> str:
    """A sentence."""
    return (
        f"'{seat.name}' has learned enough after {playing.steps_of(seat):,} decisions: the mean return of its newest "
        f"{sum(episodes for episodes, _ in seat.newest):,} episodes is {seat.recent_return:g}, and "
        f"{seat.settings.criterion:g} was asked for"
    )
