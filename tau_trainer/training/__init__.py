"""Pairs of TauAgent and AgentTrainer, and everything that runs them. A process that only learns needs few of them."""
