"""Environments in pairs, each with its agents, and the code that runs them side by side."""
