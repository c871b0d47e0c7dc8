"""Runs a model with onnxruntime on one thread: quick to start and no burden on a training beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tau_trainer.errors import ExportError
from tau_trainer.export import names
from tau_trainer.export.graph import PolicyGraph
from tau_trainer.specs import BoolArray, FloatArray

Outputs = dict[str, NDArray[Any]]
"""A model's outputs by name."""

_ERRORS_ONLY = 3


def session_of(model: bytes, seed: int = 0) -> onnxruntime.InferenceSession:
    """A CPU session whose random operators start from ``seed``.

    Raises:
        ExportError: onnxruntime refuses the model.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    onnxruntime.set_seed(seed)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has one exception type per status code and no common base
        raise ExportError(f"onnxruntime cannot load the model ({error}); export it again with this version.") from error


def run(
    session: onnxruntime.InferenceSession, graph: PolicyGraph, obs: Sequence[FloatArray], forbidden: BoolArray | None
) -> Outputs:
    """All outputs for ``n`` agents.

    Args:
        session: from :func:`session_of`.
        graph: the policy that the model was written from.
        obs: one float32 [n, *shape] per sensor.
        forbidden: bool [n, sum of branches], True = forbidden; None allows everything.

    Raises:
        ExportError: the model fails on this input.
    """
    feed: dict[str, NDArray[Any]] = {names.observation_name(i): values for i, values in enumerate(obs)}
    if graph.branches:
        allowed = np.ones((len(obs[0]), graph.actions.mask_size), np.float32)
        feed[names.ACTION_MASKS] = allowed if forbidden is None else (~forbidden).astype(np.float32)
    return run_feed(session, feed)


def run_feed(session: onnxruntime.InferenceSession, feed: dict[str, NDArray[Any]]) -> Outputs:
    """All outputs for inputs given by name.

    Raises:
        ExportError: the model fails on this input.
    """
    outputs = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(outputs, session.run(outputs, feed), strict=True))
    except Exception as error:  # as in session_of
        raise ExportError(f"onnxruntime cannot run the model ({error}); report this as a defect.") from error
