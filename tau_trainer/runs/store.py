"""Saves a run's policies during the run: checkpoints, grouped in checkpoint sets, and their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tau_trainer.columns import Arrays
from tau_trainer.errors import TauError
from tau_trainer.metrics import MetricsHub, PhaseTimer
from tau_trainer.runs.callbacks import Callbacks, SaveInfo
from tau_trainer.runs.checkpoint_sets import CheckpointSet, last_number, write_model
from tau_trainer.runs.checkpoints import retire
from tau_trainer.runs.status import write_status

if TYPE_CHECKING:
    from tau_trainer.runs.collector import Export

ModelWriter = Callable[[Path], object]
"""Writes a policy's model to a file. Raises TauError."""


class PolicySnapshot(NamedTuple):
    """Data of one policy for a checkpoint."""

    name: str
    steps: int
    """Steps of the policy, for the checkpoint's name."""
    state: Callable[[], tuple[Arrays, Mapping[str, Any]]]
    """Returns its arrays and the content of its manifest; called at the time of writing."""
    model: ModelWriter | None
    """Writes the model; None if the policy cannot be exported."""
    keep: int
    """Number of newest checkpoints to keep; 0 or less keeps all."""
    phases: PhaseTimer | None = None
    """Measures the time of writing."""


class Store:
    """Writes checkpoints of a run's policies. Call it in any thread, one call at a time.

    Args:
        folder: the run's folder.
        hub: receives events about written checkpoints, and warnings about failures.
        callbacks: receive the same events.
        goes_on: whether the run resumes from checkpoints in the folder.
    """

    def __init__(self, folder: Path, hub: MetricsHub, callbacks: Callbacks, *, goes_on: bool) -> None:
        self.folder = folder
        self.failures: dict[str, str] = {}
        """Why the last checkpoint of a policy could not be written, in a sentence, by name."""
        self._hub, self._callbacks = hub, callbacks
        self._number = last_number(self.checkpoints) if goes_on else 0

    @property
    def checkpoints(self) -> Path:
        """Folder of all checkpoints."""
        return self.folder / "checkpoints"

    def save(self, policies: Sequence[PolicySnapshot], lessons: Mapping[str, int] = {}, *, models: bool = True) -> bool:
        """Write a checkpoint of each of these policies, and its model; failures are warnings.

        All belong to one checkpoint set: if one cannot be written, none is, and the previous checkpoint set remains.

        Args:
            policies: of the checkpoint set.
            lessons: see :meth:`write_status`.
            models: whether to write models too.

        Returns:
            Whether the checkpoints were written.
        """
        self._number += 1
        checkpoint_set = CheckpointSet(self.checkpoints, self._number, [policy.name for policy in policies])
        written: dict[str, tuple[Path, float | None]] = {}
        begun: list[PolicySnapshot] = []
        try:
            for policy in policies:
                begun.append(policy)
                self._callbacks.soon("on_save_begin", SaveInfo(policy.name, policy.steps))
                written[policy.name] = self._write(checkpoint_set, policy)
        except TauError as error:
            checkpoint_set.give_up()
            sentence = str(error)
            if len(policies) > 1:
                sentence += " The other policies were not saved either, because all must be saved together."
            self.failures |= {policy.name: sentence for policy in policies}
            self._hub.warning(sentence)
            for policy in begun:
                self._callbacks.soon("on_save_end", SaveInfo(policy.name, policy.steps, error=sentence))
            return False
        for policy in policies:
            path, reward = written[policy.name]
            model = self._settle(policy, path, models)
            self.failures.pop(policy.name, None)
            facts = {"behavior": policy.name, "step": policy.steps, "path": str(path), "reward": reward}
            self._hub.event("checkpoint", **facts, model=None if model is None else str(model))
            self._callbacks.soon("on_save_end", SaveInfo(policy.name, policy.steps, path))
        self.write_status(lessons)
        return True

    def write_status(self, lessons: Mapping[str, int], models: Sequence[Export] = ()) -> None:
        """Write the status of the checkpoints in ML-Agents' format; see :func:`.status.write_status`."""
        try:
            write_status(self.folder, lessons, models)
        except TauError as error:
            self._hub.warning(str(error))

    def _write(self, checkpoint_set: CheckpointSet, policy: PolicySnapshot) -> tuple[Path, float | None]:
        """The checkpoint's folder, and the mean reward that it states."""
        if policy.phases is not None:
            policy.phases.begin()
        tensors, content = policy.state()
        path = checkpoint_set.write(policy.name, policy.steps, tensors, content)
        if policy.phases is not None:
            policy.phases.end("checkpoint")
        return path, content.get("learner", {}).get("mean_reward")

    def _settle(self, policy: PolicySnapshot, path: Path, models: bool) -> Path | None:
        """Once its set is complete, remove the checkpoints that it replaces, and write its model; returns its path.

        None: there is no model, or it could not be written.
        """
        model = None
        retire(self.checkpoints, policy.name, path, policy.keep)
        if models and policy.model is not None:
            try:
                model = write_model(self.folder, policy.name, policy.steps, policy.model)
            except TauError as error:
                self._hub.warning(f"the model of checkpoint {path.name} was not written: {error}")
        if policy.phases is not None:
            policy.phases.end("model")
        return model
