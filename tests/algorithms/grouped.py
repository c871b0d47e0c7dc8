"""Agents in groups that come, go and die at any time: in an algorithm's memory, and as plain records beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.poca import POCA
from tau_trainer.memory import StepFacts, WorkData
from tau_trainer.models import Policy
from tau_trainer.models.actor_critic import NetworkOutput
from tau_trainer.models.blocks import Past
from tau_trainer.models.encoders.attention import HEADS
from tau_trainer.models.group_critic import GroupCritic
from tau_trainer.settings import NetworkSettings, RewardSignalSettings
from tau_trainer.settings.hyperparameters import POCAHyperparameters
from tau_trainer.settings.trainers import MAPPOTrainerSettings, POCATrainerSettings
from tau_trainer.specs import BehaviorSpec
from tests.algorithms.experience import acted
from tests.networks import observations

AGENTS = 6

_does = st.sampled_from(["asks", "asks", "asks", "asks", "silent", "dies", "cut", "dies and asks"])
MESSAGES = st.lists(
    st.tuples(
        st.lists(_does, min_size=AGENTS, max_size=AGENTS),
        st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=AGENTS, max_size=AGENTS),
    ),
    min_size=2,
    max_size=14,
)
"""What each agent does in each message, and the group that it joins where it begins."""


def poca(
    spec: BehaviorSpec,
    kind: type[POCA] = POCA,
    *,
    network: dict[str, Any] | None = None,
    signals: dict[str, Any] | None = None,
    **numbers: Any,
) -> POCA:
    """``signals``: beside the extrinsic reward."""
    numbers = {"batch_size": 32, "buffer_size": 200, "num_epoch": 2, **numbers}
    settings = {"poca": POCATrainerSettings, "mappo": MAPPOTrainerSettings}[kind.name](
        hyperparameters=POCAHyperparameters(**numbers),
        network_settings=NetworkSettings(**{"hidden_units": 8, **(network or {})}),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=0.9, strength=0.5), **(signals or {})},
        time_horizon=5,
    )
    return kind(Setup(spec, settings, 1))


@dataclass(eq=False)
class Decided:
    """One decision. ``end``: how the episode ended after it, with the moment and what was seen last."""

    agent: int
    moment: int
    group: int
    place: int
    """In the memory."""
    values: dict[str, Any]
    previous: Decided | None = None
    own: float | None = None
    paid_to_group: float = 0.0
    following: Decided | None = None
    step: int = 0
    end: str = ""
    ended_at: int = -1
    last: Any = None

    @property
    def known(self) -> bool:
        return self.own is not None

    @property
    def rank(self) -> int:
        return 3 if self.following else {"terminated": 2, "truncated": 1, "left": 0}[self.end]


@dataclass
class History:
    """Plays messages into a learner's memory."""

    learner: POCA
    policy: Policy
    seed: int = 0
    lockstep: bool = False
    decided: list[Decided] = field(default_factory=list)
    open: dict[int, Decided] = field(default_factory=dict)
    moment: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.state = {column.name: column.empty(AGENTS) for column in self.learner.network.state_columns}

    def play(self, messages: Any) -> WorkData:
        for does, groups in messages:
            self.hears(does, groups)
        return self.learner.memory.take().data

    def hears(self, does: Any, groups: Any) -> None:
        self.moment += 1
        over = [agent for agent in self.open if does[agent] in ("dies", "cut", "dies and asks")]
        asking = [
            agent
            for agent in range(AGENTS)
            if does[agent] in ("asks", "dies and asks") or (does[agent] != "silent" and agent not in self.open)
        ]
        going = [record.group for agent, record in self.open.items() if agent not in over]
        if over:
            self._end(over, does, going)
        if asking:
            self._decide(asking, groups)

    def _end(self, over: list[int], does: Any, going: list[int]) -> None:
        group = np.array([self.open[agent].group for agent in over], np.int32)
        truncated = np.array([does[agent] == "cut" for agent in over])
        plays_on = np.array([number != 0 and number in going for number in group])
        obs = observations(self.learner.spec, len(over), int(self.rng.integers(2**31)))
        known = self._pay(over, group, plays_on)
        self.learner.memory.end(np.array(over), known, obs, truncated)
        for i, agent in enumerate(over):
            record = self.open.pop(agent)
            record.end = "truncated" if truncated[i] else "left" if plays_on[i] else "terminated"
            record.ended_at, record.last = self.moment, [sensor[i] for sensor in obs]

    def _decide(self, asking: list[int], groups: Any) -> None:
        spec = self.learner.spec
        before = [self.open.get(agent) for agent in asking]
        group = np.array([groups[a] if last is None else last.group for a, last in zip(asking, before, strict=True)])
        obs = observations(spec, len(asking), int(self.rng.integers(2**31)))
        mask = self.rng.random((len(asking), spec.actions.mask_size)) < 0.3 if spec.actions.mask_size else None
        for kept in self.state.values():
            kept[[agent for agent in asking if agent not in self.open]] = 0.0
        decision = self.policy.act(obs, mask, self.rng, state={name: kept[asking] for name, kept in self.state.items()})
        for name, kept in self.state.items():
            kept[asking] = decision.state[name]
        known = self._pay(asking, group.astype(np.int32), None)
        values = acted(obs, decision, mask)
        self.learner.memory.append(np.array(asking), known, values, self.policy.version)
        for i, agent in enumerate(asking):
            mine = {name: None if column is None else column[i] for name, column in values.items()}
            record = Decided(agent, self.moment, int(group[i]), len(self.decided), mine)
            last = before[i]
            if last is not None:
                last.following, record.step, record.previous = record, (last.step + 1) % 5, last
            self.decided.append(record)
            self.open[agent] = record

    def _pay(self, agents: list[int], group: Any, plays_on: Any) -> StepFacts:
        own = self.rng.normal(size=len(agents)).astype(np.float32)
        to_group = np.where(group != 0, self.rng.normal(size=3)[group], 0.0).astype(np.float32)
        for i, agent in enumerate(agents):
            if agent in self.open:
                self.open[agent].own, self.open[agent].paid_to_group = float(own[i]), float(to_group[i])
        return StepFacts({"extrinsic": own[:, None]}, to_group, group, plays_on, self.moment)


class Reference:
    """Values, baselines and returns of a history, decision by decision, as one would write them down.

    Args:
        history: what was played.
        lambd: of the returns.
        paid: what a learned stream, the second, pays for each decision; none of its returns end with an episode.
    """

    def __init__(self, history: History, lambd: float, paid: dict[Decided, float] | None = None) -> None:
        self.history, self.learner, self.lambd, self.paid = history, history.learner, lambd, paid
        self.stream = int(paid is not None)
        self.remembered = dict[Decided, tuple[torch.Tensor, torch.Tensor | None]]()
        self.acted = dict[Decided, NetworkOutput]()
        self.worth = dict[Decided, torch.Tensor]()
        critic: Any = self.learner.network
        self.critic: GroupCritic = critic.critic
        stream = self.learner.streams[self.stream]
        self.gamma, self.strength = stream.gamma, stream.strength

    def mates(self, record: Decided) -> list[Decided]:
        """All that decided together, in order, the record itself among them."""
        if record.group == 0:
            return [record]
        return [
            other for other in self.history.decided if other.moment == record.moment and other.group == record.group
        ]

    def value(self, record: Decided) -> torch.Tensor:
        first = self.mates(record)[0]
        if first not in self.worth:
            self.worth[first] = self._worth([self._embedded(mate, None) for mate in self.mates(record)])
        return self.worth[first]

    def baseline(self, record: Decided) -> torch.Tensor:
        mates = self.mates(record)
        return self._worth([self._embedded(mate, None if mate is record else mate.values) for mate in mates])

    def heir(self, record: Decided) -> Decided:
        if record.following or record.end not in ("left", "truncated"):
            return record
        mates = [mate for mate in self.mates(record) if mate.known]
        best = max(mates, key=lambda mate: (mate.rank, mate.place))
        if record.end == "left":
            return best if best.rank > 0 else record
        return best if best.rank == 3 else record

    def finals(self, record: Decided) -> list[Decided]:
        """Whose last observations are worth something together with this one's."""
        if record.group == 0:
            return [record]
        return [
            other
            for other in self.history.decided
            if other.end
            and (other.end == "terminated") == (record.end == "terminated")
            and other.following is None
            and (other.ended_at, other.group) == (record.ended_at, record.group)
            and self.heir(other) is other
        ]

    @torch.no_grad()
    def returned(self, record: Decided) -> float:
        heir = self.heir(record)
        if heir is not record:
            other = 0.0 if self.paid is None else self._reward(record) - self._reward(heir)
            return self.returned(heir) + other
        reward = self._reward(record)
        if record.end == "terminated" and record.following is None and self.paid is None:
            return reward
        if record.following is None:
            finals = self.finals(record)
            seen = [self._features([sensor[None] for sensor in other.last], other)[0] for other in finals]
            return reward + self.gamma * float(self._worth([self._entity(one, None) for one in seen]))
        after = float(self.value(record.following))
        if record.step == 4 or not record.following.known:  # the horizon, or its outcome is still open
            return reward + self.gamma * after
        later = self.returned(record.following)
        return reward + self.gamma * ((1.0 - self.lambd) * after + self.lambd * later)

    def _reward(self, record: Decided) -> float:
        if self.paid is not None:
            return self.strength * self.paid[record]
        own = sum(mate.own for mate in self.mates(record) if mate.own is not None)
        return self.strength * (own + record.paid_to_group)

    def outputs(self, record: Decided) -> torch.Tensor:
        """What the actor says, step by step from the beginning of the episode."""
        return self._acted(record).outputs[0]

    def _acted(self, record: Decided) -> NetworkOutput:
        if record not in self.acted:
            state = None if record.previous is None else self._acted(record.previous).state
            self.acted[record] = self.learner.network(self._inputs(self._seen(record)), Past(state))
        return self.acted[record]

    def _seen(self, record: Decided) -> Any:
        return [record.values[f"obs_{i}"][None] for i in range(len(self.learner.spec.observations))]

    def _inputs(self, obs: Any) -> Any:
        return self.learner.network.prepare(tuple(obs))

    def _features(self, obs: Any, previous: Decided | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What an agent sees, and beside it what it remembers, and the state for its next decision."""
        inputs = self._inputs(obs)
        seen = self.critic.encoders[0](inputs).features if self.critic.encoders else inputs[0]
        if not self.critic.memories:
            return seen, None
        memory: Any = self.critic.memories[0]
        state = torch.zeros(1, memory.state_size)
        if previous is not None:
            _, after = self._perceived(previous)
            assert after is not None
            state = after
        said, state = memory(seen, state)
        return torch.cat((seen, said), dim=1), state

    def _perceived(self, record: Decided) -> tuple[torch.Tensor, torch.Tensor | None]:
        if record not in self.remembered:
            self.remembered[record] = self._features(self._seen(record), record.previous)
        return self.remembered[record]

    def _embedded(self, record: Decided, did: dict[str, Any] | None) -> torch.Tensor:
        return self._entity(self._perceived(record)[0], did)

    def _entity(self, features: torch.Tensor, did: dict[str, Any] | None) -> torch.Tensor:
        if did is None:
            return self.critic.alone(features)[0]  # type: ignore[no-any-return]
        parts = [features[0], torch.from_numpy(did["continuous"])]
        for size, chosen in zip(self.learner.network.action.choices.discrete_branches, did["discrete"], strict=True):
            parts.append(torch.nn.functional.one_hot(torch.tensor(int(chosen)), size).float())
        return self.critic.acted(torch.cat(parts))  # type: ignore[no-any-return]

    def _worth(self, entities: list[torch.Tensor]) -> torch.Tensor:
        """Residual self-attention with four heads, their mean, hidden layers, and the head."""
        critic, width = self.critic, self.critic.out.out_features

        def normed(x: torch.Tensor) -> torch.Tensor:
            return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()

        x = torch.stack(entities)
        x = normed(x * x.sigmoid())
        heard = []
        for head in range(HEADS):
            part = slice(head * width // HEADS, (head + 1) * width // HEADS)
            query, key, value = (layer(x)[:, part] for layer in (critic.query, critic.key, critic.value))
            heard.append(torch.softmax(query @ key.T / width**0.5, dim=1) @ value)
        pooled = normed(critic.out(torch.cat(heard, dim=1)) + x).mean(dim=0)
        share = torch.tensor([len(entities) * 2.0 / float(critic.most) - 1.0])
        worth: torch.Tensor = critic.worth(torch.cat((critic.body(pooled[None], 0)[0], share))[None])[0, self.stream]
        return worth
