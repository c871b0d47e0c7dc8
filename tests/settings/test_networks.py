"""Settings of networks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tau_trainer.settings import NetworkSettings
from tau_trainer.settings.networks import expanded


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        ([128, "64", "b", "r256"], [128, 64, "b", "r256"]),
        ([8, {"repeat": 2, "net_arch": [16, "b"]}, 4], [8, 16, "b", 16, "b", 4]),
        (
            [{"repeat": 2, "net_arch": ["r8", {"repeat": 3, "net_arch": [4]}]}, "b"],
            ["r8", 4, 4, 4, "r8", 4, 4, 4, "b"],
        ),
        ([128, "b", {"repeat": 20, "net_arch": [256, "b"]}, 128, "b"], [128, "b", *[256, "b"] * 20, 128, "b"]),
    ],
)
def test_expansion(given: Any, wanted: list[int | str]) -> None:
    settings = NetworkSettings(net_arch=given)
    assert settings.net_arch is not None
    assert expanded(settings.net_arch) == wanted
    assert NetworkSettings.model_validate(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    "given",
    [
        128,
        "b",
        [0],
        [-3],
        [1.5],
        [True],
        ["c"],
        ["r"],
        ["r0"],
        ["bb"],
        [[8]],
        [{"repeat": 2}],
        [{"repeat": 0, "net_arch": [8]}],
        [{"repeat": 2, "net_arch": 8}],
        [{"repeat": 2, "net_arch": [8], "other": 1}],
        [{"repeat": 1000, "net_arch": [8, "b"]}],
        [70000],
    ],
)
def test_what_is_no_net_arch(given: Any) -> None:
    with pytest.raises(ValidationError, match="net_arch"):
        NetworkSettings(net_arch=given)
