from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Counters, Setup
from tau_trainer.algorithms.minibatches import MemberRows, Rows
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.algorithms.ranks import Ranks
from tau_trainer.memory import Rollout
from tau_trainer.metrics import keys
from tau_trainer.models import Policy
from tau_trainer.settings import MemorySettings, RewardSignalSettings
from tau_trainer.specs import ActionSpec
from tests.algorithms import reference_ppo
from tests.algorithms.batched.together import together
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, Collector, behavior, ppo, settings
from tests.networks import IMAGE, LIST
from tools.bench.by_torch import PPOByTorch

NORMALIZED = {"normalize": True}
RECURRENT = {"normalize": True, "memory": MemorySettings(memory_size=6, sequence_length=8)}


def parameters_of(learner: PPO) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in learner.network.named_parameters()}


def assert_same_weights(first: PPO, second: PPO, tolerance: float) -> None:
    others = parameters_of(second)
    for name, tensor in parameters_of(first).items():
        torch.testing.assert_close(tensor, others[name], rtol=tolerance, atol=tolerance, msg=name)


def linear_pairs(agent: reference_ppo.Agent, learner: PPO) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each parameter of the reference with the learner's: matrices are transposed there."""
    own, pairs = parameters_of(learner), list[tuple[Any, torch.Tensor]]()
    for layer in range(learner.settings.network_settings.num_layers):
        for tower, body in enumerate((agent.actor, agent.critic)):
            linear: Any = body[2 * layer]
            pairs.append((linear.weight, own[f"body.{layer}.weight"][tower].T))
            pairs.append((linear.bias, own[f"body.{layer}.bias"][tower, 0]))
    for head, name in ((agent.head, "action"), (agent.value_head, "value")):
        pairs += [(head.weight, own[f"{name}.weight"].T), (head.bias, own[f"{name}.bias"])]
    return [*pairs, (agent.log_sigma, own["action.log_sigma"])]


def reference_of(learner: PPO) -> reference_ppo.Agent:
    """The reference's networks with this learner's weights."""
    network, actions = learner.settings.network_settings, learner.spec.actions
    values = sum(stream.width for stream in learner.streams)
    agent = reference_ppo.Agent(
        sum(sensor.size for sensor in learner.spec.observations),
        network.hidden_units,
        network.num_layers,
        actions.continuous_size,
        list(actions.discrete_branches),
        values,
    )
    with torch.no_grad():
        for theirs, ours in linear_pairs(agent, learner):
            theirs.copy_(ours)
    return agent


def reference_streams(learner: PPO) -> list[reference_ppo.Stream]:
    ends = list(itertools.accumulate(stream.width for stream in learner.streams))
    return [
        reference_ppo.Stream(slice(end - stream.width, end), stream.gamma, stream.strength)
        for end, stream in zip(ends, learner.streams, strict=True)
    ]


def assert_equals_the_reference(learner: PPO) -> None:
    """After an update of both from the same experience."""
    agent, collector, generator = reference_of(learner), Collector(learner), torch.Generator()
    generator.set_state(learner.generator.get_state())
    work = collector.collect(learner.snapshot())
    trajectories, arrival = collector.finish()
    assert len(Rollout(work)) == len(arrival) > 150
    numbers: Any = learner.settings.hyperparameters
    reference_ppo.update(
        agent,
        torch.optim.Adam(agent.parameters(), lr=numbers.learning_rate),
        trajectories,
        arrival,
        generator,
        streams=reference_streams(learner),
        lambd=numbers.lambd,
        epsilon=numbers.epsilon,
        beta=numbers.beta,
        epochs=numbers.num_epoch,
        batch=numbers.batch_size,
        max_grad_norm=numbers.max_grad_norm,
        normalize=numbers.normalize_advantage,
    )
    before = learner.weights()
    learner.update(work, 0.0, None)
    for theirs, ours in linear_pairs(agent, learner):
        torch.testing.assert_close(ours, theirs.detach(), rtol=2e-5, atol=2e-5)
    assert np.abs(before["action.weight"] - learner.weights()["action.weight"]).max() > 1e-3


REWARDS = ["aggregate", "credit", "streams"]


@pytest.mark.parametrize(
    ("actions", "layers", "rewards", "fused"),
    [
        *((actions, 2, rewards, True) for actions in (CONTINUOUS, DISCRETE, HYBRID) for rewards in REWARDS),
        *((HYBRID, 0, rewards, True) for rewards in REWARDS),
        *((HYBRID, 2, rewards, False) for rewards in REWARDS),
    ],
)
def test_update_equals_the_reference(actions: ActionSpec, layers: int, rewards: str, fused: bool) -> None:
    width = 1 if rewards == "aggregate" else actions.components
    signals = TWO_STREAMS if rewards == "streams" else None
    options = settings({"num_layers": layers}, signals, learning_rate=1e-3, max_grad_norm=0.3)
    assert_equals_the_reference(ppo(actions, options, width=width, fused=fused))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize(
    "variant",
    [
        {"normalize_advantage": "minibatch"},
        {"max_grad_norm": None, "num_epoch": 4},
        {"epsilon": 0.02, "beta": 0.1, "lambd": 0.5},
    ],
)
def test_variants_equal_the_reference(variant: dict[str, Any], width: int) -> None:
    assert_equals_the_reference(ppo(HYBRID, settings(learning_rate=1e-3, **variant), width=width))


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"shared_critic": True},
        {"normalize_advantage": "minibatch"},
        {"max_grad_norm": None},
        {"max_grad_norm": 0.1},
        {"weight_decay": 0.1},
        {"batch_size": 1000, "buffer_size": 1000},
    ],
)
@pytest.mark.parametrize(("actions", "signals"), [(CONTINUOUS, None), (DISCRETE, None), (HYBRID, TWO_STREAMS)])
def test_fused_equals_autograd(
    actions: ActionSpec, signals: dict[str, RewardSignalSettings] | None, variant: dict[str, Any]
) -> None:
    """What a single minibatch comes to is compared in `accelerators/test_fused.py`."""
    options = settings(NORMALIZED, signals, learning_rate=1e-3, **variant)
    learners = [ppo(actions, options, width=actions.components, fused=fused) for fused in (True, False)]
    collector = Collector(learners[0])
    for _ in range(2):
        work = collector.collect(learners[0].snapshot())
        results = [learner.update(work, 0.25, None) for learner in learners]
        for name, value in results[0].items():
            if name != "Train/Update Seconds":
                assert results[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
        assert_same_weights(learners[0], learners[1], 1e-4)


@pytest.mark.parametrize("actions", [ActionSpec(2), HYBRID])
def test_levels_learn_as_branches_do(actions: ActionSpec) -> None:
    """By hand and by differentiation, and as a behavior whose branches these are."""
    options = settings(NORMALIZED | {"action_levels": 4}, learning_rate=1e-3)
    learners = [ppo(actions, options, width=actions.components, fused=fused) for fused in (True, False)]
    work = Collector(learners[0]).collect(learners[0].snapshot())
    levels = np.array(work["discrete"])[:, : actions.continuous_size]
    assert work["continuous"].shape == (len(levels), 0)
    assert set(np.unique(levels)) == {0, 1, 2, 3}
    results = [learner.update(work, 0.25, None) for learner in learners]
    assert results[0]["Train/KL"] > 0.0
    assert_same_weights(learners[0], learners[1], 1e-4)
    branches = ActionSpec(0, (4,) * actions.continuous_size + actions.discrete_branches)
    same = ppo(branches, settings(NORMALIZED, learning_rate=1e-3), width=branches.components)
    if "mask" in work and work["mask"] is not None:
        free = np.zeros((len(levels), 4 * actions.continuous_size), np.bool_)
        work = dict(work) | {"mask": np.concatenate([free, np.array(work["mask"])], axis=1)}
    same.update(work, 0.25, None)
    assert_same_weights(learners[0], same, 1e-6)


def test_an_actor_hands_over_a_part_of_a_rollout() -> None:
    learner = ppo(HYBRID)
    learner.memory = cast(Any, SimpleNamespace(completed=5, take=lambda: "taken"))
    assert learner.ready(Counters(0, 0)) is None
    assert learner.ready(Counters(0, 0, push=6)) is None
    assert learner.ready(Counters(0, 0, push=5)) == cast(Any, "taken")


def test_an_update_only_reads_its_data() -> None:
    """It may lie in memory that another process shares."""
    learner = ppo(HYBRID)
    work = Collector(learner).collect(learner.snapshot())
    kept = {name: np.array(value) for name, value in work.items()}
    for value in work.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    learner.update(work, 0.0, None)
    np.testing.assert_equal(work, kept)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("network", [NORMALIZED, RECURRENT])
@pytest.mark.parametrize("actions", [CONTINUOUS, DISCRETE, HYBRID])
def test_fresh_data_has_ratio_one(actions: ActionSpec, network: dict[str, Any]) -> None:
    """Of the first minibatch: what acted is what is learned from, masks, normaliser and recurrent state included."""
    options = settings(network, num_epoch=1, batch_size=205, buffer_size=205)
    learner = ppo(behavior(actions, *((IMAGE, LIST) if "memory" in network else ())), options)
    collector = Collector(learner)
    for update in range(2):
        result = learner.update(collector.collect(learner.snapshot(), 50), 0.0, None)
        assert result["Train/KL"] < 1e-9, update
        assert result["Train/Clip Fraction"] == 0.0


@pytest.mark.parametrize("normalize", [False, True])
def test_log_probabilities_as_they_were_are_compared_with(normalize: bool) -> None:
    """Nothing is worked out again where the policy that acted is the one that learns."""
    options = settings(NORMALIZED if normalize else None, num_epoch=1, batch_size=200)
    learner = ppo(HYBRID, options)
    if normalize:  # the first rollout turns no statistics into statistics
        learner.update(Collector(learner).collect(learner.snapshot()), 0.0, None)
        learner.memory.clear()
    work = Collector(learner).collect(learner.snapshot())
    assert set(Rollout(work).version.tolist()) == {int(normalize)}
    shifted = {**work, "log_prob": np.asarray(work["log_prob"]) - np.float32(0.01)}
    assert learner.update(shifted, 0.0, None)["Train/KL"] == pytest.approx(4 * (np.expm1(0.01) - 0.01), rel=1e-2)


def test_data_of_an_older_policy_has_ratio_one_too() -> None:
    options = settings(NORMALIZED, num_epoch=1, batch_size=200, learning_rate=0.01)
    learner = ppo(HYBRID, options)
    collector, policy = Collector(learner), learner.snapshot()
    learner.update(collector.collect(policy), 0.0, None)
    result = learner.update(collector.collect(policy), 0.0, None)
    assert result["Perf/Policy Age"] == 1.0
    assert result["Train/KL"] < 1e-9


def test_statistics_take_in_a_rollout_after_it_was_learned_from() -> None:
    """Only the very first comes before: it turns no statistics into statistics."""
    learner, seen = ppo(HYBRID, settings(NORMALIZED)), list[np.ndarray]()
    collector, normalizer = Collector(learner), learner.network.normalizer
    assert normalizer is not None
    learned_with = []
    for _ in range(3):
        work, published = collector.collect(learner.snapshot()), list[Policy]()
        seen.append(np.concatenate(Rollout(work).observations, axis=1))
        learner.update(work, 0.0, published.append)
        learned_with.append({int(policy.weights["normalizer.count"]) for policy in published})
    sizes = [len(rows) for rows in seen]
    assert learned_with == [{1 + sizes[0]}, {1 + sizes[0]}, {1 + sum(sizes[:2])}]
    together = np.concatenate((np.zeros((1, 7)), *seen))
    np.testing.assert_allclose(normalizer.mean, together.mean(axis=0), atol=1e-6)


def test_statistics_have_ml_agents_names_and_plausible_values() -> None:
    learner = ppo(CONTINUOUS)
    work = Collector(learner).collect(learner.snapshot())
    result = learner.update(work, 0.5, None)
    assert set(result) == {
        "Losses/Policy Loss",
        "Losses/Value Loss",
        "Policy/Entropy",
        "Policy/Learning Rate",
        "Policy/Epsilon",
        "Policy/Beta",
        "Policy/Extrinsic Value Estimate",
        "Perf/Policy Age",
        "Train/KL",
        "Train/Clip Fraction",
        "Train/Explained Variance",
        "Train/Gradient Norm",
        "Train/Minibatches",
        "Train/Update Seconds",
    }
    assert all(isinstance(value, float) for value in result.values())
    assert result["Train/Minibatches"] == 2 * (len(Rollout(work)) // 32)
    assert result["Policy/Learning Rate"] == pytest.approx(1.5e-4, rel=1e-6)
    assert result["Policy/Epsilon"] == pytest.approx(0.15)
    assert result["Policy/Beta"] == pytest.approx(0.0025, rel=0.01)
    assert result["Policy/Entropy"] == pytest.approx(1.419, abs=0.01)
    assert result["Train/KL"] > 0


def test_every_stream_has_an_estimate_of_its_own() -> None:
    learner = ppo(HYBRID, settings(signals=TWO_STREAMS), width=4)
    with torch.no_grad():
        learner.network.value.weight.zero_()
        learner.network.value.bias.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0, 7.0]))
    result = learner.update(Collector(learner).collect(learner.snapshot()), 0.0, None)
    assert result["Policy/Extrinsic Value Estimate"] == 2.5
    assert result["Policy/Bonus Value Estimate"] == 7.0


def test_target_kl_ends_an_update_early() -> None:
    learner = ppo(CONTINUOUS, settings(learning_rate=0.02, num_epoch=10, target_kl=0.01))
    work = Collector(learner).collect(learner.snapshot())
    result = learner.update(work, 0.0, None)
    assert 0 < result["Train/Minibatches"] < 10 * (len(Rollout(work)) // 32)
    assert result["Train/KL"] > 0.01


@pytest.mark.parametrize("optimizer", ["adam", "nadam"])
def test_weights_shrink_and_are_perturbed_once(optimizer: str) -> None:
    # A whole update happens first, so after it two learners differ by the shrinking alone.
    def made(at: float | None) -> PPO:
        return ppo(CONTINUOUS, settings(network=NORMALIZED, shrink_at=at, optimizer=optimizer))

    plain, shrinks = made(None), made(0.5)
    work = Collector(plain).collect(plain.snapshot())
    for learner in (plain, shrinks):
        learner.update(work, 0.49, None)
    assert_same_weights(plain, shrinks, 0.0)
    resumed, later, begun = made(0.5), made(0.5), made(0.5)
    resumed.load(*shrinks.state(), fresh=False)
    later.load(*plain.state(), fresh=False)
    for learner in (plain, shrinks, resumed, later):
        learner.update(work, 0.5, None)
    assert_same_weights(resumed, shrinks, 0.0)
    assert_same_weights(later, plain, 0.0)  # a run that has learned without it goes on so
    other = made(0.5)
    other.generator.set_state(plain.generator.get_state())
    fresh, learned = dict(other.build_network().named_parameters()), parameters_of(plain)
    for name, weights in parameters_of(shrinks).items():
        torch.testing.assert_close(weights, 0.5 * learned[name] + 0.5 * fresh[name].detach())
    assert torch.equal(cast("Any", shrinks.network.normalizer).mean, cast("Any", plain.network.normalizer).mean)
    state = shrinks.parameters.optimizer
    assert not any(bool(values.any()) for values in (state.exp_avg, state.exp_avg_sq, state.step))
    assert state.mu_product.item() == 1.0
    # Once, also for who goes on from a checkpoint; whoever begins from its weights has a run of its own.
    arrays, metadata = shrinks.state()
    resumed = made(0.5)
    resumed.load(arrays, metadata, fresh=False)
    begun.load(arrays, metadata, fresh=True)
    assert (resumed._shrunk, begun._shrunk) == (True, False)
    for learner in (shrinks, resumed):
        learner.update(work, 0.6, None)
    assert_same_weights(shrinks, resumed, 0.0)
    assert bool(state.exp_avg.any())


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("path", ["fused", "autograd", "toys"])
def test_publishing_shows_the_way_and_changes_nothing(path: str) -> None:
    spec, network = behavior(HYBRID, *((IMAGE,) if path == "toys" else ())), RECURRENT if path == "toys" else None
    first, second = (ppo(spec, settings(network), fused=path != "autograd") for _ in range(2))
    work, start = Collector(first).collect(first.snapshot()), first.snapshot()
    published: list[Policy] = []
    plain = first.update(work, 0.0, None)
    result = second.update(work, 0.0, published.append)
    assert_same_weights(first, second, 0.0)
    del plain["Train/Update Seconds"], result["Train/Update Seconds"]
    assert plain == result
    minibatches = int(result["Train/Minibatches"]) // 2
    assert len(published) == 2 * len(range(0, minibatches, -(-minibatches // 4)))
    assert {policy.version for policy in published} == {1}, "of the update under way"
    for before, after in itertools.pairwise([start, *published]):
        assert not np.array_equal(before.weights["action.weight"], after.weights["action.weight"])
    np.testing.assert_array_equal(published[-1].weights["action.weight"], second.snapshot().weights["action.weight"])


@pytest.mark.usefixtures("toys")
def test_networks_of_other_blocks_learn_through_autograd() -> None:
    recurrent = ppo(behavior(HYBRID, IMAGE), settings(RECURRENT))
    epochs = [type(one.policy_update.epochs).__name__ for one in (ppo(HYBRID), ppo(HYBRID, fused=False), recurrent)]
    assert epochs == ["FusedEpochs", "AutogradEpochs", "AutogradEpochs"]
    before = {name: tensor.clone() for name, tensor in parameters_of(recurrent).items()}
    recurrent.update(Collector(recurrent).collect(recurrent.snapshot()), 0.0, None)
    for name, tensor in parameters_of(recurrent).items():
        assert not torch.equal(tensor, before[name]), f"{name} is learned"


# --- what an update tells ---------------------------------------------------------------------------------------------


UPDATE = ppo(CONTINUOUS, settings(signals=TWO_STREAMS)).policy_update


def explained(values: torch.Tensor, returns: torch.Tensor) -> float:
    found = UPDATE._of_values(values, returns, Rows(len(values), torch.Generator()))
    return float(found[keys.EXPLAINED_VARIANCE])


def test_explained_variance() -> None:
    returns = torch.tensor([[0.0], [1.0], [2.0], [3.0]]).expand(4, 2)
    assert explained(returns, returns) == 1.0
    assert explained(torch.full((4, 2), 1.5), returns) == 0.0
    assert explained(-returns, returns) == pytest.approx(-3.0)
    assert explained(returns, torch.ones(4, 2)) == 0.0, "what does not vary counts as 0"
    half = torch.stack((returns[:, 0], torch.full((4,), 1.5)), dim=1)
    assert explained(half, returns) == 0.5, "each column for itself"


@pytest.mark.parametrize(("epsilon", "epochs"), [(0.001, 2), (0.9, 1)])
def test_target_kl_is_compared_with_the_kl_and_nothing_else(epsilon: float, epochs: int) -> None:
    """A narrow range clips far more than the target while the KL is small, a wide one nothing while it is large."""

    def made(**more: Any) -> dict[str, float]:
        learner = ppo(CONTINUOUS, settings(epsilon=epsilon, learning_rate=0.01, **more))
        return learner.update(Collector(learner).collect(learner.snapshot()), 0.0, None)

    first = made(num_epoch=1)
    kl, clipped = first[keys.APPROXIMATE_KL], first[keys.CLIP_FRACTION]
    target = (kl + clipped) / 2
    assert (clipped > 2 * kl) == (epochs == 2)
    assert (kl > 2 * clipped) == (epochs == 1)
    assert made(num_epoch=2, target_kl=target)[keys.MINIBATCHES] == epochs * first[keys.MINIBATCHES]


def test_ranks_learn_as_one_by_torchs_differentiation_as_well() -> None:
    def work(ranks: Ranks) -> tuple[torch.Tensor, float]:
        numbers = settings(optimizer="sgd", learning_rate=0.01)  # the size of a gradient counts
        learner = PPOByTorch(Setup(behavior(CONTINUOUS), numbers, 1, ranks=ranks))
        result = learner.update(Collector(learner).collect(learner.snapshot()), 0.0, None)
        return learner.parameters.optimizer.parameters.clone(), result[keys.VALUE_LOSS]

    (one, told), (other, _) = together(2, work)
    assert torch.equal(one, other)
    ((alone, wanted),) = together(1, work)
    torch.testing.assert_close(one, alone, rtol=1e-3, atol=1e-4)
    assert told == pytest.approx(wanted, rel=1e-3)


def test_what_members_tell_is_each_ones_own() -> None:
    drawn = torch.Generator().manual_seed(2)
    values, returns = torch.randn(3, 8, 2, generator=drawn), torch.randn(3, 8, 2, generator=drawn)
    together = UPDATE._of_values(values.flatten(0, 1), returns.flatten(0, 1), MemberRows(8, [torch.Generator()] * 3))
    for index in range(3):
        alone = UPDATE._of_values(values[index], returns[index], Rows(8, torch.Generator()))
        for name, found in alone.items():
            torch.testing.assert_close(together[name][index], found)
