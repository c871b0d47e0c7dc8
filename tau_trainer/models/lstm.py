"""Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import override

from tau_trainer.models.blocks import Recurrent

if TYPE_CHECKING:
    from tau_trainer.models.graph import GraphWriter
    from tau_trainer.settings import MemorySettings

_GATES = 4
_FORGET_BIAS = 2.0
"""Initial bias of the forget gate: ML-Agents has two biases, and each starts at 1."""
_ONNX_ORDER = (0, 3, 1, 2)
"""torch orders the gates as input, forget, cell, output; ONNX as input, output, forget, cell."""


class LSTM(Recurrent):
    """One layer of ``memory_size / 2`` cells; its state is ``[h | c]`` and its output is ``h``.

    Initial weights as in ML-Agents: every gate's matrix by Glorot and Bengio (2010), uniform.

    Args:
        inputs: number of input features.
        settings: its size.
    """

    def __init__(self, inputs: int, settings: MemorySettings) -> None:
        super().__init__()
        self.state_size, self.size = settings.memory_size, settings.memory_size // 2
        self.input = torch.nn.Linear(inputs, _GATES * self.size)
        self.hidden = torch.nn.Linear(self.size, _GATES * self.size, bias=False)
        with torch.no_grad():
            # Each gate separately: fan-out is that of one gate.
            for gate in (*self.input.weight.chunk(_GATES), *self.hidden.weight.chunk(_GATES)):
                torch.nn.init.xavier_uniform_(gate)
            self.input.bias.zero_()
            self.input.bias[self.size : 2 * self.size] = _FORGET_BIAS

    @override
    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        said, h, c = self._run(x[None], state)
        return said[0], torch.cat((h[0], c[0]), dim=1)

    @override
    def along(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self._run(x, state)[0]

    def _run(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """All steps in torch's own kernel: outputs [T, n, H], and h and c [1, n, H] after the last step."""
        h, c = (half.contiguous()[None] for half in (state[:, : self.size], state[:, self.size :]))  # [1, n, H] each
        bias = self.input.bias
        # Torch has two biases, but one is enough.
        parameters = [self.input.weight, self.hidden.weight, bias, torch.zeros_like(bias)]
        # Has biases, 1 layer, no dropout; cuDNN needs the training flag for gradients; one direction, time first.
        return torch.lstm(x, (h, c), parameters, True, 1, 0.0, torch.is_grad_enabled(), False, False)

    @override
    def write(self, graph: GraphWriter, x: str, state: str) -> tuple[str, str]:
        def gates(values: torch.Tensor) -> np.ndarray:
            parts = values.detach().cpu().numpy().reshape(_GATES, self.size, *values.shape[1:])
            return parts[list(_ONNX_ORDER)].reshape(1, *values.shape)

        weights = [
            graph.constant("lstm.input", gates(self.input.weight)),
            graph.constant("lstm.hidden", gates(self.hidden.weight)),
            graph.constant(
                "lstm.bias", np.concatenate((gates(self.input.bias), np.zeros_like(gates(self.input.bias))), 1)
            ),
        ]
        halves = slice(0, self.size), slice(self.size, self.state_size)
        before = [
            graph.reshape(graph.columns(state, f"lstm.{name}", half), f"lstm.{name}.before", [1, -1, self.size])
            for name, half in zip("hc", halves, strict=True)
        ]
        step = graph.reshape(x, "lstm.step", [1, -1, self.input.in_features])
        after = graph.add_many(
            "LSTM", [step, *weights, "", *before], ["", "lstm.h.after", "lstm.c.after"], hidden_size=self.size
        )[1:]
        h, c = (graph.reshape(name, f"{name}.flat", [-1, self.size]) for name in after)
        return h, graph.concat([h, c], "lstm.state")
