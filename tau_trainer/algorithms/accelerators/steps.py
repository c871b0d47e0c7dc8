"""Hand-written gradient steps of algorithms with a replay memory: one class runs the function of any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tau_trainer.algorithms.accelerators.scripting import scripted
from tau_trainer.algorithms.off_policy.transitions import Transitions


class FusedSteps:
    """A function that takes gradient steps, with its working memory.

    Args:
        run: maps ``hyper``, ``networks``, the working memory, transitions, noise and the learning rate to a row of
            numbers for each step. TorchScript must understand it.
        hyper: hyperparameters that do not change.
        networks: all tensors that a step changes, with ``weights``.
        new_space: makes the working memory from the weights, for minibatches of a number of rows.
    """

    def __init__(
        self, run: Callable[..., torch.Tensor], hyper: Any, networks: Any, new_space: Callable[[Any, int], Any]
    ) -> None:
        self._hyper, self._networks, self._new_space = hyper, networks, new_space
        self._space: tuple[int, Any] = 0, None
        self._steps = scripted(run)
        self.scripted = self._steps is not run
        """Whether steps run without the interpreter's lock."""

    def run(self, drawn: Transitions, noise: torch.Tensor, learning_rate: float) -> torch.Tensor:
        """Learn from a minibatch for each step of ``noise`` [draws, steps, B, c]; returns [steps, m]."""
        rows = noise.shape[2]
        if self._space[0] != rows:
            self._space = rows, self._new_space(self._networks.weights, rows)
        found: torch.Tensor = self._steps(self._hyper, self._networks, self._space[1], drawn, noise, learning_rate)
        return found
