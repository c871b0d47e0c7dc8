"""Loops of gradient steps without the interpreter: TorchScript, where it is there. Nothing else asks torch for it.

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
    """``function``, scripted where TorchScript can, else as it is; compiled once a process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled: Callable[..., Any] = torch.jit.script(function)
            return compiled
    except (RuntimeError, AttributeError, OSError):
        # A torch without TorchScript, or a package without its source text (TorchScript reads it).
        return function
