"""Exports a policy as the ``.onnx`` file that a Unity project drops on its agent."""

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
    """Writes ``policy`` to ``path`` and proves that the file acts the same.

    The file appears whole, after onnxruntime has run it and all comparisons have passed, or not at all; a file that
    was there before stays in that case.

    Args:
        policy: what acts.
        spec: the behavior, with all its sensors in wire order, also those hidden from the policy.
        path: the file to write; missing folders are made.

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
            f"Cannot make the folder of '{path}' ({reason(error)}); choose one you may write to."
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
    """Export ``policy`` and throw the file away: what cannot be exported should be known before it is trained.

    Raises as :func:`export_onnx` does.
    """
    with tempfile.TemporaryDirectory(prefix="tau-trainer-") as folder:
        export_onnx(policy, spec, Path(folder) / "check.onnx")
