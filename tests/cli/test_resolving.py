from __future__ import annotations

import pytest

from tau_trainer.cli.resolving import DEFAULT_RUN, played


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("godot", DEFAULT_RUN),
        ("godot:builds/Rover.x86_64", "Rover"),
        ("godot:attach:3", DEFAULT_RUN),
        ("godot:headless:balance", "balance"),
    ],
)
def test_a_run_is_called_after_its_godot_game(env: str, name: str) -> None:
    assert played(env) == name
