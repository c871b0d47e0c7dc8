"""From a policy to the file that Unity loads."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tau_trainer.export import export_onnx
from tau_trainer.models.policy import Policy
from tau_trainer.specs import BehaviorSpec


def export_policy(policy: Policy, spec: BehaviorSpec, path: Path) -> Path:
    """Write ``policy`` as ONNX, verified against it. Raises ExportError, NonFiniteError."""
    return export_onnx(policy, spec, path)


def check_export(policy: Policy, spec: BehaviorSpec) -> None:
    """Export ``policy`` and throw the file away: what cannot be exported should be known before it is trained.

    Raises ExportError, NonFiniteError.
    """
    with tempfile.TemporaryDirectory(prefix="tau-trainer-") as folder:
        export_policy(policy, spec, Path(folder) / "check.onnx")
