"""Parts of ``tools/tau_vectors.py``: plain Python that shares no code with what it is meant to test."""
