"""Plays episodes with the most likely actions, in separate copies, and writes one of them to a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tau_trainer.algorithms.batched import TensorActor
from tau_trainer.collection.batched import Policies, act_together, fresh_states, on_device, states_after
from tau_trainer.envs.batched.contract import BatchedEnv
from tau_trainer.evaluation.episodes import EpisodeLog
from tau_trainer.files import atomic_write_bytes
from tau_trainer.settings import RunSettings

EVALUATION_SEED = 2**31
"""Added to the run's seed, so that evaluation and training never share copies or games."""
_LOOK = 16
"""Steps between two checks whether all episodes are over."""
_FRAME_MS = 40


class PolicyAgents(Protocol):
    """A policy and the agents that it decides for."""

    name: str
    agents: list[int]

    def player_in(self, env: BatchedEnv) -> TensorActor:
        """The player for these agents in ``env``."""


class BatchedEvaluation:
    """Plays one episode in each copy, the same ones every time, so that short episodes do not count more.

    Args:
        settings: settings of the run.
        sides: its policies.
        make: creates an environment from a number of copies and a seed.
    """

    def __init__(
        self, settings: RunSettings, sides: Sequence[PolicyAgents], make: Callable[[int, int], BatchedEnv]
    ) -> None:
        self._settings, self._sides, self._make = settings.evaluation, sides, make
        self._seed = settings.seed + EVALUATION_SEED
        self._playing: tuple[BatchedEnv, Policies] | None = None
        self._trace: dict[str, NDArray[Any]] = {}

    @torch.no_grad()
    def run(self, stopped: Callable[[], bool] = lambda: False) -> dict[str, EpisodeLog]:
        """One episode of each policy's agents in each copy; empty if it was stopped before all were over."""
        env, policies = self._begun()
        observations, states = env.reset(), fresh_states(policies, env)
        env.watch(0 if self._settings.trace else None)
        # float32 [E, A] each.
        returns, lengths = (torch.zeros(env.num_envs, env.num_agents, device=env.device) for _ in range(2))
        going = torch.ones(env.num_envs, 1, dtype=torch.bool, device=env.device)  # the copies' first episodes
        for step in range(self._settings.max_episode_steps):
            if step % _LOOK == 0 and (stopped() or not bool(going.any())):  # a look waits for the device
                break
            present = env.state["present"]
            actions, acted = act_together(policies, observations, env.mask, present, states, deterministic=policies)
            taken = env.step(actions)
            returns += taken.rewards * going  # second episodes of copies that were done early do not count
            lengths += present & going  # decisions that were the agent's own
            going &= ~taken.over[:, None]
            observations, states = taken.observations, states_after(acted, taken.over)
        if stopped():
            return {}
        if self._settings.trace:
            self._trace = _episode(env.trace())
        return {
            side.name: EpisodeLog(*(values[:, side.agents].flatten().tolist() for values in (returns, lengths)))
            for side in self._sides
        }

    def _begun(self) -> tuple[BatchedEnv, Policies]:
        if self._playing is None:
            env = self._make(self._settings.episodes, self._seed)
            self._playing = env, on_device({side.name: (side.player_in(env), side.agents) for side in self._sides}, env)
        return self._playing

    def write_trace(self, folder: Path) -> dict[str, Path]:
        """Write the first copy's last episode to ``trace.npz`` and, if the environment draws pictures, ``trace.gif``.

        Raises TauError if a file cannot be written.
        """
        if not self._trace or self._playing is None:
            return {}
        held = io.BytesIO()
        np.savez_compressed(held, allow_pickle=False, **self._trace)
        files = {"trace": atomic_write_bytes(folder / "trace.npz", held.getvalue())}
        try:
            picture = animation(self._playing[0], self._trace)
        except NotImplementedError:
            return files
        return files | {"animation": atomic_write_bytes(folder / "trace.gif", picture)}


def animation(env: BatchedEnv, trace: Mapping[str, NDArray[Any]]) -> bytes:
    """A GIF of a trace [T, ...]. Raises NotImplementedError if the environment draws no pictures."""
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
