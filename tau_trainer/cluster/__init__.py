"""Processes of ours on the nodes of a Ray cluster. Nothing here is imported before a cluster is asked for."""
