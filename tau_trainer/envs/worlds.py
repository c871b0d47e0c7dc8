"""The earlier place of :mod:`tau_trainer.games.worlds`, for ``--env gym:tau_trainer.envs.worlds:GoalWorld-v0``."""

from tau_trainer.plugins import moved

GoalWorld = moved(__name__, "tau_trainer.games.worlds", "GoalWorld")
BitFlipping = moved(__name__, "tau_trainer.games.worlds", "BitFlipping")
