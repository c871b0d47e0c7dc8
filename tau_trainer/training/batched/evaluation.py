"""Episodes of the most likely actions, in copies of their own, and one of them as a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tau_trainer.algorithms.batched import BatchedLearner
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.files import atomic_write_bytes
from tau_trainer.settings.batched import BatchedSettings
from tau_trainer.training.batched.players import FixedPlayer

if TYPE_CHECKING:
    from tau_trainer.training.batched.playing import Seat

_SEED = 2**31
"""Added to the run's: no copy of an evaluation is one of the training's."""
_LOOK = 16
"""Steps between two looks whether all episodes are over."""
_FRAME_MS = 40


class Evaluation:
    """Plays one episode in each of its copies, the same ones every time.

    Args:
        settings: of the run.
        seats: its policies.
        make: an environment from a number of copies and a seed.
    """

    def __init__(
        self, settings: BatchedSettings, seats: Sequence[Seat], make: Callable[[int, int], BatchedEnv]
    ) -> None:
        self._settings, self._seats, self._make = settings.evaluation, seats, make
        self._seed = settings.seed + _SEED
        self._env: BatchedEnv | None = None
        self._players: list[tuple[BatchedLearner, torch.Tensor]] = []
        self._trace: dict[str, NDArray[Any]] = {}

    @torch.no_grad()
    def run(self, stopped: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Mean return of each policy's agents; empty where it was stopped before all episodes were over."""
        env = self._begun()
        observations = env.reset()
        env.watch(0 if self._settings.trace else None)
        returns = torch.zeros(env.num_envs, env.num_agents, device=env.device)
        going = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        for step in range(self._settings.max_episode_steps):
            if step % _LOOK == 0 and (stopped() or not bool(going.any())):
                break
            mask, present = env.mask, env.state["present"]
            actions = [
                learner.act(
                    observations[:, agents],
                    None if mask is None else mask[:, agents],
                    present[:, agents],
                    deterministic=True,
                )
                for learner, agents in self._players
            ]
            order = torch.cat([agents for _, agents in self._players]).argsort()
            taken = env.step(torch.cat([one.actions for one in actions], dim=1)[:, order])
            returns += taken.rewards * going[:, None]
            going &= ~taken.over
            observations = taken.observations
        if stopped():
            return {}
        if self._settings.trace:
            self._trace = _episode(env.trace())
        sums = returns.mean(dim=0).cpu().numpy()
        return {seat.name: float(sums[seat.agents].mean()) for seat in self._seats}

    def _begun(self) -> BatchedEnv:
        if self._env is None:
            env = self._env = self._make(self._settings.episodes, self._seed)
            for seat in self._seats:
                player = seat.settings.player
                learner = seat.learner if player is None else FixedPlayer(player, env, seat.agents)
                self._players.append((learner, torch.tensor(seat.agents, device=env.device)))
        return self._env

    def write_trace(self, folder: Path) -> dict[str, Path]:
        """The first copy's last episode into ``trace.npz`` and, where the environment draws, ``trace.gif``.

        Raises TauError where a file cannot be written.
        """
        if not self._trace or self._env is None:
            return {}
        held = io.BytesIO()
        np.savez_compressed(held, allow_pickle=False, **self._trace)
        files = {"trace": atomic_write_bytes(folder / "trace.npz", held.getvalue())}
        try:
            picture = animation(self._env, self._trace)
        except NotImplementedError:
            return files
        return files | {"animation": atomic_write_bytes(folder / "trace.gif", picture)}


def animation(env: BatchedEnv, trace: Mapping[str, NDArray[Any]]) -> bytes:
    """A GIF of a trace [T, ...]. Raises NotImplementedError where the environment draws nothing."""
    steps = len(trace["over"])
    pictures = [Image.fromarray(env.frame({name: values[t] for name, values in trace.items()})) for t in range(steps)]
    held = io.BytesIO()
    pictures[0].save(held, "GIF", save_all=True, append_images=pictures[1:], duration=_FRAME_MS, loop=0)
    return held.getvalue()


def _episode(trace: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The first episode of a log."""
    over = trace["over"] if trace else np.zeros(0, np.bool_)
    steps = int(over.argmax()) + 1 if over.any() else len(over)
    return {name: values[:steps] for name, values in trace.items()}
