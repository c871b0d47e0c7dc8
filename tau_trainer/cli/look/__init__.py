"""Commands that use the results of a run."""
