"""Commands of parts that also work without training."""
