"""Saves a run's policies during the run: checkpoints, grouped in moments, and their models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tau_trainer.columns import Arrays
from tau_trainer.errors import TauError
from tau_trainer.metrics import Laps, MetricsHub
from tau_trainer.runs.callbacks import Callbacks, SaveInfo
from tau_trainer.runs.checkpoints import retire
from tau_trainer.runs.moments import Moment, last_number, write_model
from tau_trainer.runs.status import write_status

if TYPE_CHECKING:
    from tau_trainer.runs.collector import Export

ModelWriter = Callable[[Path], object]
"""Writes a policy's model to a file. Raises TauError."""


class Kept(NamedTuple):
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
    laps: Laps | None = None
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

    def save(self, policies: Sequence[Kept], lessons: Mapping[str, int] = {}, *, models: bool = True) -> bool:
        """Write a checkpoint of each of these policies, and its model; failures are warnings.

        All belong to one moment: if one cannot be written, none is, and the previous moment remains.

        Args:
            policies: of the moment.
            lessons: see :meth:`write_status`.
            models: whether to write models too.

        Returns:
            Whether the checkpoints were written.
        """
        self._number += 1
        moment = Moment(self.checkpoints, self._number, [kept.name for kept in policies])
        written: dict[str, tuple[Path, float | None]] = {}
        begun: list[Kept] = []
        try:
            for kept in policies:
                begun.append(kept)
                self._callbacks.soon("on_save_begin", SaveInfo(kept.name, kept.steps))
                written[kept.name] = self._write(moment, kept)
        except TauError as error:
            moment.give_up()
            sentence = str(error)
            if len(policies) > 1:
                sentence += " The other policies were not saved either, because all must be saved together."
            self.failures |= {kept.name: sentence for kept in policies}
            self._hub.warning(sentence)
            for kept in begun:
                self._callbacks.soon("on_save_end", SaveInfo(kept.name, kept.steps, error=sentence))
            return False
        for kept in policies:
            path, reward = written[kept.name]
            model = self._settle(kept, path, models)
            self.failures.pop(kept.name, None)
            facts = {"behavior": kept.name, "step": kept.steps, "path": str(path), "reward": reward}
            self._hub.event("checkpoint", **facts, model=None if model is None else str(model))
            self._callbacks.soon("on_save_end", SaveInfo(kept.name, kept.steps, path))
        self.write_status(lessons)
        return True

    def write_status(self, lessons: Mapping[str, int], models: Sequence[Export] = ()) -> None:
        """Write the status of the checkpoints in ML-Agents' format; see :func:`.status.write_status`."""
        try:
            write_status(self.folder, lessons, models)
        except TauError as error:
            self._hub.warning(str(error))

    def _write(self, moment: Moment, kept: Kept) -> tuple[Path, float | None]:
        """The checkpoint's folder, and the mean reward that it states."""
        if kept.laps is not None:
            kept.laps.begin()
        tensors, content = kept.state()
        path = moment.write(kept.name, kept.steps, tensors, content)
        if kept.laps is not None:
            kept.laps.lap("checkpoint")
        return path, content.get("learner", {}).get("mean_reward")

    def _settle(self, kept: Kept, path: Path, models: bool) -> Path | None:
        """Once its moment is complete, remove the checkpoints that it replaces, and write its model; returns its path.

        None: there is no model, or it could not be written.
        """
        model = None
        retire(self.checkpoints, kept.name, path, kept.keep)
        if models and kept.model is not None:
            try:
                model = write_model(self.folder, kept.name, kept.steps, kept.model)
            except TauError as error:
                self._hub.warning(f"the model of checkpoint {path.name} was not written: {error}")
        if kept.laps is not None:
            kept.laps.lap("model")
        return model
