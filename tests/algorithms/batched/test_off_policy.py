"""Off-policy algorithms on tensors: what they remember, draw, act and go on with; their steps are those of engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from tau_trainer.algorithms.base import Setup, TensorCopies, make_algorithm
from tau_trainer.algorithms.batched import ActorInput
from tau_trainer.algorithms.batched.acting import ActionSpace, spec_of
from tau_trainer.algorithms.batched.actors import actor_of
from tau_trainer.algorithms.off_policy.base import OffPolicy
from tau_trainer.algorithms.off_policy.tensor_replay import TensorReplay
from tau_trainer.collection.batched import BatchedCollector
from tau_trainer.columns import Arrays
from tau_trainer.errors import CheckpointError, SettingsError
from tau_trainer.memory import TensorRollout
from tau_trainer.metrics import keys
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.normalizer import Normalizer
from tau_trainer.settings import trainer_type
from tests.algorithms.batched.test_on_policy import learn
from tests.envs.batched.counting import Counting

E, A, D = 3, 2, 2
SPACES: dict[str, ActionSpace] = {
    "discrete": spaces.Discrete(3),
    "branches": spaces.MultiDiscrete([2, 3]),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)),
}
CELLS = [
    *(("dqn", space) for space in ("discrete", "branches", "levels")),
    ("iqn", "branches"),
    *(("sac", space) for space in (*SPACES, "levels")),
    ("sac_ln", "branches"),
    ("sac_ln", "box"),
    ("ddpg", "box"),
    ("td3", "box"),
]
"""Every algorithm, and every kind of actions that it learns on tensors."""


def learner_of(
    kind: str,
    space: str = "discrete",
    *,
    network: dict[str, Any] | None = None,
    seed: int = 0,
    envs: int = E,
    strength: float = 1.0,
    gamma: float = 0.9,
    **numbers: Any,
) -> OffPolicy:
    given: dict[str, Any] = {"batch_size": 16, "buffer_size": 200, "steps_per_update": 6.0, "learning_rate": 0.01}
    given |= {"learning_rate_schedule": "constant", "buffer_init_steps": 0, "save_replay_buffer": True, **numbers}
    shape = {"hidden_units": 8, "num_layers": 1} | ({"action_levels": 3} if space == "levels" else {}) | (network or {})
    policy = (
        trainer_type(kind)
        .settings.model_validate(
            {
                "hyperparameters": given,
                "network_settings": shape,
                "reward_signals": {"extrinsic": {"gamma": gamma, "strength": strength}},
                "max_steps": 1000,
            }
        )
        .on_tensors()
    )
    spec = spec_of("host", spaces.Box(-9.0, 9.0, (D,), np.float32), SPACES.get(space, SPACES["box"]))
    learner = make_algorithm(Setup(spec, policy, seed, copies=TensorCopies(envs, A)))
    assert isinstance(learner, OffPolicy)
    return learner


def memory_of(learner: OffPolicy) -> TensorReplay:
    assert isinstance(learner.held, TensorReplay)
    return learner.held


def stored(learner: OffPolicy) -> Arrays:
    return memory_of(learner).state()[0]


def rollout_of(
    learner: OffPolicy, steps: int = 6, seed: int = 1, *, masked: bool = True, final: bool = True
) -> TensorRollout:
    """Three copies of two agents, of random numbers."""
    choices, generator = learner.network.action.choices, torch.Generator().manual_seed(seed)
    shape, branches = (steps, E, A), choices.discrete_branches
    masked = masked and bool(branches) and learner.network.action.levels is None
    chance, mask = torch.rand(*shape, generator=generator), None
    if masked:
        mask = torch.rand(steps + 1, E, A, choices.mask_size, generator=generator) < 0.6
        for begin, _ in branch_bounds(branches):
            mask[..., begin] = True
    seen = torch.randn(steps + 1, E, A, D, generator=generator)
    kept = {}
    if branches:
        kept["discrete"] = torch.stack([torch.randint(n, shape, generator=generator) for n in branches], dim=-1)
    if choices.continuous_size:
        kept["continuous"] = torch.rand(*shape, choices.continuous_size, generator=generator) * 2 - 1
    return TensorRollout(
        observations=seen[:-1],
        actions=torch.zeros(shape),
        mask=None if mask is None else mask[:-1],
        rewards=3 * torch.randn(*shape, generator=generator),
        terminated=chance < 0.2,
        truncated=(chance > 0.2) & (chance < 0.4),
        present=chance < 0.9,
        final=torch.randn(*shape, D, generator=generator) if final else None,
        after=seen[-1],
        after_mask=None if mask is None else mask[-1],
        kept=kept,
    )


def same(first: Arrays, second: Arrays) -> None:
    np.testing.assert_equal(first, second)


@pytest.mark.parametrize(("kind", "space"), CELLS)
def test_learns_and_goes_on_bit_for_bit(kind: str, space: str) -> None:
    network = {"normalize": True}
    learner, again = (learner_of(kind, space, network=network, seed=seed) for seed in (0, 5))
    before = learner.parameters.optimizer.parameters.clone()
    for turn in range(3):
        told = learn(learner, rollout_of(learner, seed=turn), turn / 10)
    assert not torch.equal(learner.parameters.optimizer.parameters, before)
    assert {keys.LEARNING_RATE, keys.MINIBATCHES} < told.keys()
    assert all(np.isfinite(float(value)) for value in told.values())
    assert told[keys.MINIBATCHES] == 6.0
    again.load(*learner.state(), fresh=False)
    actors = [actor_of(each, SPACES.get(space, SPACES["box"])) for each in (learner, again)]
    for turn in range(2):
        seen = torch.randn(E, A, D)
        first, second = (actor.act(ActorInput(seen)) for actor in actors)
        assert torch.equal(first.actions, second.actions)
        for each in (learner, again):
            learn(each, rollout_of(each, seed=7 + turn), 0.4)
    same(learner.state()[0], again.state()[0])
    assert again.state()[1] == learner.state()[1]


@pytest.mark.parametrize(("kind", "size"), [("dqn", 20), ("sac_ln", 200), ("td3", 20)])
def test_a_failed_update_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, kind: str, size: int) -> None:
    space = "box" if kind == "td3" else "discrete"
    learner = learner_of(kind, space, network={"normalize": True}, buffer_size=size, terminal_share=0.2)
    learn(learner, rollout_of(learner), 0.1)
    (arrays, metadata), explored = learner.state(), learner.exploring()
    before = {name: values.copy() for name, values in arrays.items()}  # views of the memory

    def fail(*given: Any) -> torch.Tensor:
        learner.parameters.optimizer.parameters.add_(1.0)
        raise KeyboardInterrupt

    rollout = rollout_of(learner, seed=4)
    monkeypatch.setattr(learner, "learn", fail)
    with pytest.raises(KeyboardInterrupt):
        learn(learner, rollout, 0.5)
    same(before, learner.state()[0])
    assert learner.state()[1] == metadata
    assert learner.exploring().tolist() == explored.tolist()


@pytest.mark.parametrize(("kind", "space"), [("dqn", "discrete"), ("sac", "branches"), ("sac", "box")])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_what_is_remembered(kind: str, space: str, masked: bool, final: bool) -> None:
    limit: dict[str, Any] = {"clip_reward": 2.0} if kind == "dqn" else {}
    learner = learner_of(kind, space, batch_size=200, strength=0.5, **limit)
    rollout = rollout_of(learner, masked=masked, final=final)
    learn(learner, rollout)
    rows, row = stored(learner), 0
    for t, copy, agent in np.ndindex(6, E, A):
        place = t, copy, agent
        cut = rollout.mask is not None and rollout.truncated[place] and kind == "dqn"
        if not rollout.present[place] or cut:  # the mask after a cut is that of the new episode
            continue
        assert (rows["input_0"][row] == rollout.observations[place].numpy()).all()
        reward = 0.5 * rollout.rewards[place]
        assert rows["rewards"][row, 0] == (reward.clamp(-2, 2) if kind == "dqn" else reward)
        assert rows["terminated"][row] == rollout.terminated[place].numpy()
        following = rollout.observations[t + 1, copy, agent] if t < 5 else rollout.after[copy, agent]
        if rollout.final is not None:
            following = rollout.final[place]
        assert (rows["next_0"][row] == following.numpy()).all()
        for name, values in rollout.kept.items():
            assert (rows[name][row] == values[place].numpy()).all()
        if rollout.mask is not None and rollout.after_mask is not None:
            allowed = rollout.mask[t + 1, copy, agent] if t < 5 else rollout.after_mask[copy, agent]
            assert (rows["forbidden"][row] == ~rollout.mask[place].numpy()).all()
            if kind == "dqn":
                assert (rows["next_forbidden"][row] == ~allowed.numpy()).all()
        row += 1
    assert row == len(rows["rewards"]) > 20
    assert ("forbidden" in rows) == (masked and space != "box")


def test_minibatches_hold_their_share_of_ends() -> None:
    learner = learner_of("sac", "box", batch_size=10, buffer_size=400, terminal_share=0.3, steps_per_update=1e6)
    rollout = rollout_of(learner)
    none = rollout_of(learner)
    none.terminated[:] = False
    learn(learner, none)
    assert bool(learner.draw(50).goes_on.all()), "there are no ends yet"
    one = rollout_of(learner, seed=2)
    one.terminated[:] = False
    one.terminated[0, 0, 0] = one.present[0, 0, 0] = True
    learn(learner, one)
    ended = learner.draw(50).goes_on.view(50, 10) == 0.0
    assert ended[:, 0].all(), "the only end is the first of each"
    assert not ended[:, 1:].all(dim=0).any()
    learn(learner, rollout)
    ended = learner.draw(50).goes_on.view(50, 10) == 0.0
    assert ended[:, :3].all()
    assert not ended[:, 3:].all(dim=0).any()
    batch = learner.draw(1)
    inputs = {tuple(row) for row in torch.cat([each.observations[each.terminated] for each in (one, rollout)]).tolist()}
    assert {tuple(row) for row in batch.inputs[0][:3].tolist()} <= inputs
    plain = learner_of("sac", "box", batch_size=10, terminal_share=0.3)
    arrays, metadata = learner_of("sac", "box", batch_size=10).state()
    plain.load(arrays, metadata, fresh=False)
    assert len(plain.held) == 0


def test_who_has_left_is_not_taken_in() -> None:
    """What stands where no agent is changes nothing of the statistics; a rollout of nobody leaves them alone."""
    learner = learner_of("dqn", network={"normalize": True}, batch_size=200)
    rollout = rollout_of(learner)
    learn(learner, rollout)
    normalizer = learner.network.normalizer
    assert normalizer is not None
    there = rollout.observations[rollout.present]
    assert 20 < len(there) < rollout.present.numel()
    expected = Normalizer(D)
    expected.merge(there.numpy())
    rollout.present[:] = False
    learn(learner, rollout)
    for name, value in expected.named_buffers():
        assert torch.allclose(normalizer.get_buffer(name), value), name


def test_statistics_of_batch_norm_follow_in_the_target() -> None:
    learner = learner_of("dqn", network={"net_arch": [8, "b"]}, tau=0.25, steps_per_update=36.0)
    before = learner.module.get_buffer("target.body.0.1.mean").clone()
    learn(learner, rollout_of(learner))
    trained_, lagging = (learner.module.get_buffer(f"{of}.body.0.1.mean") for of in ("network", "target"))
    assert trained_.abs().sum() > 0
    torch.testing.assert_close(lagging, before + 0.25 * (trained_ - before))


def test_gradient_steps_are_earned_by_decisions() -> None:
    learner = learner_of("dqn", batch_size=8, steps_per_update=27.0, buffer_init_steps=40)
    assert learner.horizon == 5  # 5 x 3 copies x 2 agents are at least 27 decisions
    taken = []
    for _ in range(5):
        learn(learner, rollout_of(learner, 5))
        taken.append(int(learner.parameters.optimizer.step))
    assert taken == [0, 0, 1, 2, 4]  # 30 decisions are too few; then 20, 50, 80, 110 over 27
    assert learner_of("td3", "box", steps_per_update=100.0).horizon == 17


def test_a_delayed_actor_tells_of_its_loss_if_it_has_moved() -> None:
    learner = learner_of("td3", "box", steps_per_update=36.0)
    told = [learn(learner, rollout_of(learner, seed=turn)) for turn in range(4)]
    assert [keys.POLICY_LOSS in each for each in told] == [False, True, False, True]
    assert float(told[1][keys.POLICY_LOSS]) != 0.0


def test_statistics_are_not_those_of_a_later_update() -> None:
    learner = learner_of("sac_ln", "box")
    told = learn(learner, rollout_of(learner))
    before = {name: float(value) for name, value in told.items()}
    for turn in range(3):
        learn(learner, rollout_of(learner, seed=5 + turn))
    assert {name: float(value) for name, value in told.items()} == before


def test_returns_are_counted_beyond_what_float32_can_count() -> None:
    learner = learner_of("sac_ln", "box")
    arrays, metadata = learner.state()
    many = np.array([2.0**24, 0.0, 2.0**24, 1.0])
    learner.load(arrays | {"return_scale.returns": many}, metadata, fresh=False)
    rollout = rollout_of(learner)
    learn(learner, rollout)
    assert learner.state()[0]["return_scale.returns"][0] == 2.0**24 + int(rollout.present.sum())


def test_exploration_follows_the_steps_of_the_run() -> None:
    learner = learner_of("dqn", exploration={"type": "eps_greedy", "eps": [[0, 1.0], [500, 0.2]]})
    seen = []
    for progress in (0.25, 0.5, 0.75):
        told = learn(learner, rollout_of(learner), progress)
        seen.append(float(told[keys.POLICY_EPSILON]))
    assert seen == pytest.approx([0.6, 0.2, 0.2])
    assert learner.snapshot().weights["clock"][0] == 750  # who acts with it elsewhere explores as much
    falling = learner_of("dqn", exploration={"type": "eps_greedy", "eps": 1.0, "eps_min": 0.0})
    learn(falling, rollout_of(falling, 2), 0.1)
    assert falling.exploring().tolist() == pytest.approx([0.5]), "it falls over a fifth of the run"
    noisy = learner_of("td3", "box", exploration={"type": "gaussian_white_noise", "sigma": 1.0, "sigma_min": 0.0})
    learn(noisy, rollout_of(noisy, 2), 0.1)
    assert noisy.exploring().tolist() == pytest.approx([0.5])


def test_acts_greedily_among_what_is_allowed() -> None:
    space = SPACES["branches"]
    learner = learner_of("dqn", "branches")
    actor = actor_of(learner, space)
    observations, mask = torch.randn(4, 2, 2), torch.rand(4, 2, 5) < 0.5
    mask[0] = False  # where nothing is allowed, everything is
    acted = actor.act(ActorInput(observations, mask), deterministic=True)
    assert acted.actions.shape == (4, 2, 2)
    assert torch.equal(acted.kept["discrete"], acted.actions)
    values = learner.network.outputs([observations.flatten(0, 1)])
    for row, (said, allowed) in enumerate(zip(values, mask.flatten(0, 1), strict=True)):
        for branch, part in enumerate((slice(0, 2), slice(2, 5))):
            free = allowed[part] if bool(allowed[part].any()) else torch.ones_like(allowed[part])
            best = torch.where(free, said[part], -torch.inf).argmax()
            assert acted.actions.flatten(0, 1)[row, branch] == best
    before = learner.generator.get_state()
    actor.act(ActorInput(observations, mask), deterministic=True)
    assert (learner.generator.get_state() == before).all()  # an evaluation changes no run


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_continuous_actions_are_disturbed_within_their_bounds(kind: str) -> None:
    learner = learner_of(kind, "box")
    with torch.no_grad():
        learner.network.action.bias.copy_(torch.tensor([0.3, -2.0, -1.0, 0.5][: len(learner.network.action.bias)]))
        learner.network.action.weight.zero_()
    actor = actor_of(learner, SPACES["box"])
    seen = torch.randn(5000, 1, D)
    mean = torch.tanh(torch.tensor([0.3, -2.0]))
    acted = actor.act(ActorInput(seen), deterministic=True)
    assert acted.kept.keys() == {"continuous"}, "probabilities are for those that learn from them"
    torch.testing.assert_close(acted.kept["continuous"], mean.expand(5000, 1, 2))
    torch.testing.assert_close(acted.actions[0, 0], torch.stack((mean[0], 2 + 2 * mean[1])))  # of -1 ... 1 and 0 ... 4
    kept = actor.act(ActorInput(seen)).kept["continuous"][:, 0]
    if kind == "sac":
        raw = torch.atanh(kept.double().clamp(-1 + 1e-7, 1 - 1e-7))
        torch.testing.assert_close(raw.mean(dim=0), torch.tensor([0.3, -2.0]).double(), atol=0.1, rtol=0)
        torch.testing.assert_close(raw.std(dim=0), torch.tensor([-1.0, 0.5]).exp().double(), atol=0.1, rtol=0)
    else:
        noise = torch.randn(100000, 2, generator=torch.Generator().manual_seed(0))
        expected = (mean + noise).clamp(-1, 1).mean(dim=0)  # sigma 1 at the start
        torch.testing.assert_close(kept.mean(dim=0), expected, atol=0.05, rtol=0)
        assert kept.abs().max() == 1.0


def test_begins_from_what_was_learned_alone() -> None:
    learner = learner_of("sac_ln", "box")
    learn(learner, rollout_of(learner), 0.5)
    fresh = learner_of("sac_ln", "box", seed=7, envs=5)
    fresh.load(*learner.state(), fresh=True)
    assert torch.equal(fresh.parameters.optimizer.parameters, learner.parameters.optimizer.parameters)
    assert (fresh.seen, fresh.steps, len(fresh.held)) == (0, 0, 0)
    values = learner_of("dqn")
    learn(values, rollout_of(values), 0.5)
    again = learner_of("dqn", seed=7)
    again.load(*values.state(), fresh=True)
    assert again.exploring().tolist() == [1.0]
    assert again.network.get_buffer("clock").tolist() == [0.0]


def test_without_its_memory_it_waits_for_a_minibatch() -> None:
    learner, again = (learner_of("sac", "box", save_replay_buffer=False, seed=seed) for seed in (0, 1))
    learn(learner, rollout_of(learner))
    arrays, metadata = learner.state()
    assert "16 new decisions" in learner.lost(metadata)
    again.load(arrays, metadata, fresh=False)
    told = [learn(again, rollout_of(again, 2, seed)) for seed in (3, 4)]  # of 12 decisions each
    assert [keys.MINIBATCHES in each for each in told] == [False, True]


def test_what_does_not_fit_changes_nothing() -> None:
    learner = learner_of("dqn", terminal_share=0.2)
    learn(learner, rollout_of(learner), 0.5)
    arrays, metadata = learner.state()
    other = learner_of("dqn", seed=3, terminal_share=0.2)
    before = other.state()[0]
    bad: list[tuple[Arrays, dict[str, Any]]] = [
        (arrays, {**metadata, "algorithm": "ppo"}),
        (arrays, {**metadata, "optimizer": "sgd"}),
        ({name: one for name, one in arrays.items() if name != "model.target.action.weight"}, metadata),
        ({name: one for name, one in arrays.items() if name != "replay.rewards"}, metadata),
        ({**arrays, "replay.rewards": arrays["replay.rewards"][:3]}, metadata),
        ({**arrays, "replay.ends.rewards": arrays["replay.ends.rewards"][:1]}, metadata),
        ({**arrays, "model.network.action.weight": arrays["model.network.action.weight"][:3]}, metadata),
    ]
    for one, told in bad:
        with pytest.raises(CheckpointError):
            other.load(one, told, fresh=False)
        same(before, other.state()[0])


EARLIER = {"input_0": "observation", "next_0": "following", "discrete": "action", "rewards": "reward"}


def earlier(learner: OffPolicy, clock: float) -> tuple[Arrays, dict[str, Any]]:
    """A learner's state as earlier versions wrote it: the network's parameters alone, and the target's apart."""
    arrays, trained_ = learner.state()[0], learner.parameters.span("network.").stop
    found = {}
    for name, values in arrays.items():
        part, _, rest = name.partition(".")
        if name.startswith(("model.target.", "target.")):
            found["target." + name.partition("target.")[2]] = values
        elif name.startswith(("model.network.", "network.")):
            found[name.replace("network.", "", 1)] = values
        elif name in ("optimizer.exp_avg", "optimizer.exp_avg_sq"):
            found[name] = values[:trained_]
        elif name == "replay.terminated":
            found["replay.goes_on"] = 1.0 - values[:, None].astype(np.float32)
        elif part == "replay" and rest == "next_forbidden":
            found["replay.forbidden_after"] = values
        elif part == "replay" and rest != "forbidden":
            found[f"replay.{EARLIER.get(rest, rest)}"] = values
        elif part in ("optimizer", "random"):
            found[name] = values
    every = learner.hyperparameters.decisions_per_step[1]
    owed = learner._earned(every) - learner.steps + (learner.seen % every) / every
    kept = {"algorithm": "dqn", "optimizer": "adam", "version": learner.version}
    return found, kept | {"steps": clock, "owed": owed % 1.0, "held": learner.seen}


@pytest.mark.parametrize("network", [{"normalize": True}, {"net_arch": [8, "b"]}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_checkpoints_of_earlier_versions_go_on(network: dict[str, Any], masked: bool) -> None:
    options: dict[str, Any] = {"network": network, "steps_per_update": 25.0, "dueling": True}
    learner, again = learner_of("dqn", **options), learner_of("dqn", seed=4, **options)
    for turn in range(2):
        learn(learner, rollout_of(learner, seed=turn, masked=masked), 0.1 + turn / 10)
    arrays, metadata = earlier(learner, 200.0)
    assert again.lost(metadata) == ""
    assert "model.network.action.weight" not in arrays
    again.load(arrays, metadata, fresh=False)
    assert again.exploring().tolist() == learner.exploring().tolist()
    for each in (learner, again):
        for turn in range(3):
            learn(each, rollout_of(each, seed=5 + turn, masked=masked), 0.4)
    before, after = ({k: v for k, v in each.state()[0].items() if k != "replay.forbidden"} for each in (learner, again))
    same(before, after)
    fresh = learner_of("dqn", seed=9, **options)
    fresh.load(arrays, metadata, fresh=True)
    assert (fresh.seen, len(fresh.held)) == (0, 0)


def test_actions_that_it_cannot_learn_are_refused() -> None:
    with pytest.raises(SettingsError, match="behavior 'host': dqn chooses among discrete actions"):
        learner_of("dqn", "box")
    with pytest.raises(SettingsError, match="behavior 'host': td3 learns only continuous actions"):
        learner_of("td3", "discrete")


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records operations for whose result, or its shape, a device is waited for."""

    def __init__(self, learner: OffPolicy) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = list[str]()
        self._free = learner.parameters.optimizer.step.data_ptr()  # always on the CPU

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero"):
            self.found += [name] if args[0].data_ptr() != self._free else []
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "space"), CELLS)
def test_an_update_waits_for_the_device_only_when_all_its_steps_are_taken(
    kind: str, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(kind, space, terminal_share=0.2)
    actor, rollout = actor_of(learner, SPACES.get(space, SPACES["box"])), rollout_of(learner)
    learn(learner, rollout)
    check, before = learner.check_finite, list[list[str]]()

    def checked(losses: torch.Tensor) -> None:
        before.append(list(waits.found))
        check(losses)

    monkeypatch.setattr(learner, "check_finite", checked)
    with Waits(learner) as waits:
        assert keys.MINIBATCHES in learn(learner, rollout)
        there = len(waits.found)
        actor.act(ActorInput(rollout.after, rollout.after_mask))
    assert before == [[]], "one check, and no wait before it"
    assert 0 < there == len(waits.found), "acting waits for nothing"


def test_learns_to_add_up() -> None:
    """The sum is to reach ten in as many steps as it can be drawn out: returns are what is added, so twos are best."""
    numbers: dict[str, Any] = {"batch_size": 64, "buffer_size": 5000, "tau": 0.05, "init_entcoef": 0.1}
    learner = learner_of("sac", network={"hidden_units": 32}, envs=64, steps_per_update=16.0, **numbers)
    collector = BatchedCollector(Counting(64, limit=100), {"all": (actor_of(learner, SPACES["discrete"]), (0, 1))})
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
