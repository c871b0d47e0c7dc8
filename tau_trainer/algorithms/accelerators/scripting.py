"""Loops of gradient steps without the interpreter, by TorchScript if it is available. No other module uses it.

``PYTORCH_JIT=0``, a variable of torch's own, switches it off: then the same functions run as ordinary Python.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, compiled once per process if TorchScript can, otherwise as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled: Callable[..., Any] = torch.jit.script(function)
            return compiled
    except (RuntimeError, AttributeError, OSError):
        # A torch without TorchScript, or a package without the source text that TorchScript reads.
        return function
