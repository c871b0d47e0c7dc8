"""Actors: environments in processes of their own, and the trainer that learns from their experience."""
