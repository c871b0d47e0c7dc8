"""A fixed player in place of a network."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from tau_trainer.algorithms.batched import Acted, ActorInput, TensorActor
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.envs.batched.players import make_player


class FixedPlayer(TensorActor):
    """Decides by a rule of the environment.

    Raises:
        SettingsError: the environment has no player of that name.
    """

    def __init__(self, name: str, env: BatchedEnv, agents: Sequence[int]) -> None:
        self._env, self._player = env, make_player(name, env, agents)

    @override
    def act(self, seen: ActorInput, *, deterministic: bool = False) -> Acted:
        return Acted(self._player(seen.observations, seen.mask, self._env.state))
