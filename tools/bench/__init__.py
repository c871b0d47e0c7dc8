"""Benchmarks: side by side with mlagents-learn, the wire alone, and environments of other kinds.

Every figure is counted by the engine (`--report-file`), never reported by a trainer itself.
"""
