"""One random stream for each agent, drawn for many agents at once.

An agent's stream depends only on the seed and on the agent's number, not on the number of agents or on the order in
which they end: an engine with 64 agents gives agent 5 the same episodes as an engine with 6 agents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tau_trainer.specs import Float64Array, IndexArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = tuple(np.uint64(bits) for bits in (30, 27, 31, 11))
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014, figure 16): uint64 [...] to uint64 [...]."""
    state = state ^ (state >> _SHIFT[0])
    state *= _MIX[0]
    state ^= state >> _SHIFT[1]
    state *= _MIX[1]
    state ^= state >> _SHIFT[2]
    return state


class AgentRandom:
    """Independent SplitMix64 streams for agents ``0 .. agents-1``."""

    def __init__(self, seed: int, agents: int) -> None:
        number = np.arange(1, agents + 1, dtype=np.uint64)
        self._state: NDArray[np.uint64] = _mix(_mix(np.full(agents, seed % 2**64, np.uint64)) + number * _GAMMA)

    def __len__(self) -> int:
        return len(self._state)

    def uniform(self, index: IndexArray | None = None, count: int = 1) -> Float64Array:
        """Draw ``count`` numbers in [0, 1) for each agent of ``index`` (None: all agents).

        Returns float64 [count, k]. Only the streams of these agents advance. ``index`` must not repeat an agent.
        """
        start = self._state if index is None else self._state[index]
        state = start + _GAMMA * np.arange(1, count + 1, dtype=np.uint64)[:, None]
        if index is None:
            self._state = state[-1].copy()
        else:
            self._state[index] = state[-1]
        return (_mix(state) >> _SHIFT[3]).astype(np.float64) * _UNIT
