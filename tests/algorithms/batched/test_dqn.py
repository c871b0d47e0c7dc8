"""Deep Q-learning on tensors: equal to the textbook row by row, exploring and remembering as it says."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tau_trainer.algorithms.base import Setup, TensorCopies
from tau_trainer.algorithms.batched.actors import ExploringActor
from tau_trainer.algorithms.batched.dqn import DQNLearner
from tau_trainer.collection.batched import BatchedCollector
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics import keys
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.settings import NetworkSettings, RewardSignalSettings
from tau_trainer.settings.hyperparameters import DQNHyperparameters
from tau_trainer.settings.trainers import DQNTrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.batched.test_on_policy import learn
from tests.envs.batched.counting import Counting

NET = NetworkSettings(net_arch=[8, "r6"])


def learner_of(
    network: NetworkSettings = NET,
    *,
    space: spaces.Space[Any] | None = None,
    seed: int = 0,
    envs: int = 3,
    agents: int = 2,
    max_steps: int = 1000,
    gamma: float = 0.9,
    **numbers: Any,
) -> DQNLearner:
    given: dict[str, Any] = {"batch_size": 16, "buffer_size": 200, "steps_per_update": 6.0, "learning_rate": 0.01}
    given |= {"learning_rate_schedule": "constant", "buffer_init_steps": 0, **numbers}
    settings = DQNTrainerSettings(
        hyperparameters=DQNHyperparameters.model_validate(given),
        network_settings=network,
        reward_signals={"extrinsic": RewardSignalSettings(gamma=gamma)},
        max_steps=max_steps,
    )
    space = space or spaces.Discrete(3)
    branches = (3,) if isinstance(space, spaces.Discrete) else tuple(space.nvec.tolist())  # type: ignore[attr-defined]
    spec = BehaviorSpec("host", (ObservationSpec("observation", (2,)),), ActionSpec(0, branches))
    return DQNLearner(Setup(spec, settings, seed, copies=TensorCopies(envs, agents)))


def collector_of(learner: DQNLearner, **options: Any) -> BatchedCollector:
    return BatchedCollector(Counting(3, **options), {"all": (ExploringActor(learner, spaces.Discrete(3)), (0, 1))})


def rollout_of(steps: int = 6, *, masked: bool = True, final: bool = True, branches: tuple[int, ...] = (3,)) -> Any:
    """Three copies of two agents, of random numbers."""
    generator = torch.Generator().manual_seed(steps)
    shape = steps, 3, 2
    chance = torch.rand(*shape, generator=generator)
    mask = torch.rand(steps + 1, 3, 2, sum(branches), generator=generator) < 0.6
    mask[..., 0] = True
    seen = torch.randn(steps + 1, 3, 2, 2, generator=generator)
    actions = torch.stack([torch.randint(n, shape, generator=generator) for n in branches], dim=-1)
    return TensorRollout(
        observations=seen[:-1],
        actions=actions[..., 0] if len(branches) == 1 else actions,
        mask=mask[:-1] if masked else None,
        rewards=3 * torch.randn(*shape, generator=generator),
        terminated=chance < 0.2,
        truncated=(chance > 0.2) & (chance < 0.4),
        present=chance < 0.9,
        final=torch.randn(*shape, 2, generator=generator) if final else None,
        after=seen[-1],
        after_mask=mask[-1] if masked else None,
        kept={},
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_what_is_remembered(masked: bool, final: bool) -> None:
    learner, rollout = learner_of(batch_size=200, clip_reward=2.0), rollout_of(masked=masked, final=final)
    learn(learner, rollout, 0.0)
    assert learner.ring is not None
    stored, row = learner.ring.state(), 0
    for t, copy_, agent in np.ndindex(6, 3, 2):
        place = t, copy_, agent
        if not rollout.present[place] or (masked and rollout.truncated[place]):
            continue
        assert (stored["observation"][row] == rollout.observations[place].numpy()).all()
        assert stored["action"][row].tolist() == [int(rollout.actions[place])]
        assert stored["reward"][row, 0] == rollout.rewards[place].clamp(-2, 2)
        assert stored["goes_on"][row, 0] == (0.0 if rollout.terminated[place] else 1.0)
        following = rollout.observations[t + 1, copy_, agent] if t < 5 else rollout.after[copy_, agent]
        if final:
            following = rollout.final[place]
        assert (stored["following"][row] == following.numpy()).all()
        if masked:
            allowed = rollout.mask[t + 1, copy_, agent] if t < 5 else rollout.after_mask[copy_, agent]
            assert (stored["forbidden_after"][row] == ~allowed.numpy()).all()
        row += 1
    assert row == len(stored["reward"]) > 20


def test_rewards_are_multiplied_by_their_strength() -> None:
    learner, rollout = learner_of(), rollout_of()
    learner.streams = (replace(learner.streams[0], strength=0.5),)
    learn(learner, rollout, 0.0)
    assert learner.ring is not None
    stored = torch.from_numpy(learner.ring.state()["reward"][:, 0])
    torch.testing.assert_close(stored, 0.5 * rollout.rewards[rollout.present & ~rollout.truncated])


def test_an_update_tells_of_every_layer_what_it_has_become() -> None:
    learner = learner_of(layer_statistics=True)
    told = learn(learner, rollout_of(), 0.0)
    weight = learner.network.action.weight.detach()
    assert float(told["Layers/action.weight Std"]) == pytest.approx(float(weight.std(correction=0)), rel=1e-5)
    assert float(told["Layers/action.weight Gradient Std"]) > 0


def test_who_has_left_is_not_taken_in() -> None:
    """What stands where no agent is changes nothing of the statistics; a rollout of nobody leaves them alone."""
    learner, rollout = learner_of(NetworkSettings(net_arch=[8], normalize=True), batch_size=200), rollout_of()
    learn(learner, rollout, 0.0)
    normalizer = learner.network.normalizer
    assert normalizer is not None
    there = rollout.observations[rollout.present]
    assert 20 < len(there) < rollout.present.numel()
    expected = Normalizer(2)
    expected.merge(there.numpy())
    rollout.present[:] = False
    learn(learner, rollout, 0.0)
    for name, value in expected.named_buffers():
        assert torch.allclose(normalizer.get_buffer(name), value), name


class Textbook:
    """One gradient step after the other in float64, row by row, with Adam's own formulas."""

    def __init__(self, learner: DQNLearner) -> None:
        self.own: Any = learner._hyperparameters
        self.module = copy.deepcopy(learner.module).double()
        network = self.module.network
        self.names = [name for name, _ in network.named_parameters()]
        self.mean = {name: torch.zeros_like(one) for name, one in network.named_parameters()}
        self.square = {name: torch.zeros_like(one) for name, one in network.named_parameters()}
        self.taken = 0

    def values(self, network: Any, row: torch.Tensor) -> torch.Tensor:
        if not self.own.dueling:
            found: torch.Tensor = network.outputs([row[None]])[0]
            return found
        answer = network([row[None]])
        return torch.cat([part - part.mean() + answer.values[0] for part in answer.outputs[0].split(self.sizes())])

    def sizes(self) -> list[int]:
        return list(self.module.network.action.choices.discrete_branches)

    def step(self, batch: dict[str, torch.Tensor], rate: float, gamma: float) -> tuple[float, float]:
        own, network, target = self.own, self.module.network, self.module.target
        batch = {name: one.double() if one.is_floating_point() else one for name, one in batch.items()}
        total, parts, rows = torch.zeros((), dtype=torch.float64), self.sizes(), len(batch["reward"])
        for row in range(rows):
            with torch.no_grad():
                worth = self.values(target, batch["following"][row])
                judge = self.values(network, batch["following"][row]) if own.double else worth
                if "forbidden_after" in batch:
                    judge = judge.masked_fill(batch["forbidden_after"][row], -torch.inf)
                each = zip(torch.split(worth, parts), torch.split(judge, parts), strict=True)
                best = sum(float(one[two.argmax()]) for one, two in each) / len(parts)
                goal = float(batch["reward"][row]) + gamma * float(batch["goes_on"][row]) * best
            said = torch.split(self.values(network, batch["observation"][row]), parts)
            chosen = sum(one[action] for one, action in zip(said, batch["action"][row], strict=True)) / len(parts)
            wrong = torch.as_tensor(chosen - goal).abs()
            limit = min(1.0 if own.loss == "smooth_l1" else torch.inf, own.clip_td_err or torch.inf)
            total = total + (wrong**2 / 2 if wrong <= limit else limit * (wrong - limit / 2)) / rows
        gradients = torch.autograd.grad(total, list(network.parameters()), allow_unused=True)
        found = [torch.zeros_like(p) if g is None else g for p, g in zip(network.parameters(), gradients, strict=True)]
        norm = float(torch.cat([one.flatten() for one in found]).norm())
        scale = min(1.0, own.max_grad_norm / (norm + 1e-6)) if own.max_grad_norm else 1.0
        self.taken += 1
        with torch.no_grad():
            for (name, one), gradient in zip(network.named_parameters(), found, strict=True):
                self.mean[name] = 0.9 * self.mean[name] + 0.1 * gradient * scale
                self.square[name] = 0.999 * self.square[name] + 0.001 * (gradient * scale) ** 2
                mean = self.mean[name] / (1 - 0.9**self.taken)
                one.sub_(rate * mean / ((self.square[name] / (1 - 0.999**self.taken)).sqrt() + 1e-8))
            if self.taken % own.target_update_interval == 0:
                for name, lagging in target.named_parameters():
                    lagging.add_(own.tau * (network.get_parameter(name) - lagging))
        return float(total.detach()), norm


CASES: list[dict[str, Any]] = [
    {"tau": 0.1},
    {"tau": 0.1, "double": False},
    {"tau": 1.0, "target_update_interval": 2, "max_grad_norm": 0.05},
    {"tau": 0.3, "dueling": True, "loss": "mse"},
    {"tau": 0.3, "loss": "mse", "clip_td_err": 0.3},
]


@pytest.mark.parametrize("numbers", CASES, ids=str)
@pytest.mark.parametrize("branches", [(3,), (2, 3)], ids=str)
def test_equal_to_the_textbook(numbers: dict[str, Any], branches: tuple[int, ...]) -> None:
    space = spaces.Discrete(3) if branches == (3,) else spaces.MultiDiscrete(list(branches))
    schedule = [[0, 0.02], [1000, 0.01]]
    learner = learner_of(space=space, learning_rate=schedule, steps_per_update=12.0, **numbers)
    with torch.no_grad():  # a target that differs from the network
        for one in learner.module.target.parameters():
            one.add_(torch.randn(one.shape, generator=torch.Generator().manual_seed(1)) / 10)
    textbook, generator = Textbook(learner), torch.Generator()
    for call in range(3):
        rollout = rollout_of(5 + call, branches=branches)
        # What is drawn: the ring once this rollout is in it.
        twin = copy.copy(learner)
        twin.ring, twin._held = copy.deepcopy(learner.ring), 0
        twin._remember(rollout)
        assert twin.ring is not None
        generator.set_state(learner.generator.get_state())
        due = int(learner._owed + rollout.decisions / 12.0)
        assert due >= 2
        told = [textbook.step(twin.ring.draw(16, generator), 0.02 - 0.01 * 0.1 * call, 0.9) for _ in range(due)]
        found = learn(learner, rollout, call * 0.1)
        wanted = np.array(told).mean(axis=0)
        assert [float(found[key]) for key in (keys.Q_LOSS, keys.GRADIENT_NORM)] == pytest.approx(wanted, rel=1e-4)
        assert float(found[keys.LEARNING_RATE]) == pytest.approx(0.02 - 0.01 * 0.1 * call)
    for name, wanted in textbook.module.state_dict().items():
        if wanted.is_floating_point() and "clock" not in name:
            torch.testing.assert_close(learner.module.state_dict()[name].double(), wanted, rtol=1e-4, atol=1e-5)


def test_statistics_of_batch_norm_follow_in_the_target() -> None:
    learner = learner_of(NetworkSettings(net_arch=[8, "b"]), tau=0.25, steps_per_update=36.0)
    before = learner.module.target.get_buffer("body.0.1.mean").clone()
    learn(learner, rollout_of(), 0.0)
    own, lagging = (one.get_buffer("body.0.1.mean") for one in (learner.module.network, learner.module.target))
    assert own.abs().sum() > 0
    torch.testing.assert_close(lagging, before + 0.25 * (own - before))


def test_gradient_steps_are_earned_by_decisions() -> None:
    learner = learner_of(batch_size=8, steps_per_update=27.0, buffer_init_steps=40)
    assert learner.horizon == 5  # 5 x 3 copies x 2 agents are at least 27 decisions
    taken = []
    for _ in range(5):
        learn(learner, rollout_of(5), 0.0)
        taken.append(int(learner.parameters.optimizer.step))
    assert taken == [0, 1, 2, 3, 4]  # 30 decisions are too few; then 30, 60, 90, 120 over 27
    assert learner._owed == pytest.approx(120 / 27 - 4)


def test_exploration_follows_the_steps_of_the_run() -> None:
    learner = learner_of(exploration={"type": "eps_greedy", "eps": [[0, 1.0], [500, 0.2]]}, max_steps=1000)
    seen = []
    for progress in (0.25, 0.5, 0.75):
        learn(learner, rollout_of(2), progress)
        seen.append(learner.epsilon)
    assert seen == pytest.approx([0.6, 0.2, 0.2])
    falling = learner_of(exploration={"type": "eps_greedy", "eps": 1.0, "eps_min": 0.0}, max_steps=1000)
    learn(falling, rollout_of(2), 0.1)
    assert falling.epsilon == pytest.approx(0.5), "it falls over a fifth of the run"
    exponential = {"mode": "exponential", "initial": 0.5, "final": 0.1, "rate": 0.99}
    learner = learner_of(exploration={"type": "eps_greedy", "eps": exponential}, max_steps=1000)
    told = learn(learner, rollout_of(2), 0.1)
    assert float(told[keys.POLICY_EPSILON]) == pytest.approx(0.5 * 0.99**100 + 0.1 * (1 - 0.99**100))
    policy = learner.snapshot()
    assert policy.weights["clock"][0] == 100  # who acts with it elsewhere explores as much


def test_acts_greedily_among_what_is_allowed() -> None:
    space = spaces.MultiDiscrete([2, 3])
    learner = learner_of(space=space)
    actor = ExploringActor(learner, space)
    observations, mask = torch.randn(4, 2, 2), torch.rand(4, 2, 5) < 0.5
    mask[0] = False  # where nothing is allowed, everything is
    acted = actor.act(observations, mask, deterministic=True)
    assert acted.actions.shape == (4, 2, 2)
    values = learner.module.network.outputs([observations.flatten(0, 1)])
    for row, (said, allowed) in enumerate(zip(values, mask.flatten(0, 1), strict=True)):
        for branch, own in enumerate((slice(0, 2), slice(2, 5))):
            free = allowed[own] if bool(allowed[own].any()) else torch.ones_like(allowed[own])
            best = torch.where(free, said[own], -torch.inf).argmax()
            assert acted.actions.flatten(0, 1)[row, branch] == best
    before = learner.generator.get_state()
    actor.act(observations, mask, deterministic=True)
    assert (learner.generator.get_state() == before).all()  # an evaluation changes no run


@pytest.mark.parametrize("kept", [True, False], ids=["with replay", "without"])
def test_goes_on_bit_for_bit(kept: bool) -> None:
    network = NetworkSettings(net_arch=[8, "b"], normalize=True)
    learner = learner_of(network, save_replay_buffer=kept)
    collector = collector_of(learner)
    for step in range(8):
        learn(learner, collector.collect(4)["all"], step / 20)
    again = learner_of(network, seed=5, save_replay_buffer=kept)
    arrays, metadata = learner.state()
    again.load(arrays, metadata, fresh=False)
    if not kept:  # then it waits until there is something to learn from, and so does who went on
        learner.ring, learner._held = None, 0
    for one in (learner, again):
        played = collector_of(one)
        for step in range(4):
            learn(one, played.collect(4)["all"], 0.4 + step / 20)
    for name, values in learner.state()[0].items():
        np.testing.assert_array_equal(again.state()[0][name], values, err_msg=name)
    assert again.state()[1] == learner.state()[1]


def test_begins_from_what_was_learned_alone() -> None:
    learner = learner_of()
    learn(learner, rollout_of(), 0.5)
    arrays, metadata = learner.state()
    fresh = learner_of(seed=7)
    fresh.load(arrays, metadata, fresh=True)
    for name, values in learner.module.network.state_dict().items():
        for network in (fresh.module.network, fresh.module.target):
            if name != "clock":
                torch.testing.assert_close(network.state_dict()[name], values)
    assert (fresh.epsilon, fresh.ring) == (1.0, None)
    assert fresh.module.network.get_buffer("clock").tolist() == [0.0]


def test_what_does_not_fit_changes_nothing() -> None:
    learner = learner_of(save_replay_buffer=True)
    learn(learner, rollout_of(), 0.5)
    arrays, metadata = learner.state()
    other = learner_of(seed=3)
    before = other.state()[0]
    bad: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (arrays, {**metadata, "algorithm": "ppo"}),
        (arrays, {**metadata, "optimizer": "sgd"}),
        ({name: one for name, one in arrays.items() if name != "target.action.weight"}, metadata),
        ({**arrays, "replay.reward": arrays["replay.reward"][:3]}, metadata),
        ({**arrays, "model.action.weight": arrays["model.action.weight"][:3]}, metadata),
    ]
    for one, told in bad:
        with pytest.raises(CheckpointError):
            other.load(one, told, fresh=False)
        assert all((other.state()[0][name] == values).all() for name, values in before.items())


def test_continuous_actions_are_refused() -> None:
    settings = DQNTrainerSettings(hyperparameters=DQNHyperparameters())
    spec = BehaviorSpec("host", (ObservationSpec("observation", (2,)),), ActionSpec(1, ()))
    with pytest.raises(SettingsError, match=r"behaviors\.host: dqn chooses among discrete actions"):
        DQNLearner(Setup(spec, settings, 0, copies=TensorCopies(3, 2)))


def test_learns_to_add_up() -> None:
    """The sum is to reach ten in as many steps as it can be drawn out: returns are what is added, so twos are best."""
    learner = learner_of(
        NetworkSettings(hidden_units=32, num_layers=1),
        envs=64,
        steps_per_update=16.0,
        batch_size=64,
        buffer_size=5000,
        max_steps=20000,
        tau=0.05,
        exploration={"type": "eps_greedy", "eps": [[0, 1.0], [8000, 0.05]]},
    )
    actor = ExploringActor(learner, spaces.Discrete(3))
    collector = BatchedCollector(Counting(64, limit=100), {"all": (actor, (0, 1))})
    first = None
    for step in range(150):
        learn(learner, collector.collect(learner.horizon)["all"], step / 150)
        if step == 20:
            first = collector.scores.take()
    for _ in range(3):
        collector.scores.take()
        collector.collect(20)
    last = collector.scores.take()
    assert first is not None
    mean = [float(one[:, 1].sum() / one[:, 0].sum()) for one in (first, last)]
    assert mean[1] > mean[0] + 1.0, mean
