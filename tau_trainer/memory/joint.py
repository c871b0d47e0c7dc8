"""Experience of which is known who decided together."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from tau_trainer.columns import Column, Rows
from tau_trainer.memory.base import Rewards, Values
from tau_trainer.memory.rollout import RolloutMemory

GROUP = "group"
"""What a decision brings: the number of the agent's group, as its environment has it; 0 is none."""
JOINT = Column("joint", (), np.int64)
"""The same for all agents of one group that decided at the same moment, and for nobody else."""


class JointMemory(RolloutMemory):
    """A :class:`RolloutMemory` with the column :data:`JOINT`.

    What is appended together is one moment of one environment, so agents of one group in it decided together. An agent
    without a group decides alone.
    """

    largest = 0
    """Agents that decided together, at most."""
    _joints = 0

    @override
    def append(self, rows: Rows, rewards: Rewards, values: Values, version: int) -> None:
        groups = values[GROUP]
        assert groups is not None
        found, joints, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        alone = groups == 0
        joints = np.where(alone, len(found) + np.arange(len(groups)), joints)
        self.largest = max(self.largest, sizes[found != 0].max(initial=min(1, len(groups))))
        joint = self._joints + joints
        self._joints += len(found) + len(groups)
        super().append(rows, rewards, {**values, JOINT.name: joint}, version)
