"""The run of a batched environment: act, step and learn in turns, and the folder of any other run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.errors import CheckpointError, LearnerError, NonFiniteError, SettingsError
from tau_trainer.evaluation.batched import BatchedEvaluation
from tau_trainer.metrics import BehaviorSnapshot, MetricsHub, keys
from tau_trainer.settings.batched import BatchedSettings, Compile
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.playing import Playing, Seat
from tau_trainer.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint
from tau_trainer.training.moments import newest_moment
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.shell import Kept, Shell

if TYPE_CHECKING:
    from tau_trainer.models import Policy

_ENVIRONMENT = "environment."
"""What the names of the copies' tensors begin with in the checkpoint of the first policy that learns."""


class BatchedRun(Playing, Shell):
    """Everything of one run. Belongs to one thread.

    Raises:
        SettingsError, CheckpointError, RunFinishedError: it cannot begin, or need not go on.
    """

    command = "batch"

    def __init__(
        self, settings: BatchedSettings, folder: RunFolder, hub: MetricsHub, ranks: Ranks | None = None
    ) -> None:
        Playing.__init__(self, settings, ranks)
        Shell.__init__(self, settings, folder, hub)
        self._compile: Compile | None = None
        """What the earlier part of this run has found: numbers of compiled steps may differ in their last bit."""
        self._begin_from_origins()
        self._restore()
        self.share_weights()
        self.evaluation = BatchedEvaluation(settings, self.seats, self._make_env)
        left = (settings.max_steps - self.decisions) // (self.copies * self.env.num_agents)
        learners = [seat.learner for seat in self.seats]
        mode = self._compile or settings.compile
        if mode == "auto" and not self.ranks.alone:  # they would have to find the same
            mode = "off"
        self.compiled, said = choose(mode, self.env, learners, left)
        if said:
            hub.event("compiled", message=said)
        self.restart_clock()
        self._flushed = self._saved = self._evaluated = self.decisions
        self.begin()
        for seat in self.learning:
            hub.begin(
                seat.name,
                step=self.steps_of(seat),
                max_steps=self._most_of(seat),
                hyperparameters=seat.settings.model_dump(mode="json"),
            )

    def _most_of(self, seat: Seat) -> int:
        """Decisions of one policy in the whole run."""
        return self.max_steps * len(seat.agents) // self.env.num_agents

    @property
    @override
    def steps(self) -> int:
        return self.decisions

    @property
    @override
    def max_steps(self) -> int:
        return self.settings.max_steps

    @property
    @override
    def subject(self) -> str:
        return f"{self.env.num_envs:,} x {self.settings.environment.name}"

    @property
    @override
    def done(self) -> bool:
        """Whether all decisions are made."""
        return self.decisions >= self.settings.max_steps

    def _begin_from_origins(self) -> None:
        for seat in self.seats:
            origin = None if seat.settings.player is not None else self._origin(seat)
            if origin is not None:
                facts = dict(origin.manifest["learner"]["algorithm"])
                facts.pop("trainer_type", None)
                seat.learner.load(origin.tensors, facts)

    def _origin(self, seat: Seat) -> Checkpoint | None:
        """What a policy of a new run begins from; None: from nothing."""
        given, chosen = seat.settings.init_path, self.settings.checkpoint_settings
        if chosen.resume:
            return None
        if given is not None:
            if not Path(given).is_dir():
                raise SettingsError(
                    f"policies.{seat.name}.init_path {given}: there is no such checkpoint; name a folder such as "
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
    def collect_and_learn(self) -> None:
        while not (self.done and self.round_over) and not (self.asked.is_set() and self.round_over):
            self.advance()
            if self._due(self._flushed, self.settings.summary_every) or (self.done and self.round_over):
                self.flush()
            if self.round_over and self._due(self._evaluated, self.settings.evaluation.interval):
                self._evaluate(self.asked)
            if self.round_over and self._due(self._saved, self.settings.checkpoint_interval) and not self.done:
                self.save()
            self.show()

    @override
    def run(self) -> None:
        try:
            super().run()
        except RuntimeError as error:
            death = self.ranks.death()
            if death is None:
                raise
            self.error = LearnerError(death)
            self.error.__cause__ = error

    def _due(self, last: int, interval: int) -> bool:
        return interval > 0 and self.decisions // interval > last // interval

    def flush(self) -> None:
        """Read what was counted on the device, and hand it to the recorders.

        Raises:
            NonFiniteError: a policy has learned NaN or infinity.
        """
        ended = self.count_episodes()
        self._flushed = self.decisions
        for key, value in self.speeds().items():
            self.hub.keep(key, value)
        for seat in self.learning:
            if seat.name in ended:
                one = ended[seat.name]
                self.hub.tell(seat.name, keys.CUMULATIVE_REWARD, one.ended, one.mean_return, one.return_deviation)
                self.hub.add(seat.name, keys.EPISODE_LENGTH, one.mean_length)
            told = {name: values.cpu().numpy() for name, values in seat.take_told().items()}
            if wrong := next((name for name, values in told.items() if not np.isfinite(values).all()), None):
                raise NonFiniteError(
                    f"policy '{seat.name}': {wrong} became NaN or infinite; the checkpoints from before it are "
                    "kept. Lower its learning_rate or the size of the rewards."
                )
            for name, values in told.items():
                self.hub.add(seat.name, name, values)
            self.hub.flush(seat.name, self.steps_of(seat), training=not self.done)

    def _evaluate(self, ended: threading.Event) -> None:
        self._evaluated = self.decisions
        for name, episodes in self.evaluation.run(stopped=ended.is_set).items():
            if episodes.mean_return is not None:
                self.hub.add(name, keys.EPISODE_RETURN, episodes.mean_return)

    def save(self) -> None:
        """Write a checkpoint of every policy that learns: see :meth:`save_moment`."""
        self._saved = self.decisions
        self.save_moment([seat.name for seat in self.learning], self.settings.keep_checkpoints)

    @override
    def keep(self, name: str) -> Kept:
        seat = self._seat_of(name)
        arrays, facts = seat.learner.state()
        if seat is self.learning[0]:
            copies = self.copies_state().items()
            arrays = {**arrays, **{f"{_ENVIRONMENT}{name}": values.cpu().numpy() for name, values in copies}}
        steps = self.steps_of(seat)
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": steps,
            "updates": seat.updates,
            "episodes": seat.episodes,
            "mean_reward": seat.mean_return,
            "mean_length": seat.mean_length,
            "behavior": behavior_json.to_json(seat.spec),
        }
        return Kept(steps, arrays, {"learner": values, "steps": self.collector.steps, "compiled": self.compiled})

    @override
    def policy_of(self, name: str) -> tuple[Policy | None, BehaviorSpec]:
        seat = self._seat_of(name)
        return seat.learner.policy(seat.updates), seat.spec

    def _seat_of(self, name: str) -> Seat:
        return next(seat for seat in self.learning if seat.name == name)

    def _restore(self) -> None:
        """Go on with the newest moment of which everything is whole."""
        if not self.settings.checkpoint_settings.resume:
            return
        found = self._newest()
        for seat in self.learning:
            values = found[seat.name].manifest["learner"]
            lost = seat.learner.lost(values["algorithm"])
            if lost:
                self.hub.warning(lost)
            seat.learner.load(found[seat.name].tensors, values["algorithm"])
            seat.updates, seat.episodes = values["updates"], values["episodes"]
            seat.mean_return, seat.mean_length = values["mean_reward"], values["mean_length"]
        first = found[self.learning[0].name]
        copies = {
            name.removeprefix(_ENVIRONMENT): torch.from_numpy(values.copy())
            for name, values in first.tensors.items()
            if name.startswith(_ENVIRONMENT)
        }
        if self.settings.compile == "auto":
            self._compile = "on" if first.manifest["compiled"] else "off"
        try:
            self.load_copies(first.manifest["steps"], copies)
        except KeyError as error:
            raise CheckpointError(
                f"'{first.path}' is of another environment, other arguments or another number of copies (its "
                f"{error} differs); use the settings that the run was started with"
            ) from None

    def _newest(self) -> dict[str, Checkpoint]:
        """Of every policy that learns the checkpoint of one moment, the newest that is whole."""
        names = [seat.name for seat in self.learning]
        whole = newest_moment(self.folder.checkpoints, names)
        for warning in whole.warnings:
            self.hub.warning(warning)
        found = {one.name: one for one in whole.checkpoints.values()}
        if found.keys() != set(names) or len({one.manifest["steps"] for one in found.values()}) != 1:
            raise CheckpointError(
                f"the run in '{self.folder.path}' saved no moment of which everything can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        return found

    @override
    def conclude(self) -> Mapping[str, Path]:
        if self.error is None:
            if self._saved != self.decisions:
                self.save()
            if self.settings.evaluation.episodes and not self.hurried.is_set():
                self._evaluate(self.hurried)
                for seat in self.learning:
                    self.hub.flush(seat.name, self.steps_of(seat), training=False)
        for seat in self.learning if self.error is None and not self.hurried.is_set() else ():
            policy, spec = self.policy_of(seat.name)
            if policy is not None:
                self.export(seat.name, policy, spec)
        return self.evaluation.write_trace(self.folder.path)

    @property
    @override
    def behaviors(self) -> tuple[BehaviorSnapshot, ...]:
        return tuple(
            BehaviorSnapshot(
                seat.name,
                self.steps_of(seat),
                self._most_of(seat),
                seat.episodes,
                seat.mean_return,
                seat.mean_length,
            )
            for seat in self.seats
        )

    @property
    @override
    def more_of_snapshot(self) -> Mapping[str, Any]:
        told, shown = self.speeds(), tuple[str, ...]()
        if told:
            environments, agents, *shares = told.values()
            names = [*self.collector.seconds, "learning"]
            shown = (
                f"{environments:,.0f} environment steps/s",
                f"{agents:,.0f} agent steps/s",
                ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True)),
            )
        return {
            "seed": self.settings.seed,
            "policy_version": sum(seat.updates for seat in self.seats),
            "update_seconds": self.learning_seconds,
            "figures": shown,
        }
