"""Exports a policy as an ``.onnx`` file for the agent in the game."""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from tau_trainer.errors import ExportError
from tau_trainer.export.build import build_model
from tau_trainer.export.godot import build_godot_model, obstacle, verify_godot
from tau_trainer.export.verify import verify
from tau_trainer.files import atomic_write_bytes, reason
from tau_trainer.models import Policy
from tau_trainer.models import tensor_names as names
from tau_trainer.specs import BehaviorSpec

_log = logging.getLogger(__name__)


def export_onnx(policy: Policy, spec: BehaviorSpec, path: Path, form: Literal["unity", "godot"] | None = None) -> Path:
    """Writes ``policy`` to ``path`` after checking that the model chooses the same actions.

    The file appears only after onnxruntime has run the model and all comparisons have passed. Otherwise, an existing
    file stays unchanged.

    Args:
        policy: the policy to export.
        spec: the behavior, with all its sensors in wire order, including those hidden from the policy.
        path: the file to write; missing folders are created.
        form: the reader, ML-Agents in Unity and Unreal or Godot RL Agents. None: the engine that the behavior comes
            from, but Unity's form if Godot's plugin cannot run the policy.

    Returns:
        ``path``.

    Raises:
        ExportError: the policy does not fit the behavior, or the file acts differently.
        TauError: the file cannot be written.
        NonFiniteError: a weight is NaN or infinite.
    """
    network = policy.network()
    if form is None and spec.actions.named:
        why = obstacle(network, spec)
        form = "godot" if why is None else "unity"
        if why is not None:
            _warn(f"the model of '{spec.short_name}' is written in Unity's form: {why}")
    if form == "godot":
        data = build_godot_model(network, spec).SerializeToString()
        verify_godot(data, network, spec)
    else:
        for i, sensor in enumerate(spec.observations):
            if not sensor.size:
                _warn(
                    f"sensor '{sensor.name}' of behavior '{spec.short_name}' has size 0, so the model has no input "
                    f"'{names.observation_name(i)}' for it; remove the sensor in the game"
                )
        data = build_model(network, spec).SerializeToString()
        verify(data, network, spec, policy)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(
            f"Cannot create the folder of '{path}' ({reason(error)}); choose one that you can write to."
        ) from error
    return atomic_write_bytes(path, data)


@cache  # once, however often a policy is written
def _warn(text: str) -> None:
    _log.warning("%s", text)


def check_export(policy: Policy, spec: BehaviorSpec) -> None:
    """Export ``policy`` to a temporary file, to find problems with the export before training.

    Raises the same errors as :func:`export_onnx`.
    """
    with tempfile.TemporaryDirectory(prefix="tau-trainer-") as folder:
        export_onnx(policy, spec, Path(folder) / "check.onnx")
