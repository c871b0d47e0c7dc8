"""Arguments of games."""

from __future__ import annotations

import inspect

import pytest

from tau_trainer.envs.batched import registry
from tau_trainer.errors import SettingsError
from tests.games.classic import OF_GYMNASIUM


def test_arguments_are_told_apart() -> None:
    with pytest.raises(SettingsError, match=r"cartpole has no argument 'limits'; did you mean limit\?"):
        registry.make("cartpole", 1, limits=3)
    with pytest.raises(SettingsError, match="limit is 0; an episode has at least 1 step"):
        registry.make("cartpole", 1, limit=0)
    for name in OF_GYMNASIUM:
        assert inspect.signature(type(registry.twin(name)).__init__).parameters.keys() == {"self", "limit"}
