"""This program's processes on the nodes of a Ray cluster. Imported only if a run uses a cluster."""
