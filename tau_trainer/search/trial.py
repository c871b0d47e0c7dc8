"""A trial: a short training run that is measured and leaves no files."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from tau_trainer.envs import EnvironmentSource
from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.evaluation.episodes import earned
from tau_trainer.metrics import MetricsHub, Timer, keys
from tau_trainer.runs.checkpoints import Checkpoint
from tau_trainer.runs.folder import RunFolder
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.runs.run import Run
from tau_trainer.search.stopping import Stoppable
from tau_trainer.settings import OffPolicyHyperparameters, RunSettings, TrainerSettings, check_device
from tau_trainer.settings.run import ANEW
from tau_trainer.specs import Json
from tau_trainer.training.plan import make_plan

if TYPE_CHECKING:
    from tau_trainer.algorithms import Algorithm
    from tau_trainer.training.pairs.collector import PairsCollector

Metric = Literal["reward", "loss"]
"""Mean reward of an episode (larger is better), or :func:`loss_of` an update (smaller is better)."""
Ending = Literal["finished", "stopped", "diverged"]
"""It made all its decisions; it was stopped; NaN ended it."""
Begin = tuple[Json, Json]
"""The result of an algorithm's :meth:`~tau_trainer.algorithms.Algorithm.state`."""

_UPDATES, _DECISIONS = 20, 10_000
"""Default length of a trial: updates of an on-policy algorithm, or decisions after the first update."""
_EVER = 2**40
"""More decisions than any trial has."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The time of an update."""

    learner: str
    minibatches: int
    seconds: float


@dataclass(slots=True)
class TrialResult:
    """Results of a trial."""

    rewards: list[tuple[int, float]] = field(default_factory=list)
    """Decisions until the end of each episode, and its undiscounted return."""
    losses: list[tuple[int, float]] = field(default_factory=list)
    """Decisions until each update, and its loss by :func:`loss_of`."""
    decisions: int = 0
    ending: Ending = "finished"
    costs: list[Cost] = field(default_factory=list, compare=False)
    """Time of every update with gradient steps."""

    @property
    def last(self) -> int:
        """Decisions until the last measurement."""
        return max([at for at, _ in (*self.rewards[-1:], *self.losses[-1:])], default=0)

    def values(self, metric: Metric) -> list[tuple[int, float]]:
        """All measurements of the metric."""
        return self.rewards if metric == "reward" else self.losses

    def mean(self, metric: Metric, until: int | None = None) -> float | None:
        """Mean over the trial, or over its first decisions; None if nothing was measured, or if it diverged."""
        values = [value for at, value in self.values(metric) if until is None or at <= until]
        return float(np.mean(values)) if values and self.ending != "diverged" else None


class Trial(Stoppable):
    """Trains with ``settings`` in this process, from scratch, until ``decisions`` are made or it is stopped.

    Learning and collection take turns, so a trial with one environment is reproducible. Its files are in a temporary
    folder.

    Args:
        settings: settings of a run of ``tau-train learn``; its schedules over ``max_steps`` have no effect in such a
            short time, so numbers stay constant.
        decisions: maximum total decisions.
        begin: state of a learner with the first weights; None: new weights.
        on_episodes: called with the returns of episodes as they end.
        on_update: called with the loss of every update, before the next.
        source: creates the environment, instead of the one in the settings.

    Raises:
        SettingsError: nothing can be tried with these settings.
    """

    def __init__(
        self,
        settings: RunSettings,
        decisions: int = _EVER,
        *,
        begin: Begin | None = None,
        on_episodes: Callable[[list[float]], None] | None = None,
        on_update: Callable[[float], None] | None = None,
        source: EnvironmentSource | None = None,
    ) -> None:
        if source is None:
            check_startable(settings, "search")
        self.outcome = TrialResult()
        self._settings = shortened(settings, decisions)
        self._begin, self._source = begin, source
        self._on_episodes, self._on_update = on_episodes, on_update
        self._rate: float | None = None
        self._pairs: PairsCollector | None = None

    def learn_with(self, rate: float) -> None:
        """Use this learning rate from the next update. Call it in :attr:`on_episodes` or `on_update`."""
        assert self._pairs is not None
        self._rate = rate
        for learner in self._pairs.learners:
            learner.algorithm.searched_rate = rate

    def run(self) -> TrialResult:
        """Train to the end. Raises TauError: no pair could play, or learning has failed."""
        import torch

        from tau_trainer.training.pairs.collector import PairsCollector

        check_device(self._settings)
        with unchanged(), tempfile.TemporaryDirectory(prefix="tau-search-") as place:
            torch.set_num_threads(1)  # as in every run: small networks do not gain from a second thread
            logs = Path(place, "run_logs")
            logs.mkdir()
            plan = make_plan("learn", self._settings, logs)
            if self._begin is not None:
                plan = replace(plan, initial_weights=_Given(self._settings, self._begin))
            if self._source is not None:
                plan = replace(plan, source=self._source)
            hub = _Watched(self)
            run = Run(RunFolder(Path(place)), hub, plan.seed)
            pairs = self._pairs = PairsCollector(plan, run)
            run.collect_by(pairs)
            self.running(run)
            try:
                while pairs.advance():
                    pass
            finally:
                pairs.close()
                hub.close()
        self.outcome = replace(self.outcome, decisions=pairs.steps)
        self._conclude(run.error or pairs.failure)
        return self.outcome

    def _conclude(self, error: Exception | None) -> None:
        if isinstance(error, NonFiniteError):
            self.outcome.ending = "diverged"
        elif error is not None:
            raise error
        elif self.stopped:
            self.outcome.ending = "stopped"

    def episodes(self, returns: list[float]) -> None:
        """Record finished episodes."""
        assert self._pairs is not None
        self.outcome.rewards += [(self._pairs.steps, reward) for reward in returns]
        if self._on_episodes is not None and not self.stopped:
            self._on_episodes(returns)

    def update(self, stats: Json) -> None:
        """Record a finished update."""
        assert self._pairs is not None
        used = stats.get(keys.LEARNING_RATE)
        if self._rate is not None and used != self._rate and not self.stopped:
            raise SettingsError(
                f"an update should use the learning rate {self._rate:g}, but reports {used}, so learning rates "
                "cannot be searched for this trainer_type; its algorithm must call self.learning_rate()"
            )
        loss = loss_of(stats)
        if loss is None:
            return
        self.outcome.losses.append((self._pairs.steps, loss))
        if self._on_update is not None and not self.stopped:
            self._on_update(loss)


def check_startable(settings: RunSettings, what: str) -> None:
    """Raises SettingsError if this kind of search cannot start the environments of its trials."""
    if settings.env_settings.awaited:
        raise SettingsError(
            f"a {what} starts its environments itself, but it cannot start the editor or engines that connect "
            "by themselves; name a build, headless:SCENE, gym:ID or pettingzoo:MODULE with --env"
        )


def loss_of(stats: Json) -> float | None:
    """The loss of an update from its statistics; None if there is none.

    The sum of all statistics named ``Losses/...``. The policy's loss counts only if there is no other: for an
    actor-critic it is meaningless, because its advantages are learned at the same time.
    """
    losses = {key: float(value) for key, value in stats.items() if key.startswith("Losses/")}
    others = [value for key, value in losses.items() if key != keys.POLICY_LOSS]
    return sum(others) if others else losses.get(keys.POLICY_LOSS)


def usual_decisions(settings: RunSettings) -> int:
    """Default decisions of a trial: enough to see a difference, and at most those of a whole run."""
    return max(min(trainer.max_steps, _usual(trainer)) for trainer in settings.trainers)


def _usual(trainer: TrainerSettings) -> int:
    numbers = trainer.hyperparameters
    if isinstance(numbers, OffPolicyHyperparameters):
        return numbers.buffer_init_steps + _DECISIONS
    return _UPDATES * int(getattr(numbers, "rollout_size", numbers.buffer_size)) + 1


def shortened(settings: RunSettings, decisions: int) -> RunSettings:
    """Settings of a trial of ``decisions``, which writes no checkpoints, and learns and collects in turns."""

    def short(trainer: TrainerSettings) -> TrainerSettings:
        numbers = trainer.hyperparameters
        constant = {name: "constant" for name in type(numbers).model_fields if name.endswith("_schedule")}
        changes = {"max_steps": decisions, "checkpoint_interval": _EVER, "even_checkpoints": False}
        return trainer.having(hyperparameters=constant, **changes)

    return of_all(settings, short).having(
        collection={"max_policy_age": 0, "learner": "thread"},
        checkpoint_settings={**ANEW, "inference": False},
        cluster=None,
        execution="sync",
    )


def with_numbers(settings: RunSettings, **numbers: Any) -> RunSettings:
    """``settings`` with these hyperparameters for all behaviors."""
    return of_all(settings, lambda trainer: renumbered(trainer, **numbers))


def renumbered(trainer: TrainerSettings, **numbers: Any) -> TrainerSettings:
    """Trainer settings with these hyperparameters."""
    hyperparameters = trainer.hyperparameters
    given = hyperparameters.model_dump(include=hyperparameters.model_fields_set) | numbers
    return trainer.having(hyperparameters=type(hyperparameters).model_validate(given))


def of_all(settings: RunSettings, change: Callable[[TrainerSettings], TrainerSettings]) -> RunSettings:
    """``settings`` with ``change`` applied to every behavior and to the defaults."""
    defaults = settings.default_settings
    if defaults is None and not settings.behaviors:
        defaults = settings.of_behavior("")
    return settings.having(
        behaviors={name: change(trainer) for name, trainer in settings.behaviors.items()},
        default_settings=None if defaults is None else change(defaults),
    )


def state_of(algorithm: Algorithm) -> Begin:
    """The state of a live learner, for trials to start from; the learner is not changed."""
    arrays, metadata = algorithm.state()
    return arrays, metadata


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Restores the process's random generators and torch's number of threads at the end."""
    import torch

    threads, drawn = torch.get_num_threads(), random.getstate()
    numpy_state, torch_state = np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(drawn)
        np.random.set_state(numpy_state)
        torch.random.set_rng_state(torch_state)


class _Watched(MetricsHub):
    """A hub that passes everything to the trial at once, and to no recorder."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(timers=Timer())
        self._trial = trial

    @override
    def episode(
        self,
        behavior: str,
        pair: int | str | None,
        returns: ArrayLike,
        lengths: ArrayLike,
        groups: ArrayLike = (),
    ) -> None:
        super().episode(behavior, pair, returns, lengths, groups)
        if np.size(returns):
            self._trial.episodes(earned(returns, groups).tolist())

    @override
    def add_all(self, behavior: str, values: Json, *, pair: int | str | None = None) -> None:
        super().add_all(behavior, values, pair=pair)
        if minibatches := int(values.get(keys.MINIBATCHES, 0)):
            took = self.pending(behavior, [keys.UPDATE_SECONDS])  # which arrives before the statistics
            self._trial.outcome.costs.append(Cost(behavior, minibatches, took[keys.UPDATE_SECONDS].last))
        self._trial.update(values)


class _Given(InitialWeights):
    """Initial weights that give every learner the state of a live learner instead of a checkpoint."""

    def __init__(self, settings: RunSettings, begin: Begin) -> None:
        super().__init__(settings)
        self._begin = dict(begin[0]), begin[1]

    @override
    def of(self, learner: str, behavior: str) -> Checkpoint | None:
        arrays, metadata = self._begin
        return Checkpoint(Path("memory"), learner, 0, "", arrays, {"learner": {"algorithm": metadata}})
