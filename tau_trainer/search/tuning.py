"""The part of a sweep that uses Ray Tune: trials on the nodes of a cluster, controlled by a scheduler.

Import it once there is a connection, because it imports Ray. Trials are in :mod:`.member`, their results in
:mod:`.sweep_record`.
"""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.error import TuneError
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, PopulationBasedTraining
from ray.tune.search import BasicVariantGenerator

from tau_trainer.cluster.host import become_like, surroundings
from tau_trainer.errors import TauError
from tau_trainer.search.member import BASE, STATE, Member, TrialReport, interval_of, sweep_of
from tau_trainer.settings import Distribution, RunSettings
from tau_trainer.specs import Json

if TYPE_CHECKING:
    from tau_trainer.cluster.connection import Cluster
    from tau_trainer.search.sweep_record import SweepRecord

_DEATHS = 3
"""Maximum number of nodes that may die during a trial."""
Hear = Callable[[str, Json, TrialReport], None]
"""Called with a trial's name, its values and its report, in the sweep's thread."""
_listening: list[tuple[SweepRecord, Hear]] = []
"""Listeners of this process's sweep. Tune serializes its callbacks, so they cannot hold them."""


class TuneTrial(tune.Trainable):  # type: ignore[misc]
    """A :class:`~.member.Member` as a trainable of Ray Tune, in a Ray process on some node."""

    def setup(self, config: dict[str, Any], base: str, around: Json) -> None:
        """Create the member without starting it."""
        become_like(around)
        self._base = Path(base)
        self._member = Member(self._base, self.trial_name, plain(config))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become another trial, or the same with other values, because a new process takes seconds."""
        self._member.end()
        self._member = Member(self._base, self.trial_name, plain(new_config))
        return True

    def step(self) -> dict[str, Any]:
        """Continue until the next report."""
        report = self._member.next()
        shown = vars(report) | {name: report.value(name) for name in ("reward", "accuracy")}
        return {**shown, "done": report.ended}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the trial for another one, or for another process if all trials wait for each other."""
        self._member.save(Path(checkpoint_dir))
        if self._member.waits:
            self._member.end()

    def load_checkpoint(self, checkpoint: str) -> None:
        """Continue from a saved trial."""
        self._member.load(Path(checkpoint))

    def cleanup(self) -> None:
        """Save the trial, and end it."""
        self._member.end()


class _Population(PopulationBasedTraining):  # type: ignore[misc]
    """Fixes Ray Tune's scheduler, which counts intervals from 0 after a restore and then may wait forever."""

    _next_perturbation_sync: float

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        decision: str = super().on_trial_result(tune_controller, trial, result)
        reached = [self._trial_state[live].last_train_time for live in tune_controller.get_live_trials()]
        if self._synch and reached and min(reached) >= self._next_perturbation_sync:
            self._next_perturbation_sync = max(reached) + self._perturbation_interval
        return decision


class _Listener(tune.Callback):  # type: ignore[misc]
    """Reports the events of trials."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        seen = ((name, result[name]) for name in TrialReport.__dataclass_fields__)
        facts: Any = {name: None if fact != fact else fact for name, fact in seen}  # NaN
        # The scheduler may already have given the trial other values.
        self._tell(trial, TrialReport(**facts), result["config"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        for sweep, _hear in _listening:
            sweep.ended(str(trial))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        why = str(trial.get_error()).strip().rpartition("\n")[2]
        self._tell(trial, TrialReport(ended=True, error=f"its process ended {_DEATHS + 1} times ({why})"), trial.config)
        self.on_trial_complete(iteration, trials, trial)

    def _tell(self, trial: Any, report: TrialReport, values: Json) -> None:
        for sweep, hear in _listening:
            sweep.record(str(trial), plain(values), report)
            hear(str(trial), plain(values), report)


def plain(values: Json) -> dict[str, Any]:
    """The values with numpy types converted to Python types."""
    return {key: value.item() if hasattr(value, "item") else value for key, value in values.items()}


def run_trials(
    sweep: SweepRecord,
    connection: Cluster,
    hear: Hear = lambda *_: None,
    *,
    jobs: int | None = None,
    resume: bool = False,
) -> None:
    """Run all trials; in the main thread, :func:`interrupt` ends the sweep with everything saved.

    Args:
        sweep: record in a folder that all nodes share; every report is written to it.
        connection: connection to the cluster, with the resources of each trial.
        hear: called with every report after it is written.
        jobs: maximum number of trials at once; None: as many as fit.
        resume: resume the sweep.

    Raises:
        TauError: a report cannot be written.
    """
    folder = sweep.folder.absolute()
    trainable = tune.with_parameters(TuneTrial, base=str(folder / BASE), around=surroundings())
    trainable = tune.with_resources(trainable, tune.PlacementGroupFactory([dict(connection.asked)]))
    if resume and (folder / STATE / "tuner.pkl").is_file():
        tuner = tune.Tuner.restore(str(folder / STATE), trainable, resume_errored=True)
    else:
        tuner = _tuner(trainable, sweep.settings, folder / STATE, jobs)
    before = signal.getsignal(_SIGNAL)
    _listening.append((sweep, hear))
    try:
        tuner.fit()
    except TuneError as error:
        raise (
            error.__context__ if isinstance(error.__context__, TauError) else error
        ) from None  # raised by a listener
    finally:
        _listening.pop()
        with contextlib.suppress(ValueError):  # in another thread the handler is unchanged
            signal.signal(_SIGNAL, before)


_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGINT)
"""Signal that asks Tune to end."""


def interrupt() -> None:
    """Ask the sweep in the main thread, which calls this, to end and save."""
    if not _listening or signal.getsignal(_SIGNAL) is signal.SIG_DFL:
        raise KeyboardInterrupt  # it has not started yet
    signal.raise_signal(_SIGNAL)


def _tuner(trainable: Any, settings: RunSettings, where: Path, jobs: int | None) -> Any:
    asked, seed = sweep_of(settings), settings.env_settings.seed
    random.seed(seed)  # Tune uses it to change the values of a population
    space = {key: domain(distribution) for key, distribution in asked.space.items()}
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric=asked.metric,
            mode=asked.mode,
            num_samples=asked.trials,
            max_concurrent_trials=jobs,
            search_alg=BasicVariantGenerator(random_state=seed, **({"max_concurrent": jobs} if jobs else {})),
            scheduler=_scheduler(settings),
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=where.name,
            storage_path=str(where.parent),
            failure_config=tune.FailureConfig(max_failures=_DEATHS),
            callbacks=[_Listener()],
            verbose=0,
        ),
    )


def _name(trial: Any) -> str:
    """Name of a trial, from ``trial-1``: Tune counts from 0, after a prefix."""
    return f"trial-{int(trial.trial_id.rpartition('_')[2]) + 1}"


def domain(distribution: Distribution) -> Any:
    """The distribution as Ray Tune's object."""
    made = getattr(tune, distribution.kind)
    given = distribution.arguments
    return made(list(given)) if distribution.kind == "choice" else made(*given)


def _scheduler(settings: RunSettings) -> Any:
    asked, interval = sweep_of(settings), interval_of(settings)
    if asked.scheduler == "none":
        return FIFOScheduler()
    if asked.scheduler == "asha":
        most = max(trainer.max_steps for trainer in settings.trainers)
        grace = asked.grace or max(interval, most // asked.reduction_factor**2)
        return AsyncHyperBandScheduler(
            time_attr="decisions", max_t=max(most, grace), grace_period=grace, reduction_factor=asked.reduction_factor
        )
    changed = {
        key: list(values.arguments) if values.kind == "choice" else domain(values)
        for key, values in asked.space.items()
    }
    return _Population(
        time_attr="decisions",
        perturbation_interval=interval,
        quantile_fraction=asked.quantile,
        hyperparam_mutations=changed,
        custom_explore_fn=partial(_within, dict(asked.space)),
        synch=asked.synch,
        log_config=False,
    )


def _within(space: Mapping[str, Distribution], values: dict[str, Any]) -> dict[str, Any]:
    """Values changed by a population, clipped to their ranges."""
    return {key: space[key].within(value) if key in space else value for key, value in values.items()}
