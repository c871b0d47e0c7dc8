"""The interface of batched environments: many copies of one environment as tensors on one device.

Shapes: ``E`` copies, ``A`` agents in each, all of them with one observation space and one action space. An author
writes three functions over a *state*, named tensors ``[E, ...]``: :meth:`BatchedEnv.begin`,
:meth:`BatchedEnv.advance` and :meth:`BatchedEnv.observe`. They change nothing in place, read only their arguments and
constants, and work for any number of copies (``begin`` is called only for the copies that end). They never convert a
tensor to a number (``bool(x)``, ``x.item()``), which would make the program wait for the device. The base class does
the rest: resets in the same step (Gymnasium's ``SAME_STEP``), starts, seeds, agents that leave, and the log of one
copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from tau_trainer.envs.batched.draws import Draws, seeds_of
from tau_trainer.envs.batched.starts import Pool

State = dict[str, torch.Tensor]
"""Tensors [E, ...] by name. The clock is always among them: see :data:`CLOCK`."""
CLOCK = ("seed", "episode", "step", "present")
"""int64 [E] each: the copy's seed, the number of its earlier episodes, steps taken in this one; bool [E, A]: agents
that are still in the game. :meth:`BatchedEnv.advance` reads them; the base class writes them."""
Starts = Literal["drawn", "fixed", "pool"]
"""How a copy's episodes start: drawn each time; always like its first one; or from :meth:`BatchedEnv.pool`, which is
the same for all copies and seeds."""


class Outcome(NamedTuple):
    """Result of a step of every copy, from :meth:`BatchedEnv.advance`."""

    state: State
    """The game's new state; tensors that are not in it stay unchanged."""
    rewards: torch.Tensor
    """float32 [E, A]."""
    terminated: torch.Tensor
    """bool [E, A]: agents whose episode really ended."""
    truncated: torch.Tensor
    """bool [E, A]: agents whose episode a limit cut, so the value of their last observation is still estimated."""


class BatchedStep(NamedTuple):
    """Result of a step of every copy, for the trainer."""

    observations: torch.Tensor
    """[E, A, *obs]: observations for the next decision; for copies that ended, the first of the new episode."""
    rewards: torch.Tensor
    """float32 [E, A]; 0 for agents that had left."""
    terminated: torch.Tensor
    """bool [E, A], see :class:`Outcome`; False for agents that had left."""
    truncated: torch.Tensor
    """bool [E, A], likewise; an agent is never both."""
    final_observations: torch.Tensor
    """[E, A, *obs] after the step, before any copy starts a new episode. The same tensor as :attr:`observations` if no
    copy ended."""
    over: torch.Tensor
    """bool [E]: copies that ended and have started a new episode."""


class Player(Protocol):
    """Chooses actions for some agents by a fixed rule, without learning or memory."""

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        """Actions of its agents, from observations [E, A, *obs], allowed actions bool [E, A, k], and the state."""


class BatchedEnv(ABC):
    """``E`` copies of an environment.

    Usage: ``observations = env.reset()``, then ``step = env.step(actions)`` repeatedly.

    Args:
        num_envs: ``E``.
        seed: the run's seed, or one for each copy (int64 [E]).
        device: the tensors' device.
        starts: how episodes start, see :data:`Starts`.
        pool: number of starts in a pool.

    Attributes:
        agents: their names, ``A`` of them.
        observation_space: of one agent: a Box.
        action_space: of one agent: Discrete (actions int64 [E, A]), MultiDiscrete (int64 [E, A, b]) or Box (float32
            [E, A, c]).
        state: current state of the copies.
    """

    name: ClassVar[str] = ""
    """Registered name; empty for environments of users."""
    truncates: ClassVar[bool] = False
    """Whether episodes can be truncated; if so, trainers keep final observations."""
    players: ClassVar[Mapping[str, Callable[[Any, Sequence[int]], Player]]] = {}
    """Fixed players by name, each made from the environment and the numbers of its agents. ``random`` works in every
    environment, see :func:`tau_trainer.envs.batched.players.make_player`."""

    agents: tuple[str, ...]
    observation_space: spaces.Box
    action_space: spaces.Discrete | spaces.MultiDiscrete | spaces.Box
    state: State

    def __init__(
        self,
        num_envs: int,
        *,
        seed: int | torch.Tensor = 0,
        device: torch.device | str = "cpu",
        starts: Starts = "drawn",
        pool: int = 1024,
    ) -> None:
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.starts: Starts = starts
        self.seed(seed)
        self._pool_size = pool
        self._pool: Pool | None = None
        self._watched: int | None = None
        self._log: list[dict[str, torch.Tensor]] = []

    # Methods that an author implements.

    @abstractmethod
    def begin(self, draws: Draws) -> State:
        """The start of an episode for each copy of ``draws``."""

    @abstractmethod
    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """One step of the game. ``state["step"]`` already includes this one. Ignore the actions of agents that left."""

    @abstractmethod
    def observe(self, state: State) -> torch.Tensor:
        """[E, A, *obs] of the state, in the observation space's dtype."""

    def allowed(self, state: State) -> torch.Tensor | None:
        """Allowed actions, bool [E, A, k], where ``k`` is the sum of all branches; None: always all actions."""
        return None

    def pool(self, count: int) -> Pool:
        """The starts of episodes if ``starts`` is ``pool``; called once. Default: ``count`` equally likely starts."""
        seeds = seeds_of(0, count, self.device)
        return Pool(self.begin(Draws(seeds, torch.zeros_like(seeds), torch.zeros_like(seeds))))

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """A picture [H, W, 3] of one copy's state (arrays without ``E``). Raises NotImplementedError by default."""
        raise NotImplementedError(f"{type(self).__name__} draws no pictures")

    # Methods that a trainer calls.

    @property
    def num_agents(self) -> int:
        """``A``."""
        return len(self.agents)

    @property
    def mask(self) -> torch.Tensor | None:
        """The result of :meth:`allowed` for the current state."""
        return self.allowed(self.state)

    def seed(self, seed: int | torch.Tensor) -> None:
        """Set new seeds (see the class's arguments); they take effect at the next :meth:`reset` of all copies."""
        seeds = seed if isinstance(seed, torch.Tensor) else seeds_of(seed, self.num_envs)
        self._seeds = seeds.to(self.device)

    def reset(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Restart the copies in ``mask`` (bool [E]; None: all, at their first episode); returns all observations."""
        if mask is None:
            self.state = self._fresh(self._seeds, torch.zeros_like(self._seeds))
            return self.observe(self.state)
        self.state, observations = self._renewed(self.state, self.observe(self.state), mask)
        return observations

    def step(self, actions: torch.Tensor) -> BatchedStep:
        """One step of every copy; copies that end start a new episode."""
        if self._watched is not None:
            before, index = self.state, self._watched
            row = {name: values[index] for name, values in before.items()}
        self.state, step = self.transition(self.state, actions)
        if self._watched is not None:
            self._log.append(
                row | {"actions": actions[index], "rewards": step.rewards[index], "over": step.over[index]}
            )
        return step

    def transition(self, state: State, actions: torch.Tensor) -> tuple[State, BatchedStep]:
        """:meth:`step` from any given state, without changing this object: used for comparisons and tests."""
        state, step = self.played(state, actions)
        state, observations = self._renewed(state, step.final_observations, step.over)
        return state, step._replace(observations=observations)

    def played(self, state: State, actions: torch.Tensor) -> tuple[State, BatchedStep]:
        """A step without resets. This part is compiled, because its shapes do not depend on the data."""
        present = state["present"]
        state = {**state, "step": state["step"] + 1}
        found = self.advance(state, actions, Draws(state["seed"], state["episode"], state["step"]))
        terminated = found.terminated & present  # agents that had left do not end again
        truncated = found.truncated & present & ~terminated  # a real end takes precedence over a limit
        still = present & ~terminated & ~truncated
        over = ~still.any(dim=1)  # bool [E]: no agent is left
        state = {**state, **found.state, "present": still}
        final = self.observe(state)  # of the ending episode, before a new one starts
        rewards = found.rewards * present
        return state, BatchedStep(final, rewards, terminated, truncated, final, over)

    def watch(self, index: int | None) -> None:
        """Log copy ``index`` from now on, see :meth:`trace`; None: stop logging. Deletes the log so far."""
        self._watched, self._log = index, []

    def trace(self) -> dict[str, NDArray[Any]]:
        """The log as arrays [T, ...]: the state before each step, with its actions, rewards, and ``over``."""
        names = self._log[0] if self._log else {}
        return {name: torch.stack([row[name] for row in self._log]).cpu().numpy() for name in names}

    def _fresh(self, seed: torch.Tensor, episode: torch.Tensor) -> State:
        """The start of these copies' episodes."""
        zeros = torch.zeros_like(seed)
        if self.starts == "pool":
            draws = Draws(seed, episode, zeros)
            if self._pool is None:
                self._pool = self.pool(self._pool_size)
                self._pool.check(self.begin(draws))
            begun = self._pool.draw(draws)
        else:
            begun = self.begin(Draws(seed, zeros if self.starts == "fixed" else episode, zeros))
        present = torch.ones(len(seed), self.num_agents, dtype=torch.bool, device=self.device)
        return {**begun, "seed": seed, "episode": episode, "step": zeros, "present": present}

    def _renewed(self, state: State, observations: torch.Tensor, mask: torch.Tensor) -> tuple[State, torch.Tensor]:
        """State and observations with the copies in ``mask`` reset; the same objects if no copy is in ``mask``."""
        if self.device.type == "cpu":  # reading the mask is free here; on other devices it would wait
            rows = mask.nonzero().squeeze(1)
            if not len(rows):
                return state, observations
            fresh = self._fresh(state["seed"][rows], state["episode"][rows] + 1)
            state = {name: values.index_copy(0, rows, fresh[name]) for name, values in state.items()}
            return state, observations.index_copy(0, rows, self.observe(fresh))
        fresh = self._fresh(state["seed"], state["episode"] + 1)
        state = {name: _where(mask, fresh[name], values) for name, values in state.items()}
        return state, _where(mask, self.observe(fresh), observations)


def _where(mask: torch.Tensor, these: torch.Tensor, those: torch.Tensor) -> torch.Tensor:
    return torch.where(mask.view(-1, *[1] * (these.dim() - 1)), these, those)


def torch_dtype(space: spaces.Box) -> torch.dtype:
    """Torch's dtype of a space's observations."""
    return torch.as_tensor(np.zeros(0, space.dtype)).dtype


def branches(space: spaces.Space[Any]) -> list[int]:
    """Number of actions on each branch; empty for a Box."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    return [int(size) for size in space.nvec] if isinstance(space, spaces.MultiDiscrete) else []


Played = tuple[dict[str, NDArray[Any]], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]
"""One copy's :class:`Outcome`: state of the game, rewards [A], terminated [A], truncated [A]."""


class Twin(Protocol):
    """One copy of the same game in plain, readable numpy: the reference for a batched environment.

    It takes the same arguments except ``num_envs``, ``device`` and ``seed``. States are those of the batched
    environment, as arrays without ``E``; ``state["step"]`` already includes the step. It draws no random numbers.
    """

    def advance(self, state: dict[str, NDArray[Any]], actions: NDArray[Any]) -> Played:
        """One step."""

    def observe(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """[A, *obs]."""
