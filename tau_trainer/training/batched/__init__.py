"""Runs of batched environments: acting, stepping and learning on one device."""

from tau_trainer.training.batched.api import train_batched

__all__ = ["train_batched"]
