"""Environments in pairs, each with its agents, and what runs them side by side."""
