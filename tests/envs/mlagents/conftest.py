"""A game that is opened and closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tau_trainer.envs.mlagents import UnityEnvironment
from tests.envs.mlagents.games import game


@pytest.fixture
def basic() -> Iterator[UnityEnvironment]:
    env = game()
    yield env
    if env._loaded:
        env.close()
