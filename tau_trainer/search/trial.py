"""A trial: a short run of training that is watched, and of which nothing stays."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
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
from tau_trainer.runs.origins import Origins
from tau_trainer.runs.run import Run
from tau_trainer.settings import OffPolicyHyperparameters, RunSettings, TrainerSettings, check_device
from tau_trainer.specs import Aggregation
from tau_trainer.training.plan import make_plan

if TYPE_CHECKING:
    from tau_trainer.algorithms import Algorithm
    from tau_trainer.training.pairs.collector import PairsCollector

Metric = Literal["reward", "loss"]
"""Mean reward of an episode, the more the better; or :func:`loss_of` an update, the less the better."""
Ending = Literal["finished", "stopped", "diverged"]
"""It had all its decisions; it was told to stop; NaN ended it."""
Begin = tuple[Mapping[str, Any], Mapping[str, Any]]
"""What an algorithm's :meth:`~tau_trainer.algorithms.Algorithm.state` gave."""

_UPDATES, _DECISIONS = 20, 10_000
"""Length of a trial unless told otherwise: updates of an on-policy algorithm, or decisions after the first update."""
_EVER = 2**40
"""More decisions than any trial has."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an update took."""

    learner: str
    minibatches: int
    seconds: float


@dataclass(slots=True)
class Outcome:
    """What a trial has seen."""

    rewards: list[tuple[int, float]] = field(default_factory=list)
    """Of every episode that ended: decisions until then, and its undiscounted return."""
    losses: list[tuple[int, float]] = field(default_factory=list)
    """Of every update: decisions until then, and :func:`loss_of` it."""
    decisions: int = 0
    ending: Ending = "finished"
    costs: list[Cost] = field(default_factory=list, compare=False)
    """Of every update that took gradient steps."""

    @property
    def last(self) -> int:
        """Decisions until the last that was measured."""
        return max([at for at, _ in (*self.rewards[-1:], *self.losses[-1:])], default=0)

    def values(self, metric: Metric) -> list[tuple[int, float]]:
        """Everything that was measured of it."""
        return self.rewards if metric == "reward" else self.losses

    def mean(self, metric: Metric, until: int | None = None) -> float | None:
        """Mean over the trial, or its first decisions; None where nothing was measured, or it diverged."""
        values = [value for at, value in self.values(metric) if until is None or at <= until]
        return float(np.mean(values)) if values and self.ending != "diverged" else None


class Trial:
    """Trains with ``settings`` in this process, from the beginning, until ``decisions`` are made or it is stopped.

    Learning and collection take turns, so a trial of one environment repeats itself exactly. Its files lie in a
    folder that is gone afterwards.

    Args:
        settings: of a run as ``tau-train learn`` takes it; how its numbers change over ``max_steps`` does not show
            in so short a time, so they stay constant.
        decisions: most that are made, in all.
        begin: of a behavior's learner to take the first weights over from, instead of new ones.
        on_episodes: called with the returns of episodes as they end.
        on_update: called with the loss of every update, before the next.
        source: makes what is played, in place of what the settings ask for.

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
        if settings.env_settings.awaited and source is None:
            raise SettingsError(
                "a search starts its environments itself, and the Unity editor cannot be started, nor what joins by "
                "itself; name a build, headless:SCENE, gym:ID or pettingzoo:MODULE with --env"
            )
        self.outcome = Outcome()
        self._settings = shortened(settings, decisions)
        self._begin, self._source = begin, source
        self._on_episodes, self._on_update = on_episodes, on_update
        self._rate: float | None = None
        self._pairs: PairsCollector | None = None
        self._stopped = False

    def learn_with(self, rate: float) -> None:
        """Learn with that learning rate from the next update on. Call from :attr:`on_episodes` or `on_update`."""
        assert self._pairs is not None
        self._rate = rate
        for learner in self._pairs.learners:
            learner.algorithm.searched_rate = rate

    def stop(self) -> None:
        """End it after the exchanges that are under way. Call from any thread, before it runs too."""
        self._stopped = True
        if self._pairs is not None:
            self._pairs.run.stop()

    def run(self) -> Outcome:
        """Train to the end. Raises TauError: no pair could play, or learning has failed."""
        import torch

        from tau_trainer.training.pairs.collector import PairsCollector

        check_device(self._settings)
        with unchanged(), tempfile.TemporaryDirectory(prefix="tau-search-") as place:
            torch.set_num_threads(1)  # as in every run: small networks gain nothing from a second
            logs = Path(place, "run_logs")
            logs.mkdir()
            plan = make_plan("learn", self._settings, logs)
            if self._begin is not None:
                plan = replace(plan, origins=_Given(self._settings, self._begin))
            if self._source is not None:
                plan = replace(plan, source=self._source)
            hub = _Watched(self)
            run = Run(RunFolder(Path(place)), hub, plan.seed)
            pairs = self._pairs = PairsCollector(plan, run)
            run.collect_by(pairs)
            if self._stopped:
                run.stop()
            try:
                while pairs.advance():
                    pass
            finally:
                pairs.close()
                hub.close()
        self.outcome.decisions = pairs.steps
        self._conclude(run.error or pairs.failure)
        return self.outcome

    def _conclude(self, error: Exception | None) -> None:
        if isinstance(error, NonFiniteError):
            self.outcome.ending = "diverged"
        elif error is not None:
            raise error
        elif self._stopped:
            self.outcome.ending = "stopped"

    def episodes(self, returns: list[float]) -> None:
        """Episodes have ended."""
        assert self._pairs is not None
        self.outcome.rewards += [(self._pairs.steps, reward) for reward in returns]
        if self._on_episodes is not None and not self._stopped:
            self._on_episodes(returns)

    def update(self, stats: Mapping[str, Any]) -> None:
        """An update is over."""
        assert self._pairs is not None
        used = stats.get(keys.LEARNING_RATE)
        if self._rate is not None and used != self._rate and not self._stopped:
            raise SettingsError(
                f"an update was to learn with the learning rate {self._rate:g} and tells of {used}, so no learning "
                "rate can be searched for this trainer_type; its algorithm would have to ask self.learning_rate()"
            )
        loss = loss_of(stats)
        if loss is None:
            return
        self.outcome.losses.append((self._pairs.steps, loss))
        if self._on_update is not None and not self._stopped:
            self._on_update(loss)


def loss_of(stats: Mapping[str, Any]) -> float | None:
    """The loss of an update from its statistics; None where it tells of none.

    The sum of all that are named ``Losses/...``. The policy's own counts only where there is no other: of an
    actor-critic it is no measure of anything, for what it is measured by is learned at the same time.
    """
    losses = {key: float(value) for key, value in stats.items() if key.startswith("Losses/")}
    others = [value for key, value in losses.items() if key != keys.POLICY_LOSS]
    return sum(others) if others else losses.get(keys.POLICY_LOSS)


def usual_decisions(settings: RunSettings) -> int:
    """Decisions of a trial that is not told how many: enough to see a difference, and at most those of a whole run."""
    trainers = list(settings.behaviors.values()) or [settings.of_behavior("")]
    return max(min(trainer.max_steps, _usual(trainer)) for trainer in trainers)


def _usual(trainer: TrainerSettings) -> int:
    numbers = trainer.hyperparameters
    if isinstance(numbers, OffPolicyHyperparameters):
        return numbers.buffer_init_steps + _DECISIONS
    return _UPDATES * int(getattr(numbers, "rollout_size", numbers.buffer_size)) + 1


def shortened(settings: RunSettings, decisions: int) -> RunSettings:
    """``settings`` of a trial of so many decisions, which writes nothing and learns in turns, in its own process."""

    def short(trainer: TrainerSettings) -> TrainerSettings:
        numbers = trainer.hyperparameters
        constant = {name: "constant" for name in type(numbers).model_fields if name.endswith("_schedule")}
        changes = {"max_steps": decisions, "checkpoint_interval": _EVER, "even_checkpoints": False}
        return trainer.model_copy(update={"hyperparameters": numbers.model_copy(update=constant), **changes})

    once = {"resume": False, "force": False, "load_model": False, "inference": False}
    return of_all(settings, short).model_copy(
        update={
            "collection": settings.collection.model_copy(update={"max_policy_age": 0, "learner": "thread"}),
            "checkpoint_settings": settings.checkpoint_settings.model_copy(update=once),
            "cluster": None,
            "execution": "sync",
        }
    )


def with_numbers(settings: RunSettings, **numbers: Any) -> RunSettings:
    """``settings`` whose behaviors all have these hyperparameters."""
    return of_all(settings, lambda trainer: renumbered(trainer, **numbers))


def renumbered(trainer: TrainerSettings, **numbers: Any) -> TrainerSettings:
    """The same with these hyperparameters."""
    hyperparameters = trainer.hyperparameters
    given = hyperparameters.model_dump(include=hyperparameters.model_fields_set) | numbers
    return trainer.model_copy(update={"hyperparameters": type(hyperparameters).model_validate(given)})


def of_all(settings: RunSettings, change: Callable[[TrainerSettings], TrainerSettings]) -> RunSettings:
    """``settings`` with ``change`` made to every behavior, those that no file names included."""
    defaults = settings.default_settings
    if defaults is None and not settings.behaviors:
        defaults = settings.of_behavior("")
    return settings.model_copy(
        update={
            "behaviors": {name: change(trainer) for name, trainer in settings.behaviors.items()},
            "default_settings": None if defaults is None else change(defaults),
        }
    )


def state_of(algorithm: Algorithm) -> Begin:
    """Where a live learner stands, for trials to begin from; it is only read."""
    arrays, facts = algorithm.state()
    return arrays, facts


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Puts back the process's own random generators and torch's number of threads, which games and plug-ins use."""
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
    """A hub that nobody listens to but the trial, which hears of everything at once."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(timers=Timer())
        self._trial = trial
        self._took_s = 0.0
        """By the newest update, which is told before its statistics."""

    @override
    def add(
        self,
        behavior: str,
        key: str,
        value: float | ArrayLike,
        aggregation: Aggregation = Aggregation.AVERAGE,
        *,
        pair: int | str | None = None,
    ) -> None:
        super().add(behavior, key, value, aggregation, pair=pair)
        if key == keys.UPDATE_SECONDS:
            self._took_s = float(np.asarray(value, np.float64).mean())

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
    def add_all(self, behavior: str, values: Mapping[str, Any], *, pair: int | str | None = None) -> None:
        super().add_all(behavior, values, pair=pair)
        if minibatches := int(values.get(keys.MINIBATCHES, 0)):
            self._trial.outcome.costs.append(Cost(behavior, minibatches, self._took_s))
        self._trial.update(values)


class _Given(Origins):
    """Every learner begins with what was learned already, with no checkpoint in between."""

    def __init__(self, settings: RunSettings, begin: Begin) -> None:
        super().__init__(settings)
        self._begin = dict(begin[0]), begin[1]

    @override
    def of(self, learner: str, behavior: str) -> Checkpoint | None:
        arrays, facts = self._begin
        return Checkpoint(Path("memory"), learner, 0, "", arrays, {"learner": {"algorithm": facts}})
