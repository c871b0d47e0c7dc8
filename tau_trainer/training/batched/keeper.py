"""Checkpoints of a batched run: saves its policies and copies, and restores or initializes a run from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError
from tau_trainer.export import export_onnx
from tau_trainer.runs.checkpoints import Checkpoint
from tau_trainer.runs.moments import newest_moment
from tau_trainer.runs.origins import Origins
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import Kept, ModelWriter
from tau_trainer.settings.batched import BatchedSettings, Compile
from tau_trainer.training import behavior_json
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.seats import Seat

_ENVIRONMENT = "environment."
"""Prefix of the names of the copies' tensors in the checkpoint of the first policy that learns."""


class Keeper:
    """Checkpoints of all policies that learn; together they are one moment.

    Attributes:
        written: decisions at the latest checkpoint; -1: this process has written none.
    """

    def __init__(self, settings: BatchedSettings, run: Run, playing: Playing) -> None:
        self.written = -1
        self._settings, self._run, self._playing = settings, run, playing
        self._best: dict[str, float] = {}
        """Mean return of each policy of the latest checkpoint, over its newest episodes."""

    def begin(self) -> Compile | None:
        """Resume the run, or start as its settings say; see :meth:`_restore`. Raises CheckpointError."""
        if self._run.folder.resumed or self._run.plays:
            return self._restore()
        origins = Origins(self._settings)
        for seat in self._playing.seats:
            origin = None if seat.settings.player is not None else origins.of(seat.name, seat.name)
            if origin is not None:
                seat.learner.load(origin.tensors, origin.manifest["learner"]["algorithm"], fresh=True)
            elif origins.run and seat.settings.player is None:
                raise CheckpointError(f"--initialize-from {origins.run}: it has no checkpoint of '{seat.name}'")
        return None

    @property
    def better(self) -> bool:
        """Whether to write a checkpoint: False only if all policies keep only their best and none has improved."""
        return any(
            not seat.settings.save_best_only
            or seat.name not in self._best  # always write the first
            or _rank(seat) > self._best[seat.name]
            for seat in self._playing.learning
        )

    def save(self, *, compiled: bool) -> None:
        """Write a moment. ``compiled``: whether steps are compiled; a run that resumes from here compiles them too."""
        before, self._best = self._best, {seat.name: _rank(seat) for seat in self._playing.learning}
        models = not self._run.hurried.is_set()
        kept = [
            Kept(
                seat.name,
                self._playing.steps_of(seat),
                partial(self._state, seat, compiled),
                self.model(seat),
                seat.settings.keep_checkpoints,
            )
            for seat in self._playing.learning
        ]
        if self._run.store.save(kept, models=models):
            self.written = self._playing.decisions
        else:
            self._best = before

    def model(self, seat: Seat) -> ModelWriter | None:
        """Writer of the current policy; None if the policy cannot be exported."""
        policy = None if self._run.hurried.is_set() else seat.learner.policy(seat.learner.weights(), seat.updates)
        return None if policy is None else partial(export_onnx, policy, seat.spec)

    def _state(self, seat: Seat, compiled: bool) -> tuple[Arrays, Mapping[str, Any]]:
        arrays, facts = seat.learner.state()
        if seat is self._playing.learning[0]:
            copies = self._playing.copies_state().items()
            arrays = {**arrays, **{f"{_ENVIRONMENT}{name}": values.cpu().numpy() for name, values in copies}}
        counts = seat.counts()
        values: dict[str, Any] = {
            "algorithm": facts,
            "decisions": self._playing.steps_of(seat),
            "mean_reward": counts.pop("mean_return"),
            **counts,
            "best": self._best[seat.name] if self._best[seat.name] > -math.inf else None,
            "behavior": behavior_json.to_json(seat.spec),
        }
        return arrays, {"learner": values, "steps": self._playing.collector.steps, "compiled": compiled}

    def _restore(self) -> Compile | None:
        """Restore the newest complete moment.

        Returns:
            Whether the earlier part of this run compiled its steps, because compiled steps may differ in the last bit.
        """
        playing, found, plays = self._playing, self._newest(), self._run.plays
        for seat in playing.learning:
            values = found[seat.name].manifest["learner"]
            lost = seat.learner.lost(values["algorithm"])
            if lost and not plays:
                self._run.hub.warning(lost)
            seat.learner.load(found[seat.name].tensors, values["algorithm"], fresh=False)
            if plays:
                continue
            seat.go_on({**values, "mean_return": values["mean_reward"]})
            if values.get("best") is not None:  # older checkpoints have none
                self._best[seat.name] = values["best"]
        if plays:
            return None
        first = found[playing.learning[0].name]
        copies = {
            name.removeprefix(_ENVIRONMENT): torch.from_numpy(values.copy())
            for name, values in first.tensors.items()
            if name.startswith(_ENVIRONMENT)
        }
        playing.load_copies(first.manifest["steps"], copies)
        if self._settings.compile != "auto":
            return None
        return "on" if first.manifest["compiled"] else "off"

    def _newest(self) -> dict[str, Checkpoint]:
        """The newest complete moment: a checkpoint of every policy that learns."""
        names, folder = [seat.name for seat in self._playing.learning], self._run.folder
        whole = newest_moment(folder.checkpoints, names)
        for warning in whole.warnings:
            self._run.hub.warning(warning)
        found = {checkpoint.name: checkpoint for checkpoint in whole.checkpoints.values()}
        if found.keys() != set(names) or len({checkpoint.manifest["steps"] for checkpoint in found.values()}) != 1:
            raise CheckpointError(
                f"the run in '{folder.path}' has no moment that can be read completely, so there is "
                "nothing to resume; start it again with --force"
            )
        return found


def _rank(seat: Seat) -> float:
    """Mean return over the newest episodes; minus infinity before there are enough."""
    mean = seat.returns.mean
    return -math.inf if mean is None else mean
