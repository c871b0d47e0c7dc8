"""Recorders for tracking services: one file for each, loaded only if ``recorders`` names it."""
