"""Encoders of images and of lists of entities, as in ML-Agents."""
