"""Exploration: policies over values, and noise on continuous actions, that deviate from the best known action."""

from tau_trainer.exploration.base import Exploration, gumbel
from tau_trainer.exploration.explorer import Explorer, make_exploration

__all__ = ["Exploration", "Explorer", "gumbel", "make_exploration"]
