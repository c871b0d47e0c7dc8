"""Commands of parts that work alone."""
