"""The run: what is the same however experience is gathered, and what a run leaves on the disk."""
