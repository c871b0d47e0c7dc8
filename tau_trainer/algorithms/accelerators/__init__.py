"""Gradients that are written by hand for plain networks, where that is faster than torch's own."""
