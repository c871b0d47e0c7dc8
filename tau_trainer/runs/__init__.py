"""The run: the parts that do not depend on how experience is collected, and the files that a run writes."""
