"""Algorithms that learn from recordings alone."""
