"""Plays and learns: a batched environment and the policies of its agents. Writes and shows nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from tau_trainer.algorithms.base import Setup, TensorCopies, make_algorithm
from tau_trainer.algorithms.batched.acting import spec_of
from tau_trainer.algorithms.batched.actors import actor_of
from tau_trainer.algorithms.gradient import GradientAlgorithm
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.collection.batched import UNSEEN, BatchedCollector, Scores
from tau_trainer.columns import prefixed, unprefixed
from tau_trainer.envs.batched.checking import check_first_steps
from tau_trainer.envs.batched.contract import BatchedEnv, State
from tau_trainer.envs.batched.draws import seeds_of
from tau_trainer.envs.batched.registry import make
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import TensorRollout, Work
from tau_trainer.metrics import MetricsHub, keys
from tau_trainer.metrics.summary import Statistics
from tau_trainer.plugins import is_place
from tau_trainer.settings import RunSettings
from tau_trainer.specs import Aggregation, Json
from tau_trainer.training.batched.assignment import assigned
from tau_trainer.training.batched.compiling import choose
from tau_trainer.training.batched.players import FixedPlayer
from tau_trainer.training.batched.policies import CopiesLearner, EpisodeStatistics, PolicyEntry, joined
from tau_trainer.training.learning.learner import Shared

_LONGEST_ROUND = 4
"""Longest round, as a multiple of the longest horizon.

A round ends when all policies have learned from all experience.
"""

_MEMORY = "memory."
"""Prefix of the names of recurrent states, which policies' names follow."""
_SUMS = "scores.sums"
"""The value that is counted over all copies; all other values are per copy."""
_UNKNOWN = {"scores.lowest": -UNSEEN, "scores.highest": UNSEEN}
"""Values that checkpoints of earlier versions do not have, and what replaces them until the next summary."""


class Playing:
    """The copies, the policies that play them, and the policies that learn. Belongs to one thread.

    If several ranks train together, the others :meth:`follow`: they do the same as rank 0 does here.

    Args:
        settings: with a seed.
        ranks: who trains together; each has its share of the copies.
        shared: of its learners; None: their reports go nowhere.

    Raises:
        SettingsError: it cannot start.
    """

    plays = False
    """Whether nothing is learned, and counts start at 0."""

    def __init__(self, settings: RunSettings, ranks: Ranks | None = None, shared: Shared | None = None) -> None:
        self.settings = settings
        self.shared = shared or Shared(MetricsHub())
        self.ranks = ranks or Ranks()
        if is_place("batched", settings.played.name):  # written by the user
            given = {"device": settings.device, "starts": settings.played.starts, **settings.played.arguments}
            check_first_steps(settings.played.name, partial(make, settings.played.name, **given))
        self.env = self.make_env(settings.played.num_envs, settings.seed, self.ranks)
        agents_of = assigned(settings.behaviors, self.env.agents)
        self.policies = [self.make_seat(name, agents) for name, agents in agents_of.items()]
        self.learning = [entry for entry in self.policies if entry.settings.learns]
        self.collector = BatchedCollector(
            self.env,
            {entry.name: (entry.actor, entry.agents) for entry in self.policies},
            kept=[entry.name for entry in self.learning],
        )
        self.learning_seconds = 0.0
        self._chunk = math.gcd(*(entry.learner.algorithm.horizon for entry in self.learning))
        self._clock = (0, 0.0)
        self._check_rounds()

    @property
    def copies(self) -> int:
        """Copies of all ranks together."""
        return self.env.num_envs * self.ranks.count

    @property
    def decisions(self) -> int:
        """Decisions of all agents so far, including earlier sessions of this run."""
        return self.collector.steps * self.copies * self.env.num_agents

    @property
    def progress(self) -> float:
        """Finished share of the decisions, 0 to 1."""
        return min(self.decisions / self.settings.clock.max_steps, 1.0)

    def steps_of(self, entry: PolicyEntry) -> int:
        """Decisions of one policy so far."""
        return self.collector.steps * self.copies * len(entry.agents)

    def make_env(self, num_envs: int, seed: int, ranks: Ranks | None = None) -> BatchedEnv:
        """Make ``num_envs`` copies; with ``ranks``, only this rank's share of them."""
        played = self.settings.played
        share = (ranks or Ranks()).share(num_envs)
        return make(
            played.name,
            share.stop - share.start,
            seed=seeds_of(seed, num_envs)[share],
            device=self.settings.device,
            starts=played.starts,
            pool=played.pool,
            **played.arguments,
        )

    def make_seat(self, name: str, agents: list[int]) -> PolicyEntry:
        """Make the policy ``name`` for the agents with these numbers."""
        settings, env = self.settings.behaviors[name], self.env
        seen = env.observation_space
        if settings.trainer_type == "dqn":  # its replay memory holds vectors
            seen = spaces.Box(-math.inf, math.inf, (math.prod(seen.shape),))
        spec = spec_of(name, seen, env.action_space)
        if settings.player is not None:
            return PolicyEntry(name, settings, agents, spec, FixedPlayer(settings.player, env, agents))
        setup = Setup(
            spec,
            settings,
            self.settings.seed + list(self.settings.behaviors).index(name),
            device=str(env.device),
            learns=settings.learns,
            max_steps=self.settings.clock.max_steps,
            ranks=self.ranks,
            copies=TensorCopies(self.copies, len(agents)),
        )
        algorithm = make_algorithm(setup)
        assert isinstance(algorithm, GradientAlgorithm)
        entry = PolicyEntry(name, settings, agents, spec, actor_of(algorithm, env.action_space))
        entry.network = CopiesLearner(entry, setup, algorithm, self)
        return entry

    def _check_rounds(self) -> None:
        horizons = {entry.name: entry.learner.algorithm.horizon for entry in self.learning}
        if math.lcm(*horizons.values()) > _LONGEST_ROUND * max(horizons.values()):
            named = ", ".join(f"{name} every {steps}" for name, steps in horizons.items())
            raise SettingsError(
                f"the policies learn at steps that rarely coincide ({named}), so no checkpoint could be exact; "
                "make buffer_size / (num_envs x agents) of one a multiple of the other's"
            )

    @property
    def round_over(self) -> bool:
        """Whether all collected experience has been learned from."""
        return not any(entry.waiting for entry in self.policies)

    def follow(self) -> NoReturn:
        """On another rank: follow the actions of rank 0 forever."""
        while True:
            _FOLLOWED[self.ranks.agree(0)](self)

    def _lead(self, what: Callable[[Playing], object]) -> None:
        """Make the other ranks do the same."""
        if self.ranks.first:
            self.ranks.agree(_FOLLOWED.index(what))

    def explore_nothing(self) -> None:
        """Let policies act without extra exploration; their own networks decide as in training."""
        self.collector.deterministic = {
            entry.name
            for entry in self.learning
            if entry.learner.policy.explores or entry.settings.network_settings.deterministic
        }

    def share_weights(self) -> None:
        """Copy the learners of rank 0 to all ranks."""
        if self.ranks.alone:
            return
        self._lead(Playing.share_weights)
        for entry in self.learning:
            arrays, metadata = entry.learner.handle.state()
            tensors = {name: self.ranks.copied(torch.from_numpy(np.array(arrays[name]))) for name in sorted(arrays)}
            if not self.ranks.first:
                found = {name: values.numpy() for name, values in tensors.items()}
                entry.learner.handle.load(found, metadata, fresh=False)

    def advance(self) -> None:
        """Play, and update the policies that have a complete rollout."""
        self._lead(Playing.advance)
        rollouts = self.play()
        for _, update in self.due(rollouts, self.progress):
            update()

    def play(self) -> dict[str, TensorRollout]:
        """Experience of the policies that learn since the last call, by policy."""
        rollouts = self.collector.collect(self._chunk)
        self._count_steps()
        return rollouts

    def _count_steps(self) -> None:
        for entry in self.learning:
            entry.learner.progress.decisions = self.steps_of(entry)

    def due(
        self, rollouts: Mapping[str, TensorRollout], progress: float
    ) -> Iterator[tuple[PolicyEntry, Callable[[], None]]]:
        """Policies that have enough experience for an update now, each with the function that runs it."""
        for entry in self.learning:
            if entry.learner.stopped:
                continue
            entry.waiting.append(rollouts[entry.name])
            if len(entry.waiting) * self._chunk >= entry.learner.algorithm.horizon:
                yield entry, lambda entry=entry: self._learn(entry, progress)  # type: ignore[misc]

    def _learn(self, entry: PolicyEntry, progress: float) -> None:
        self.learning_seconds += entry.learner.update(Work({}, tensors=joined(entry.waiting)), progress).seconds
        entry.waiting.clear()

    def count_episodes(self) -> dict[str, EpisodeStatistics]:
        """Episodes that ended since the last call, on all ranks, by policy.

        Waits for the device.
        """
        self._lead(Playing.count_episodes)
        scores = self.collector.scores
        sums = self.ranks.add(scores.take()).cpu().numpy()
        extremes = self.ranks.lowest(scores.take_extremes()).cpu().numpy()
        extremes[extremes <= -UNSEEN] = np.nan
        found = {}
        for entry in self.policies:
            ended, returns, squares, lengths = sums[entry.agents].sum(axis=0).tolist()
            entry.episodes += int(ended)
            if ended:
                mean = returns / ended
                deviation = math.sqrt(max(squares / ended - mean**2, 0.0))
                low, minus_high = extremes[:, entry.agents].min(axis=1).tolist()
                spread = deviation, low, -minus_high
                known = Statistics(Aggregation.AVERAGE, int(ended), mean, *spread, sum=returns, last=math.nan)
                found[entry.name] = EpisodeStatistics(known, lengths / ended)
                entry.count(found[entry.name])
        if not self.ranks.first:  # only rank 0 writes what its learners report
            for entry in self.learning:
                entry.learner.flush()
        return found

    def begin_anew(self) -> None:
        """Restart all copies from their first episodes; experience that has not been learned from is dropped."""
        for entry in self.policies:
            entry.waiting.clear()
        self.env.reset()
        self.collector.go_on(self.collector.steps, self.env.state, Scores(self.env).state())

    def copies_state(self) -> State:
        """State of the copies of all ranks and of their open episodes, on the CPU."""
        self._lead(Playing.copies_state)
        here = self._state_here()
        whole = {name: self._of_all(values) for name, values in here.items() if name != _SUMS}
        return whole | {_SUMS: self.ranks.add(here[_SUMS].clone()).cpu()}

    def _state_here(self) -> State:
        scores, states = self.collector.scores.state(), self.collector.states
        return self.env.state | prefixed("scores.", scores) | prefixed(_MEMORY, states)

    def _of_all(self, values: torch.Tensor) -> torch.Tensor:
        if self.ranks.alone:
            return values.cpu()
        kind = torch.uint8 if values.dtype == torch.bool else values.dtype
        whole = torch.zeros(self.copies, *values.shape[1:], dtype=kind, device=values.device)
        whole[self.ranks.share(self.copies)] = values.to(kind)
        return self.ranks.add(whole).to(values.dtype).cpu()

    def load_copies(self, steps: int = 0, found: Mapping[str, torch.Tensor] | None = None) -> None:
        """Restore :meth:`copies_state` as of step ``steps``; on other ranks, receive it from rank 0.

        Raises:
            CheckpointError: a tensor is missing or has another shape.
        """
        here, share, read = self._state_here(), self.ranks.share(self.copies), {}
        shapes = {name: like.shape if name == _SUMS else (self.copies, *like.shape[1:]) for name, like in here.items()}
        if found is not None:
            unknown = _UNKNOWN | {f"{_MEMORY}{name}": 0.0 for name in self.collector.states}
            found = {name: torch.full(shapes[name], value) for name, value in unknown.items()} | {**found}
        for name, shape in shapes.items():
            if found is not None and (name not in found or found[name].shape != shape):
                raise CheckpointError(
                    "the checkpoint is of another environment, other arguments or another number of copies (its "
                    f"'{name}' differs); use the settings that the run was started with"
                )
        self._lead(Playing.load_copies)
        steps = self.ranks.agree(steps)
        for name, like in here.items():
            whole = torch.zeros(shapes[name], dtype=like.dtype) if found is None else found[name].to(like.dtype).cpu()
            whole = self.ranks.copied(whole.contiguous())
            if name != _SUMS:
                whole = whole[share]
            elif not self.ranks.first:  # counted by rank 0
                whole = torch.zeros_like(whole)
            read[name] = whole.to(like.device)
        scores, states = unprefixed("scores.", read), unprefixed(_MEMORY, read)
        state = {name: values for name, values in read.items() if name in self.env.state}
        self.collector.go_on(steps, state, scores, states)
        self._count_steps()

    def state(self) -> dict[str, Any]:
        """The full state for an exact resume: tensors and plain values."""
        policies = {}
        for entry in self.learning:
            arrays, metadata = entry.learner.handle.state()
            tensors = {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}
            policies[entry.name] = {"tensors": tensors, "facts": dict(metadata), **entry.learner.counts()}
            policies[entry.name]["mean_return"] = entry.mean_return
        return {"policies": policies, "copies": self.copies_state(), "steps": self.collector.steps}

    def load(self, found: Json) -> None:
        """Restore :meth:`state`. Raises CheckpointError if it is from other settings."""
        if found["policies"].keys() != {entry.name for entry in self.learning}:
            raise CheckpointError(
                f"the checkpoint is of the policies {', '.join(found['policies'])}; use the settings that the run was "
                "started with"
            )
        for entry in self.learning:
            known = found["policies"][entry.name]
            arrays = {name: values.numpy() for name, values in known["tensors"].items()}
            entry.learner.handle.load(arrays, known["facts"], fresh=False)
            entry.learner.count_on(known, known["mean_return"])
        self.load_copies(found["steps"], found["copies"])

    def restart_clock(self) -> None:
        """Reset the clock of :meth:`speeds`."""
        self.collector.seconds = dict.fromkeys(self.collector.seconds, 0.0)
        self.learning_seconds = 0.0
        self._clock = (self.decisions, time.perf_counter())

    def speeds(self) -> dict[str, float]:
        """Environment and agent steps per second since :meth:`restart_clock`, and the shares of that time."""
        parts = self.collector.seconds | {"learning": self.learning_seconds}
        spent = sum(parts.values())
        if not spent:
            return {}
        rate = (self.decisions - self._clock[0]) / spent
        speeds = {keys.ENVIRONMENT_STEPS_PER_SECOND: rate / self.env.num_agents, keys.AGENT_STEPS_PER_SECOND: rate}
        return speeds | {keys.share_of_time(name): seconds / spent for name, seconds in parts.items()}


_FOLLOWED: tuple[Callable[[Playing], object], ...] = (
    Playing.advance,
    Playing.count_episodes,
    Playing.copies_state,
    Playing.share_weights,
    Playing.load_copies,
)


def follow(ranks: Ranks, device: torch.device, asked: Json) -> None:
    """Run another rank of a run with these settings."""
    torch.set_num_threads(1)
    settings = RunSettings.model_validate(asked["settings"]).on(str(device))
    playing = Playing(settings, ranks)
    if settings.compile == "on":
        choose("on", playing.env, [(entry.actor, entry.agents) for entry in playing.policies], 0)
    playing.follow()
