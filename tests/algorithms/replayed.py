"""Random experience for tests of off-policy learners, and what the learner's ring should hold of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from tau_trainer.algorithms import Counters, Setup
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.iqn import IQN
from tau_trainer.algorithms.off_policy.sac import SAC
from tau_trainer.algorithms.off_policy.sac_ln import SACLN
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.memory import StepFacts, WorkData
from tau_trainer.models.distributions import branch_bounds, effective_mask
from tau_trainer.settings import trainer_type
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.algorithms.experience import AGENTS, acted, behavior, paying
from tests.networks import observations

L = TypeVar("L", bound=OffPolicy)
SMALL = {"batch_size": 16, "buffer_size": 1000, "learning_rate": 1e-2}
AT_ONCE = SMALL | {"buffer_init_steps": 0, "steps_per_update": 1.0}
OF_VALUES = AT_ONCE | {"learning_rate_schedule": "constant", "double": False}


def settings(network: dict[str, Any] | None = None, signals: dict[str, Any] | None = None, **numbers: Any) -> Any:
    return _settings("sac", SMALL, network, signals, numbers)


def sac_ln_settings(
    network: dict[str, Any] | None = None, signals: dict[str, Any] | None = None, **numbers: Any
) -> Any:
    return _settings("sac_ln", AT_ONCE, {"normalize": False, **(network or {})}, signals, numbers)


def dqn_settings(network: dict[str, Any] | None = None, signals: dict[str, Any] | None = None, **numbers: Any) -> Any:
    return _settings("dqn", OF_VALUES, network, signals, numbers)


def iqn_settings(network: dict[str, Any] | None = None, signals: dict[str, Any] | None = None, **numbers: Any) -> Any:
    return _settings("iqn", OF_VALUES, network, signals, numbers)


def _settings(kind: str, plain: Any, network: dict[str, Any] | None, signals: Any, numbers: dict[str, Any]) -> Any:
    options = trainer_type(kind).settings.model_validate({"trainer_type": kind, "hyperparameters": plain | numbers})
    shape = options.network_settings.model_copy(update={"hidden_units": 16, **(network or {})})
    return paying(options.model_copy(update={"network_settings": shape}), signals)


@dataclass(frozen=True)
class Maker(Generic[L]):
    """Makes learners, of a behavior that sees two vectors unless told otherwise."""

    kind: Callable[..., L]
    settings: Callable[[], Any]

    def __call__(
        self, spec: BehaviorSpec | ActionSpec, options: Any = None, *, seed: int = 1, device: str = "cpu", **more: Any
    ) -> L:
        spec = behavior(spec) if isinstance(spec, ActionSpec) else spec
        return self.kind(Setup(spec, options or self.settings(), seed, device=device), **more)


sac, sac_ln = Maker(SAC, settings), Maker(SACLN, sac_ln_settings)
dqn, iqn = Maker(DQN, dqn_settings), Maker(IQN, iqn_settings)


def random_everywhere(learner: OffPolicy, seed: int = 0) -> None:
    """Heads begin at zero: whatever is left out somewhere shows only where nothing is."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in learner.module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)


def random_batch(
    learner: OffPolicy, rows: int = 9, seed: int = 0, *, weighted: bool = False
) -> tuple[Transitions, torch.Tensor]:
    """Random transitions that can be learned from, of which every third ends, and noise for their actions."""
    choices, generator = learner.network.action.choices, torch.Generator().manual_seed(seed)
    size, branches = choices.continuous_size, choices.discrete_branches

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    forbidden = torch.rand(rows, choices.mask_size, generator=generator) < 0.4
    forbidden[:, [begin for begin, _ in branch_bounds(branches)]] = False
    batch = Transitions(
        inputs=[normal(rows, 7)],
        following=[normal(rows, 7)],
        continuous=torch.tanh(normal(rows, size)),
        discrete=torch.stack([torch.randint(one, (rows,), generator=generator) for one in branches], dim=1)
        if branches
        else torch.zeros(rows, 0, dtype=torch.int64),
        forbidden=forbidden,
        rewards=normal(rows, len(learner.streams)),
        goes_on=(torch.arange(rows)[:, None] % 3 > 0).float(),
        state=torch.zeros(0),
        begins=torch.zeros(0),
        forbidden_after=forbidden.flip(0) if learner.masks_after else torch.zeros(0),
        weights=torch.zeros(0),
        errors=torch.zeros(0),
    )
    if weighted:
        goes_on = batch.goes_on * torch.linspace(0.5, 1.0, len(learner.streams))
        weights = torch.rand(rows, generator=torch.Generator().manual_seed(seed))
        batch = batch._replace(goes_on=goes_on, weights=weights, errors=torch.zeros(rows))
    return batch, normal(rows, size)


class Collector:
    """Lets a learner's policy act on random observations with random rewards, ends and masks.

    ``transitions``: what has become of every decision so far, in the order in which they were made.
    """

    def __init__(self, learner: OffPolicy, seed: int = 0) -> None:
        self.learner = learner
        self.rng = np.random.default_rng(seed)
        self.transitions: list[dict[str, Any]] = []
        self._open: dict[int, dict[str, Any]] = {}
        self._steps = 0
        self._state = {column.name: column.empty(AGENTS) for column in learner.snapshot().state_columns}

    def collect(self, steps: int = 12) -> WorkData:
        """The work of so many further decisions of every agent."""
        self.play(steps)
        return self.learner.memory.take().data

    def play(self, steps: int) -> None:
        """So many further decisions of every agent."""
        policy, memory = self.learner.snapshot(), self.learner.memory
        size = self.learner.spec.actions.mask_size
        for _ in range(steps):
            obs = self._observe(AGENTS)
            mask = self.rng.random((AGENTS, size)) < 0.3 if size else None
            before, decision = self._state, policy.act(obs, mask, self.rng, state=self._state)
            self._state = {name: values.copy() for name, values in decision.state.items()}
            rewards = self._rewards(AGENTS)
            memory.append(np.arange(AGENTS), StepFacts(rewards), acted(obs, decision, mask), policy.version)
            self._close(range(AGENTS), rewards, obs, terminated=False)
            branches = self.learner.spec.actions.discrete_branches
            for agent in range(AGENTS):
                self._open[agent] = {
                    "agent": agent,
                    "obs": _of(obs, agent),
                    "state": np.array([before[column.name][agent] for column in self.learner.network.state_columns]),
                    "continuous": decision.continuous[agent],
                    "discrete": decision.discrete[agent],
                    "forbidden": effective_mask(mask, branches)[agent] if mask is not None else np.zeros(0, np.bool_),
                }
                self.transitions.append(self._open[agent])
            self._steps += 1
            if self._steps % 5 == 0:
                self._end(self._steps % AGENTS, truncated=self._steps % 2 == 0)

    def _end(self, agent: int, *, truncated: bool) -> None:
        rewards, obs = self._rewards(1), self._observe(1)
        self.learner.memory.end(np.array([agent]), StepFacts(rewards), obs, np.array([truncated]))
        self._close([agent], rewards, obs, terminated=not truncated)
        for values in self._state.values():
            values[agent] = 0

    def _close(self, agents: Any, rewards: dict[str, Any], obs: Any, *, terminated: bool) -> None:
        for row, agent in enumerate(agents):
            decision = self._open.pop(agent, None)
            if decision is not None:
                decision["rewards"] = np.concatenate([values[row] for values in rewards.values()])
                decision |= {"next": _of(obs, row), "terminated": terminated}

    def closed(self) -> list[dict[str, Any]]:
        return [one for one in self.transitions if "next" in one]

    def _observe(self, rows: int) -> tuple[Any, ...]:
        return observations(self.learner.spec, rows, int(self.rng.integers(2**31)), scale=1.0)

    def _rewards(self, rows: int) -> dict[str, Any]:
        return {stream.name: self.rng.normal(size=(rows, 1)).astype(np.float32) for stream in self.learner.streams}


def _of(obs: Any, row: int) -> list[Any]:
    return [values[row] for values in obs]


def trained(learner: OffPolicy, rounds: int = 2) -> Collector:
    """After so many updates, so that optimizer, normaliser and ring hold something."""
    collector = Collector(learner)
    for _ in range(rounds):
        learner.update(collector.collect(), 0.0, None)
    return collector


State = tuple[dict[str, Any], dict[str, Any]]


def copied(state: State) -> State:
    """As a file would give it back."""
    arrays, metadata = state
    return {name: values.copy() for name, values in arrays.items()}, json.loads(json.dumps(metadata))


def assert_same_state(learner: OffPolicy, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
    now, facts_now = copied(learner.state())
    np.testing.assert_equal(now, arrays)
    assert facts_now == metadata


def counters(learner: OffPolicy) -> Counters:
    return Counters(0, learner.version)
