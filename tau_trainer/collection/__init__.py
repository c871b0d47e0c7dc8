"""Collects experience: engines that are restarted, and decisions in batches."""
