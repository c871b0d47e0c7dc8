"""The run of a batched environment: act, step and learn in turns, and the folder of any other run."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tau_trainer.algorithms.batched import BatchedLearner, LearnerSetup, TensorRollout, make_learner
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.collection.batched import BatchedCollector
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.envs.batched.registry import make
from tau_trainer.errors import CheckpointError, NonFiniteError, RunFinishedError, SettingsError, TauError
from tau_trainer.files import safe_name
from tau_trainer.metrics import BehaviorSnapshot, MetricsHub, RunReport, RunSnapshot, keys, plot_learning_curve
from tau_trainer.settings.batched import BatchedSettings, Compile, PolicySettings
from tau_trainer.specs import BehaviorSpec
from tau_trainer.training import behavior_json
from tau_trainer.training.api import ENDING, HURRYING
from tau_trainer.training.batched.assignment import assigned
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.evaluation import Evaluation
from tau_trainer.training.batched.players import FixedPlayer
from tau_trainer.training.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from tau_trainer.training.run_folder import RunFolder
from tau_trainer.training.status import write_status

_SNAPSHOT_S = 0.25
_ENVIRONMENT = "environment."
"""What the names of the copies' tensors begin with in the checkpoint of the first policy that learns."""
_LONGEST_ROUND = 4
"""Times the longest horizon: a round ends where all policies have learned from all that they did."""


@dataclass(slots=True)
class Seat:
    """A policy and its agents."""

    name: str
    settings: PolicySettings
    agents: list[int]
    spec: BehaviorSpec
    learner: BatchedLearner
    waiting: list[TensorRollout] = field(default_factory=list)
    """What it has not learned from yet."""
    told: list[Mapping[str, torch.Tensor]] = field(default_factory=list)
    """Statistics of its updates since the last summary."""
    updates: int = 0
    episodes: int = 0
    mean_return: float | None = None
    mean_length: float | None = None

    @property
    def learns(self) -> bool:
        """Whether anything changes it."""
        return self.settings.learns


class BatchedRun:
    """Everything of one run. Belongs to one thread.

    Raises:
        SettingsError, CheckpointError, RunFinishedError: it cannot begin, or need not go on.
    """

    def __init__(self, settings: BatchedSettings, folder: RunFolder, hub: MetricsHub) -> None:
        self.settings, self.folder, self.hub = settings, folder, hub
        self.asked = threading.Event()
        """Set once somebody wants it to end."""
        self.hurried = threading.Event()
        """Set once they want it to end without evaluation and export."""
        self.error: TauError | None = None
        self.failures: list[str] = []
        self.env = self._make_env(settings.environment.num_envs, settings.seed)
        self.seats = [self._seat(name, agents) for name, agents in assigned(settings.policies, self.env.agents).items()]
        self.collector = BatchedCollector(
            self.env,
            {seat.name: (seat.learner, seat.agents) for seat in self.seats},
            kept=[seat.name for seat in self.seats if seat.learns],
        )
        self.learning_seconds = 0.0
        self._compile: Compile | None = None
        """What the earlier part of this run has found: numbers of compiled steps may differ in their last bit."""
        self._chunk = math.gcd(*(seat.learner.horizon for seat in self.seats if seat.learns))
        self._check_rounds()
        self._restore()
        self.evaluation = Evaluation(settings, self.seats, self._make_env)
        left = (settings.max_steps - self.decisions) // (self.env.num_envs * self.env.num_agents)
        learners = [seat.learner for seat in self.seats]
        self.compiled, said = choose(self._compile or settings.compile, self.env, learners, left)
        if said:
            hub.event("compiled", message=said)
        self.started = time.monotonic()
        self._first = self._flushed = self._saved = self._evaluated = self.decisions
        if self.decisions >= settings.max_steps:
            raise RunFinishedError(
                f"the run in '{folder.path}' has had all its decisions, so there was nothing to do; raise --max-steps "
                "to go on"
            )
        for seat in self.seats:
            if seat.learns:
                hub.begin(
                    seat.name,
                    step=self.steps_of(seat),
                    max_steps=settings.max_steps * len(seat.agents) // self.env.num_agents,
                    hyperparameters=seat.settings.model_dump(mode="json"),
                )

    @property
    def decisions(self) -> int:
        """Of all agents so far, in all runs."""
        return self.collector.steps * self.env.num_envs * self.env.num_agents

    @property
    def done(self) -> bool:
        """Whether all decisions are made."""
        return self.decisions >= self.settings.max_steps

    def steps_of(self, seat: Seat) -> int:
        """Decisions of one policy so far."""
        return self.collector.steps * self.env.num_envs * len(seat.agents)

    def _make_env(self, num_envs: int, seed: int) -> BatchedEnv:
        own = self.settings.environment
        return make(
            own.name,
            num_envs,
            seed=seed,
            device=self.settings.device,
            starts=own.starts,
            pool=own.pool,
            **own.arguments,
        )

    def _seat(self, name: str, agents: list[int]) -> Seat:
        settings, env = self.settings.policies[name], self.env
        spec = spec_of(name, env.observation_space, env.action_space)
        if settings.player is not None:
            return Seat(name, settings, agents, spec, FixedPlayer(settings.player, env, agents))
        setup = LearnerSetup(
            spec=spec,
            action_space=env.action_space,
            settings=settings,
            num_envs=env.num_envs,
            agents=len(agents),
            max_steps=self.settings.max_steps,
            seed=self.settings.seed + list(self.settings.policies).index(name),
            device=env.device,
        )
        seat = Seat(name, settings, agents, spec, make_learner(setup))
        origin = self._origin(seat)
        if origin is not None:
            facts = dict(origin.manifest["learner"]["algorithm"])
            facts.pop("trainer_type", None)
            seat.learner.load(origin.tensors, facts)
        return seat

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

    def _check_rounds(self) -> None:
        horizons = {seat.name: seat.learner.horizon for seat in self.seats if seat.learns}
        if math.lcm(*horizons.values()) > _LONGEST_ROUND * max(horizons.values()):
            told = ", ".join(f"{name} every {steps}" for name, steps in horizons.items())
            raise SettingsError(
                f"policies learn at steps that hardly ever coincide ({told}), so no checkpoint could be exact; choose "
                "buffer_size / (num_envs x agents) of one as a multiple of the other's"
            )

    def stop(self) -> None:
        """Let it end once everything that was played is learned from, saved and evaluated; twice: saved alone."""
        if self.asked.is_set():
            self.hurried.set()
        self.asked.set()
        self.hub.event("note", message=HURRYING if self.hurried.is_set() else ENDING)

    def run(self) -> None:
        """Play and learn to the end; what fails is in :attr:`error`."""
        try:
            looked = 0.0
            while not (self.done and self._round_over) and not (self.asked.is_set() and self._round_over):
                self._advance()
                if self._due(self._flushed, self.settings.summary_every) or (self.done and self._round_over):
                    self.flush()
                if self._round_over and self._due(self._evaluated, self.settings.evaluation.interval):
                    self._evaluate(self.asked)
                if self._round_over and self._due(self._saved, self.settings.checkpoint_interval) and not self.done:
                    self.save()
                if time.monotonic() - looked > _SNAPSHOT_S:
                    looked = time.monotonic()
                    self.hub.snapshot(self.snapshot())
        except TauError as error:
            self.error = error

    @property
    def _round_over(self) -> bool:
        """Whether everything that was played has been learned from."""
        return not any(seat.waiting for seat in self.seats)

    def _due(self, last: int, interval: int) -> bool:
        return interval > 0 and self.decisions // interval > last // interval

    def _advance(self) -> None:
        """Play, and let those learn who have their rollout together."""
        rollouts = self.collector.collect(self._chunk)
        begun = time.perf_counter()
        progress = self.decisions / self.settings.max_steps
        for seat in self.seats:
            if seat.learns:
                seat.waiting.append(rollouts[seat.name])
                if len(seat.waiting) * self._chunk >= seat.learner.horizon:
                    seat.told.append(seat.learner.learn(joined(seat.waiting), progress))
                    seat.waiting.clear()
                    seat.updates += 1
        self.learning_seconds += time.perf_counter() - begun

    def flush(self) -> None:
        """Read what was counted on the device, and hand it to the recorders.

        Raises:
            NonFiniteError: a policy has learned NaN or infinity.
        """
        sums = self.collector.scores.take().cpu().numpy().astype(np.float64)
        self._flushed = self.decisions
        told = self.speeds()
        for key, value in told.items():
            self.hub.keep(key, value)
        for seat in self.seats:
            ended, returns, lengths = sums[seat.agents].sum(axis=0)
            seat.episodes += int(ended)
            if ended:
                seat.mean_return, seat.mean_length = returns / ended, lengths / ended
            if not seat.learns:
                continue
            if ended:
                self.hub.add(seat.name, keys.CUMULATIVE_REWARD, returns / ended)
                self.hub.add(seat.name, keys.EPISODE_LENGTH, lengths / ended)
            names = list(seat.told[0]) if seat.told else []
            if names:
                rows = torch.stack([torch.stack([one[name] for name in names]) for one in seat.told]).cpu().numpy()
                if not np.isfinite(rows).all():
                    wrong = names[int(np.argwhere(~np.isfinite(rows))[0][1])]
                    raise NonFiniteError(
                        f"policy '{seat.name}': {wrong} became NaN or infinite; the checkpoints from before it are "
                        "kept. Lower its learning_rate or the size of the rewards."
                    )
                for name, column in zip(names, rows.T, strict=True):
                    self.hub.add(seat.name, name, column)
                seat.told.clear()
            self.hub.flush(seat.name, self.steps_of(seat), training=not self.done)

    def _evaluate(self, ended: threading.Event) -> None:
        self._evaluated = self.decisions
        for name, score in self.evaluation.run(stopped=ended.is_set).items():
            self.hub.add(name, keys.EPISODE_RETURN, score)

    def save(self) -> None:
        """Write a checkpoint of every policy that learns, and its model; what cannot be written is a warning."""
        self._saved = self.decisions
        first = next(seat for seat in self.seats if seat.learns)
        for seat in self.seats:
            if seat.learns:
                self._save(seat, whole=seat is first)

    def _save(self, seat: Seat, *, whole: bool) -> None:
        from tau_trainer.export import export_onnx

        arrays, facts = seat.learner.state()
        if whole:
            copies = {f"{_ENVIRONMENT}{name}": values for name, values in self._copies().items()}
            arrays = arrays | {name: values.cpu().numpy() for name, values in copies.items()}
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
        manifest = {"learner": values, "steps": self.collector.steps, "compiled": self.compiled}
        name = safe_name(seat.name)
        try:
            path = save_checkpoint(
                self.folder.checkpoints, steps, arrays, manifest, self.settings.keep_checkpoints, name=seat.name
            )
            policy = seat.learner.policy(seat.updates)
            if policy is not None:
                place = self.folder.path / name
                place.mkdir(exist_ok=True)
                export_onnx(policy, seat.spec, place / f"{name}-{steps}.onnx")
            write_status(self.folder.path, {})
        except TauError as error:
            self.failures.append(str(error))
            self.hub.warning(str(error))
            return
        self.hub.event("checkpoint", behavior=seat.name, step=steps, path=str(path))

    def _copies(self) -> dict[str, torch.Tensor]:
        """What the copies and their open episodes are."""
        return self.env.state | {f"scores.{name}": values for name, values in self.collector.scores.state().items()}

    def _restore(self) -> None:
        """Go on with the newest moment of which everything is whole."""
        if not self.settings.checkpoint_settings.resume:
            return
        found = self._newest()
        for seat in self.seats:
            if seat.learns:
                values = found[seat.name].manifest["learner"]
                seat.learner.load(found[seat.name].tensors, values["algorithm"])
                seat.updates, seat.episodes = values["updates"], values["episodes"]
                seat.mean_return, seat.mean_length = values["mean_reward"], values["mean_length"]
        first = next(seat for seat in self.seats if seat.learns)
        tensors, wanted = found[first.name].tensors, self._copies()
        read = {}
        for name, like in wanted.items():
            values = tensors.get(f"{_ENVIRONMENT}{name}")
            if values is None or values.shape != tuple(like.shape):
                raise CheckpointError(
                    f"'{found[first.name].path}' is of another environment, other arguments or another number of "
                    f"copies (its '{name}' differs); use the settings that the run was started with"
                )
            read[name] = torch.from_numpy(values.copy()).to(like)
        if self.settings.compile == "auto":
            self._compile = "on" if found[first.name].manifest["compiled"] else "off"
        scores = {name.removeprefix("scores."): read.pop(name) for name in list(read) if name.startswith("scores.")}
        self.collector.go_on(found[first.name].manifest["steps"], read, scores)

    def _newest(self) -> dict[str, Checkpoint]:
        """Of every policy that learns the checkpoint of one moment, the newest that all of them have."""
        names = [seat.name for seat in self.seats if seat.learns]
        before = math.inf
        warned: set[str] = set()
        while True:
            found: dict[str, Checkpoint] = {}
            for name in names:
                steps = before if not found else next(iter(found.values())).manifest["steps"]
                one = latest_checkpoint(
                    self.folder.checkpoints,
                    name,
                    accept=lambda content, steps=steps, first=not found: (  # type: ignore[misc]
                        content["steps"] < steps if first else content["steps"] == steps
                    ),
                )
                for warning in one.warnings:
                    if warning not in warned:
                        self.hub.warning(warning)
                warned |= set(one.warnings)
                if one.checkpoint is None:
                    break
                found[name] = one.checkpoint
            if len(found) == len(names):
                return found
            if not found:
                raise CheckpointError(
                    f"the run in '{self.folder.path}' saved no moment of which everything can be read, so there is "
                    "nothing to go on from; begin it again with --force"
                )
            before = found[names[0]].manifest["steps"]

    def finish(self) -> RunReport:
        """Save, evaluate, export, draw, report."""
        from tau_trainer.export import export_onnx

        models: dict[str, Path] = {}
        if self.error is None:
            if self._saved != self.decisions:
                self.save()
            if self.settings.evaluation.episodes and not self.hurried.is_set():
                self._evaluate(self.hurried)
                for seat in self.seats:
                    if seat.learns:
                        self.hub.flush(seat.name, self.steps_of(seat), training=False)
        for seat in self.seats:
            wanted = seat.learns and self.error is None and not self.hurried.is_set()
            policy = seat.learner.policy(seat.updates) if wanted else None
            if policy is not None:
                try:
                    models[seat.name] = export_onnx(policy, seat.spec, self.folder.onnx(seat.name))
                except TauError as error:
                    self.failures.append(str(error))
        files = self.evaluation.write_trace(self.folder.path)
        self.hub.drain(10.0)
        try:
            plot_learning_curve(self.folder.path)
        except Exception as error:  # drawing must never cost a trained policy
            self.hub.warning(f"the learning curve was not drawn: {type(error).__name__}: {error}")
        report = self.report(models, files)
        self.hub.snapshot(self.snapshot())
        self.hub.result(report)
        self.hub.drain(10.0)
        return report

    def report(self, models: Mapping[str, Path], others: Mapping[str, Path]) -> RunReport:
        """The central report."""
        seconds, folder = time.monotonic() - self.started, self.folder
        named = {"curve": folder.learning_curve, "checkpoints": folder.checkpoints, "log": folder.log}
        files = {f"policy {name}" if len(models) > 1 else "policy": path for name, path in models.items()}
        return RunReport(
            run_id=self.settings.checkpoint_settings.run_id,
            folder=folder.path,
            command="batch",
            outcome="failed" if self.error else "completed" if self.done else "cancelled",
            decisions=self.decisions,
            wall_seconds=seconds,
            decisions_per_second=(self.decisions - self._first) / seconds,
            behaviors=self.snapshot().behaviors,
            models=tuple(models.values()),
            files=files | dict(others) | {name: path for name, path in named.items() if path.exists()},
            errors=(*([str(self.error)] if self.error else []), *self.failures, *self.hub.losses),
        )

    def speeds(self) -> dict[str, float]:
        """Environment and agent steps a second since this start, and the shares of its time."""
        parts = self.collector.seconds | {"learning": self.learning_seconds}
        spent = sum(parts.values())
        if not spent:
            return {}
        rate = (self.decisions - self._first) / spent
        told = {keys.ENVIRONMENT_STEPS_PER_SECOND: rate / self.env.num_agents, keys.AGENT_STEPS_PER_SECOND: rate}
        return told | {keys.share_of_time(name): seconds / spent for name, seconds in parts.items()}

    def snapshot(self) -> RunSnapshot:
        """The run now."""
        elapsed = time.monotonic() - self.started
        rate = (self.decisions - self._first) / elapsed if elapsed > 0 else 0.0
        most, told = self.settings.max_steps, self.speeds()
        figures: tuple[str, ...] = ()
        if told:
            environments, agents, *shares = told.values()
            names = [*self.collector.seconds, "learning"]
            figures = (
                f"{environments:,.0f} environment steps/s",
                f"{agents:,.0f} agent steps/s",
                ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True)),
            )
        return RunSnapshot(
            run_id=self.settings.checkpoint_settings.run_id,
            command="batch",
            subject=f"{self.env.num_envs:,} x {self.settings.environment.name}",
            seed=self.settings.seed,
            elapsed_s=elapsed,
            decisions=self.decisions,
            max_decisions=most,
            decisions_per_second=rate,
            eta_s=max(most - self.decisions, 0) / rate if rate > 0 else None,
            policy_version=sum(seat.updates for seat in self.seats),
            update_seconds=self.learning_seconds,
            behaviors=tuple(
                BehaviorSnapshot(
                    seat.name,
                    self.steps_of(seat),
                    most * len(seat.agents) // self.env.num_agents,
                    seat.episodes,
                    seat.mean_return,
                    seat.mean_length,
                )
                for seat in self.seats
            ),
            figures=figures,
        )


def joined(rollouts: list[TensorRollout]) -> TensorRollout:
    """Rollouts that follow one another as one."""
    if len(rollouts) == 1:
        return rollouts[0]
    values: dict[str, Any] = {}
    for one in fields(TensorRollout):
        parts = [getattr(rollout, one.name) for rollout in rollouts]
        if one.name == "kept":
            values[one.name] = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        elif one.name in ("after", "after_mask") or parts[0] is None:
            values[one.name] = parts[-1]
        else:
            values[one.name] = torch.cat(parts)
    return TensorRollout(**values)
