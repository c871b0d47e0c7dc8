"""The policies of a batched run, as its checkpoints see them, and the state of the copies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch

from tau_trainer.columns import Arrays
from tau_trainer.export import export_onnx
from tau_trainer.runs.checkpoints import Checkpoint
from tau_trainer.runs.run import Run
from tau_trainer.runs.store import ModelWriter
from tau_trainer.specs import Json
from tau_trainer.training import behavior_json
from tau_trainer.training.batched.playing import Playing
from tau_trainer.training.batched.policies import PolicyEntry

_ENVIRONMENT = "environment."
"""Prefix of the names of the copies' tensors in the checkpoint of the first policy that learns."""
_FROZEN = "frozen."
"""The same for the policies that do not learn, which have no checkpoints of their own."""


class SavedEntry:
    """A policy of a batched run: see :class:`~tau_trainer.training.checkpointing.Checkpointed`."""

    phases = None

    def __init__(self, entry: PolicyEntry, playing: Playing, run: Run) -> None:
        self.name, self.spec, self.settings, self.algorithm = entry.name, entry.spec, entry.settings, entry.learner
        self._entry, self._playing, self._run = entry, playing, run

    @property
    def decisions(self) -> int:
        """Decisions of this policy."""
        return self._playing.steps_of(self._entry)

    @property
    def version(self) -> int:
        """Number of its updates."""
        return self._entry.updates

    def best_mark(self) -> float:
        """Mean return over its newest episodes; minus infinity before there are enough."""
        mean = self._entry.returns.mean
        return -math.inf if mean is None else mean

    def state(self) -> tuple[Arrays, Json]:
        """The learner's state and the counts; the first policy that learns has the copies and frozen policies too."""
        (arrays, metadata), counts, mark = self.algorithm.state(), self._entry.counts(), self.best_mark()
        if self._entry is self._playing.learning[0]:
            copies = self._playing.copies_state().items()
            arrays = {**arrays, **{f"{_ENVIRONMENT}{name}": values.cpu().numpy() for name, values in copies}}
            frozen = {entry.name: entry.learner.state() for entry in self._playing.policies if entry.frozen}
            for name, (held, _) in frozen.items():
                arrays |= {f"{_FROZEN}{name}.{key}": values for key, values in held.items()}
            counts["frozen"] = {name: of_it for name, (_, of_it) in frozen.items()}
        return arrays, {
            "algorithm": metadata,
            "mean_reward": counts.pop("mean_return"),
            **counts,
            "best": mark if mark > -math.inf else None,
            "behavior": behavior_json.to_json(self.spec),
        }

    def restore(self, arrays: Arrays, values: Json) -> None:
        """Continue from a checkpoint; if the run only plays, all counts stay at 0."""
        self.algorithm.load(arrays, values["algorithm"], fresh=False)
        if self._entry is self._playing.learning[0]:
            self._restore_frozen(arrays, values.get("frozen", {}))
        if not self._run.plays:
            self._entry.go_on({**values, "mean_return": values["mean_reward"]})

    def _restore_frozen(self, arrays: Arrays, held: Json) -> None:
        for entry in self._playing.policies:
            prefix = f"{_FROZEN}{entry.name}."
            found = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
            if entry.frozen and entry.name in held:
                entry.learner.load(found, held[entry.name], fresh=False)
            elif entry.frozen:  # an earlier version wrote the checkpoint
                self._run.hub.warning(f"'{entry.name}' starts from scratch: the run saved nothing of it")

    def begin_from(self, arrays: Arrays, values: Json) -> None:
        """Start with the weights of another run."""
        self.algorithm.load(arrays, values["algorithm"], fresh=True)

    def model(self) -> ModelWriter | None:
        """Writer of the current policy; None if it cannot be exported."""
        policy = self.algorithm.policy(self.algorithm.weights(), self.version)
        return None if policy is None else partial(export_onnx, policy, self.spec)


def restore_copies(playing: Playing, found: Mapping[str, Checkpoint]) -> None:
    """Continue with the copies of a checkpoint set. Raises CheckpointError if they do not fit the settings."""
    first = found[playing.learning[0].name]
    copies = {
        name.removeprefix(_ENVIRONMENT): torch.from_numpy(values.copy())
        for name, values in first.tensors.items()
        if name.startswith(_ENVIRONMENT)
    }
    playing.load_copies(first.manifest["steps"], copies)
