"""Whether the device that learns is there, asked before anything is started."""

from __future__ import annotations

from tau_trainer.errors import SettingsError
from tau_trainer.settings.run import RunSettings


def check_device(settings: RunSettings) -> None:
    """Try ``torch_settings.device``; imports torch only where a device other than the CPU is named.

    Raises:
        SettingsError: torch cannot use that device on this machine.
    """
    device = settings.torch_settings.device
    if device in (None, "cpu"):
        return
    import torch

    try:
        torch.empty(1, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise SettingsError(
            f"torch_settings.device (--torch-device) {device}: torch cannot use it here ({reason}); "
            "use cpu, or leave it out"
        ) from None
