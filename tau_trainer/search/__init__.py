"""Searches before a long run: for a learning rate, an optimizer, or the best of several settings, with short trials.

>>> from tau_trainer import load_settings
>>> from tau_trainer.search import LRFinder
>>> LRFinder(load_settings("CartPole")).find().suggestion  # doctest: +SKIP
"""

from __future__ import annotations

from tau_trainer.search.compare import OPTIMIZERS, AgentFinder, Comparison, OptFinder
from tau_trainer.search.lr import LRFinder, LRResult
from tau_trainer.search.sweep import Sweep
from tau_trainer.search.trial import Trial, TrialResult, state_of

__all__ = [
    "OPTIMIZERS",
    "AgentFinder",
    "Comparison",
    "LRFinder",
    "LRResult",
    "OptFinder",
    "Sweep",
    "Trial",
    "TrialResult",
    "state_of",
]
