"""Explorations by name, and an Explorer for your own training loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter

from tau_trainer.columns import ColumnTable
from tau_trainer.exploration import noise, values
from tau_trainer.exploration.base import Exploration
from tau_trainer.settings.exploration import NOISES, VALUE_EXPLORATIONS, ExplorationSettings, by_type
from tau_trainer.specs import ActionSpec, BoolArray, FloatArray, IndexArray, Json

_KINDS: dict[str, Any] = {
    "softmax": values.Softmax,
    "eps_greedy": values.EpsGreedy,
    "adaptive_eps_greedy": values.AdaptiveEpsGreedy,
    "greedy": values.Greedy,
    "boltzmann": values.Boltzmann,
    "max_boltzmann": values.MaxBoltzmann,
    "boltzmann_gumbel": values.BoltzmannGumbel,
    "gumbel_softmax": values.GumbelSoftmax,
    "gaussian_white_noise": noise.GaussianWhiteNoise,
    "ornstein_uhlenbeck": noise.OrnsteinUhlenbeck,
}

_AnyExploration = by_type({**VALUE_EXPLORATIONS, **NOISES})


def make_exploration(settings: ExplorationSettings, actions: ActionSpec) -> Exploration:
    """The exploration that ``settings`` name, for a network with the choices ``actions``."""
    exploration: Exploration = _KINDS[settings.type](settings, actions)
    return exploration


class Explorer:
    """A policy over values, or noise, for your own training loop, with its clock and its random numbers.

    >>> explorer = Explorer({"type": "eps_greedy", "eps": 0.2}, actions=4, seed=7)
    >>> explorer.choose([[0.0, 1.0, 2.0, 3.0]]).shape
    (1,)

    Args:
        settings: as ``hyperparameters: exploration`` in a file.
        actions: number of actions: ``k`` discrete ones, or for noise ``c`` continuous ones.
        seed: of the random numbers.

    Raises:
        pydantic.ValidationError: the settings are not valid.
    """

    def __init__(self, settings: ExplorationSettings | Json, actions: int, seed: int = 0) -> None:
        read: ExplorationSettings = TypeAdapter(_AnyExploration).validate_python(settings)
        spec = ActionSpec(actions) if read.type in NOISES else ActionSpec(0, (actions,))
        self.exploration = make_exploration(read, spec)
        self.clock = self.exploration.clock()
        self._table = ColumnTable(self.exploration.state_columns)
        self._rng = np.random.default_rng(seed)

    @property
    def numbers(self) -> list[float]:
        """Current values of the changing numbers: epsilon, widths; empty if there are none."""
        numbers: list[float] = self._numbers().tolist()
        return numbers

    def _numbers(self) -> FloatArray:
        return self.exploration.numbers(self.clock[0], self.clock[1:])

    def choose(self, values: ArrayLike, forbidden: BoolArray | None = None) -> IndexArray:
        """Choose an action for each of ``n`` rows, and count it.

        Args:
            values: [n, k]; for ``softmax`` probabilities.
            forbidden: bool [n, k]; a row that is forbidden as a whole counts as unmasked. None forbids nothing.
        """
        if forbidden is not None:  # bool [n, k]
            forbidden = forbidden & ~forbidden.all(axis=1, keepdims=True)
        values = np.asarray(values, np.float32)
        chosen: IndexArray = self.exploration.choose(values, forbidden, self._numbers(), self._rng)
        self.clock = self.exploration.tick(self.clock, chosen[:, None])
        return chosen

    def perturb(self, actions: ArrayLike) -> FloatArray:
        """Add noise to continuous actions [n, c] in [-1, 1], clip them to that range, and count them.

        Row ``i`` continues its own noise from the previous call; see :meth:`reset`.
        """
        actions = np.asarray(actions, np.float32)
        self._table.reserve(len(actions))
        # Views of the first n rows.
        state = {column.name: self._table[column.name][: len(actions)] for column in self._table.columns}
        noisy, after = self.exploration.perturb(actions, self._numbers(), state, self._rng)
        for column in self._table.columns:
            self._table[column.name][: len(actions)] = after[column.name]
        # Noise counts only decisions.
        self.clock = self.exploration.tick(self.clock, np.zeros((len(actions), 0), np.int32))
        clipped: FloatArray = noisy.clip(-1.0, 1.0)
        return clipped

    def reset(self, rows: NDArray[np.integer[Any]] | slice = slice(None)) -> None:
        """Report that episodes of these rows start."""
        self._table.clear(rows)

    def state(self) -> dict[str, Any]:
        """All state for a resume, as JSON values."""
        rows = {column.name: self._table[column.name].tolist() for column in self._table.columns}
        return {"clock": self.clock.tolist(), "random": self._rng.bit_generator.state, "rows": rows}

    def load(self, state: Json) -> None:
        """Restore :meth:`state`."""
        self.clock = np.asarray(state["clock"], np.float64)
        self._rng.bit_generator.state = state["random"]
        self._table = ColumnTable(self.exploration.state_columns)
        for name, rows in state["rows"].items():
            self._table.reserve(len(rows))
            self._table[name][:] = rows
