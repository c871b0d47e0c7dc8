"""Hironaka's polyhedra game as tensors: its rules, fixed players, trees, and the environment."""

from tau_trainer.envs.polyhedra.env import Polyhedra
from tau_trainer.envs.polyhedra.players import AGENTS, HOSTS, Player, View, found
from tau_trainer.envs.polyhedra.rules import Position, Rules, begun, over, played

__all__ = ["AGENTS", "HOSTS", "Player", "Polyhedra", "Position", "Rules", "View", "begun", "found", "over", "played"]
