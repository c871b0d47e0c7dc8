"""Exports a policy as the ``.onnx`` file that a Unity project drops on its agent."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Protocol

import numpy as np

from tau_trainer.errors import ExportError
from tau_trainer.export import names
from tau_trainer.export.build import build_model
from tau_trainer.export.graph import ACTION_LIMIT, PolicyGraph
from tau_trainer.export.unity import unity_problems
from tau_trainer.export.verify import Act, verify
from tau_trainer.specs import Actions, BehaviorSpec, BoolArray, FloatArray, IntArray


class ActResult(Protocol):
    """What a policy answers; see ``tau_trainer.models``."""

    @property
    def continuous(self) -> FloatArray:
        """float32 [n, continuous_size], before clipping."""

    @property
    def discrete(self) -> IntArray:
        """int32 [n, branches]."""


class ActingPolicy(Protocol):
    """What the exporter needs of a policy; see ``tau_trainer.models``."""

    def graph(self) -> PolicyGraph:
        """Its network as arrays."""

    def act(
        self,
        obs: tuple[FloatArray, ...],
        mask: BoolArray | None,
        rng: np.random.Generator,
        deterministic: bool = False,
    ) -> ActResult:
        """Actions for ``n`` agents."""


def export_onnx(
    policy: ActingPolicy | PolicyGraph, spec: BehaviorSpec, path: Path, *, opset: int = names.DEFAULT_OPSET
) -> Path:
    """Writes ``policy`` to ``path`` and proves that the file acts the same.

    The file appears whole, after onnxruntime has run it and all comparisons have passed, or not at all; a file that
    was there before stays in that case. Given an acting policy, its own deterministic actions are compared too.

    Args:
        policy: a policy, or its network as arrays.
        spec: the behavior, with all its sensors in wire order, also those hidden from the policy.
        path: the file to write; missing folders are made.
        opset: operator set, 9 to 15.

    Returns:
        ``path``.

    Raises:
        ExportError: the policy does not fit the behavior, the file cannot be written, or it acts differently.
        NonFiniteError: a weight is NaN or infinite.
    """
    graph = (policy if isinstance(policy, PolicyGraph) else policy.graph()).for_behavior(spec)
    data = build_model(graph, opset).SerializeToString()
    verify(data, graph, None if isinstance(policy, PolicyGraph) else deterministic_act(policy))
    problems = unity_problems(data, spec)
    if problems:
        raise ExportError(f"Unity would complain about the model of '{spec.name}': {problems[0]}")
    _write(path, data)
    return path


def deterministic_act(policy: ActingPolicy) -> Act:
    """``policy`` as a function from observations to the deterministic actions that an engine gets."""

    def act(obs: tuple[FloatArray, ...], mask: BoolArray | None) -> Actions:
        result = policy.act(obs, mask, np.random.default_rng(0), deterministic=True)
        continuous = np.clip(result.continuous, -ACTION_LIMIT, ACTION_LIMIT) / np.float32(ACTION_LIMIT)
        return Actions(continuous, result.discrete)

    return act


def _write(path: Path, data: bytes) -> None:
    """Writes beside ``path``, flushes to the disk, and renames: the file is whole or absent."""
    staged = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
    except OSError as error:
        raise ExportError(
            f"Cannot write the model to '{path}' ({error.strerror}); choose a folder you may write to."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
