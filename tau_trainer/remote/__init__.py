"""Processes of ours somewhere else: how they begin and end, what is said to them, memory that they share."""
