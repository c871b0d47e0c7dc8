"""What tests of whole runs and of commands need."""

from tests.cli.conftest import _terminal
from tests.training.conftest import memory, undrawn

__all__ = ["_terminal", "memory", "undrawn"]
