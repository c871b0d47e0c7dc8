"""The replay memory of copies on tensors: rows of a rollout in a :class:`Ring` on their device.

Its rows have the columns of the memory of engines, so both are read alike. With masks, decisions that a limit cut are
left out if learning needs the mask after them, because that belongs to the new episode.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tau_trainer.columns import Arrays, Column, prefixed, unprefixed
from tau_trainer.memory import TensorRollout
from tau_trainer.memory.ring import Ring
from tau_trainer.models import ActorCritic
from tau_trainer.models.distributions import forbidden_of
from tau_trainer.settings import OffPolicyHyperparameters

RING_FOR_AN_END = 20
"""Transitions in the ring for each that the memory of ends holds."""
_ENDS = "ends."


class TensorReplay:
    """The newest transitions of copies, and with ``terminal_share`` the newest that ended an episode.

    Args:
        network: the network that acts.
        hyper: its ``buffer_size``, ``batch_size`` and ``terminal_share``.
        masks_after: whether learning needs the mask of the next decision.
    """

    def __init__(self, network: ActorCritic, hyper: OffPolicyHyperparameters, *, masks_after: bool) -> None:
        self._hyper, self._masks_after = hyper, masks_after
        self._choices, self._device = network.action.choices, network.action.weight.device
        self._observation = network.spec.observations[0].size
        self._rings: tuple[Ring, ...] = ()
        """Of all transitions, and of ends; made when it is known whether the environment masks anything."""
        self._held = 0

    def __len__(self) -> int:
        """Number of decisions it holds, including those of agents that had left, which only the device can count."""
        return self._held

    @property
    def row_bytes(self) -> int:
        """Most bytes of a row."""
        return sum(column.size for column in self._columns(("forbidden", "next_forbidden")))

    def append(self, rollout: TensorRollout, rewards: torch.Tensor) -> Callable[[], None]:
        """Take in a rollout; returns a function that removes it again, until the next one.

        ``rewards``: float32 [T E A, 1] to learn from.
        """
        rows, kept = self._rows(rollout) | {"rewards": rewards}, rollout.present.flatten()
        if "next_forbidden" in rows:
            kept = kept & ~rollout.truncated.flatten()
        self._rings, held = self._rings or self._new_rings(rows), self._held
        which = (kept, kept & rows["terminated"])
        undone = [ring.append(rows, those) for ring, those in zip(self._rings, which, strict=False)]
        self._held = min(held + len(rollout), self._hyper.buffer_size)

        def undo() -> None:
            self._held = held
            for each in undone:
                each()

        return undo

    def _rows(self, rollout: TensorRollout) -> dict[str, torch.Tensor]:
        """Columns [T E A, ...] of all decisions, without rewards."""
        count, after = len(rollout), rollout.final
        # Without limits, the next observations follow a decision; after a real end they are not used.
        if after is None:
            after = torch.cat((rollout.observations[1:], rollout.after[None]))
        rows = {
            "input_0": rollout.observations.reshape(count, -1),
            "next_0": after.reshape(count, -1),
            "terminated": rollout.terminated.flatten(),
            **{name: rollout.kept[name].flatten(0, 2) for name in ("continuous", "discrete") if name in rollout.kept},
        }
        if rollout.mask is not None and rollout.after_mask is not None:
            # bool [(T + 1) E A, M], allowed.
            masks = torch.cat((rollout.mask, rollout.after_mask[None])).flatten(0, 2)
            forbidden = forbidden_of(masks, self._choices.discrete_branches)
            rows["forbidden"] = forbidden[:count]
            if self._masks_after:
                rows["next_forbidden"] = forbidden[-count:]
        return rows

    def draw(self, minibatches: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """``minibatches`` minibatches of every column, [n, ...], one after another, uniformly and with replacement.

        With ``terminal_share``, this share of each comes from the ends, at most as many as there are.
        """
        ring, *ends = self._rings
        size = self._hyper.batch_size
        rows = ring.draw(minibatches * size, generator)
        share = int(self._hyper.terminal_share * size)  # of each minibatch
        for memory in ends:
            first = torch.arange(share, device=self._device) < memory.size  # bool [share]: as many as there are ends
            for name, values in memory.draw(minibatches * share, generator).items():
                replaced = rows[name].view(minibatches, size, -1)[:, :share]
                there = first[:, None].expand_as(replaced)
                replaced.copy_(values.view_as(replaced).where(there, replaced))
        free = torch.zeros(minibatches * size, self._choices.mask_size, dtype=torch.bool, device=self._device)
        none = {"continuous": free[:, :0].float(), "discrete": free[:, :0].long()}
        return {**none, "forbidden": free, "next_forbidden": free, **rows}

    def state(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Arrays by name, and the number of decisions held; waits for the device."""
        arrays = dict[str, NDArray[Any]]()
        for prefix, ring in zip(("", _ENDS), self._rings, strict=False):
            arrays |= prefixed(prefix, ring.state())
        return arrays, self._held

    def load(self, arrays: Arrays, held: int) -> None:
        """Restore :meth:`state` of the same settings into an empty memory. Raises ValueError."""
        if held <= 0:  # nothing was played yet
            return
        rings = self._new_rings(arrays)
        for prefix, ring in zip(("", _ENDS), rings, strict=False):
            found = unprefixed(prefix, arrays)
            if not prefix or found:  # an earlier session drew uniformly
                ring.load(found)
        self._rings, self._held = rings, min(held, self._hyper.buffer_size)

    def _new_rings(self, names: Container[str]) -> tuple[Ring, ...]:
        """Empty rings with the columns of these names."""
        columns, hyper = self._columns(names), self._hyper
        ring = Ring(columns, hyper.buffer_size, self._device)
        if not hyper.terminal_share:
            return (ring,)
        return ring, Ring(columns, max(hyper.batch_size, hyper.buffer_size // RING_FOR_AN_END), self._device)

    def _columns(self, names: Container[str]) -> list[Column]:
        """All columns, masks only if they are among these ``names``."""
        choices, size = self._choices, self._observation
        masks = [name for name in ("forbidden", "next_forbidden") if name in names]
        columns = (
            Column("input_0", (size,)),
            Column("next_0", (size,)),
            Column("continuous", (choices.continuous_size,)),
            Column("discrete", (choices.discrete_size,), np.int64),
            *(Column(name, (choices.mask_size,), np.bool_) for name in masks),
            Column("rewards", (1,)),
            Column("terminated", (), np.bool_),
        )
        return [column for column in columns if column.size]
