"""A population learns what each member would learn alone, and what the PPO of engines learns from the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.batched import ActorInput
from tau_trainer.algorithms.batched.population import Population
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.errors import SettingsError
from tau_trainer.memory import StepFacts, TensorRollout, WorkData
from tau_trainer.metrics import keys
from tau_trainer.settings import MemorySettings, RewardSignalSettings
from tau_trainer.settings.trainers import PPOTrainerSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec
from tests.algorithms.experience import settings
from tools.bench.by_torch import PPOByTorch

COPIES, STEPS, SIZE, ACTIONS = 5, 8, 6, 2
BOTH = pytest.mark.parametrize("stacked", [pytest.param(False, id="alone"), pytest.param(True, id="stacked")])
"""Ways to learn: of a CPU, and of other devices."""
SEEDS = (3, 14, 15, 92, 65)
SPEC = BehaviorSpec("Walker", (ObservationSpec("vector", (SIZE,)),), ActionSpec(ACTIONS))
LEVELS = {"action_levels": 7, "normalize": True, "num_layers": 1}
GAUSSIAN = {"normalize": True, "num_layers": 2}


def options(
    network: dict[str, Any] | None = None, gamma: float = 0.9, horizon: int = 1000, **numbers: Any
) -> PPOTrainerSettings:
    numbers = {"batch_size": 16, "buffer_size": STEPS * COPIES, "max_grad_norm": 0.5, "updates_per_buffer": 1} | numbers
    signals = {"extrinsic": RewardSignalSettings(gamma=gamma, strength=0.5)}
    return settings(network, signals, **numbers).model_copy(update={"time_horizon": horizon})


def members(seeds: Sequence[int], own: PPOTrainerSettings, width: int = ACTIONS) -> list[PPO]:
    return [PPOByTorch(Setup(SPEC, own, seed, width)) for seed in seeds]


def population(
    seeds: Sequence[int], own: PPOTrainerSettings | None = None, threads: int = 1, *, stacked: bool | None = None
) -> Population:
    return Population(members(seeds, own or options(LEVELS)), COPIES, threads, stacked=stacked)


def lived(learner: Population, seeds: Sequence[int], update: int, width: int = ACTIONS) -> TensorRollout:
    """A rollout of what each member does with random observations, rewards and ends of its own."""
    worlds = [np.random.default_rng([seed, update]) for seed in seeds]

    def drawn(*shape: int) -> torch.Tensor:
        parts = [world.normal(size=(shape[0], COPIES, *shape[1:])) for world in worlds]
        return torch.from_numpy(np.concatenate(parts, axis=1)).float().unsqueeze(2)

    observations, final, ends = drawn(STEPS, SIZE) * 2.0 + 1.0, drawn(STEPS, SIZE), drawn(STEPS)
    acted = [learner.act(ActorInput(one)) for one in observations]
    return TensorRollout(
        observations=observations,
        actions=torch.stack([one.actions for one in acted]),
        mask=None,
        rewards=drawn(STEPS, width),
        terminated=ends > 1.5,
        truncated=ends < -1.5,
        present=torch.ones_like(ends, dtype=torch.bool),
        final=final,
        after=drawn(1, SIZE)[0],
        after_mask=None,
        kept={name: torch.stack([one.kept[name] for one in acted]) for name in acted[0].kept},
    )


def remembered(one: PPO, rollout: TensorRollout, index: int) -> WorkData:
    """The same as engines' agents would bring it."""
    rows, own = np.arange(COPIES), slice(index * COPIES, (index + 1) * COPIES)
    last = np.zeros((COPIES, rollout.rewards.shape[-1]), np.float32)
    for step in range(STEPS + 1):
        over = step == STEPS
        seen = (rollout.after if over else rollout.observations[step])[own, 0].numpy()
        values: dict[str, Any] = {"obs_0": seen, "mask": None}
        at = min(step, STEPS - 1)  # what is decided after the last step is never learned from
        for name in ("continuous", "discrete", "log_prob"):
            values[name] = rollout.kept[name][at, own, 0].numpy()
        one.memory.append(rows, StepFacts({"extrinsic": last}), values, one.version)
        if over:
            break
        last = rollout.rewards[step, own, 0].numpy()
        cut = rollout.truncated[step, own, 0].numpy()
        ended = np.flatnonzero(cut | rollout.terminated[step, own, 0].numpy())
        if rollout.final is not None and len(ended):
            final = rollout.final[step, own, 0].numpy()[ended]
            one.memory.end(rows[ended], StepFacts({"extrinsic": last[ended]}), (final,), cut[ended])
    work = one.memory.take().data
    one.memory.clear()
    return work


def assert_same(first: PPO, second: PPO, tolerance: float = 2e-5) -> None:
    ours, theirs = first.state()[0], second.state()[0]
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


@BOTH
@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"network": LEVELS}, id="levels"),
        pytest.param({"network": GAUSSIAN, "gamma": 0.0}, id="gaussian"),
        pytest.param({"network": {"num_layers": 1}, "normalize_advantage": "minibatch"}, id="minibatch"),
        pytest.param({"network": LEVELS, "shared_critic": True, "optimizer": "adamw", "max_grad_norm": None}),
        pytest.param({"network": GAUSSIAN, "optimizer": "sgd", "weight_decay": 0.1}, id="sgd"),
    ],
)
def test_a_member_learns_what_ppo_learns(own: dict[str, Any], stacked: bool) -> None:
    learner = population(SEEDS[:3], options(**own), stacked=stacked)
    alone = members(SEEDS[:3], options(**own))
    for update in range(3):
        rollout = lived(learner, SEEDS[:3], update)
        told = learner.learn(rollout, update / 10)
        for index, one in enumerate(alone):
            stats = one.update(remembered(one, rollout, index), update / 10, None)
            assert_same(learner.members[index], one)
            for name, values in told.items():
                assert float(values[index]) == pytest.approx(stats[name], rel=1e-3, abs=1e-5), name


def test_traces_are_cut_at_the_time_horizon() -> None:
    own = options(LEVELS, horizon=3)
    learner, [alone] = population([7], own), members([7], own)
    rollout = lived(learner, [7], 0)
    learner.learn(rollout, 0.0)
    alone.update(remembered(alone, rollout, 0), 0.0, None)
    assert_same(learner.members[0], alone)
    uncut = population([7], options(LEVELS))
    uncut.learn(lived(uncut, [7], 0), 0.0)
    assert (uncut.members[0].weights()["value.weight"] != alone.weights()["value.weight"]).any()


@pytest.mark.parametrize(("threads", "stacked"), [(1, True), (3, False)])
def test_a_member_does_not_depend_on_the_others(threads: int, stacked: bool) -> None:
    many = population(SEEDS, threads=threads, stacked=stacked)
    alone = [population([seed]) for seed in SEEDS]
    for update in range(3):
        rollout = lived(many, SEEDS, update)
        many.learn(rollout, 0.1)
        for index, one in enumerate(alone):
            own = lived(one, [SEEDS[index]], update)
            part = slice(index * COPIES, (index + 1) * COPIES)
            torch.testing.assert_close(own.actions, rollout.actions[:, part])
            one.learn(own, 0.1)
            assert_same(many.members[index], one.members[0], 1e-5)
        first, second = rollout.actions[:, :COPIES], rollout.actions[:, COPIES : 2 * COPIES]
        assert (first != second).float().mean() > 0.5, "seeds make members differ"
    many.close()


def test_actions_are_drawn_as_their_log_probabilities_say() -> None:
    """Also what a policy of the member would say of them."""
    own = options({**LEVELS, "normalize": False}, buffer_size=4000)
    learner = Population(members([5], own), 4000)
    observation = torch.ones(4000, 1, SIZE)
    acted = learner.act(ActorInput(observation))
    chosen, log_prob = acted.kept["discrete"][:, 0], acted.kept["log_prob"][:, 0]
    for branch in range(ACTIONS):
        for level in range(7):
            here = chosen[:, branch] == level
            share = float(here.float().mean())
            assert share == pytest.approx(float(log_prob[here, branch].exp().mean()), abs=4 * np.sqrt(0.15 / 4000))
    both = torch.corrcoef(chosen.double().T)
    assert abs(float(both[0, 1])) < 4 / np.sqrt(4000), "every component is drawn for itself"
    torch.testing.assert_close(acted.actions[:, 0], chosen * (2.0 / 6) - 1.0)
    best = learner.act(ActorInput(observation), deterministic=True).actions[:1, 0].numpy()
    policy = learner.members[0].snapshot()
    said = policy.act((np.ones((1, SIZE), np.float32),), None, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(said.to_env().continuous, best, atol=1e-6)


def test_gaussians_are_clipped_as_policies_clip_them() -> None:
    learner = Population(members([5], options({"num_layers": 1}, buffer_size=4000)), 4000)
    acted = learner.act(ActorInput(torch.ones(4000, 1, SIZE)))
    raw = acted.kept["continuous"]
    torch.testing.assert_close(acted.actions, raw.clamp(-3, 3) / 3)
    assert float(raw.std(dim=0).mean()) == pytest.approx(1.0, abs=0.05)
    mean = learner.act(ActorInput(torch.ones(4000, 1, SIZE)), deterministic=True).kept["continuous"]
    normal: Any = torch.distributions.Normal(mean, 1.0)
    torch.testing.assert_close(acted.kept["log_prob"], normal.log_prob(raw), rtol=1e-4, atol=1e-4)


@BOTH
@pytest.mark.parametrize(
    ("what", "value"),
    [("observations", torch.nan), pytest.param("rewards", 1e30, id="infinite loss")],
)
def test_who_meets_nan_is_frozen_and_takes_nobody_along(what: str, value: float, stacked: bool) -> None:
    learner, alone = (population(SEEDS, options(LEVELS), stacked=stacked) for _ in range(2))
    learner.learn(lived(learner, SEEDS, 0), 0.0)
    alone.learn(lived(alone, SEEDS, 0), 0.0)
    before = learner.members[1].state()[0]
    rollout, whole = lived(learner, SEEDS, 1), lived(alone, SEEDS, 1)
    getattr(rollout, what)[2, COPIES + 1, 0, 0] = value
    told = learner.learn(rollout, 0.1)
    alone.learn(whole, 0.1)
    assert learner.frozen.tolist() == [False, True, False, False, False]
    assert torch.isnan(told[keys.POLICY_LOSS]).tolist() == learner.frozen.tolist()
    for update in (2, 3):
        learner.learn(lived(learner, SEEDS, update), 0.1)
        alone.learn(lived(alone, SEEDS, update), 0.1)
    for index in (0, 2, 3, 4):
        assert_same(learner.members[index], alone.members[index], 1e-6)
    after = learner.members[1].state()[0]
    for name in before:
        if name.startswith(("model.", "normalizer.", "optimizer.exp")):
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)


@BOTH
def test_it_goes_on_bit_for_bit_from_its_state(stacked: bool) -> None:
    learner = population(SEEDS[:2], stacked=stacked)
    for update in range(2):
        learner.learn(lived(learner, SEEDS[:2], update), 0.1)
    other = population(SEEDS[:2], stacked=stacked)
    for index in range(2):
        other.load_of(index, *learner.state_of(index), fresh=False)
    for update in range(2, 4):
        learner.learn(lived(learner, SEEDS[:2], update), 0.2)
        other.learn(lived(other, SEEDS[:2], update), 0.2)
    for index in range(2):
        first, second = learner.state_of(index), other.state_of(index)
        assert first[1] == second[1]
        np.testing.assert_equal(first[0], second[0])


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (options({"memory": MemorySettings(memory_size=4, sequence_length=8)}), "no memory"),
        (options(LEVELS, updates_per_buffer=2), "updates_per_buffer must be 1"),
        (options(layer_statistics=True), "layer_statistics must be false"),
        (options(LEVELS, target_kl=0.1), "target_kl must be null"),
        (options(LEVELS, shrink_at=0.7), "shrink_at must be null"),
        (options(LEVELS, optimizer="nadam"), "nadam"),
    ],
)
def test_what_cannot_be_one_computation_is_refused(own: PPOTrainerSettings, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        population(SEEDS[:2], own)


@BOTH
def test_who_has_learned_enough_rests_and_is_not_frozen(stacked: bool) -> None:
    learner = population(SEEDS, options(LEVELS), stacked=stacked)
    learner.learn(lived(learner, SEEDS, 0), 0.0)
    learner.resting[1] = True
    before = [{name: np.array(values) for name, values in member.state()[0].items()} for member in learner.members]
    told = learner.learn(lived(learner, SEEDS, 1), 0.1)
    assert not learner.frozen.any()
    assert torch.isnan(told[keys.POLICY_LOSS]).tolist() == learner.resting.tolist()
    for number, member in enumerate(learner.members):
        same = [
            np.array_equal(values, member.state()[0][name])
            for name, values in before[number].items()
            if "weight" in name
        ]
        assert all(same) == (number == 1)
