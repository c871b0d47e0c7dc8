"""Actors beside the learner: environments in processes of their own, and what learns from what they push."""
