"""Pairs of TauAgent and AgentTrainer, and the code that runs them.

A process that only learns needs few of these modules.
"""
