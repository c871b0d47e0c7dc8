"""A device that is not there is told before anything starts."""

from __future__ import annotations

import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.settings import RunSettings, TorchSettings, check_device


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_cpu_is_always_there(device: str | None) -> None:
    check_device(RunSettings(torch_settings=TorchSettings(device=device)))


def test_a_missing_device_is_one_sentence() -> None:
    with pytest.raises(SettingsError, match="torch cannot use it here") as error:
        check_device(RunSettings(torch_settings=TorchSettings(device="cuda:99")))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("use cpu, or leave it out")
