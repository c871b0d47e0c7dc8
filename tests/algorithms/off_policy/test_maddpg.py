"""MADDPG: moments of a group, a Q that sees everybody, and gradients as the paper has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup, make_algorithm
from tau_trainer.algorithms.off_policy.maddpg import MADDPG, OUTPUT_COST
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.errors import SettingsError
from tau_trainer.export import export_onnx
from tau_trainer.memory import StepFacts
from tau_trainer.settings import MADDPGHyperparameters, MADDPGTrainerSettings, NetworkSettings, RewardSignalSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, acted, behavior, states_equal
from tests.algorithms.reference_sac import hidden
from tests.algorithms.replayed import copied, random_everywhere
from tests.algorithms.replayed import random_batch as random_rows
from tests.networks import IMAGE, observations

AGENTS = 3


def make(
    spec: BehaviorSpec | ActionSpec = DISCRETE, network: dict[str, Any] | None = None, seed: int = 1, **numbers: Any
) -> MADDPG:
    numbers = {"batch_size": 8, "buffer_size": 1000, "steps_per_update": 6.0, "group_size": AGENTS} | numbers
    options = MADDPGTrainerSettings(
        hyperparameters=MADDPGHyperparameters(**numbers),
        network_settings=NetworkSettings().model_copy(update={"hidden_units": 16, **(network or {})}),
        reward_signals={"extrinsic": RewardSignalSettings(gamma=0.9)},
    )
    return MADDPG(Setup(behavior(spec) if isinstance(spec, ActionSpec) else spec, options, seed))


class Play:
    """Two environments in turns, each with a group of three that has the number 1, and random rewards."""

    def __init__(self, learner: MADDPG, groups: tuple[int, ...] = (1, 1, 1)) -> None:
        self.learner, self.groups = learner, np.array(groups, np.int32)
        self.rng = np.random.default_rng(0)
        self.moments = 0
        self.seen: dict[tuple[int, int], list[dict[str, Any]]] = {}

    def step(self, env: int, agents: tuple[int, ...] = (0, 1, 2)) -> None:
        """The agents decide; their rows are those of the environment's, backwards in the second."""
        obs = observations(self.learner.spec, len(agents), int(self.rng.integers(2**31)), scale=1.0)
        rows = self.rows(env, agents)
        mask = None
        if size := self.learner.spec.actions.mask_size:
            mask = self.rng.random((len(agents), size)) < 0.3
        decision = self.learner.snapshot().act(obs, mask, self.rng)
        self.moments += 1
        reward = self.rng.normal(size=(len(agents), 1)).astype(np.float32)
        known = StepFacts({"extrinsic": reward}, group=self.groups[list(agents)], moment=self.moments)
        self.learner.memory.append(rows, known, acted(obs, decision, mask), 0)
        vectors = np.concatenate(obs, axis=1)
        for i, row in enumerate(rows.tolist()):
            past = self.seen.setdefault((env, row), [])
            if past and "next" not in past[-1]:
                past[-1] |= {"next": vectors[i], "reward": reward[i, 0], "terminated": False}
            chosen = {"continuous": decision.continuous[i], "discrete": decision.discrete[i]}
            past.append({"obs": vectors[i], **chosen, "together": sorted(rows.tolist())})

    def end(self, env: int, agents: tuple[int, ...]) -> None:
        rows = self.rows(env, agents)
        obs = observations(self.learner.spec, len(agents), 5, scale=1.0)
        reward = np.ones((len(agents), 1), np.float32)
        self.learner.memory.end(rows, StepFacts({"extrinsic": reward}), obs, np.zeros(len(agents), np.bool_))
        for row in rows.tolist():
            self.seen[env, row][-1] |= {"next": self.seen[env, row][-1]["obs"], "reward": 1.0, "terminated": True}

    @staticmethod
    def rows(env: int, agents: tuple[int, ...]) -> Any:
        return np.array([5 - agent if env else agent for agent in agents])

    def work(self, steps: int = 12) -> Any:
        for _ in range(steps):
            self.step(0)
            self.step(1)
        return self.learner.memory.take().data


def test_moments_are_what_was_played() -> None:
    """By agent in the order of rows, whichever group number other environments use; who has left is not there."""
    learner = make()
    play = Play(learner)
    for step in range(6):
        play.step(0, (0, 1, 2) if step < 4 else (0, 2))
        play.step(1)
        if step == 3:
            play.end(0, (1,))
    learner.update(learner.memory.take().data, 0.0, None)
    rows = learner.replay.take(np.arange(len(learner.replay)))
    played = {tuple(one["obs"]): (row, one) for (_, row), past in play.seen.items() for one in past if "next" in one}
    assert int(rows["here"].sum()) == len(played) == learner.seen
    assert len(rows["here"]) == 5 + 5
    assert sorted(rows["here"].sum(axis=1).tolist()) == [2] + [3] * 9
    for moment in range(len(rows["here"])):
        count = int(rows["here"][moment].sum())
        assert rows["here"][moment, :count].all()
        assert not rows["input"][moment, count:].any()
        found = [played[tuple(rows["input"][moment, agent])] for agent in range(count)]
        assert [row for row, _ in found] == found[0][1]["together"]
        for agent, (_, one) in enumerate(found):
            np.testing.assert_array_equal(rows["next"][moment, agent], one["next"])
            np.testing.assert_array_equal(rows["discrete"][moment, agent], one["discrete"])
            assert rows["rewards"][moment, agent, 0] == pytest.approx(one["reward"])
            assert rows["terminated"][moment, agent] == one["terminated"]
    assert int(rows["terminated"].sum()) == 1
    drawn = learner.draw(200)
    ended = drawn.goes_on == 0.0
    assert ended.any()
    assert torch.equal(ended, drawn.rewards == 1.0)  # only an end is paid exactly 1


def test_nothing_is_drawn_of_who_is_not_there() -> None:
    """Normalised, zeros would be something."""
    learner = make(network={"normalize": True})
    play = Play(learner)
    for step in range(6):
        play.step(0, (0, 1, 2) if step < 2 else (0, 2))
    learner.update(learner.memory.take().data, 0.0, None)
    drawn = learner.draw(8)
    assert 0 < int((drawn.weights == 0.0).sum()) < drawn.weights.numel()
    for values in (drawn.inputs[0], drawn.following[0]):
        assert ((values != 0.0).any(dim=2) == (drawn.weights > 0.0)).all()


def random_batch(learner: MADDPG, moments: int = 5) -> tuple[Transitions, torch.Tensor]:
    """Of three agents, some of whom have left."""
    rows, _ = random_rows(learner, moments * AGENTS)

    def grouped(values: Any) -> Any:
        if isinstance(values, list):
            return [grouped(one) for one in values]
        return values.view(moments, AGENTS, *values.shape[1:]) if len(values) else values

    here = torch.ones(moments, AGENTS)
    here[1, 2] = here[3, 1] = here[3, 2] = 0.0
    batch = Transitions(*map(grouped, rows))._replace(weights=here)
    batch = batch._replace(forbidden_after=batch.forbidden.flip(0))
    for values in (batch.inputs[0], batch.following[0]):
        values.mul_(here[..., None])
    return batch, learner.noise(batch)[0]


class Textbook:
    """Losses of one minibatch in float64: agent for agent, with the networks' weights alone."""

    def __init__(self, learner: MADDPG) -> None:
        self.weights = {name: one.detach().double().requires_grad_() for name, one in learner.module.named_parameters()}
        self.actions = learner.spec.actions
        self.temperature = 0.5

    def outputs(self, network: str, obs: torch.Tensor) -> torch.Tensor:
        features = hidden(self.weights, f"{network}.body", 0, obs.double())
        return features @ self.weights[f"{network}.action.weight"] + self.weights[f"{network}.action.bias"]

    def acted(self, outputs: torch.Tensor, forbidden: torch.Tensor, gumbel: torch.Tensor) -> torch.Tensor:
        """The value is one-hot, the slope that of the softmax."""
        if self.actions.continuous_size:
            return torch.tanh(outputs)
        parts, begin = [], 0
        for size in self.actions.discrete_branches:
            here = slice(begin, begin + size)
            scores = torch.where(forbidden[here], -1e8, outputs[here]) + gumbel[here]
            soft = (scores / self.temperature).softmax(0)
            parts.append(soft + (torch.eye(size)[int(scores.argmax())] - soft).detach())
            begin += size
        return torch.cat(parts)

    def q(self, network: str, obs: list[torch.Tensor], acts: list[torch.Tensor], agent: int) -> torch.Tensor:
        order = [agent, *(other for other in range(AGENTS) if other != agent)]
        x = torch.cat([obs[i].double() for i in order] + [acts[i].double() for i in order])
        features = hidden(self.weights, f"{network}.body", 0, x)
        value: torch.Tensor = (features @ self.weights[f"{network}.weight"][0] + self.weights[f"{network}.bias"][0])[0]
        return value[0]

    def losses(self, batch: Transitions, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q_loss = policy = torch.zeros((), dtype=torch.float64)
        for moment in range(len(noise)):
            obs, following = list(batch.inputs[0][moment]), list(batch.following[0][moment])
            here, after, done = batch.weights[moment], [], []
            for agent in range(AGENTS):
                raw = self.outputs("target", following[agent]).detach()
                one = self.acted(raw, batch.forbidden_after[moment, agent], noise[moment, 0, agent])
                after.append(one.detach() * here[agent])
                hot = [
                    torch.eye(size)[int(batch.discrete[moment, agent, branch])]
                    for branch, size in enumerate(self.actions.discrete_branches)
                ]
                done.append(torch.cat([batch.continuous[moment, agent], *hot]) * here[agent])
            for agent in range(AGENTS):
                if not here[agent]:
                    continue
                value = self.q("q_target", following, after, agent).detach()
                goal = batch.rewards[moment, agent, 0] + 0.9 * batch.goes_on[moment, agent, 0] * value
                q_loss = q_loss + 0.5 * (self.q("q", obs, done, agent) - goal).square()
                raw = self.outputs("network", obs[agent])
                acts = list(done)
                acts[agent] = self.acted(raw, batch.forbidden[moment, agent], noise[moment, 1, agent])
                policy = policy - self.q("q", obs, acts, agent) + OUTPUT_COST * raw.square().mean()
        return q_loss / batch.weights.sum(), policy / batch.weights.sum()


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS])
def test_losses_and_gradients_are_the_papers(actions: ActionSpec) -> None:
    learner = make(actions, exploration={"type": "gumbel_softmax", "temperature": 0.5} if actions == DISCRETE else None)
    random_everywhere(learner)
    batch, noise = random_batch(learner)
    textbook = Textbook(learner)
    wanted_q, wanted_policy = textbook.losses(batch, noise)
    (found_q,), _ = learner.q_losses(batch, noise)
    found_policy = learner.policy_loss(batch, noise)
    assert float(found_q.detach()) == pytest.approx(float(wanted_q.detach()), rel=1e-4)
    assert float(found_policy.detach()) == pytest.approx(float(wanted_policy.detach()), rel=1e-4)
    for loss, wanted, part in ((found_q, wanted_q, "q."), (found_policy, wanted_policy, "network.")):
        learner.parameters.optimizer.gradient.zero_()
        loss.backward()
        names = [name for name in textbook.weights if name.startswith(part)]
        slopes = torch.autograd.grad(wanted, [textbook.weights[name] for name in names], allow_unused=True)
        views = learner.parameters.views(learner.parameters.optimizer.gradient)
        for name, slope in zip(names, slopes, strict=True):
            if slope is not None and slope.numel():
                np.testing.assert_allclose(views[name].numpy(), slope.numpy(), rtol=2e-3, atol=1e-5, err_msg=name)
        others = [name for name, view in views.items() if not name.startswith(part) and view.any()]
        assert not others, "a loss moves its own part alone"


def test_acting_and_learning_draw_from_the_same_distribution() -> None:
    learner = make()
    random_everywhere(learner)
    obs = tuple(np.repeat(one, 20_000, axis=0) for one in observations(learner.spec, 1, 3))
    acted = learner.snapshot().act(obs, None, np.random.default_rng(0)).discrete[:, 0]
    outputs = learner.network.outputs(learner.network.prepare(obs)).detach()
    batch = random_batch(learner)[0]._replace(forbidden=torch.zeros(20_000, 1, 5, dtype=torch.bool))
    hot = learner._actions(outputs, batch.forbidden, learner.noise(batch)[0, :, 1])
    np.testing.assert_allclose(hot.sum(dim=2).numpy(), 2.0, atol=1e-5)
    shares = np.bincount(acted, minlength=3) / 20_000
    np.testing.assert_allclose(hot[:, 0, :3].mean(dim=0).numpy(), shares, atol=0.015)


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS])
def test_a_learner_that_was_read_back_goes_on_the_same_and_is_exported(actions: ActionSpec, tmp_path: Path) -> None:
    own: Any = {"save_replay_buffer": True, "network": {"normalize": True}}
    learner, other = make(actions, **own), make(actions, **own, seed=2)
    play = Play(learner)
    learner.update(play.work(), 0.0, None)
    other.load(*copied(learner.state()), fresh=False)
    work = {key: values if isinstance(values, int) else np.array(values) for key, values in play.work().items()}
    results = [one.update(work, 0.5, None) for one in (learner, other)]
    for result in results:
        del result["Train/Update Seconds"]
    assert results[0] == results[1]
    assert {"Losses/Policy Loss", "Losses/Q1 Loss", "Policy/Extrinsic Value"} < results[0].keys()
    states_equal(learner, other)
    assert export_onnx(learner.snapshot(), learner.spec, tmp_path / "policy.onnx").is_file()


@pytest.mark.parametrize(
    ("groups", "size", "said"),
    [
        ((4, 4, 4), 2, "^behavior 'Walker': 3 agents of a group decide together, .*group_size is 2; set it to 3$"),
        ((0, 0, 0), 3, "^behavior 'Walker': no two agents of a group decide together, but maddpg needs that"),
        ((1, 2, 3), 3, "no two agents of a group decide together"),
    ],
)
def test_groups_that_are_no_groups_are_refused(groups: tuple[int, ...], size: int, said: str) -> None:
    learner = make(group_size=size)
    play = Play(learner, groups)
    for _ in range(4):
        play.step(0)
    with pytest.raises(SettingsError, match=said):
        learner.ready(Counters(0, 0))


def test_agents_alone_can_be_learned() -> None:
    learner = make(group_size=1)
    play = Play(learner, (0, 0, 0))
    learner.update(play.work(), 0.0, None)
    assert learner.replay.take(np.arange(5))["here"].all()
    assert learner.ready(Counters(0, 0)) is None


@pytest.mark.parametrize(
    ("spec", "numbers", "said"),
    [
        (HYBRID, {}, "there are both; use trainer_type: ppo$"),
        (behavior(DISCRETE, IMAGE), {}, "maddpg reads only vectors"),
        (DISCRETE, {"exploration": {"type": "gaussian_white_noise"}}, "gaussian_white_noise is not for discrete"),
        (CONTINUOUS, {"exploration": {"type": "gumbel_softmax"}}, "gumbel_softmax is not for continuous actions"),
    ],
)
def test_what_it_cannot_learn_is_refused(spec: Any, numbers: dict[str, Any], said: str) -> None:
    settings = MADDPGTrainerSettings(hyperparameters=MADDPGHyperparameters(**numbers))
    with pytest.raises(SettingsError, match=f"^behavior 'Walker': .*{said}"):
        make_algorithm(Setup(behavior(spec) if isinstance(spec, ActionSpec) else spec, settings, 1))
