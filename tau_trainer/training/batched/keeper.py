"""What a batched run leaves of its policies and copies, and how a run begins from that or goes on with it."""

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
"""What the names of the copies' tensors begin with in the checkpoint of the first policy that learns."""


class Keeper:
    """Checkpoints of all policies that learn, which are one moment.

    Attributes:
        written: decisions at the newest checkpoint; -1: this process wrote none.
    """

    def __init__(self, settings: BatchedSettings, run: Run, playing: Playing) -> None:
        self.written = -1
        self._settings, self._run, self._playing = settings, run, playing
        self._best: dict[str, float] = {}
        """What policies of the newest checkpoint are worth, by their newest episodes."""

    def begin(self) -> Compile | None:
        """Go on where the run stands, or begin where its settings say; see :meth:`_restore`. Raises CheckpointError."""
        if self._run.folder.resumed or self._run.plays:
            return self._restore()
        origins = Origins(self._settings)
        for seat in self._playing.seats:
            origin = None if seat.settings.player is not None else origins.of(seat.name, seat.name)
            if origin is not None:
                seat.learner.load(origin.tensors, origin.manifest["learner"]["algorithm"], fresh=True)
            elif origins.run and seat.settings.player is None:
                raise CheckpointError(f"--initialize-from {origins.run}: it holds no checkpoint of '{seat.name}'")
        return None

    @property
    def better(self) -> bool:
        """Whether a checkpoint is worth it: always, but where all policies keep their best alone and none became so."""
        return any(
            not seat.settings.save_best_only
            or seat.name not in self._best  # the first is worth it whatever it is
            or _rank(seat) > self._best[seat.name]
            for seat in self._playing.learning
        )

    def save(self, *, compiled: bool) -> None:
        """Write a moment. ``compiled``: whether steps are, which a run that goes on from here will do again."""
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
        """Writes a policy as it stands; None: it is nothing that can be exported."""
        policy = None if self._run.hurried.is_set() else seat.learner.policy(seat.updates)
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
        """Go on with the newest moment of which everything is whole.

        Returns:
            What the earlier part of this run has found: numbers of compiled steps may differ in their last bit.
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
            if values.get("best") is not None:  # earlier checkpoints have none
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
        """Of every policy that learns the checkpoint of one moment, the newest that is whole."""
        names, folder = [seat.name for seat in self._playing.learning], self._run.folder
        whole = newest_moment(folder.checkpoints, names)
        for warning in whole.warnings:
            self._run.hub.warning(warning)
        found = {checkpoint.name: checkpoint for checkpoint in whole.checkpoints.values()}
        if found.keys() != set(names) or len({checkpoint.manifest["steps"] for checkpoint in found.values()}) != 1:
            raise CheckpointError(
                f"the run in '{folder.path}' saved no moment of which everything can be read, so there is "
                "nothing to go on from; begin it again with --force"
            )
        return found


def _rank(seat: Seat) -> float:
    """What a policy is worth by its newest episodes; before there were enough, less than anything."""
    mean = seat.returns.mean
    return -math.inf if mean is None else mean
