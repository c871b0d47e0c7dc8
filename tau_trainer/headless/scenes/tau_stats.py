"""Statistics of the Tau scene: one report for each thousand rewards of all agents (tau.md 5.5)."""

from __future__ import annotations

import numpy as np

from tau_trainer.bridge.side_channels import Stat
from tau_trainer.specs import Aggregation, Float64Array, FloatArray, IntArray
from tau_trainer.tau.decoding import nearest

INTERVAL = 1000
"""Number of rewards in one report, as in Tau's own log."""
MOST_PAIRS = 64
"""Largest number of agents with a statistic of their own: thousands of keys would flood a dashboard."""


class TauStats:
    """Collects steps, and computes statistics from them for every ``INTERVAL`` rewards."""

    def __init__(self, agents: int, targets: FloatArray) -> None:
        self._targets = targets
        self._room = -(-INTERVAL // agents)  # steps
        self._output = np.zeros((self._room, agents, targets.shape[1]), np.float32)
        self._answer = np.zeros((self._room, agents), np.int32)
        self._reward = np.zeros((self._room, agents))
        self._used = 0
        self._decisions = 0
        self._ready: list[Stat] = []

    def add(self, output: FloatArray, answer: IntArray, reward: Float64Array, threshold: float) -> None:
        """Record one step: output [agents, A], correct answer [agents], reward [agents]."""
        step = self._used
        self._output[step] = output
        self._answer[step] = answer
        self._reward[step] = reward
        self._used += 1
        if self._used == self._room:
            self._report(threshold)
            self._used = 0

    def take(self) -> list[Stat]:
        """New statistics since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def _report(self, threshold: float) -> None:
        output = self._output.reshape(-1, self._targets.shape[1])
        answer = self._answer.reshape(-1)
        error = np.abs(output - self._targets[answer])
        right = nearest(output, self._targets) == answer
        self._decisions += len(answer)
        self._ready = [
            Stat("Averaged Reward", float(self._reward.mean()), Aggregation.AVERAGE),
            Stat("Tau/Accuracy", float(right.mean()), Aggregation.AVERAGE),
            Stat("Tau/Within Threshold", float((error < threshold).mean()), Aggregation.AVERAGE),
            Stat("Tau/Mean Abs Error", float(error.mean()), Aggregation.AVERAGE),
            Stat("Tau/Decisions", float(self._decisions), Aggregation.MOST_RECENT),
            *(
                Stat(f"Tau/Pair {number}/Mean Reward", float(mean), Aggregation.AVERAGE)
                for number, mean in enumerate(self._reward[:, :MOST_PAIRS].mean(axis=0))
            ),
        ]
