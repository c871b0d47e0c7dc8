"""PPO in one file with torch.nn and torch.optim, written to be compared with: nothing here comes from the package.

Names as in Schulman et al. 2017 and 2016. Implementation details:

1. Two separate networks of Linear + SiLU layers; Gaussian with a global log sigma, one categorical a branch.
2. GAE in a loop over time, newest first; an episode cut by a limit is bootstrapped, a real end is not.
3. Advantages normalised over the whole buffer (biased deviation), for each component by itself.
4. floor(N / batch) minibatches from a fresh permutation an epoch.
5. One Adam, epsilon 1e-8; gradients clipped by their global norm.
6. Component credit: every component has its own ratio, advantage and clip; the mean of all is the loss.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical, Normal


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


def gae(agent: Agent, t: Trajectory, gamma: float, lambd: float) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        values = agent.value(t.obs).double()
        next_value = torch.zeros_like(values[0])
        if t.bootstrap is not None:
            next_value = agent.value(t.bootstrap[None])[0].double()
    advantages = torch.zeros_like(values)
    last = torch.zeros_like(values[0])
    for step in reversed(range(len(values))):
        delta = t.reward[step] + gamma * next_value - values[step]
        advantages[step] = last = delta + gamma * lambd * last
        next_value = values[step]
    return advantages.float(), (advantages + values).float()


def update(
    agent: Agent,
    optimizer: torch.optim.Adam,
    trajectories: list[Trajectory],
    arrival: torch.Tensor,
    generator: torch.Generator,
    *,
    gamma: float,
    lambd: float,
    epsilon: float,
    beta: float,
    epochs: int,
    batch: int,
    max_grad_norm: float | None,
    joint: bool,
) -> None:
    """One update. ``arrival``: for each transition in order of arrival, its place in the joined trajectories."""
    estimated = [gae(agent, t, gamma, lambd) for t in trajectories]
    advantage = torch.cat([a for a, _ in estimated])[arrival]
    returns = torch.cat([r for _, r in estimated])[arrival]

    def joined(name: str) -> torch.Tensor:
        return torch.cat([getattr(t, name) for t in trajectories])[arrival]

    obs, continuous, discrete = joined("obs"), joined("continuous"), joined("discrete")
    mask, old = joined("mask"), joined("log_prob")
    if joint:
        old = old.sum(dim=1, keepdim=True)
    advantage = (advantage - advantage.mean(dim=0)) / (advantage.std(dim=0, correction=0) + 1e-8)
    batch = min(batch, len(obs))
    for _ in range(epochs):
        order = torch.randperm(len(obs), generator=generator)
        for begin in range(0, len(obs) // batch * batch, batch):
            b = order[begin : begin + batch]
            new, entropy = agent.evaluate(obs[b], continuous[b], discrete[b], mask[b])
            if joint:
                new = new.sum(dim=1, keepdim=True)
            ratio = (new - old[b]).exp()
            surrogate = torch.min(ratio * advantage[b], ratio.clamp(1 - epsilon, 1 + epsilon) * advantage[b])
            value_loss = ((agent.value(obs[b]) - returns[b]) ** 2).mean()
            loss = -surrogate.mean() + 0.5 * value_loss - beta * entropy.mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if max_grad_norm is not None:
                nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
            optimizer.step()
