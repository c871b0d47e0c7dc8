"""Checkpoints of a run's policies: when to write them, and how to continue from them.

The rules are the same however experience is gathered: from pairs, from the copies of a batched environment, or from
recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.runs.checkpoint_sets import latest_set
from tau_trainer.runs.checkpoints import Checkpoint, latest_checkpoint
from tau_trainer.runs.initial_weights import InitialWeights
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import PolicySnapshot
from tau_trainer.specs import BehaviorSpec, Json
from tau_trainer.training import behavior_json
from tau_trainer.training.learning import parameters_only
from tau_trainer.training.learning.learner import Learner


class _Written(NamedTuple):
    """A policy's newest checkpoint, or the policy as it started."""

    version: int
    best_mark: float | None
    """None: no checkpoint, so that the first is always written."""
    decisions: int = -1
    """-1: this process has written none."""


class Checkpointer:
    """Writes ``checkpoints/<policy>-<step>``, and restores the newest.

    Policies that are saved together form one checkpoint set, which is complete or ignored. Each checkpoint also exports
    the policy, so that you can try it during training.
    """

    def __init__(self, run: Run, initial: InitialWeights | None) -> None:
        """``initial``: what new policies start from; None: from scratch. A resumed run does not use it."""
        self._run, self._initial = run, initial
        self._resumes = run.folder.resumed or run.plays
        self._newest: dict[str, Checkpoint] = {}
        """Checkpoints to restore that are already read."""
        self._passed: frozenset[int] = frozenset()
        """Incomplete checkpoint sets, which are not restored."""
        self._next: dict[str, int] = {}
        self._written: dict[str, _Written] = {}

    # -- restoring

    def newest(self, names: Sequence[str] | None = None, *, together: bool = False) -> Mapping[str, Checkpoint]:
        """Read the checkpoints from which the run resumes, by policy; empty if it is new.

        If a process is killed while it saves a checkpoint set, some policies are in it and others are not: the run
        resumes from the newest checkpoint set that all of them have.

        Args:
            names: the policies; None: all that were saved.
            together: whether all of ``names`` are saved together.

        Raises:
            CheckpointError: nothing of ``names`` can be read, or with ``together`` not all of one checkpoint set.
        """
        if not self._resumes:
            return {}
        whole = latest_set(self._run.store.checkpoints, names)
        for warning in whole.warnings:
            self._run.hub.warning(warning)
        found = dict(whole.checkpoints)
        complete = (
            found.keys() == set(names or ()) and len({checkpoint.set_id.number for checkpoint in found.values()}) == 1
        )
        if names is not None and (not found or (together and not complete)):
            raise CheckpointError(
                f"the run in '{self._run.folder.path}' saved nothing of {' and '.join(map(repr, names))} that can be "
                "read completely, so there is nothing to resume; start it again with --force"
            )
        self._passed, self._newest = whole.passed, found
        return dict(found)

    def register(self, policy: Learner, behaviors: Collection[str] = ()) -> None:
        """A policy appears: restore it if the run resumes, otherwise initialize it as the settings say.

        Call :meth:`newest` before.

        ``behaviors``: short names of all behaviors so far, if the settings do not name them.

        Raises CheckpointError, and SettingsError if the run to initialize from has none of them.
        """
        restored = self._resumes and self._restore(policy)
        if not self._resumes and self._initial is not None:
            suffix = policy.name.removeprefix(policy.spec.short_name)
            if behaviors:
                self._initial.check({f"{name}{suffix}": name for name in behaviors})
            self._begin(policy, self._initial)
        self._schedule(policy)
        self._written[policy.name] = _Written(policy.version, policy.best_mark() if restored else None)

    def _restore(self, policy: Learner) -> bool:
        """Whether the policy has a checkpoint."""
        checkpoint = self._newest.pop(policy.name, None)
        if checkpoint is None:  # its behavior has appeared before, and its engine was refused
            folder = self._run.store.checkpoints
            checkpoint = latest_checkpoint(folder, policy.name, passed=self._passed).checkpoint
        if checkpoint is None:
            self._scratch(policy, "the run that is resumed")
            return False
        values = checkpoint.manifest["learner"]
        _fit(policy.restore, checkpoint)
        lost = policy.algorithm.lost(values["algorithm"])
        if parameters_only.is_lean(values):
            lost = parameters_only.lost(checkpoint.path, policy.name)
        if lost and not self._run.plays:
            self._run.hub.warning(lost)
        return True

    def _begin(self, policy: Learner, initial: InitialWeights) -> None:
        """Take over the weights of another run, but none of its counters."""
        origin = initial.of(policy.name, policy.spec.short_name)
        if origin is not None:
            _fit(policy.begin_from, origin)
            self._run.hub.event("initialized", message=f"'{policy.name}' starts with the weights of {origin.path}")
        elif initial.run:
            self._scratch(policy, f"the run '{initial.run}'")

    def _scratch(self, policy: Learner, source: str) -> None:
        self._run.hub.warning(f"'{policy.name}' starts from scratch: {source} saved nothing of it")

    def origin(self, name: str, behavior: str) -> BehaviorSpec | None:
        """The behavior that another run has saved and that this policy starts from. Raises CheckpointError."""
        origin = None if self._initial is None else self._initial.of(name, behavior)
        shown = None if origin is None else origin.manifest["learner"].get("behavior")  # a live learner has none
        return None if shown is None else behavior_json.from_json(shown)

    # -- writing

    def _schedule(self, policy: Learner) -> None:
        """Schedule the next checkpoint at the next multiple of the interval, if the policy learns until then."""
        every = policy.settings.checkpoint_every
        self._next[policy.name] = (policy.decisions // every + 1) * every

    def due(self, policy: Learner) -> bool:
        """Whether a policy has passed its next checkpoint and learned since the last. Call between updates.

        With ``save_best_only``, a policy that has not improved waits for the checkpoint after that.
        """
        due = self.stale(policy) and policy.decisions >= self._next[policy.name]
        if due and not self.better(policy):
            self._schedule(policy)
            return False
        return due

    def better(self, policy: Learner) -> bool:
        """Whether to write a checkpoint: False only with ``save_best_only`` and without an improvement."""
        before = self._written[policy.name].best_mark
        return not policy.settings.save_best_only or before is None or policy.best_mark() > before

    def stale(self, policy: Learner) -> bool:
        """Whether a policy has learned since its last checkpoint."""
        return policy.version > self._written[policy.name].version

    def unsaved(self, policies: Sequence[Learner], *, together: bool = False) -> list[Learner]:
        """Those to write now because learning ends; says which are not, because of ``save_best_only``.

        ``together``: write all if one is better, because they are one checkpoint set.
        """
        changed = [policy for policy in policies if self._now(policy) != self._written[policy.name]]
        better = [policy for policy in changed if self.better(policy)]
        if together and better:
            return changed
        for policy in changed:
            if policy not in better:
                text = f"'{policy.name}' is no better than in its latest checkpoint, which is kept (save_best_only)"
                self._run.hub.event("checkpoint", behavior=policy.name, step=policy.decisions, message=text)
        return better

    def _now(self, policy: Learner) -> _Written:
        return _Written(policy.version, policy.best_mark(), policy.decisions)

    def writing(
        self, policies: Sequence[Learner], content: Json, lessons: Mapping[str, int] | None = None
    ) -> Callable[[], bool]:
        """The work that writes these policies, all or none, and returns whether it did: call it in their thread.

        Counters are those of now; weights are those after the last update before the call. A failure is only a warning,
        because training continues: it is tried again when the next checkpoint is due, and at the end.

        Args:
            policies: at least one.
            content: what their manifests hold besides their own state.
            lessons: the lesson of each parameter with a curriculum, from 0.
        """
        for policy in policies:
            self._schedule(policy)
        now = {policy.name: self._now(policy) for policy in policies}
        kept = [_kept(policy, content) for policy in policies]
        models = not self._run.hurried.is_set()

        def write() -> bool:
            written = self._run.store.save(kept, lessons or {}, models=models)
            if written:
                self._written |= now
            return written

        return write


def _kept(policy: Learner, content: Json) -> PolicySnapshot:
    decisions, settings = policy.decisions, policy.settings

    def state() -> tuple[Arrays, Json]:
        arrays, values = policy.state()
        if settings.save_param_only:
            arrays, values = parameters_only.lean(arrays, values)
        return arrays, {"learner": {**values, "decisions": decisions}, **content}

    return PolicySnapshot(policy.name, decisions, state, policy.model(), settings.keep_checkpoints, policy.phases)


def _fit(take: Callable[[Arrays, Json], None], checkpoint: Checkpoint) -> None:
    try:
        take(checkpoint.tensors, checkpoint.manifest["learner"])
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:  # a stranger may have written it
        raise CheckpointError(
            f"the checkpoint of '{checkpoint.name}' does not fit the settings ({error}); "
            "resume with the run's own configuration.yaml, or start a new run with another --run-id"
        ) from error
