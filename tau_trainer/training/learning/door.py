"""The door of a run: decides which engines may play, by the behaviors that they have.

The reference is the behaviors that a resumed run has saved, or those of the first engine that played. An engine with
other behaviors is refused before any decision is made for it, and does not disturb the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tau_trainer.errors import CheckpointError, TauError
from tau_trainer.settings.run import clash
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tau_trainer.training.learning.learner import Learner
from tau_trainer.training.learning.pool import LearnerPool


def other_than_known(known: Mapping[str, BehaviorSpec], shown: Sequence[BehaviorSpec]) -> str | None:
    """The problem if a behavior of ``shown`` has other sensors or actions than in this run; None if there is none.

    ``known``: behaviors by short name. The sentence does not name the engine.
    """
    for spec in shown:
        right = known.get(spec.short_name)
        what = None if right is None else _difference(right, spec)
        if what is not None:
            return (
                f"behavior '{spec.short_name}' has other sensors or actions than in this run ({what}); start every "
                "engine from the same build with the same arguments, or train this one in another run"
            )
    return None


class Door:
    """Admits engines, and makes the learners of their behaviors.

    Args:
        pool: makes the learners.
        saved: the behaviors of the run that is resumed or played, by short name.
        origin: given a learner's name and a behavior's short name, returns the behavior that another run has saved and
            that the learner starts from; None: it starts from scratch. Raises CheckpointError.
        forget: called with a learner that the run drops.
    """

    def __init__(
        self,
        pool: LearnerPool,
        saved: Mapping[str, BehaviorSpec],
        origin: Callable[[str, str], BehaviorSpec | None],
        forget: Callable[[Learner], None],
    ) -> None:
        self._pool, self._saved, self._origin, self._forget = pool, saved, origin, forget

    def conflict(self, pair: int, shown: Sequence[BehaviorSpec], *, without: Collection[str] = ()) -> str | None:
        """The first objection to the behaviors of the engine of ``pair``; ``without``: names of learners to ignore.

        Raises CheckpointError for saved weights that cannot be read.
        """
        known = {spec.short_name: spec for name, spec in self._pool.shown.items() if name not in without}
        met, asked = known.keys() & {spec.short_name for spec in shown}, list[BehaviorSpec]()
        for spec in shown:
            name = spec.short_name
            saved = None if name in met else self._saved.get(name) or self._origin(self._pool.name(name, pair), name)
            if saved is None:
                asked.append(spec)
            else:  # saved behaviors are those that the policy sees
                asked.append(self._pool.visible(spec))
                known[name] = _as_saved(asked[-1], saved)
        known = {name: spec for name, spec in self._saved.items() if name not in known} | known
        names = dict.fromkeys([*known, *(spec.short_name for spec in asked)])
        return other_than_known(known, asked) or clash(names, self._pool.independent)

    def objection(self, pair: int, shown: Sequence[BehaviorSpec], playing: Collection[str], *, new: bool) -> str | None:
        """The reason why the engine of ``pair`` may not play; None: it may, and each behavior has a learner.

        Args:
            pair: number of the engine's pair.
            shown: the engine's behaviors.
            playing: names of the learners that some engine plays for now.
            new: whether the engine is about to start, rather than adding another behavior.

        Raises CheckpointError for saved weights that do not fit the settings: then no other engine would fit either.
        """
        said = self.conflict(pair, shown)
        if new:
            said = self._start_over(pair, shown, playing, said)
        if said is None:
            said = self._make(pair, shown)
        return said

    def _start_over(
        self, pair: int, shown: Sequence[BehaviorSpec], playing: Collection[str], said: str | None
    ) -> str | None:
        """If the behaviors are different now, drop the unused learners that have not learned yet."""
        learners = self._pool.learners
        idle = [
            learner
            for name, learner in learners.items()
            if name not in playing
            and learner.spec.short_name not in self._saved
            and not (learner.policy.version or self._pool.loops[name].bound.outstanding)
        ]
        known = {learner.spec.short_name for learner in learners.values()}
        another_game = len(idle) == len(learners) and not any(spec.short_name in known for spec in shown)
        names = [learner.name for learner in idle]
        if not idle or not (said or another_game) or self.conflict(pair, shown, without=names) is not None:
            return said
        for learner in idle:
            self._forget(learner)
        left = ", ".join(f"'{name}'" for name in names)
        another = "another behavior" if said is None else said.partition(";")[0]
        self._pool.shared.hub.warning(
            f"the run starts over with engine {pair}: the engine that played {left} left before the first update, and "
            f"this one differs: {another}",
            pair=pair,
        )
        return None

    def _make(self, pair: int, shown: Sequence[BehaviorSpec]) -> str | None:
        """Make a learner for each behavior; on an error, make none and return the reason."""
        before = set(self._pool.learners)
        try:
            for spec in shown:
                self._pool.learner(pair, spec)
        except TauError as error:
            for name in self._pool.learners.keys() - before:
                self._forget(self._pool.learners[name])
            if isinstance(error, CheckpointError):
                raise
            return str(error).rstrip(".")
        return None


def _as_saved(seen: BehaviorSpec, saved: BehaviorSpec) -> BehaviorSpec:
    """``seen`` with the values that a checkpoint requires: its actions, and its sensors' names and shapes."""
    sensors = saved.observations
    if len(sensors) == len(seen.observations):
        sensors = tuple(
            replace(now, name=then.name, shape=then.shape) for then, now in zip(sensors, seen.observations, strict=True)
        )
    return replace(seen, observations=sensors, actions=saved.actions)


def _difference(right: BehaviorSpec, shown: BehaviorSpec) -> str | None:
    """The difference of ``shown`` from ``right``, as a part of a sentence; None if there is none."""
    old, new = right.observations, shown.observations
    if len(old) != len(new):
        return f"it has {_count(len(new), 'sensor')}, not {len(old)}"
    for then, now in zip(old, new, strict=True):
        if then.name != now.name:
            return f"it has a sensor '{now.name}', not '{then.name}'"
        if then.shape != now.shape:
            return f"sensor '{now.name}' has shape {list(now.shape)}, not {list(then.shape)}"
        if then != now:
            return f"sensor '{now.name}' is of another kind"
    return None if right.actions == shown.actions else f"it has {_words(shown.actions)}, not {_words(right.actions)}"


def _words(actions: ActionSpec) -> str:
    discrete = f"branches of {list(actions.discrete_branches)}" if actions.discrete_branches else "no branches"
    return f"{_count(actions.continuous_size, 'continuous action')} and {discrete}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
