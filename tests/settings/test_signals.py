"""Settings of reward signals."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tau_trainer.settings.signals import CuriositySettings, GAILSettings, RNDSettings


@pytest.mark.parametrize(
    ("signal", "rate"), [(CuriositySettings(), 3e-4), (RNDSettings(), 1e-4), (GAILSettings(demo_path="x"), 3e-4)]
)
def test_signals_have_their_own_learning_rates(
    signal: CuriositySettings | RNDSettings | GAILSettings, rate: float
) -> None:
    assert (signal.learning_rate, signal.gamma, signal.strength) == (rate, 0.99, 1.0)


def test_encoding_size_means_hidden_units_unless_a_network_is_given() -> None:
    assert CuriositySettings.model_validate({"encoding_size": 64}).network_settings.hidden_units == 64
    given = {"encoding_size": 64, "network_settings": {"hidden_units": 32}}
    assert CuriositySettings.model_validate(given).network_settings.hidden_units == 32
    assert CuriositySettings.model_validate({"encoding_size": None}).network_settings.hidden_units == 128
    with pytest.raises(ValidationError, match="whole number"):
        CuriositySettings.model_validate({"encoding_size": "big"})
