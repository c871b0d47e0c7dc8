"""Runs of batched environments: acting, stepping and learning on one device."""
