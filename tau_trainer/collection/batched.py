"""The loop of batched environments: act, step, store. Thousands of copies, and nothing leaves the device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import overload

import torch

from tau_trainer.algorithms.batched import Acted, ActorInput, TensorActor
from tau_trainer.envs.batched import BatchedEnv, BatchedStep, State
from tau_trainer.envs.faults import place_of
from tau_trainer.errors import EngineError, TauError, is_out_of_memory
from tau_trainer.memory import TensorRollout

UNSEEN = torch.finfo(torch.float32).max
"""An extreme before any episode has ended; not infinity, which no checkpoint may contain."""


class Scores:
    """Returns and lengths of episodes that ended, added up on the device, for each agent.

    Attributes:
        returns: float32 [E, A] of open episodes.
        lengths: float32 [E, A].
        sums: float64 [A, 4], if the device supports it: number of episodes that ended since :meth:`take`, and the sums
            of their returns, of the returns' squares, and of their lengths.
        lowest: float32 [E, A], the lowest return of these episodes; :data:`UNSEEN` if none ended.
        highest: float32 [E, A], the highest; ``-UNSEEN`` if none ended.
    """

    def __init__(self, env: BatchedEnv) -> None:
        shape = env.num_envs, env.num_agents
        self.returns, self.lengths = (torch.zeros(shape, device=env.device) for _ in range(2))
        exact = torch.float32 if env.device.type == "mps" else torch.float64  # not supported by Apple's GPUs
        self.sums = torch.zeros(env.num_agents, 4, dtype=exact, device=env.device)
        self.lowest = torch.full(shape, UNSEEN, device=env.device)
        self.highest = -self.lowest

    def add(self, rewards: torch.Tensor, ended: torch.Tensor, present: torch.Tensor) -> None:
        """Add one step: rewards float32 [E, A], and bool [E, A] whether episodes ended and agents were there."""
        self.returns += rewards
        self.lengths += present
        ends = ended.to(torch.float32)  # float: a product costs less than picking rows
        returns = (self.returns * ends).to(self.sums.dtype)  # 0 for open episodes
        # [E, A, 4] summed over copies.
        self.sums += torch.stack((ends, returns, returns.square(), self.lengths * ends), dim=2).sum(dim=0)
        self.lowest = torch.minimum(self.lowest, self.returns.where(ended, self.lowest))
        self.highest = torch.maximum(self.highest, self.returns.where(ended, self.highest))
        self.returns *= 1.0 - ends  # ended ones restart at 0
        self.lengths *= 1.0 - ends

    def take(self) -> torch.Tensor:
        """Return :attr:`sums`, and reset them to 0."""
        taken, self.sums = self.sums, torch.zeros_like(self.sums)
        return taken

    def take_extremes(self) -> torch.Tensor:
        """Return the lowest and the negative highest return of each agent, float32 [2, A], and forget them."""
        taken = torch.stack((self.lowest, -self.highest)).amin(dim=1)
        self.lowest = torch.full_like(self.lowest, UNSEEN)
        self.highest = -self.lowest
        return taken

    def state(self) -> dict[str, torch.Tensor]:
        """The state to continue the count, by attribute."""
        return {name: getattr(self, name) for name in ("returns", "lengths", "sums", "lowest", "highest")}


Policies = Mapping[str, tuple[TensorActor, torch.Tensor]]
"""An actor, and the numbers of its agents, int64 [a], ascending, by policy; together they are all agents."""


def on_device(policies: Mapping[str, tuple[TensorActor, Sequence[int]]], env: BatchedEnv) -> Policies:
    """The same with the agents' numbers on the environment's device."""
    return {
        name: (actor, torch.tensor(sorted(agents), device=env.device)) for name, (actor, agents) in policies.items()
    }


States = Mapping[str, torch.Tensor]
"""Recurrent states of agents, float32 [E, a, towers, M], by policy; only of policies with a memory."""


def fresh_states(policies: Policies, env: BatchedEnv) -> States:
    """The states at the start of all copies' episodes."""
    return {
        name: state
        for name, (actor, agents) in policies.items()
        if (state := actor.fresh_state(env.num_envs, len(agents))) is not None
    }


def states_after(acted: Mapping[str, Acted], over: torch.Tensor) -> States:
    """The states for the next decisions; ``over``: bool [E], copies that have restarted, whose agents forget."""
    return {
        name: state.masked_fill(over.view(-1, 1, 1, 1), 0.0)
        for name, decided in acted.items()
        if (state := decided.state) is not None
    }


def act_together(
    policies: Policies,
    observations: torch.Tensor,
    mask: torch.Tensor | None,
    present: torch.Tensor,
    states: States,
    *,
    deterministic: Collection[str] = (),
) -> tuple[torch.Tensor, dict[str, Acted]]:
    """Actions of all agents, [E, A, ...] in their order, and the decisions of each policy, by name.

    ``observations`` [E, A, *obs], ``mask`` bool [E, A, k] and ``present`` bool [E, A] are of all agents.
    ``deterministic``: policies that take their most likely action.
    """
    acted = {
        name: actor.act(
            ActorInput(_of(observations, agents), _of(mask, agents), _of(present, agents), states.get(name)),
            deterministic=name in deterministic,
        )
        for name, (actor, agents) in policies.items()
    }
    parts = [decided.actions for decided in acted.values()]
    if len(parts) == 1:
        return parts[0], acted
    # Policies' agents back in the environment's order.
    order = torch.cat([agents for _, agents in policies.values()]).argsort()
    return torch.cat(parts, dim=1)[:, order], acted


class BatchedCollector:
    """Plays all copies of an environment with the policies of its agents.

    Args:
        env: is reset here.
        policies: an actor and the numbers of its agents, by policy; together they are all agents, each once. An
            actor sees its agents in the environment's order.
        kept: policies whose rollouts are kept; None: all.

    Attributes:
        deterministic: policies that take their most likely action.
        states: recurrent states of the agents' open episodes.
        steps: of every copy so far.
        scores: of all episodes.
        seconds: time spent ``acting`` and ``stepping``; for asynchronous devices, the time to launch the work.
    """

    def __init__(
        self,
        env: BatchedEnv,
        policies: Mapping[str, tuple[TensorActor, Sequence[int]]],
        kept: Collection[str] | None = None,
    ) -> None:
        self._env = env
        self._kept = tuple(name for name in policies if kept is None or name in kept)
        self._policies = on_device(policies, env)
        self._observations = env.reset()
        self.states = fresh_states(self._policies, env)
        self.deterministic: Collection[str] = ()
        self.steps = 0
        self.scores = Scores(env)
        self.seconds = {"acting": 0.0, "stepping": 0.0}

    def go_on(self, steps: int, state: State, scores: Mapping[str, torch.Tensor], states: States | None = None) -> None:
        """Continue from another collector's state after ``steps`` (of the environment, and :meth:`Scores.state`).

        ``states``: its :attr:`states`; None: agents remember nothing.
        """
        self.steps, self._env.state = steps, state
        self.states = fresh_states(self._policies, self._env) if states is None else states
        self._observations = self._env.observe(state)
        for name, values in scores.items():
            setattr(self.scores, name, values)

    @torch.no_grad()
    def collect(self, steps: int) -> dict[str, TensorRollout]:
        """Play ``steps`` steps of every copy; returns the rollout of each policy that is kept."""
        env = self._env
        rows = {name: RolloutRows(self._policies[name][1]) for name in self._kept}
        for _ in range(steps):
            # Values before the step, which decisions are based on.
            observations, mask, present = self._observations, env.mask, env.state["present"]
            with self._timed("acting"):
                actions, acted = act_together(
                    self._policies, observations, mask, present, self.states, deterministic=self.deterministic
                )
            with self._timed("stepping"):
                step = self._stepped(actions)
            for name in self._kept:
                actor, _ = self._policies[name]
                # Without cuts there is nothing to bootstrap from.
                foresees = env.truncates or actor.sees_ends
                rows[name].add(
                    acted[name],
                    step,
                    foresees=foresees,
                    observations=observations,
                    mask=mask,
                    present=present,
                )
            # With `present` before the step, because agents whose episode ended with it had played.
            self.scores.add(step.rewards, step.terminated | step.truncated, present)
            self._observations, self.states = step.observations, states_after(acted, step.over)
        self.steps += steps
        return {name: rows[name].rollout(self._observations, env.mask) for name in self._kept}

    def _stepped(self, actions: torch.Tensor) -> BatchedStep:
        """The environment's step. Raises EngineError for errors of the user's own code."""
        try:
            return self._env.step(actions)
        except Exception as error:
            place = place_of(error)
            if isinstance(error, TauError) or is_out_of_memory(error) or not place:
                raise
            what = f"{type(error).__name__}: {error}{place}"
            raise EngineError(f"environment {type(self._env).__name__} failed: {what}") from error

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begun = perf_counter()
        yield
        self.seconds[part] += perf_counter() - begun


class RolloutRows:
    """The collected steps of one policy."""

    def __init__(self, agents: torch.Tensor) -> None:
        """``agents``: numbers of its agents, int64 [a], ascending."""
        self._agents = agents
        self._acted: list[Acted] = []
        self._columns: dict[str, list[torch.Tensor]] = defaultdict(list)

    def add(self, acted: Acted, step: BatchedStep, *, foresees: bool, **before: torch.Tensor | None) -> None:
        """Add the policy's decisions and a step of all agents.

        ``foresees``: keep final observations. ``before``: other columns, [E, A, ...], of the time of the decision.
        """
        self._acted.append(acted)
        columns = before | {"rewards": step.rewards, "terminated": step.terminated, "truncated": step.truncated}
        columns["final"] = step.final_observations if foresees else None
        for name, of_all in columns.items():
            if of_all is not None:
                self._columns[name].append(_of(of_all, self._agents))

    def rollout(self, after: torch.Tensor, after_mask: torch.Tensor | None) -> TensorRollout:
        """All steps; ``after`` and ``after_mask``: observations and allowed values of all agents after the last."""
        columns = {name: torch.stack(steps) for name, steps in self._columns.items()}  # [T, E, A, ...]
        return TensorRollout(
            observations=columns["observations"],
            actions=torch.stack([acted.actions for acted in self._acted]),
            mask=columns.get("mask"),
            rewards=columns["rewards"],
            terminated=columns["terminated"],
            truncated=columns["truncated"],
            present=columns["present"],
            final=columns.get("final"),
            after=_of(after, self._agents),
            after_mask=_of(after_mask, self._agents),
            kept={name: torch.stack([acted.kept[name] for acted in self._acted]) for name in self._acted[0].kept},
        )


@overload
def _of(values: torch.Tensor, agents: torch.Tensor) -> torch.Tensor: ...
@overload
def _of(values: torch.Tensor | None, agents: torch.Tensor) -> torch.Tensor | None: ...
def _of(values: torch.Tensor | None, agents: torch.Tensor) -> torch.Tensor | None:
    """The columns of these agents, of a tensor [E, A, ...]."""
    if values is None or values.shape[1] == len(agents):  # all of them, in their order
        return values
    return values.index_select(1, agents)
