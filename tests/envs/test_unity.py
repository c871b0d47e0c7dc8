"""Games by Gymnasium's registry."""

from __future__ import annotations

import gymnasium
import pytest

from tau_trainer.envs import unity
from tau_trainer.envs.mlagents import UnityEnvironmentException, UnityGymException
from tests.envs.mlagents.doubles import Say, Scripted


def test_making_fails_without_leaving_the_game_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Scripted([Say([0, 1])])
    with monkeypatch.context() as patch:
        patch.setattr(unity, "UnityEnvironment", lambda *_, **__: game)
        with pytest.raises(UnityGymException):
            gymnasium.make("tau/Unity-v0", file_name="headless:balance")
    assert game.closed == 1
    with pytest.raises(UnityEnvironmentException, match="no program found"):
        gymnasium.make("tau/Unity-v0", file_name="no/such/build")
