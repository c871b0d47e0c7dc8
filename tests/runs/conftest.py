"""What tests of whole runs need."""

from tests.training.conftest import memory, stage, undrawn

__all__ = ["memory", "stage", "undrawn"]
