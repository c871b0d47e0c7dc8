"""Hironaka's polyhedra game as tensors: its rules, fixed players, trees, and the environments."""

from tau_trainer.envs.polyhedra.env import Polyhedra
from tau_trainer.envs.polyhedra.players import AGENTS, HOSTS, Player, Role, View, found
from tau_trainer.envs.polyhedra.rules import Position, Rules, begun, ordered, over, played
from tau_trainer.envs.polyhedra.sides import Hironaka

__all__ = [
    "AGENTS",
    "HOSTS",
    "Hironaka",
    "Player",
    "Polyhedra",
    "Position",
    "Role",
    "Rules",
    "View",
    "begun",
    "found",
    "ordered",
    "over",
    "played",
]
