"""Runs a model with onnxruntime on one thread: starts quickly and does not slow down a training run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tau_trainer.errors import ExportError
from tau_trainer.export.cases import Case
from tau_trainer.models import tensor_names as names
from tau_trainer.specs import BehaviorSpec

if TYPE_CHECKING:
    import onnxruntime

Outputs = dict[str, NDArray[Any]]
"""A model's outputs by name."""

_ERRORS_ONLY = 3


def session_of(model: bytes, seed: int = 0) -> onnxruntime.InferenceSession:
    """A CPU session whose random operators start from ``seed``.

    Raises:
        ExportError: onnxruntime refuses the model.
    """
    # When it loads, it would store an ID of this machine, and report it and every session to its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # starts a thread; after that, this process cannot be forked

    onnxruntime.disable_telemetry_events()  # for Windows builds, which ignore the variable
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    onnxruntime.set_seed(seed)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has one exception type per status code and no common base
        raise ExportError(f"onnxruntime cannot load the model ({error}); export it again with this version.") from error


def run_case(session: onnxruntime.InferenceSession, spec: BehaviorSpec, case: Case) -> Outputs:
    """All outputs for one case.

    Args:
        session: from :func:`session_of`.
        spec: the behavior that the model was written for.
        case: the inputs, if the model takes them; uint8 values are scaled to [0, 1], like Unity's images.

    Raises:
        ExportError: the model fails on this input.
    """
    inputs = {given.name for given in session.get_inputs()}
    feed: dict[str, NDArray[Any]] = {
        name: values.astype(np.float32) / np.float32(255 if values.dtype == np.uint8 else 1)
        for i, values in enumerate(case.obs)
        if (name := names.observation_name(i)) in inputs
    }
    if names.ACTION_MASKS in inputs:
        allowed = np.ones((len(case.obs[0]), spec.actions.mask_size), np.float32)
        feed[names.ACTION_MASKS] = allowed if case.forbidden is None else (~case.forbidden).astype(np.float32)
    if case.state is not None:
        feed[names.RECURRENT_IN] = case.state[:, None]
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
        raise ExportError(f"onnxruntime cannot run the model ({error}); report this as a bug.") from error
