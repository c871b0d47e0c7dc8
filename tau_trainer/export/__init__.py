"""Models for Unity: written directly as ONNX, verified before they appear."""

from tau_trainer.export.onnx import check_export, export_onnx
from tau_trainer.export.verify import verify

__all__ = ["check_export", "export_onnx", "verify"]
