"""PPO in one file with torch.nn and torch.optim, written to be compared with: nothing here comes from the package.

Names as in Schulman et al. 2017 and 2016. Implementation details:

1. Two separate networks of Linear + SiLU layers; Gaussian with a global log sigma, one categorical a branch.
2. GAE in a loop over time, newest first; an episode cut by a limit is bootstrapped, a real end is not. Every reward
   stream has its own discount and values; advantages are summed, one of width 1 counts for all components.
3. Advantages normalised over the whole buffer or each minibatch (biased deviation), for each component by itself.
4. floor(N / batch) minibatches from a fresh permutation an epoch.
5. One Adam, epsilon 1e-8; gradients clipped by their global norm.
6. Every action component has its own ratio and clip, with component credit its own advantage; the mean of all is the
   loss.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical, Normal


@dataclass
class Stream:
    """A reward: its columns in rewards and values, its discount and its factor."""

    columns: slice
    gamma: float
    strength: float


@dataclass
class Trajectory:
    """One agent's stretch. ``bootstrap``: what was seen after it, None after a real end."""

    obs: torch.Tensor
    continuous: torch.Tensor
    discrete: torch.Tensor
    mask: torch.Tensor
    log_prob: torch.Tensor
    reward: torch.Tensor
    bootstrap: torch.Tensor | None


class Agent(nn.Module):
    """Actor and critic."""

    def __init__(self, inputs: int, units: int, layers: int, continuous: int, branches: list[int], values: int) -> None:
        super().__init__()

        def body() -> nn.Sequential:
            sizes = [inputs] + [units] * layers
            modules: list[nn.Module] = []
            for before, after in itertools.pairwise(sizes):
                modules += [nn.Linear(before, after), nn.SiLU()]
            return nn.Sequential(*modules)

        self.branches, self.size = branches, continuous
        self.actor, self.critic = body(), body()
        last = units if layers else inputs
        self.head = nn.Linear(last, continuous + sum(branches))
        self.log_sigma = nn.Parameter(torch.zeros(continuous))
        self.value_head = nn.Linear(last, values)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.value_head(self.critic(obs))
        return result

    def evaluate(
        self, obs: torch.Tensor, continuous: torch.Tensor, discrete: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.head(self.actor(obs))
        log_probs, entropies = [], []
        if self.size:
            normal = Normal(out[:, : self.size], self.log_sigma.exp())
            log_probs.append(normal.log_prob(continuous))  # type: ignore[no-untyped-call]
            entropies.append(normal.entropy().mean(dim=1))  # type: ignore[no-untyped-call]
        begin = self.size
        for branch, size in enumerate(self.branches):
            blocked = mask[:, begin - self.size : begin - self.size + size]
            categorical = Categorical(logits=torch.where(blocked, torch.tensor(-1e8), out[:, begin : begin + size]))
            log_probs.append(categorical.log_prob(discrete[:, branch])[:, None])  # type: ignore[no-untyped-call]
            entropies.append(categorical.entropy())  # type: ignore[no-untyped-call]
            begin += size
        return torch.cat(log_probs, dim=1), torch.stack(entropies).sum(dim=0)


def gae(agent: Agent, t: Trajectory, stream: Stream, lambd: float) -> tuple[torch.Tensor, torch.Tensor]:
    own = stream.columns
    with torch.no_grad():
        values = agent.value(t.obs)[:, own].double()
        next_value = torch.zeros_like(values[0])
        if t.bootstrap is not None:
            next_value = agent.value(t.bootstrap[None])[0, own].double()
    advantages = torch.zeros_like(values)
    last = torch.zeros_like(values[0])
    for step in reversed(range(len(values))):
        delta = stream.strength * t.reward[step, own] + stream.gamma * next_value - values[step]
        advantages[step] = last = delta + stream.gamma * lambd * last
        next_value = values[step]
    return advantages.float(), (advantages + values).float()


def estimate(agent: Agent, t: Trajectory, streams: list[Stream], lambd: float) -> tuple[torch.Tensor, torch.Tensor]:
    estimated = [gae(agent, t, stream, lambd) for stream in streams]
    advantage = estimated[0][0]
    for other, _ in estimated[1:]:
        advantage = advantage + other
    return advantage, torch.cat([returns for _, returns in estimated], dim=1)


def normalized(advantage: torch.Tensor) -> torch.Tensor:
    return (advantage - advantage.mean(dim=0)) / (advantage.std(dim=0, correction=0) + 1e-8)


def update(
    agent: Agent,
    optimizer: torch.optim.Adam,
    trajectories: list[Trajectory],
    arrival: torch.Tensor,
    generator: torch.Generator,
    *,
    streams: list[Stream],
    lambd: float,
    epsilon: float,
    beta: float,
    epochs: int,
    batch: int,
    max_grad_norm: float | None,
    normalize: str,
) -> None:
    """One update. ``arrival``: for each transition in order of arrival, its place in the joined trajectories."""
    estimated = [estimate(agent, t, streams, lambd) for t in trajectories]
    advantage = torch.cat([a for a, _ in estimated])[arrival]
    returns = torch.cat([r for _, r in estimated])[arrival]

    def joined(name: str) -> torch.Tensor:
        return torch.cat([getattr(t, name) for t in trajectories])[arrival]

    obs, continuous, discrete = joined("obs"), joined("continuous"), joined("discrete")
    mask, old = joined("mask"), joined("log_prob")
    if normalize == "buffer":
        advantage = normalized(advantage)
    batch = min(batch, len(obs))
    for _ in range(epochs):
        order = torch.randperm(len(obs), generator=generator)
        for begin in range(0, len(obs) // batch * batch, batch):
            b = order[begin : begin + batch]
            new, entropy = agent.evaluate(obs[b], continuous[b], discrete[b], mask[b])
            ratio = (new - old[b]).exp()
            a = normalized(advantage[b]) if normalize == "minibatch" else advantage[b]
            surrogate = torch.min(ratio * a, ratio.clamp(1 - epsilon, 1 + epsilon) * a)
            value_loss = ((agent.value(obs[b]) - returns[b]) ** 2).mean()
            loss = -surrogate.mean() + 0.5 * value_loss - beta * entropy.mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if max_grad_norm is not None:
                nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
            optimizer.step()
