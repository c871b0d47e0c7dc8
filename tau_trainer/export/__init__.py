"""Models for Unity: written directly as ONNX, verified before they appear."""

from __future__ import annotations

from tau_trainer.export.onnx import check_export, export_onnx
from tau_trainer.export.verify import Verification, verify

__all__ = ["Verification", "check_export", "export_onnx", "verify"]
