"""A user's own algorithm: the adapter takes the textbook's steps, and everything that all others have works."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from tau_trainer import Agent, load_settings
from tau_trainer.algorithms import Batch, Counters, Setup, make_algorithm
from tau_trainer.algorithms.agent import AgentLearner
from tau_trainer.columns import MOMENT
from tau_trainer.errors import CheckpointError, NonFiniteError, SettingsError
from tau_trainer.memory import Rollout, StepFacts, WorkData
from tau_trainer.settings import dump_settings, trainer_type
from tau_trainer.settings.exploration import EpsGreedySettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import acted, states_equal

HERE = __name__
AGENTS = 4


class Q(Agent):
    defaults: ClassVar = {
        "batch_size": 8,
        "learning_rate": 0.01,
        "rate": 0.5,
        "exploration": {"type": "eps_greedy", "eps": 0.3},
    }

    def build(self) -> None:
        self.q = nn.Sequential(nn.Linear(self.observation_size, 6), nn.Tanh(), nn.Linear(6, self.action_size))
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.batches: list[Batch] = []

    def action(self, obs: Any) -> torch.Tensor:
        answer: torch.Tensor = self.q(obs)
        return answer

    def errors(self, batch: Batch) -> torch.Tensor:
        self.batches.append(batch)
        value = self.q(batch.obs).gather(1, batch.action[:, None])[:, 0]
        with torch.no_grad():
            after = self.target(batch.next_obs).max(dim=1).values
        error: torch.Tensor = value - batch.reward - self.gamma * batch.goes_on * after
        return error

    def loss(self, batch: Batch) -> Any:
        return self.errors(batch).square().mean()

    def update_target(self) -> None:
        for target, source in zip(self.target.parameters(), self.q.parameters(), strict=True):
            target.lerp_(source, self.hyperparameters.rate)


class Each(Q):
    def loss(self, batch: Batch) -> Any:
        return self.errors(batch).square()


class Noisy(Q):
    def loss(self, batch: Batch) -> Any:
        return (self.errors(batch) + torch.randn(len(batch.reward))).square().mean()


class TwoParts(Agent):
    """An actor and a critic that each has its own optimizer; the actor's loss runs through the critic."""

    defaults: ClassVar = {"batch_size": 8, "exploration": {"type": "gaussian_white_noise", "sigma": 0.2}}

    def build(self) -> None:
        self.actor = nn.Linear(self.observation_size, self.action_size)
        self.critic = nn.Linear(self.observation_size + self.action_size, 1)

    def action(self, obs: Any) -> torch.Tensor:
        answer: torch.Tensor = self.actor(obs)
        return answer

    def optimizers(self) -> Sequence[torch.optim.Optimizer]:
        return (
            torch.optim.SGD(self.actor.parameters(), 0.1, momentum=0.9),
            torch.optim.Adam(self.critic.parameters(), 1e-2),
        )

    def loss(self, batch: Batch) -> Any:
        act = -self.critic(torch.cat([batch.obs, torch.tanh(self.actor(batch.obs))], 1)).mean()
        value = self.critic(torch.cat([batch.obs, batch.action], 1))[:, 0]
        return act, nn.functional.mse_loss(value, batch.reward)


class Together(Q):
    def reward_done_ma(self, rewards: Any, done: Any) -> Any:
        return rewards.sum(), done.any()


class Endless(Q):
    def reward_done_ma(self, rewards: Any, done: Any) -> Any:
        return rewards, False


class WantsGoals(Q):
    def reward_done(self, achieved: Any, goal: Any) -> Any:
        near = np.abs(achieved - goal).max(axis=1) < 0.5
        return near.astype(np.float32), near


def spec(actions: ActionSpec | None = None, *more: ObservationSpec) -> BehaviorSpec:
    return BehaviorSpec("Walker?team=0", (ObservationSpec("a", (3,)), *more), actions or ActionSpec(0, (3,)))


def learner(agent: type[Agent], actions: ActionSpec | None = None, seed: int = 1, **numbers: Any) -> AgentLearner:
    read = trainer_type(agent.place()).settings.model_validate({"hyperparameters": numbers})
    made = make_algorithm(Setup(spec(actions), read, seed))
    assert isinstance(made, AgentLearner)
    return made


def experience(one: AgentLearner, seed: int = 0, steps: int = 6) -> WorkData:
    """Work of ``steps`` decisions of every agent, of whom the last really ends after each second one."""
    rng, policy, rows = np.random.default_rng(seed), one.snapshot(), np.arange(AGENTS)
    for step in range(steps):
        obs = rng.normal(size=(AGENTS, 3)).astype(np.float32)
        state = {column.name: column.empty(AGENTS) for column in policy.state_columns}
        decision = policy.act((obs,), None, rng, state=state)
        reward = {"extrinsic": rng.normal(size=(AGENTS, 1)).astype(np.float32)}
        known = StepFacts(reward, moment=seed * 100 + step)
        one.memory.append(rows, known, acted((obs,), decision), policy.version)
        if step % 2:
            one.memory.end(
                rows[-1:], StepFacts({"extrinsic": np.ones((1, 1), np.float32)}), (obs[-1:],), np.zeros(1, np.bool_)
            )
    work = one.ready(Counters(0, one.version))
    assert work is not None
    data = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in work.data.items()}
    work.release()
    return data


def test_its_steps_are_the_textbooks() -> None:
    one = learner(Q)
    agent = one.agent
    assert isinstance(agent, Q)
    q, target = copy.deepcopy(agent.q), copy.deepcopy(agent.target)
    adam = torch.optim.Adam(q.parameters(), 0.01)
    stats = one.update(experience(one), 0.0, None)
    assert stats["Policy/Learning Rate"] == 0.01
    losses = []
    for batch in agent.batches:
        assert batch.obs.shape == (8, 3)
        assert batch.action.dtype == torch.int64
        value = q(batch.obs)[torch.arange(8), batch.action]
        goal = batch.reward + 0.99 * batch.goes_on * target(batch.next_obs).max(dim=1).values.detach()
        loss = (value - goal).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
        for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
            slow.data = slow.data + 0.5 * (fast.data - slow.data)
    assert len(losses) == stats["Train/Minibatches"] > 5
    assert stats["Losses/Policy Loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    for mine, textbook in zip(agent.q.parameters(), q.parameters(), strict=True):
        torch.testing.assert_close(mine, textbook)
    assert {float(value) for batch in agent.batches for value in batch.goes_on} == {0.0, 1.0}


def test_each_optimizer_follows_its_own_loss_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(TwoParts, ActionSpec(2))
    agent = one.agent
    assert isinstance(agent, TwoParts)
    actor, critic = (copy.deepcopy(part) for part in (agent.actor, agent.critic))
    batches: list[Batch] = []
    told = agent.loss

    def noted(batch: Batch) -> Any:
        batches.append(batch)
        return told(batch)

    monkeypatch.setattr(agent, "loss", noted)
    one.update(experience(one), 0.0, None)
    ascent = torch.optim.SGD(actor.parameters(), 0.1, momentum=0.9)
    adam = torch.optim.Adam(critic.parameters(), 1e-2)
    for batch in batches:
        assert batch.action.shape == (8, 2)
        act = -critic(torch.cat([batch.obs, torch.tanh(actor(batch.obs))], 1)).mean()
        regress = nn.functional.mse_loss(critic(torch.cat([batch.obs, batch.action], 1))[:, 0], batch.reward)
        gradients = (
            torch.autograd.grad(act, list(actor.parameters())),
            torch.autograd.grad(regress, list(critic.parameters())),
        )
        for part, gradient in zip((actor, critic), gradients, strict=True):
            for parameter, value in zip(part.parameters(), gradient, strict=True):
                parameter.grad = value
        ascent.step()
        adam.step()
    for mine, textbook in ((agent.actor, actor), (agent.critic, critic)):
        torch.testing.assert_close(mine.weight, textbook.weight)


def test_continuous_actions_are_a_tanh_with_noise_and_what_is_learned_from() -> None:
    one = learner(TwoParts, ActionSpec(2))
    policy, obs = one.snapshot(), np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    best = policy.act((obs,), None, np.random.default_rng(1), deterministic=True)
    agent = one.agent
    assert isinstance(agent, TwoParts)
    np.testing.assert_allclose(best.continuous, torch.tanh(agent.actor(torch.from_numpy(obs))).detach(), atol=1e-6)
    tried = policy.act((obs,), None, np.random.default_rng(1))
    assert 0.05 < np.abs(tried.continuous - best.continuous).mean() < 0.4
    assert np.abs(tried.continuous).max() <= 1.0
    assert np.array_equal(tried.to_env().continuous, tried.continuous)


def test_exploration_and_masks_are_those_of_all_others() -> None:
    one = learner(Q)
    obs, mask = (np.zeros((400, 3), np.float32),), np.zeros((400, 3), np.bool_)
    best = one.snapshot().act(obs, None, np.random.default_rng(0), deterministic=True).discrete[0, 0]
    tried = one.snapshot().act(obs, None, np.random.default_rng(0)).discrete[:, 0]
    assert 0.7 < (tried == best).mean() < 0.9, "a third of 0.3 is right by chance"
    mask[:, best] = True
    assert (one.snapshot().act(obs, mask, np.random.default_rng(0)).discrete[:, 0] != best).all()


@pytest.mark.parametrize(("agent", "actions"), [(Noisy, None), (TwoParts, ActionSpec(2))])
def test_a_resumed_agent_goes_on_bit_for_bit(agent: type[Agent], actions: ActionSpec | None) -> None:
    one = learner(agent, actions, save_replay_buffer=True)
    for seed in range(3):
        one.update(experience(one, seed), 0.1 * seed, None)
    arrays, metadata = one.state()
    assert any(name.startswith("optimizer.0.") for name in arrays)
    other = learner(agent, actions, seed=9, save_replay_buffer=True)
    other.load(arrays, metadata, fresh=False)
    states_equal(one, other)
    work = experience(one, 7)
    for each in (one, other):
        each.update(work, 0.5, None)
    states_equal(one, other)
    fits_no_other = learner(Q, ActionSpec(0, (2,)))
    with pytest.raises(CheckpointError):
        fits_no_other.load(arrays, metadata, fresh=False)


def test_nothing_stays_of_an_update_that_meets_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    one = learner(Q)
    one.update(experience(one), 0.0, None)
    before = one.state()
    told: Any = one.agent.loss
    calls = iter(range(1000))
    monkeypatch.setattr(one.agent, "loss", lambda batch: told(batch) * (float("nan") if next(calls) > 4 else 1.0))
    with pytest.raises(NonFiniteError, match="the loss became NaN"):
        one.update(experience(one, 1), 0.0, None)
    np.testing.assert_equal(one.state(), before)


def test_the_learning_rate_falls_for_all_optimizers() -> None:
    one = learner(TwoParts, ActionSpec(2), learning_rate_schedule="linear")
    one.update(experience(one), 0.5, None)
    assert [group["lr"] for optimizer in one._optimizers for group in optimizer.param_groups] == pytest.approx(
        [0.05, 0.005], rel=1e-4
    )
    with pytest.warns(DeprecationWarning, match="hyperparameters"):
        assert one.agent.numbers is one.agent.hyperparameters, "its former name"


def test_losses_of_each_transition_are_their_mean_and_priorities() -> None:
    mean, each, one = learner(Q), learner(Each), learner(Each, prioritized={})
    for other in (mean, each, one):
        other.update(experience(other), 0.0, None)
    for mine, others in zip(mean.agent.parameters(), each.agent.parameters(), strict=True):
        assert torch.equal(mine, others)
    assert one.priorities is not None
    state = one.priorities.state()[0]
    assert len(np.unique(state)) > 3, "what was drawn has a priority of its own"
    with pytest.raises(SettingsError, match=r"return a loss of each transition \[8\], because `prioritized` needs it"):
        learner(Q, prioritized={}).update(experience(one, 2), 0.0, None)


def test_hindsight_asks_the_agent_what_a_goal_is_worth() -> None:
    sensors = (ObservationSpec("goal", (2,)), ObservationSpec("achieved", (2,)))
    read = trainer_type(WantsGoals.place()).settings.model_validate(
        {"hyperparameters": {"hindsight": {"achieved": "achieved", "goal": "goal"}}}
    )
    one = make_algorithm(Setup(spec(None, *sensors), read, 1, environment=("build",)))
    assert isinstance(one, AgentLearner)
    assert one.hindsight is not None
    reward, ended = one.hindsight.rule(np.zeros((2, 2), np.float32), np.array([[0.1, 0.0], [3.0, 0.0]], np.float32))
    assert reward.tolist() == [1.0, 0.0]
    assert ended.tolist() == [True, False]
    other = trainer_type(Q.place()).settings.model_validate({"hyperparameters": read.hyperparameters.model_dump()})
    with pytest.raises(SettingsError, match="hindsight needs a reward rule for goals"):
        make_algorithm(Setup(spec(None, *sensors), other, 1, environment=("build",)))


def test_several_agents_are_paid_together() -> None:
    one, alone = learner(Together), learner(Q)
    assert MOMENT in one.memory.columns
    assert MOMENT not in alone.memory.columns
    work = experience(one)
    one.update(work, 0.0, None)
    alone.update({name: value for name, value in work.items() if name != MOMENT.name}, 0.0, None)
    size = len(one.replay)
    mine, others = (each.replay.take(np.arange(size)) for each in (one, alone))
    assert len(alone.replay) == size == 5 * AGENTS + 1
    moments = np.r_[np.repeat(np.arange(5), AGENTS), 5]
    for moment in range(6):
        step = moments == moment
        assert mine["rewards"][step, 0] == pytest.approx(others["rewards"][step, 0].sum())
        assert (mine["terminated"][step] == others["terminated"][step].any()).all()
    assert mine["terminated"].sum() > others["terminated"].sum() > 0


def test_a_real_end_stays_one_whatever_an_agent_says() -> None:
    one = learner(Endless)
    work = experience(one)
    one.update(work, 0.0, None)
    ends = one.replay.take(np.arange(len(one.replay)))["terminated"]
    assert ends.sum() == Rollout(work).terminated.sum() > 0


@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        (
            "action",
            lambda q, obs: q.q(obs)[:, :2],
            r"Own\.action answers 4 observations of 'Walker' with shape \[4, 2\], but must return \[4, 3\]",
        ),
        ("action", Agent.action, r"Own\.action failed: NotImplementedError: Own needs a method"),
        (
            "loss",
            lambda q, batch: (q.errors(batch).mean(), q.errors(batch).mean()),
            r"Own\.loss returns 2 losses for 1 optimizers; return one for each",
        ),
        (
            "loss",
            lambda q, batch: q.errors(batch)[:, None] ** 2,
            r"Own\.loss returns a loss of shape \[8, 1\]; return a loss of each transition \[8\], or a single",
        ),
    ],
)
def test_a_mistake_is_a_sentence(method: str, answer: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Own", type("Own", (Q,), {method: answer, "__module__": HERE}))
    one = learner(globals()["Own"])
    with pytest.raises(SettingsError, match=text):
        one.update(experience(one), 0.0, None)


@pytest.mark.parametrize(
    ("defaults", "text"),
    [
        ({"batch_size": 0}, "batch_size: Input should be greater than or equal to 1"),
        ({"exploration": {"type": "eps_greedi"}}, "exploration: has an unknown type"),
        ({"batch_size": 100, "buffer_size": 10}, "they: batch_size 100 is larger than buffer_size 10"),
    ],
)
def test_defaults_are_checked_like_settings(defaults: dict[str, Any], text: str) -> None:
    agent: Any = type("Own", (Q,), {"defaults": defaults})
    with pytest.raises(SettingsError, match=rf"Own\.defaults: {text}"):
        agent.trainer()


def test_a_memory_of_ours_is_refused() -> None:
    read = trainer_type(Q.place()).settings.model_validate({"network_settings": {"memory": {"sequence_length": 4}}})
    with pytest.raises(SettingsError, match=r"Q builds its own networks; remove network_settings\.memory"):
        make_algorithm(Setup(spec(), read, 1))


def test_its_defaults_are_keys_that_a_file_may_override(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        f"behaviors: {{Walker: {{trainer_type: '{HERE}:Q', hyperparameters: {{rate: 0.25, exploration: null}}}}}}"
    )
    numbers: Any = load_settings(path).behaviors["Walker"].hyperparameters
    assert (numbers.rate, numbers.batch_size, numbers.exploration) == (0.25, 8, None)
    again = tmp_path / "again.yaml"
    again.write_text(dump_settings(load_settings(path)))
    assert load_settings(again) == load_settings(path)
    untouched: Any = trainer_type(Q.place()).settings.model_validate({}).hyperparameters
    assert untouched.exploration == EpsGreedySettings(eps=0.3)
    path.write_text(f"behaviors: {{Walker: {{trainer_type: '{HERE}:Q', hyperparameters: {{rat: 0.25}}}}}}")
    with pytest.raises(SettingsError, match=r"hyperparameters\.rat: unknown key; did you mean rate\?"):
        load_settings(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{HERE}:spec", "is neither a class of tau_trainer.Agent nor a tau_trainer.settings.TrainerType"),
        ("tau_trainer.settings:TrainerSettings", "is neither a class of tau_trainer.Agent nor"),
        ("no_such:Q", "cannot be loaded: ModuleNotFoundError"),
        ("dqm", "is not a trainer type"),
    ],
)
def test_a_trainer_type_that_is_none(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"behaviors: {{Walker: {{trainer_type: '{name}'}}}}")
    with pytest.raises(SettingsError, match=text):
        load_settings(path)
