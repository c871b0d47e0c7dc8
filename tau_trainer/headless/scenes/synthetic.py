"""A Tau data set made of numbers alone, for machines without text, vectors or patience (tau.md 5.8).

Each answer gets a random direction in the prompts' space; a prompt is the unit vector of its answer's direction plus
noise. That keeps what matters of the real task: prompts of unit length (0.051 a component), the trap of the zero
action, a few frequent answers, and a link that can be learned.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tau_trainer.headless.options import SYNTHETIC
from tau_trainer.specs import FloatArray, IntArray
from tau_trainer.tau.dataset import SplitName, TauDataset, TauSplit
from tau_trainer.tau.profiles import EMBEDDING_SIZE

ANSWERS = 40
TRAINING_ROWS = 600
EVALUATION_ROWS = 150
TOP_SHARE = 0.17
"""Share of the most frequent answer, as in Tau's own data (tau.md 1.6)."""
NOISE = 0.6
"""Length of a prompt's noise compared with its answer's direction."""
_SEED = 384


@lru_cache(maxsize=1)
def synthetic_dataset() -> TauDataset:
    """The synthetic data set: always the same one, made once in a process."""
    generator = np.random.default_rng(_SEED)
    vectors = _unit(generator.normal(size=(ANSWERS, EMBEDDING_SIZE)))
    directions = _unit(generator.normal(size=(ANSWERS, EMBEDDING_SIZE)))
    names = tuple(f"answer-{number:02d}" for number in range(ANSWERS))
    train = _split("train", TRAINING_ROWS, directions, names, generator)
    evaluation = _split("evaluation", EVALUATION_ROWS, directions, names, generator)
    return TauDataset(SYNTHETIC, SYNTHETIC, names, _float32(vectors), ANSWERS, train, evaluation, ())


def _split(
    name: SplitName, rows: int, directions: NDArray[np.float64], names: tuple[str, ...], generator: np.random.Generator
) -> TauSplit:
    answer: IntArray = generator.choice(ANSWERS, size=rows, p=_shares()).astype(np.int32)
    answer[:ANSWERS] = np.arange(ANSWERS)  # every answer occurs in both splits
    noise = _unit(generator.normal(size=(rows, EMBEDDING_SIZE)))
    prompts = _float32(_unit(directions[answer] + NOISE * noise))
    numbers = np.arange(1, rows + 1, dtype=np.int32)
    for array in (answer, numbers):
        array.setflags(write=False)
    prompt_text = tuple(f"{name} prompt {number}" for number in numbers)
    return TauSplit(name, prompts, answer, prompt_text, tuple(names[i] for i in answer), (SYNTHETIC,) * rows, numbers)


def _shares() -> NDArray[np.float64]:
    """How often each answer is drawn: the first by ``TOP_SHARE``, the others falling like 1 / rank."""
    rest = 1.0 / np.arange(2, ANSWERS + 1)
    return np.concatenate([[TOP_SHARE], (1.0 - TOP_SHARE) * rest / rest.sum()])


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _float32(array: NDArray[np.float64]) -> FloatArray:
    result = array.astype(np.float32)
    result.setflags(write=False)
    return result
