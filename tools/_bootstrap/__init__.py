"""The commands of `tools/bootstrap.py`, for a Python that is new enough: standard library only."""
