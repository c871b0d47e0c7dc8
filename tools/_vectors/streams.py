"""SplitMix64 in Python's own integers: the vectors of the random streams, and where other cases get numbers from."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]

_WORD = 2**64
_GAMMA = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    """Output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 16)."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % _WORD
    return state ^ (state >> 31)


class Stream:
    """Numbers for the cases; the same on every Python."""

    def __init__(self, seed: int, agent: int = 0) -> None:
        self._state = mix((mix(seed % _WORD) + (agent + 1) * _GAMMA) % _WORD)

    def bits(self) -> int:
        """53 random bits."""
        self._state = (self._state + _GAMMA) % _WORD
        return mix(self._state) >> 11

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return self.bits() / 2**53

    def below(self, count: int) -> int:
        """A number in 0 .. count-1."""
        return int(self.uniform() * count)

    def dyadic(self, low: int, high: int, denominator: int) -> float:
        """A fraction with this power of two below the line: exact in single precision."""
        return (low + self.below(high - low + 1)) / denominator


SEEDS = (0, 1, -1, 12345, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
AGENTS = (0, 1, 5, 63)


def random_cases() -> list[Case]:
    """First draws of every seed and agent; seeds are texts, since JSON's numbers end at 2^53."""
    cases = []
    for seed in SEEDS:
        for agent in AGENTS:
            draws, choices = Stream(seed, agent), Stream(seed, agent)
            cases.append(
                {
                    "seed": str(seed),
                    "agent": agent,
                    "uniform": [draws.uniform() for _ in range(4)],
                    "count": 33,
                    "next": [choices.below(33) for _ in range(8)],
                }
            )
    return cases
