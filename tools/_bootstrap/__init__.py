"""What `tools/bootstrap.py` does once it runs on a Python that is new enough: standard library only."""
