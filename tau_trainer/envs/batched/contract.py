"""Many copies of one environment as tensors on one device: one page, whoever fulfils it.

Shapes: ``E`` copies, ``A`` agents in each, all of them with one observation space and one action space. An author
writes three functions over a *state*, named tensors ``[E, ...]``: :meth:`BatchedEnv.begin`,
:meth:`BatchedEnv.advance` and :meth:`BatchedEnv.observe`. They change nothing, read nothing but their arguments and
constants, work for any number of copies (``begin`` is asked for those alone that end), and ask no tensor for a number
(``bool(x)``, ``x.item()``): that would make the device wait. Everything else is done here: resets, whose copies begin
anew in the same step (Gymnasium's ``SAME_STEP``), starts, seeds, agents that leave, and the log of one copy.
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
"""int64 [E], int64 [E], int64 [E]: the copy's seed, episodes it began before, steps taken in this one; bool [E, A]:
agents that are still in the game. :meth:`BatchedEnv.advance` reads them; the base class writes them."""
Starts = Literal["drawn", "fixed", "pool"]
"""How an episode of a copy begins: drawn anew; as its first one did; or as one of :meth:`BatchedEnv.pool`, which is the
same for all copies and seeds."""


class Outcome(NamedTuple):
    """What a step of every copy brought."""

    state: State
    """Of the game; what is not in it stays as it was."""
    rewards: torch.Tensor
    """float32 [E, A]."""
    terminated: torch.Tensor
    """bool [E, A]: agents whose episode ended for good."""
    truncated: torch.Tensor
    """bool [E, A]: agents whose episode a limit cut, which says nothing about what their last observation is worth."""


class BatchedStep(NamedTuple):
    """What a step of every copy brought, as a trainer sees it."""

    observations: torch.Tensor
    """[E, A, *obs]: what is decided upon next; of copies that ended, the first of the new episode."""
    rewards: torch.Tensor
    """float32 [E, A]; of agents that had left, 0."""
    terminated: torch.Tensor
    """bool [E, A], see :class:`Outcome`; never of agents that had left."""
    truncated: torch.Tensor
    """bool [E, A], likewise; an agent is never both."""
    final_observations: torch.Tensor
    """[E, A, *obs] as the step left the game, before anybody began anew. The same tensor as :attr:`observations` where
    no copy ended."""
    over: torch.Tensor
    """bool [E]: copies that ended, and have begun anew."""


class Player(Protocol):
    """Decides for some agents by a rule; learns nothing and remembers nothing."""

    def __call__(self, observations: torch.Tensor, mask: torch.Tensor | None, state: State) -> torch.Tensor:
        """Actions of its agents, from what they see, [E, A, *obs], what they may, bool [E, A, k], and the state."""


class BatchedEnv(ABC):
    """``E`` copies of an environment.

    Use: ``observations = env.reset()``, then ``step = env.step(actions)`` for ever.

    Args:
        num_envs: ``E``.
        seed: of the run, or one for each copy (int64 [E]).
        device: where the tensors are.
        starts: how episodes begin.
        pool: starts in a pool.

    Attributes:
        agents: their names, ``A`` of them.
        observation_space: of one agent: a Box.
        action_space: of one agent: Discrete (actions int64 [E, A]), MultiDiscrete (int64 [E, A, b]) or Box (float32
            [E, A, c]).
        state: the copies as they stand.
    """

    name: ClassVar[str] = ""
    """As registered; of an author's own: nothing."""
    truncates: ClassVar[bool] = False
    """Whether episodes may be truncated; then trainers keep final observations."""
    players: ClassVar[Mapping[str, Callable[[Any, Sequence[int]], Player]]] = {}
    """Fixed players by name, each made from the environment and the numbers of its agents; ``random`` plays anything,
    see :func:`tau_trainer.envs.batched.players.make_player`."""

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

    # What an author writes.

    @abstractmethod
    def begin(self, draws: Draws) -> State:
        """An episode's start for each of ``draws``' copies."""

    @abstractmethod
    def advance(self, state: State, actions: torch.Tensor, draws: Draws) -> Outcome:
        """One step of the game. ``state["step"]`` counts this one already. Actions of agents that left mean nothing."""

    @abstractmethod
    def observe(self, state: State) -> torch.Tensor:
        """[E, A, *obs] of the state, in the observation space's dtype."""

    def allowed(self, state: State) -> torch.Tensor | None:
        """What may be chosen, bool [E, A, k], ``k`` the sum of all branches; None: everything always."""
        return None

    def pool(self, count: int) -> Pool:
        """What episodes begin from where ``starts`` is ``pool``, asked for once; ``count`` starts, each as likely."""
        seeds = seeds_of(0, count, self.device)
        return Pool(self.begin(Draws(seeds, torch.zeros_like(seeds), torch.zeros_like(seeds))))

    def frame(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """A picture [H, W, 3] of one copy's state, arrays without ``E``. Raises NotImplementedError: it has none."""
        raise NotImplementedError(f"{type(self).__name__} draws no pictures")

    # What a trainer calls.

    @property
    def num_agents(self) -> int:
        """``A``."""
        return len(self.agents)

    @property
    def mask(self) -> torch.Tensor | None:
        """What :meth:`allowed` says now."""
        return self.allowed(self.state)

    def seed(self, seed: int | torch.Tensor) -> None:
        """Give the copies other seeds, see the class's arguments; they count from the next :meth:`reset` of all."""
        seeds = seed if isinstance(seed, torch.Tensor) else seeds_of(seed, self.num_envs)
        self._seeds = seeds.to(self.device)

    def reset(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Begin episodes anew, of copies in ``mask`` (bool [E]; None: all, from their first); observations of all."""
        if mask is None:
            self.state = self._fresh(self._seeds, torch.zeros_like(self._seeds))
            return self.observe(self.state)
        self.state, observations = self._renewed(self.state, self.observe(self.state), mask)
        return observations

    def step(self, actions: torch.Tensor) -> BatchedStep:
        """One step of every copy; those that end begin anew."""
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
        """What :meth:`step` does, from any state, and changing nothing: what is compared and tested."""
        state, step = self.played(state, actions)
        state, observations = self._renewed(state, step.final_observations, step.over)
        return state, step._replace(observations=observations)

    def played(self, state: State, actions: torch.Tensor) -> tuple[State, BatchedStep]:
        """A step before anybody begins anew: what is compiled, for its shapes depend on nothing that happens."""
        present = state["present"]
        state = {**state, "step": state["step"] + 1}
        found = self.advance(state, actions, Draws(state["seed"], state["episode"], state["step"]))
        terminated = found.terminated & present  # who had left does not end again
        truncated = found.truncated & present & ~terminated  # a real end goes before a limit
        still = present & ~terminated & ~truncated
        over = ~still.any(dim=1)  # bool [E]: nobody is left
        state = {**state, **found.state, "present": still}
        final = self.observe(state)  # of the episode that ends, before a new one begins
        rewards = found.rewards * present
        return state, BatchedStep(final, rewards, terminated, truncated, final, over)

    def watch(self, index: int | None) -> None:
        """Log copy ``index`` from now on, see :meth:`trace`; None: no longer. Forgets the log so far."""
        self._watched, self._log = index, []

    def trace(self) -> dict[str, NDArray[Any]]:
        """The log as arrays [T, ...]: each state as a step found it, with its actions, rewards, and ``over``."""
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
        """Both with the copies in ``mask`` at the start of their next episode; the same objects where there is none."""
        if self.device.type == "cpu":  # looking costs nothing here; elsewhere the device would have to be waited for
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
    """Of what is observed."""
    return torch.as_tensor(np.zeros(0, space.dtype)).dtype


def branches(space: spaces.Space[Any]) -> list[int]:
    """How many actions there are on each branch; none for a Box."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    return [int(size) for size in space.nvec] if isinstance(space, spaces.MultiDiscrete) else []


Played = tuple[dict[str, NDArray[Any]], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]
"""Of one copy: state of the game, rewards [A], terminated [A], truncated [A], as :class:`Outcome` has them."""


class Twin(Protocol):
    """One copy of the same game in plain numpy, written to be read: what a batched environment is compared with.

    Made with the same arguments but for ``num_envs``, ``device`` and ``seed``. States are those of the batched one,
    arrays without ``E``; ``state["step"]`` counts the step already. Nothing is drawn.
    """

    def advance(self, state: dict[str, NDArray[Any]], actions: NDArray[Any]) -> Played:
        """One step."""

    def observe(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """[A, *obs]."""
