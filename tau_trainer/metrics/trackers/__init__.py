"""Recorders whose numbers go to a tracking service: one file a service, each loaded where ``recorders`` names it."""
