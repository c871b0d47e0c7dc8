"""Exports a policy as an ``.onnx`` file for the agent in a Unity project."""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path

from tau_trainer.errors import ExportError
from tau_trainer.export.build import build_model
from tau_trainer.export.verify import verify
from tau_trainer.files import atomic_write_bytes, reason
from tau_trainer.models import Policy
from tau_trainer.models import tensor_names as names
from tau_trainer.specs import BehaviorSpec

_log = logging.getLogger(__name__)


def export_onnx(policy: Policy, spec: BehaviorSpec, path: Path) -> Path:
    """Writes ``policy`` to ``path`` after checking that the model chooses the same actions.

    The file appears only after onnxruntime has run the model and all comparisons have passed. Otherwise, an existing
    file stays unchanged.

    Args:
        policy: the policy to export.
        spec: the behavior, with all its sensors in wire order, including those hidden from the policy.
        path: the file to write; missing folders are created.

    Returns:
        ``path``.

    Raises:
        ExportError: the policy does not fit the behavior, or the file acts differently.
        TauError: the file cannot be written.
        NonFiniteError: a weight is NaN or infinite.
    """
    for i, sensor in enumerate(spec.observations):
        if not sensor.size:
            _say_left_out(spec.short_name, sensor.name, names.observation_name(i))
    network = policy.network()
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
def _say_left_out(behavior: str, sensor: str, name: str) -> None:
    _log.warning(
        "sensor '%s' of behavior '%s' has size 0, so the model has no input '%s' for it; remove the sensor in the game",
        sensor,
        behavior,
        name,
    )


def check_export(policy: Policy, spec: BehaviorSpec) -> None:
    """Export ``policy`` to a temporary file, to find problems with the export before training.

    Raises the same errors as :func:`export_onnx`.
    """
    with tempfile.TemporaryDirectory(prefix="tau-trainer-") as folder:
        export_onnx(policy, spec, Path(folder) / "check.onnx")
