"""Hironaka's polyhedra game as tensors: rules, fixed players, trees, environments, its trainer, and its command."""
